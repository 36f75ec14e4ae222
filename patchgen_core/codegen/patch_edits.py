"""The edits that put patches and helpers into upstream's text."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchgen_core.codegen.decorators import meaning
from patchgen_core.codegen.plan import Plan
from patchgen_core.codegen.renaming import ORIGINAL_INIT
from patchgen_core.codegen.targets import PlannedHelper, PlannedPatch
from patchgen_core.config.replacement import ACCESSORS, Replacement
from patchgen_core.errors import Location
from patchgen_core.syntax.edits import Edit
from patchgen_core.syntax.nodes import (
    Definition,
    Function,
    docstring_of,
    is_filler,
    methods,
    statements,
    without_docstring,
)
from patchgen_core.syntax.source import SourceFile

RULE = f"# {'=' * 70}"


@dataclass(frozen=True)
class Origin:
    """The declaration, as errors name it, and the config's line that a line of a generated module comes from."""

    label: str
    location: Location | None


def patch_edits(plan: Plan) -> tuple[list[Edit], list[Edit]]:
    """The edits for every patch of a plan, and the markers above the classes whose methods they change."""
    edits: list[Edit] = []
    markers: list[Edit] = []
    by_class: dict[int, tuple[ast.ClassDef, list[PlannedPatch]]] = {}
    for patch in plan.patches:
        for node in patch.nodes:
            if patch.method:
                assert isinstance(node, ast.ClassDef)
                by_class.setdefault(id(node), (node, []))[1].append(patch)
            else:
                edits.append(_replace(plan.source, node, patch))
    for node, patches in by_class.values():
        patches.sort(key=lambda patch: _place(node, patch))
        edits += _modify(plan.source, node, patches)
        markers.append(_class_marker(plan.source, node, patches))
    return edits, markers


def _place(node: ast.ClassDef, patch: PlannedPatch) -> tuple[float, str, str]:
    """Where a method stands in its class: as upstream has it, and what is added in the order of names."""
    lines = [function.lineno for function in methods(node, patch.method, patch.accessor)]
    return (min(lines, default=math.inf), patch.method, patch.accessor)


def helper_edits(plan: Plan) -> list[Edit]:
    """The edits for helpers that follow an upstream definition."""
    edits = []
    for helper in plan.helpers:
        for node in helper.after:
            indent = plan.source.indent(node.lineno)
            text = f"\n\n{helper_text(helper, indent)}\n"
            at = plan.source.line_starts[plan.source.last_line(node)]
            edits.append(Edit(at, at, text, helper_origin(helper)))
    return edits


def helper_text(helper: PlannedHelper, indent: str = "") -> str:
    """A helper's source under its marker."""
    replacement = helper.replacement
    return "\n".join([*_marker([f"[ADDED HELPER] {helper.name}"], indent), *_definition(replacement, indent)])


def helper_origin(helper: PlannedHelper) -> Origin:
    """What a helper's lines come from."""
    return Origin(f"helper {helper.name}", helper.helper.location)


def _marker(lines: Iterable[str], indent: str = "") -> list[str]:
    return [f"{indent}{line}" for line in (RULE, *(f"# {text}" for text in lines), RULE)]


def _reason(description: str, label: str = "Reason") -> list[str]:
    lines = description.strip().split("\n")
    return [f"{label}: {lines[0]}", *(f"  {line.strip()}" for line in lines[1:])] if lines[0] else []


def _definition(replacement: Replacement, indent: str) -> list[str]:
    head = [*replacement.comments, *(line for d in replacement.decorators for line in d.split("\n"))]
    return [*(f"{indent}{line}" for line in head), replacement.body(indent)]


# --- whole classes and functions -------------------------------------------------------------------


def _replace(source: SourceFile, node: Definition, patch: PlannedPatch) -> Edit:
    """Put a replacement, or an import of it, in a definition's place, comments above it included."""
    indent = source.indent(node.lineno)
    declared = patch.patch
    kind = "CLASS" if isinstance(node, ast.ClassDef) else "FUNCTION"
    about = [f"[PATCHED {kind}] {declared.target}", *_reason(declared.description)]
    if patch.replacement is None:
        module, name = declared.replacement_module, declared.replacement_name
        alias = "" if name == declared.target else f" as {declared.target}"
        about.append(f"Source: {module}.{name}")
        body = [f"{indent}from {module} import {name}{alias}  # noqa: E402, F401"]
    else:
        body = _definition(patch.replacement, indent)
    text = "\n".join([*_marker(about, indent), *body])
    start = source.line_starts[source.comment_line(node) - 1]
    end = source.line_starts[source.last_line(node)] - 1
    return Edit(start, end, text, Origin(patch.label, declared.location))


# --- methods ---------------------------------------------------------------------------------------


def _modify(source: SourceFile, node: ast.ClassDef, patches: Sequence[PlannedPatch]) -> list[Edit]:
    edits: list[Edit] = []
    added: list[tuple[PlannedPatch, str]] = []
    for patch in patches:
        functions = methods(node, patch.method, patch.accessor)
        for function in functions:
            if patch.patch.kind == "init_modification":
                edits += _wrap_init(source, function, patch)
            else:
                edits += _override(source, function, patch)
        if not functions:
            added.append((patch, _added_method(source, node, patch)))
            if patch.patch.kind == "init_modification":
                names = _assigned_inits(node)
                edits += [Edit(source.start(name), source.end(name), ORIGINAL_INIT) for name in names]
    return edits + (_append(source, node, added) if added else [])


def _class_marker(source: SourceFile, node: ast.ClassDef, patches: Sequence[PlannedPatch]) -> Edit:
    def names(is_added: bool) -> str:
        return ", ".join(
            f"{p.method}.{p.accessor}" if p.accessor else p.method for p in patches if p.added is is_added
        )

    about = [f"[MODIFIED CLASS] {node.name}"]
    about += [f"Methods patched: {names(False)}"] if names(False) else []
    about += [f"Methods added: {names(True)}"] if names(True) else []
    for patch in patches:
        about += _reason(patch.patch.description, f"Reason ({patch.method})")
    indent = source.indent(node.lineno)
    at = source.line_starts[source.first_line(node) - 1]
    text = "".join(f"{line}\n" for line in _marker(about, indent))
    return Edit(at, at, text, Origin(patches[0].label, patches[0].patch.location))


def _override(source: SourceFile, function: Function, patch: PlannedPatch) -> list[Edit]:
    """Replace a method from its ``def`` on; decorators and comments above it stay as the patch says."""
    replacement = patch.replacement
    assert replacement is not None
    indent = source.indent(function.lineno)
    origin = Origin(patch.label, patch.patch.location)
    first = source.first_line(function)
    own = list(replacement.decorators)
    if patch.patch.keep_decorators:
        if own:
            upstream_decorators = {meaning(source.segment(d)) for d in function.decorator_list}
            own = [d for d in own if meaning(d) not in upstream_decorators and not _is_accessor(d)]
        start = source.line_starts[function.lineno - 1]
    else:
        start = source.line_starts[first - 1]
        if patch.accessor and not any(_is_accessor(decorator) for decorator in own):
            own.insert(0, f"@{patch.method}.{patch.accessor}")
    head = [f"{indent}{line}" for decorator in own for line in decorator.split("\n")]
    end = source.line_starts[source.last_line(function)] - 1
    edits = [Edit(start, end, "\n".join([*head, replacement.body(indent)]), origin)]
    if replacement.comments:
        comments = "".join(f"{indent}{line}\n" for line in replacement.comments)
        above = source.line_starts[source.comment_line(function) - 1]
        edits.insert(0, Edit(above, source.line_starts[first - 1], comments, origin))
    return edits


def _is_accessor(decorator: str) -> bool:
    return decorator.strip().rpartition(".")[2] in ACCESSORS


def _wrap_init(source: SourceFile, function: Function, patch: PlannedPatch) -> list[Edit]:
    """Keep upstream's ``__init__`` under another name and put the new one below it."""
    assert patch.replacement is not None
    indent = source.indent(function.lineno)
    origin = Origin(patch.label, patch.patch.location)
    name = re.compile(r"def\s+(__init__)").match(source.text, source.start(function))
    assert name is not None
    end = source.line_starts[source.last_line(function)] - 1
    new = "\n".join(["", "", *_definition(patch.replacement, indent)])
    return [Edit(name.start(1), name.end(1), ORIGINAL_INIT, origin), Edit(end, end, new, origin)]


def _is_on_header(source: SourceFile, node: ast.ClassDef) -> bool:
    """Whether a class body starts on the line of the class's colon, or goes on from it with a backslash."""
    first = node.body[0]
    before = source.text[source.line_starts[first.lineno - 1] : source.start(first)]
    return bool(before.strip(" \t")) or source.lines[first.lineno - 2].endswith("\\")


def _body_indent(source: SourceFile, node: ast.ClassDef) -> str:
    if _is_on_header(source, node):
        return source.indent(node.lineno) + "    "
    return source.indent(node.body[0].lineno)


def _added_method(source: SourceFile, node: ast.ClassDef, patch: PlannedPatch) -> str:
    assert patch.replacement is not None
    indent = _body_indent(source, node)
    lines = _definition(patch.replacement, indent)
    if patch.patch.kind == "init_modification" and not _assigned_inits(node):
        lines = [
            f"{indent}def {ORIGINAL_INIT}(self, *args, **kwargs):",
            f"{indent}    super().__init__(*args, **kwargs)",
            "",
            *lines,
        ]
    return "\n".join(lines)


def _assigned_inits(node: ast.ClassDef) -> list[ast.Name]:
    """The names ``__init__`` that a class body assigns, as in ``__init__ = shared``."""
    assigned = [s for s in statements(node.body) if isinstance(s, ast.Assign)]
    targets = [target for statement in assigned for target in statement.targets]
    return [target for target in targets if isinstance(target, ast.Name) and target.id == "__init__"]


def _append(source: SourceFile, node: ast.ClassDef, added: Sequence[tuple[PlannedPatch, str]]) -> list[Edit]:
    """Put methods at the end of a class, instead of a body that says nothing."""
    docstring, rest = docstring_of(node), without_docstring(node)
    is_empty = all(is_filler(statement) for statement in rest)
    edits: list[Edit] = []
    body = source.start(node.body[0])
    if _is_on_header(source, node):
        header = len(re.sub(r"[\s\\]+\Z", "", source.text[:body]))
        content = source.segment(docstring) if docstring else "" if is_empty else source.text[body : source.end(node)]
        new = f"\n{_body_indent(source, node)}{content}" if content else ""
        edits.append(Edit(header, source.end(node), new))
    elif is_empty and rest:
        start = source.end(docstring) if docstring else source.line_starts[rest[0].lineno - 1] - 1
        edits.append(Edit(start, source.line_starts[rest[-1].end_lineno or 0] - 1, ""))
    at = source.line_starts[source.last_line(node)]
    for number, (patch, text) in enumerate(added):
        gap = "" if is_empty and not docstring and not number else "\n"
        edits.append(Edit(at, at, f"{gap}{text}\n", Origin(patch.label, patch.patch.location)))
    return edits
