"""Parameters that edits add to a signature or take out of it, as edits of upstream's text."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator

from patchgen_core.config.declarations import Patch
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.syntax.edits import Edit, apply_edits
from patchgen_core.syntax.nodes import Function
from patchgen_core.syntax.signatures import read_parameters
from patchgen_core.syntax.source import SourceFile

_COMMA = re.compile(r"\s*(?:#[^\n]*\s*)*,[ \t]*(?:\n[ \t]*(?=[^\s#]))?")
_SECTION = re.compile(r"^[ \t]*(?:Example|Return|```)", re.MULTILINE)
_ENTRY = re.compile(r"^\s*\w+ \(.*\):", re.MULTILINE)
_HEADING = re.compile(r"^[ \t]*Args:[ \t]*$", re.MULTILINE)


def parameter_edits(patch: Patch, label: str, source: SourceFile, function: Function) -> Iterator[Edit]:
    """The edits that add a parameter to a function, or take one out; a PatchgenError when it does not fit."""
    if patch.kind == "parameter_removal":
        yield _removal(patch, label, source, function)
        return
    yield _addition(patch, label, source, function)
    if patch.documentation:
        if function.body[0].lineno == function.lineno:
            message = f"{label}: upstream's line {function.lineno} has no place for documentation"
            raise PatchgenError(message, patch.location, "Use override_method for such code.")
        yield documentation_edit(patch.documentation, source, function)


def _addition(patch: Patch, label: str, source: SourceFile, function: Function) -> Edit:
    name = _parameter_name(patch, label)
    arguments = function.args
    ours = [*read_parameters(function)]
    taken = [p.name for p in ours] + [a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None]
    if name in taken:
        raise PatchgenError(f"{label}: it already has a parameter '{name}'", patch.location)
    named = next((p for p in ours if p.name == patch.at), None)
    if patch.at and named is None:
        message = f"{label}: it has no parameter '{patch.at}' for '{name}' to go beside"
        raise PatchgenError(message, patch.location, did_you_mean(patch.at, taken) or f"It has: {', '.join(taken)}.")
    anchor = named or (ours[-1] if ours else None)
    if anchor is None or anchor.node is None:
        return _first_parameter(patch, source, function)
    if patch.is_before:
        at = source.start(anchor.node)
        edit = Edit(at, at, f"{patch.code}, ")
    else:
        at = source.end(anchor.default or anchor.node)
        edit = Edit(at, at, f", {patch.code}")
    _check_signature(edit, patch, label, source, function)
    return edit


def _parameter_name(patch: Patch, label: str) -> str:
    try:
        function = ast.parse(f"def f({patch.code}): ...").body[0]
        assert isinstance(function, ast.FunctionDef)
        (parameter,) = read_parameters(function)
    except (SyntaxError, ValueError):
        hint = 'Write one, such as "causal: bool = True".'
        raise PatchgenError(f"{label}: '{patch.code}' is not a parameter", patch.location, hint) from None
    return parameter.name


def _first_parameter(patch: Patch, source: SourceFile, function: Function) -> Edit:
    at = source.text.index("(", source.start(function)) + 1
    has_more = function.args.vararg is not None or function.args.kwarg is not None
    return Edit(at, at, f"{patch.code}, " if has_more else patch.code)


def _check_signature(edit: Edit, patch: Patch, label: str, source: SourceFile, function: Function) -> None:
    start, end = source.line_starts[function.lineno - 1], source.start(function.body[0])
    indent = source.indent(function.lineno)
    text = apply_edits(source.text[start:end], [Edit(edit.start - start, edit.end - start, edit.new)])[0]
    code = f"{text.removeprefix(indent).rstrip()}\n{indent}    ..."
    try:
        ast.parse(code)
    except SyntaxError:
        if patch.kind == "parameter_removal":
            hint = "Use override_method to write the signature anew."
            raise PatchgenError(
                f"{label}: without '{patch.at}' the signature is not valid", patch.location, hint
            ) from None
        hint = "Give it a default, or say with before= or after= where it stands."
        raise PatchgenError(f"{label}: '{patch.code}' does not fit there", patch.location, hint) from None


def _removal(patch: Patch, label: str, source: SourceFile, function: Function) -> Edit:
    ours = [p for p in read_parameters(function) if p.node is not None]
    gone = next((p for p in ours if p.name == patch.at), None)
    if gone is None or gone.node is None:
        names = [p.name for p in ours]
        hint = did_you_mean(patch.at, names) or f"It has: {', '.join(names)}."
        raise PatchgenError(f"{label}: it has no parameter '{patch.at}'", patch.location, hint)
    start, end = source.start(gone.node), source.end(gone.default or gone.node)
    comma = _COMMA.match(source.text, end)
    if comma is not None:
        end = comma.end()
    elif gone is not ours[0]:
        start = source.text.rindex(",", 0, start)
    edit = Edit(start, end, "")
    _check_signature(edit, patch, label, source, function)
    return edit


def documentation_edit(text: str, source: SourceFile, function: Function) -> Edit:
    """The edit that puts an entry behind those that a docstring has for parameters, or makes a docstring of it."""
    entry = textwrap.dedent(text).strip("\n")
    first = function.body[0]
    indent = source.indent(first.lineno)
    if ast.get_docstring(function, clean=False) is None:
        at = source.line_starts[source.comment_line(first) - 1] - 1  # the line before, which no other edit changes
        new_docstring = textwrap.indent(f'r"""\n{entry}\n"""', indent)
        return Edit(at, at, f"\n{new_docstring}")
    docstring = source.text[source.start(first) : source.end(first)]
    section = _SECTION.search(docstring)
    end = section.start() if section is not None else len(docstring) - len(_closing(docstring))
    before = docstring[:end].rstrip()
    heading = _HEADING.search(before)
    entry_indent = _entry_indent(before, heading.end(), indent) if heading is not None else indent
    gap = "\n" if heading is not None or _ENTRY.search(before) else "\n\n"
    tail = "" if "\n" in docstring[len(before) : end] else f"\n{indent}"
    at = source.start(first) + len(before)
    return Edit(at, at, f"{gap}{textwrap.indent(entry, entry_indent)}{tail}")


def _closing(docstring: str) -> str:
    return docstring[-3:] if docstring.endswith(('"""', "'''")) else docstring[-1:]


def _entry_indent(text: str, at: int, indent: str) -> str:
    """How far entries below a heading are indented."""
    line = re.search(r"\n([ \t]+)\S", text[at:])
    return line[1] if line is not None else f"{indent}    "
