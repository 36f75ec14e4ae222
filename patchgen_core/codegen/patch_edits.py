"""The edits that put patches and helpers into upstream's text."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from patchgen_core.codegen.decorators import meaning
from patchgen_core.codegen.edited_classes import class_edits
from patchgen_core.codegen.plan import Plan
from patchgen_core.codegen.renaming import original_name
from patchgen_core.codegen.targets import PlannedHelper, PlannedPatch
from patchgen_core.config.declarations import WRAPPERS
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
            if patch.method or (patch.edits and isinstance(node, ast.ClassDef)):
                assert isinstance(node, ast.ClassDef)
                by_class.setdefault(id(node), (node, []))[1].append(patch)
            elif patch.edits:
                edits += _edit_function(plan.source, node, patch)
            else:
                edits.append(_replace(plan.source, node, patch))
    for node, patches in by_class.values():
        patches.sort(key=lambda patch: _place(node, patch))
        edits += _modify(plan.source, node, patches)
        markers.append(_class_marker(plan.source, node, patches))
    return edits, markers


def _place(node: ast.ClassDef, patch: PlannedPatch) -> tuple[float, str, str]:
    """Where a method stands in its class: as upstream has it, and what is added in the order of names.

    Edits of the class itself come before all methods.
    """
    if not patch.method:
        return (-math.inf, "", "")
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


def _origin(patch: PlannedPatch) -> Origin:
    return Origin(patch.label, patch.patch.location)


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


# --- edited functions and classes ------------------------------------------------------------------


def _edited_lines(patch: PlannedPatch, start: int, end: int, head: Sequence[str], indent: str) -> list[Edit]:
    """Put an edited function in the place of upstream's, each line with the line of the config that it comes from."""
    assert patch.replacement is not None
    texts = patch.replacement.body(indent).split("\n")
    rows: list[tuple[str, Origin | None]] = [(line, _origin(patch)) for line in head]
    for text, line in zip(texts, patch.lines):
        rows.append((text, Origin(line.edit.label, line.location) if line.edit is not None else None))
    runs: list[tuple[list[str], Origin | None]] = []
    for text, origin in rows:
        if runs and runs[-1][1] == origin:
            runs[-1][0].append(text)
        else:
            runs.append(([text], origin))
    edits = []
    for number, (lines, origin) in enumerate(runs):
        newline = "\n" if number + 1 < len(runs) else ""
        edits.append(Edit(start if not number else end, end, "\n".join(lines) + newline, origin))
    return edits


def _edit_function(source: SourceFile, node: Definition, patch: PlannedPatch) -> list[Edit]:
    """An edited module-level function under its marker; decorators and comments of upstream's stay."""
    assert not isinstance(node, ast.ClassDef)
    indent = source.indent(node.lineno)
    about = [f"[PATCHED FUNCTION] {patch.patch.target}"]
    about += [line for declared in patch.declared for line in _reason(declared.patch.description)]
    at = source.line_starts[source.comment_line(node) - 1]
    marker = "".join(f"{line}\n" for line in _marker(about, indent))
    return [Edit(at, at, marker, _origin(patch)), *_override(source, node, patch)]


def _edit_class(
    source: SourceFile, node: ast.ClassDef, patch: PlannedPatch, added: list[tuple[Origin, str]]
) -> list[Edit]:
    """The changes of a class statement and of its attributes; what goes to the end of the body is ``added``."""
    text = class_edits(source, node, patch.edits)
    edits = [replace(change, origin=_origin(edit)) for change, edit in text.changes]
    edits += _class_decorators(source, node, patch)
    indent, docstring = _body_indent(source, node), docstring_of(node)
    has_body = not _is_on_header(source, node) and not all(map(is_filler, without_docstring(node)))
    for statement, edit in text.top:
        lines = "\n".join(f"{indent}{line}" if line else "" for line in statement.split("\n"))
        if not has_body:
            added.append((_origin(edit), lines))
            continue
        first = source.line_starts[docstring.end_lineno or 0] if docstring is not None else _body_start(source, node)
        edits.append(Edit(first, first, f"{lines}\n", _origin(edit)))
    for statement, edit in text.bottom:
        lines = "\n".join(f"{indent}{line}" if line else "" for line in statement.split("\n"))
        added.append((_origin(edit), lines))
    return edits


def _body_start(source: SourceFile, node: ast.ClassDef) -> int:
    return source.line_starts[source.comment_line(node.body[0]) - 1]


def _class_decorators(source: SourceFile, node: ast.ClassDef, patch: PlannedPatch) -> list[Edit]:
    """The decorators and comments that edits of a class bring, below those of upstream's."""
    theirs = {meaning(source.segment(decorator)) for decorator in node.decorator_list}
    indent, at = source.indent(node.lineno), source.line_starts[node.lineno - 1]
    edits = []
    for edit in patch.edits:
        own = [d for d in edit.replacement.decorators if meaning(d) not in theirs] if edit.replacement else []
        comments = edit.replacement.comments if edit.replacement else ()
        lines = [*comments, *(line for decorator in own for line in decorator.split("\n"))]
        if lines:
            edits.append(Edit(at, at, "".join(f"{indent}{line}\n" for line in lines), _origin(edit)))
    return edits


# --- methods ---------------------------------------------------------------------------------------


def _modify(source: SourceFile, node: ast.ClassDef, patches: Sequence[PlannedPatch]) -> list[Edit]:
    edits: list[Edit] = []
    added: list[tuple[Origin, str]] = []
    for patch in patches:
        if not patch.method:
            edits += _edit_class(source, node, patch, added)
            continue
        functions = methods(node, patch.method, patch.accessor)
        for function in functions:
            if patch.patch.kind in WRAPPERS:
                edits += _wrap_method(source, function, patch)
            else:
                edits += _override(source, function, patch)
        if not functions:
            added.append((_origin(patch), _added_method(source, node, patch)))
            if patch.patch.kind in WRAPPERS:
                names = _assigned_methods(node, patch.method)
                new = original_name(patch.method)
                edits += [Edit(source.start(name), source.end(name), new) for name in names]
    return edits + (_append(source, node, added) if added else [])


def _class_marker(source: SourceFile, node: ast.ClassDef, patches: Sequence[PlannedPatch]) -> Edit:
    def names(is_added: bool) -> str:
        own = [p for p in patches if p.method and p.added is is_added]
        return ", ".join(f"{p.method}.{p.accessor}" if p.accessor else p.method for p in own)

    about = [f"[MODIFIED CLASS] {node.name}"]
    about += [f"Methods patched: {names(False)}"] if names(False) else []
    about += [f"Methods added: {names(True)}"] if names(True) else []
    for patch in patches:
        label = f"Reason ({patch.method})" if patch.method else "Reason"
        about += [line for declared in patch.declared for line in _reason(declared.patch.description, label)]
    indent = source.indent(node.lineno)
    at = source.line_starts[source.first_line(node) - 1]
    text = "".join(f"{line}\n" for line in _marker(about, indent))
    return Edit(at, at, text, Origin(patches[0].label, patches[0].patch.location))


def _override(source: SourceFile, function: Function, patch: PlannedPatch) -> list[Edit]:
    """Replace a method from its ``def`` on; decorators and comments above it stay as the patch says."""
    replacement = patch.replacement
    assert replacement is not None
    indent = source.indent(function.lineno)
    origin = _origin(patch)
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
    if patch.lines:
        edits = _edited_lines(patch, start, end, head, indent)
    if replacement.comments:
        comments = "".join(f"{indent}{line}\n" for line in replacement.comments)
        above = source.line_starts[source.comment_line(function) - 1]
        edits.insert(0, Edit(above, source.line_starts[first - 1], comments, origin))
    return edits


def _is_accessor(decorator: str) -> bool:
    return decorator.strip().rpartition(".")[2] in ACCESSORS


def _wrap_method(source: SourceFile, function: Function, patch: PlannedPatch) -> list[Edit]:
    """Keep upstream's method under another name and put the new one below it."""
    assert patch.replacement is not None
    indent = source.indent(function.lineno)
    origin = _origin(patch)
    name = re.compile(rf"(?:async\s+)?def\s+({patch.method})").match(source.text, source.start(function))
    assert name is not None
    end = source.line_starts[source.last_line(function)] - 1
    new = "\n".join(["", "", *_definition(patch.replacement, indent)])
    return [Edit(name.start(1), name.end(1), original_name(patch.method), origin), Edit(end, end, new, origin)]


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
    if patch.patch.kind in WRAPPERS and not _assigned_methods(node, patch.method):
        result = "" if patch.method == "__init__" else "return "
        lines = [
            f"{indent}def {original_name(patch.method)}(self, *args, **kwargs):",
            f"{indent}    {result}super().{patch.method}(*args, **kwargs)",
            "",
            *lines,
        ]
    return "\n".join(lines)


def _assigned_methods(node: ast.ClassDef, method: str) -> list[ast.Name]:
    """The names of a method that a class body assigns, as in ``__init__ = shared``."""
    assigned = [s for s in statements(node.body) if isinstance(s, ast.Assign)]
    targets = [target for statement in assigned for target in statement.targets]
    return [target for target in targets if isinstance(target, ast.Name) and target.id == method]


def _append(source: SourceFile, node: ast.ClassDef, added: Sequence[tuple[Origin, str]]) -> list[Edit]:
    """Put methods and attributes at the end of a class, instead of a body that says nothing."""
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
    for number, (origin, text) in enumerate(added):
        gap = "" if is_empty and not docstring and not number else "\n"
        edits.append(Edit(at, at, f"{gap}{text}\n", origin))
    return edits
