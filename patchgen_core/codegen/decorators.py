"""Taking single decorators off upstream's classes, methods and functions."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen_core.codegen.added_code import unique
from patchgen_core.codegen.targets import Targets
from patchgen_core.config.spec import PatchConfig
from patchgen_core.errors import Problem, did_you_mean
from patchgen_core.syntax.edits import Edit
from patchgen_core.syntax.nodes import Definition, last_definitions, methods
from patchgen_core.syntax.source import SourceFile


@dataclass(frozen=True)
class DroppedDecorator:
    """A decorator of upstream's that the config takes off ``target``, as upstream names it."""

    target: str
    decorator: ast.expr

    @property
    def label(self) -> str:
        """How the generated header shows it."""
        return f"@{ast.unparse(self.decorator)} of {self.target}"


def dropped_decorators(config: PatchConfig, targets: Targets) -> tuple[tuple[DroppedDecorator, ...], list[Problem]]:
    """The decorators that a config drops, and what is wrong with its calls."""
    dropped: list[DroppedDecorator] = []
    problems = []
    whole = ("class_replacement", "function_replacement", "external")
    replaced = {p.target for p in config.patches if p.kind in whole or not p.keep_decorators}
    for target, name in unique(config.dropped_decorators):
        location = config.location_of("drop_decorators", (target, name))
        cls, _, method = target.partition(".")
        nodes: Sequence[Definition] = last_definitions(targets.tree.body, cls)
        if method:
            nodes = [function for node in nodes for function in methods(node, method)]
        decorators = [decorator for node in nodes for decorator in node.decorator_list]
        matching = [
            d for d in decorators if dotted_name(d) in (name, f"@{name}") or dotted_name(d).endswith(f".{name}")
        ]
        dropped += [DroppedDecorator(target, decorator) for decorator in matching]
        if not nodes:
            near = did_you_mean(cls, targets.index.definitions)
            problems.append(Problem(f"drop_decorators: upstream has no '{target}'", location, near))
        elif {target, cls} & {*replaced, *config.exclude}:
            hint = "Upstream's decorators are gone already."
            problems.append(Problem(f"drop_decorators: '{target}' is replaced or excluded", location, hint))
        elif not matching:
            has = ", ".join(f"@{dotted_name(decorator)}" for decorator in decorators)
            hint = f"It has: {has}." if has else "It has none."
            problems.append(Problem(f"drop_decorators: '{target}' has no decorator '{name}'", location, hint))
    return tuple(dropped), problems


def decorator_edits(source: SourceFile, dropped: Sequence[DroppedDecorator]) -> list[Edit]:
    """The edits that take decorators off, each with its lines."""
    edits = []
    for entry in dropped:
        first, last = source.decorator_lines(entry.decorator)
        edits.append(Edit(source.line_starts[first - 1], source.line_starts[last], ""))
    return edits


def meaning(decorator: str) -> str:
    """What two decorators have in common that only differ in how they are written."""
    return ast.dump(ast.parse(decorator.strip().removeprefix("@").strip(), mode="eval"))


def dotted_name(decorator: ast.expr) -> str:
    """A decorator as upstream names it, without its arguments."""
    return ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
