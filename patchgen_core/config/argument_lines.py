"""In which line of a call over several lines an argument stands that a problem is about."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from patchgen_core.errors import Location, NameHint, PatchgenError, Problem
from patchgen_core.syntax.source import SourceCache, SourceFile

_QUOTED = re.compile(r"'([\w.*]+)'")


def at_argument(problem: Problem, sources: SourceCache, code: str = "") -> Problem:
    """A problem at the line of the argument that it names, where it stands at the first line of a call; any other as
    it is.

    Args:
        code: the generated line that it is about, which an argument may quote.
    """
    location = problem.location
    if location is None or not location.line:
        return problem
    try:
        source = sources.get(Path(location.file))
    except PatchgenError:
        return problem
    line = _find_quoted(source, location.line, code.strip()) if code.strip() else None
    line = line or _find_line(source, location.line, list(_names(problem)))
    return replace(problem, location=Location(location.file, line)) if line is not None else problem


def _names(problem: Problem) -> Iterator[str]:
    """What a problem may be about, the likeliest first."""
    if isinstance(problem.hint, NameHint) and problem.hint.name:
        yield problem.hint.name
    yield from _QUOTED.findall(problem.message)
    if problem.target:
        yield problem.target


def _find_line(source: SourceFile, line: int, names: list[str]) -> int | None:
    """The line of the first name that stands in one line of the calls over several lines that begin in a line."""
    arguments: list[ast.expr | ast.keyword] = []
    for call in calls_at(source, line):
        arguments += [*call.args, *call.keywords]
    for name in names if arguments else ():
        lines = {number for argument in arguments for number in _lines_of(source, argument, name)}
        if len(lines) == 1:
            return lines.pop()
    return None


def _find_quoted(source: SourceFile, line: int, code: str) -> int | None:
    """The line of code in quotes that reads as a line of what was generated of it."""
    lines = {
        number
        for call in calls_at(source, line)
        for text in call.args
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and code in text.value
        for number in range(text.lineno, (text.end_lineno or 0) + 1)
        if source.lines[number - 1].strip() == code
    }
    return lines.pop() if len(lines) == 1 else None


def calls_at(source: SourceFile, line: int) -> Iterator[ast.Call]:
    """The calls over several lines that begin at a line."""
    around = [statement for statement in source.tree.body if _holds(source, statement, line)]
    nodes = (node for statement in around for node in ast.walk(statement) if isinstance(node, ast.Call))
    return (call for call in nodes if call.lineno == line and call.end_lineno != line)


def _holds(source: SourceFile, statement: ast.stmt, line: int) -> bool:
    return source.first_line(statement) <= line <= (statement.end_lineno or 0)


def _lines_of(source: SourceFile, argument: ast.expr | ast.keyword, name: str) -> Iterator[int]:
    """Where an argument is a name, quotes it, is passed by it, or lists what does; in quoted code, the line there."""
    if isinstance(argument, ast.keyword) and argument.arg == name:
        yield argument.lineno
        return
    value = argument.value if isinstance(argument, (ast.keyword, ast.Starred)) else argument
    parts = value.elts if isinstance(value, (ast.List, ast.Tuple, ast.Set)) else [value]
    parts = [key for key in value.keys if key is not None] if isinstance(value, ast.Dict) else parts
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            is_name = name == part.value or name in part.value.split(".")
            yield from [part.lineno] if is_name else _lines_in_text(source, part, part.value, name)
        elif isinstance(part, (ast.Name, ast.Attribute)) and ast.unparse(part) == name:
            yield part.lineno


def _lines_in_text(source: SourceFile, node: ast.Constant, text: str, name: str) -> Iterator[int]:
    """The first line of a text in quotes over several lines that has a name."""
    word = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    if "\n" in text and word.search(text):
        numbers = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        yield from list(filter(lambda number: word.search(source.lines[number - 1]), numbers))[:1]
