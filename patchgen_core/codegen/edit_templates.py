"""The code of an edit as lines, with the places where upstream's own lines go."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from patchgen_core.config.declarations import Patch
from patchgen_core.config.replacement import Replacement
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.syntax.nodes import COMPOUND, FUNCTIONS, blocks, docstring_of, is_filler, without_docstring
from patchgen_core.syntax.patterns import is_rest
from patchgen_core.syntax.source import SourceFile, parse_source


@dataclass(frozen=True)
class TemplateLine:
    """One line of an edit's code.

    Attributes:
        text: with its indentation below the edit's body.
        location: where it stands in the config.
        is_string: whether it starts inside a string literal.
        rest: the white space in front of the ``...`` that it is, and so in front of upstream's lines; None for no such
            line.
    """

    text: str
    location: Location
    is_string: bool = False
    rest: str | None = None


@dataclass(frozen=True)
class Template:
    """The code of an edit.

    Attributes:
        follower: where code comes right after upstream's in one block.
        branch: where it adds branches to an ``if`` of upstream's, below ``if ...:``.
    """

    lines: tuple[TemplateLine, ...]
    follower: Location | None = None
    branch: Location | None = None

    @property
    def rests(self) -> int:
        """How many times upstream's lines are in it."""
        return sum(line.rest is not None for line in self.lines)


def function_template(replacement: Replacement, patch: Patch, label: str) -> Template:
    """The body of an edit's function, without its docstring, which is for readers of the config."""
    source = parse_source(Path(replacement.location.file), replacement.text)
    function = source.tree.body[0]
    body = without_docstring(function)
    if not body:
        location = _place(replacement, patch, 0)
        hint = "Write the code that should be there, with '...' for upstream's."
        raise PatchgenError(f"{label}: '{replacement.name}' has no code", location, hint)
    docstring = docstring_of(function)
    header = _header_end(source, function) if docstring is None else (docstring.end_lineno or 0)
    first = min(header + 1, body[0].lineno)
    if body[0].lineno == header:
        raise PatchgenError(f"{label}: the code is on the line of its 'def'", patch.location, "Break the line.")
    last = source.last_line(function)
    locations = {number: _place(replacement, patch, number - 1) for number in range(first, last + 1)}
    return _template(source, body, first, last, locations, label)


def text_template(text: str, patch: Patch, label: str) -> Template:
    """Code in quotes."""
    assert patch.location is not None
    source = parse_source(Path(patch.location.file), text)
    count = text.rstrip("\n").count("\n") + 1
    return _template(source, source.tree.body, 1, count, dict.fromkeys(range(1, count + 1), patch.location), label)


def _place(replacement: Replacement, patch: Patch, offset: int) -> Location:
    """Where a line of a replacement stands; where it is declared, if another config shares it."""
    own, declared = replacement.location, patch.location
    if declared is not None and own.file != declared.file:
        return declared
    return Location(own.file, own.line + offset)


def _header_end(source: SourceFile, function: ast.stmt) -> int:
    """The line with the colon of a ``def``."""
    assert isinstance(function, FUNCTIONS)
    last = max((n.end_lineno or 0 for n in ast.walk(function.args) if isinstance(n, (ast.arg, ast.expr))), default=0)
    last = max(last, function.lineno, (function.returns.end_lineno or 0) if function.returns is not None else 0)
    while last < function.body[0].lineno and not source.lines[last - 1].partition("#")[0].rstrip().endswith(":"):
        last += 1
    return last


def _template(
    source: SourceFile,
    body: list[ast.stmt],
    first: int,
    last: int,
    locations: dict[int, Location],
    label: str,
) -> Template:
    _refuse_ellipses(body, locations, label)
    indent = source.indent(body[0].lineno)
    own = list(_own_statements(body))
    heads = {node.lineno: node for node in own if isinstance(node, ast.If) and is_rest(node.test)}
    bodies = {head.body[0].lineno for head in heads.values()}
    _refuse_heads(source, heads.values(), locations, label)
    rests = {statement.lineno: statement for statement in own if is_rest(statement) and statement.lineno not in bodies}
    lines: list[TemplateLine] = []
    for number in range(first, last + 1):
        text, is_string = source.lines[number - 1], number in source.string_lines
        if not is_string:
            text = text.removeprefix(indent) if text.startswith(indent) else text.lstrip()
        location = locations[number]
        if number in heads:
            lines.append(TemplateLine("...", location, rest=text[: len(text) - len(text.lstrip())]))
            continue
        if number in bodies:
            continue
        if number not in rests:
            lines.append(TemplateLine(text, location, is_string))
            continue
        column = source.start(rests[number]) - source.line_starts[number - 1]
        before = source.lines[number - 1][:column].removeprefix(indent)
        own_indent = before[: len(before) - len(before.lstrip())]
        if before.strip():  # as in "else: ..."
            lines.append(TemplateLine(before.rstrip(), location))
            own_indent += "    "
        lines.append(TemplateLine("...", location, rest=own_indent))
    while lines and not lines[0].text.strip():
        del lines[0]
    follower = next(_followers(body), None)
    branches = (locations[number] for number, head in heads.items() if head.orelse)
    follower_at = locations.get(follower.lineno) if follower is not None else None
    return Template(tuple(lines), follower_at, next(branches, None))


def _own_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body at any depth, but of no definition in it."""
    for statement in body:
        yield statement
        if isinstance(statement, COMPOUND):
            for block in blocks(statement):
                yield from _own_statements(block)


def _followers(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that come right after a ``...`` in their block."""
    blocks_inside = [body, *(b for s in _own_statements(body) if isinstance(s, COMPOUND) for b in blocks(s))]
    for block in blocks_inside:
        for statement, follower in pairwise(block):
            if is_rest(statement):
                yield follower


def _refuse_heads(source: SourceFile, heads: Iterable[ast.If], locations: dict[int, Location], label: str) -> None:
    """``...`` as the condition of what does not stand for an ``if`` of upstream's."""
    for head in heads:
        is_if = source.text.startswith("if", source.start(head))
        is_alone = len(head.body) == 1 and is_rest(head.body[0]) and head.body[0].lineno > head.lineno
        if not is_if or not is_alone:
            hint = "Write 'if ...:', below it only '...', and then the new 'elif' or 'else'."
            message = f"{label}: '...' can be a condition only where 'if ...:' stands for all of upstream's 'if'"
            raise PatchgenError(message, locations.get(head.lineno), hint)


def _refuse_ellipses(body: list[ast.stmt], locations: dict[int, Location], label: str) -> None:
    """``...`` where it looks as if it stood for upstream's code and does not."""
    own = {id(statement) for statement in _own_statements(body)}
    for node in (inner for statement in body for inner in ast.walk(statement)):
        if isinstance(node, ast.Call) and any(map(is_rest, node.args)):
            hint = "Write the arguments; to change those of one of upstream's calls, use replace_code."
            message = f"{label}: '...' stands for no arguments in '{ast.unparse(node.func)}(...)'"
        elif isinstance(node, ast.Expr) and is_filler(node) and id(node) not in own:
            hint = "Write 'pass' for a body that does nothing."
            message = f"{label}: '...' inside a definition does not stand for upstream's code"
        else:
            continue
        raise PatchgenError(message, locations.get(node.lineno), hint)
