"""Where the code of a config's patches stands in the generated module. Reads text; imports nothing of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.checks.parity.request import PatchedCode
from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.diffs import added_lines
from patchgen_core.syntax.nodes import FUNCTIONS, Definition
from patchgen_core.syntax.source import parse_source


def patched_code(artifact: Artifact, text: str) -> tuple[PatchedCode, ...]:
    """The code of every patch of a config in the text that is going to run, which may have drifted."""
    try:
        definitions = parse_source(Path(), text).definitions
    except PatchgenError:  # the module does not import either
        definitions = []
    fresh = set(added_lines(artifact.diff)) if text == artifact.text else set()
    return tuple(_code(patch, definitions, fresh, artifact) for patch in artifact.plan.patches)


def _code(
    planned: PlannedPatch, definitions: list[tuple[str, Definition]], fresh: set[int], artifact: Artifact
) -> PatchedCode:
    patch = planned.patch
    location = patch.location or artifact.plan.config.location
    name = planned.dotted.rpartition(".")[2]
    users = tuple(dict.fromkeys(_users(name, definitions, planned.dotted)))
    if patch.kind == "external":
        module, imported = patch.replacement_module or "", patch.replacement_name or ""
        return PatchedCode(patch.target, location, module=module, name=imported, users=users)
    lines = [_lines(node) for dotted, node in definitions if dotted == planned.dotted]
    own = sorted(line for first, last in lines for line in range(first, last + 1) if line in fresh)
    is_computed = not planned.added or name == "forward" or bool(users)
    return PatchedCode(patch.target, location, tuple(lines), tuple(own), is_computed=is_computed, users=users)


def _lines(node: Definition) -> tuple[int, int]:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return first, node.end_lineno or node.lineno


def _users(name: str, definitions: list[tuple[str, Definition]], own: str) -> Iterator[str]:
    """The classes and functions, methods by their classes, that refer to a name."""
    for dotted, node in definitions:
        if "." not in dotted and dotted != own and name in _referenced_names(node, own, dotted):
            yield dotted


def _referenced_names(node: ast.AST, own: str, dotted: str) -> Iterator[str]:
    """The names and attributes in a definition, but for those in one method of it; a method is never a bare name."""
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Name) and "." not in own:
        yield node.id
    for child in ast.iter_child_nodes(node):
        name = f"{dotted}.{child.name}" if isinstance(child, FUNCTIONS) else dotted
        if name != own or name == dotted:
            yield from _referenced_names(child, own, name)
