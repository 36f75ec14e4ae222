"""Where the code of a config's patches stands in the generated module. Reads text; imports nothing of it."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.checks.parity.request import PatchedCode
from patchgen_core.codegen.edited_lines import EditedLine, find_edited_lines
from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.diffs import added_lines
from patchgen_core.syntax.nodes import FUNCTIONS, Definition
from patchgen_core.syntax.source import SourceFile, parse_source


def patched_code(artifact: Artifact, text: str) -> tuple[PatchedCode, ...]:
    """The code of every patch of a config in the text that is going to run, which may have drifted."""
    source, references = _examine(text)
    fresh = set(added_lines(artifact.diff)) if text == artifact.text else set()
    lines = find_edited_lines(artifact.plan.patches, source) if fresh else {}
    codes = []
    for patch in artifact.plan.patches:
        code = _code(patch, source.definitions, references, fresh, artifact)
        codes += [_edit_code(code, edit, patch, fresh, lines) for edit in patch.edits] or [code]
    return tuple(codes)


def _edit_code(
    code: PatchedCode, edit: PlannedPatch, planned: PlannedPatch, fresh: set[int], lines: Mapping[int, EditedLine]
) -> PatchedCode:
    """The code of one edit: only the lines that it wrote are its own; nothing calls what a class's edit declares."""
    own = tuple(sorted(line for line, entry in lines.items() if entry.edit is edit and line in fresh))
    declared = edit.patch.location or code.declared
    return replace(code, declared=declared, fresh=own, is_computed=code.is_computed and bool(planned.lines))


@functools.lru_cache(maxsize=1)
def _examine(text: str) -> tuple[SourceFile, list[_References]]:
    """A module, and what its classes and functions refer to; the same for all items of a config."""
    try:
        source = parse_source(Path(), text)
    except PatchgenError:  # the module does not import either
        source = parse_source(Path(), "")
    return source, [_find_references(dotted, node) for dotted, node in source.definitions if "." not in dotted]


@dataclass(frozen=True)
class _References:
    """What a class or a function of a module refers to.

    Attributes:
        attributes, bare: names behind a dot and others, by the path of the method that they stand in.
    """

    dotted: str
    attributes: Mapping[str, set[str]]
    bare: Mapping[str, set[str]]


def _code(
    planned: PlannedPatch,
    definitions: list[tuple[str, Definition]],
    references: Sequence[_References],
    fresh: set[int],
    artifact: Artifact,
) -> PatchedCode:
    patch = planned.patch
    location = patch.location or artifact.plan.config.location
    name = planned.dotted.rpartition(".")[2]
    users = tuple(dict.fromkeys(_users(name, references, planned.dotted)))
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


def _users(name: str, references: Sequence[_References], own: str) -> Iterator[str]:
    """The classes and functions, methods by their classes, that refer to a name; a method is never a bare name."""
    for one in references:
        if one.dotted == own:
            continue
        kinds = (one.attributes,) if "." in own else (one.attributes, one.bare)
        if any(name in names for kind in kinds for path, names in kind.items() if path != own):
            yield one.dotted


def _find_references(dotted: str, definition: Definition) -> _References:
    attributes: defaultdict[str, set[str]] = defaultdict(set)
    bare: defaultdict[str, set[str]] = defaultdict(set)
    open_nodes: list[tuple[str, ast.AST]] = [(dotted, definition)]
    while open_nodes:
        path, node = open_nodes.pop()
        if isinstance(node, ast.Attribute):
            attributes[path].add(node.attr)
        elif isinstance(node, ast.Name):
            bare[path].add(node.id)
        for child in ast.iter_child_nodes(node):
            own = f"{dotted}.{child.name}" if isinstance(child, FUNCTIONS) and path == dotted else path
            open_nodes.append((own, child))
    return _References(dotted, attributes, bare)
