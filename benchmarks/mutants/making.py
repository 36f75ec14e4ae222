"""All defects of a config: every operator at every place of its code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from mutants import calls, statements, values
from mutants.scope import Edit, Scope, functions
from patchgen_core.build.results import Artifact
from patchgen_core.checks.parity.patched import patched_code
from patchgen_core.syntax.source import SourceCache

OPERATORS: tuple[Callable[[Scope], Iterator[Edit]], ...] = (
    values.flipped_signs,
    values.wrong_axes,
    values.dropped_parts,
    values.wrong_epsilons,
    values.shifted_indices,
    values.changed_constants,
    values.changed_dtypes,
    values.wrong_reductions,
    calls.omitted_masks,
    calls.swapped_arguments,
    calls.shifted_labels,
    calls.dropped_arguments,
    calls.wrong_names,
    statements.cut_gradients,
    statements.dropped_statements,
    statements.changed_assignments,
    statements.wrong_conditions,
)


@dataclass(frozen=True)
class Mutant:
    """A config with one defect.

    Attributes:
        operator: what kind of defect.
        target: the patch that has it, as upstream names it.
        function: what the config calls it.
        path, line: the file that the code stands in, and the line of the defect.
        old, new: what is changed, and into what.
        text: the file with the defect.
        diff: the change.
        slots: the slots that must be bound (True), or must not be, for the code to run.
    """

    operator: str
    target: str
    function: str
    path: Path
    line: int
    old: str
    new: str
    text: str
    diff: str
    slots: tuple[tuple[str, bool], ...]


def mutants(artifact: Artifact, sources: SourceCache) -> Iterator[Mutant]:
    """Every defect that fits the code of a config's patches and helpers, each once."""
    seen: set[tuple[Path, str]] = set()
    for scope in scopes(artifact, sources):
        for operator in OPERATORS:
            for edit in operator(scope):
                text = scope.changed(edit)
                if (scope.path, text) not in seen and text != scope.source.text:
                    seen.add((scope.path, text))
                    yield _mutant(scope, edit, text)


def scopes(artifact: Artifact, sources: SourceCache) -> Iterator[Scope]:
    """The functions of a config, those that several patches share once.

    What is added for others than the model to call is left out: other checks than parity are for it.
    """
    plan = artifact.plan
    computed = {code.target for code in patched_code(artifact, artifact.text) if code.is_computed}
    declared = [(p.patch.target, p.replacement) for p in plan.patches if p.patch.target in computed]
    declared += [(helper.replacement.name, helper.replacement) for helper in plan.helpers]
    seen: set[tuple[str, int]] = set()
    for target, replacement in declared:
        if replacement is None or (replacement.location.file, replacement.location.line) in seen:
            continue
        seen.add((replacement.location.file, replacement.location.line))
        source = sources.get(Path(replacement.location.file))
        for function in functions(source, replacement.name, replacement.location.line):
            yield Scope(target, source, function)


def _mutant(scope: Scope, edit: Edit, text: str) -> Mutant:
    ast.parse(text)
    path, before = scope.path, scope.source.text
    rows = unified_diff(before.split("\n"), text.split("\n"), n=0, lineterm="")
    diff = "\n".join(row for row in rows if not row.startswith(("---", "+++", "@@")))
    line = before.count("\n", 0, edit.start) + 1
    line += len(before[edit.start :]) > 0 and before[edit.start] == "\n"
    old = before[edit.start : edit.end]
    slots = tuple(_conditions(scope, edit.node))
    return Mutant(edit.operator, scope.target, scope.function.name, path, line, old, edit.new, text, diff, slots)


def _conditions(scope: Scope, node: ast.AST) -> Iterator[tuple[str, bool]]:
    """The slots that decide whether a node runs."""
    inner: ast.AST = node
    for outer in scope.above(node):
        if isinstance(outer, (ast.If, ast.IfExp)) and inner is not outer.test:
            body = outer.body if isinstance(outer.body, list) else [outer.body]
            if inner in body:
                yield from ((name, True) for name in _asked(outer.test))
            elif isinstance(outer.test, ast.Attribute):
                yield from ((name, False) for name in _asked(outer.test))
        for block in (getattr(outer, field, None) for field in ("body", "orelse")):
            if isinstance(block, list) and inner in block:
                yield from ((name, False) for name in _returned_before(block[: block.index(inner)]))
        inner = outer


def _asked(test: ast.expr) -> Iterator[str]:
    """The slots that must be bound for a condition to hold."""
    for part in test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]:
        if isinstance(part, ast.Attribute) and part.attr == "has_kernel" and isinstance(part.value, ast.Name):
            yield part.value.id


def _returned_before(block: list[ast.stmt]) -> Iterator[str]:
    for statement in block:
        is_plain = isinstance(statement, ast.If) and isinstance(statement.test, ast.Attribute)
        if isinstance(statement, ast.If) and is_plain and isinstance(statement.body[-1], (ast.Return, ast.Raise)):
            yield from _asked(statement.test)
