"""Upstream's parameters in the place of a replacement's."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator

from lsprotocol import types

from patchgen_core.syntax.nodes import Function
from patchgen_core.syntax.source import SourceFile
from patchgen_lsp.places import make_range, place_of

_WIDTH = 100
"""Characters of a line from which on each parameter gets one of its own."""


def update_signature(
    source: SourceFile, ours: Function, upstream: SourceFile, theirs: Function, units: str
) -> types.TextEdit | None:
    """The edit that gives a replacement upstream's parameters, with upstream's annotations and defaults, and behind
    them those of its own that its body uses; None where it has upstream's already.

    Its body, its name and what it returns stay.
    """
    own, wanted = list(_parameters(source, ours)), list(_parameters(upstream, theirs))
    extra = [part for part in own if _name(part) not in map(_name, wanted) and _is_used(ours, _name(part))]
    parts = _with_extra(wanted, extra)
    if [_bare(part) for part in own] == [_bare(part) for part in parts]:
        return None
    span = _span_of_parameters(source, ours)
    if span is None:
        return None
    text = ", ".join(parts)
    column = span[0] - source.line_starts[ours.lineno - 1]
    if column + len(text) > _WIDTH:
        indent = " " * ours.col_offset
        text = "\n" + "".join(f"{indent}    {part},\n" for part in parts) + indent
    places = [place_of(source, offset) for offset in span]
    return types.TextEdit(make_range(source.lines, places[0], places[1], units), text)


def _parameters(source: SourceFile, node: Function) -> Iterator[str]:
    """The parameters of a function as its text has them, with ``/``, ``*`` and stars."""
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    for number, (argument, default) in enumerate(zip(plain, defaults), 1):
        yield _text(source, argument, default)
        if number == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg is not None:
        yield f"*{_text(source, arguments.vararg, None)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        yield _text(source, argument, default)
    if arguments.kwarg is not None:
        yield f"**{_text(source, arguments.kwarg, None)}"


def _text(source: SourceFile, argument: ast.arg, default: ast.expr | None) -> str:
    annotation = f": {_on_one_line(source, argument.annotation)}" if argument.annotation is not None else ""
    if default is None:
        return f"{argument.arg}{annotation}"
    equals = " = " if annotation else "="
    return f"{argument.arg}{annotation}{equals}{_on_one_line(source, default)}"


def _on_one_line(source: SourceFile, node: ast.expr) -> str:
    text = source.segment(node)
    return ast.unparse(node) if "\n" in text else text


def _with_extra(wanted: list[str], extra: list[str]) -> list[str]:
    """Upstream's parameters with others that only keywords reach, before ``**``."""
    named = [part if "=" in part else f"{part}=None" for part in extra if not part.startswith("*")]
    if not named:
        return wanted
    last = wanted[-1:] if wanted and wanted[-1].startswith("**") else []
    first = wanted[: len(wanted) - len(last)]
    has_star = any(part.startswith("*") for part in first)
    return [*first, *([] if has_star else ["*"]), *named, *last]


def _name(part: str) -> str:
    """The name of a parameter, with its stars."""
    return part.partition(":")[0].partition("=")[0].strip()


def _bare(part: str) -> tuple[str, str]:
    """A parameter without its annotation: its name and its default."""
    return _name(part), part.rpartition("=")[2].strip() if "=" in part else ""


def _is_used(node: Function, name: str) -> bool:
    inner = (each for statement in node.body for each in ast.walk(statement))
    return any(isinstance(each, ast.Name) and each.id == name for each in inner)


def _span_of_parameters(source: SourceFile, node: Function) -> tuple[int, int] | None:
    """The offsets behind the parenthesis that opens a function's parameters, and of the one that closes them."""
    start = source.start(node)
    depth, first = 0, -1
    lines = io.StringIO(source.text[start:]).readline
    starts = [start, *(begin for begin in source.line_starts if begin > start)]
    for token in tokenize.generate_tokens(lines):
        if token.type != tokenize.OP or token.string not in "([{)]}":
            continue
        offset = starts[token.start[0] - 1] + token.start[1]
        depth += 1 if token.string in "([{" else -1
        if depth == 1 and first < 0:
            first = offset + 1
        elif depth == 0:
            return first, offset
    return None
