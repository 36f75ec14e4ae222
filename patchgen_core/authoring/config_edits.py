"""Putting a replacement's new text, and the version of a config, into its file."""

from __future__ import annotations

import ast
import difflib
import itertools
from dataclasses import dataclass

from patchgen_core.authoring.line_edits import LineEdit, Lines
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.nodes import Definition, string_lines
from patchgen_core.syntax.source import SourceFile, parse_source, shift

_MARKERS = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")
_MOST_DECORATORS = 10


@dataclass(frozen=True)
class Place:
    """A definition of a file, as a replacement's text was taken from it.

    Attributes:
        node: the definition.
        indent: what its lines are indented by.
        numbers: for each line of the replacement's text, the line of the file. Decorators that declare patches stand
            between them and are none of these.
    """

    node: Definition
    indent: str
    numbers: tuple[int, ...]


def find_place(source: SourceFile, line: int, text: str) -> Place | None:
    """Where a replacement's text stands in its file; None when something else stands there.

    Args:
        source: the file.
        line: where its ``def`` or ``class`` is.
        text: the text as it was read, at column 0.
    """
    node = next((node for _, node in source.definitions if node.lineno == line), None)
    if node is None:
        return None
    indent, last = source.indent(line), source.last_line(node)
    spans = [source.decorator_lines(decorator) for decorator in node.decorator_list[:_MOST_DECORATORS]]
    body = list(range(line, last + 1))
    for own in itertools.product((True, False), repeat=len(spans)):
        chosen = [span for span, is_own in zip(spans, own) if is_own]
        numbers = [number for first, end in chosen for number in range(first, end + 1)] + body
        if _text(source, numbers, indent) == text:
            return Place(node, indent, tuple(numbers))
    return None


def _text(source: SourceFile, numbers: list[int], indent: str) -> str:
    """Lines of a file, moved to column 0."""
    keep = {at for at, number in enumerate(numbers) if number in source.string_lines}
    return "\n".join(shift((source.lines[number - 1] for number in numbers), indent, "", keep))


def definition_edits(lines: Lines, source: SourceFile, place: Place, ours: str, text: str) -> list[LineEdit] | None:
    """The edits that make one text of another, changing only the lines that differ.

    Args:
        lines: the file.
        source: the same, parsed.
        place: where the text stands.
        ours: the text that is there.
        text: what it becomes: valid Python.

    Returns:
        None when the text cannot stand there.
    """
    tree = ast.parse(text)
    keep, name = {line - 1 for line in string_lines(tree)}, getattr(tree.body[0], "name", "")
    for edits in (_changed(place, ours, text, keep), _whole(place, text, keep)):
        try:
            after = parse_source(source.path, lines.edited(edits).text)
        except PatchgenError:
            continue
        if any(find_place(after, node.lineno, text) for _, node in after.definitions if node.name == name):
            return edits
    return None


def marked_edits(place: Place, ours: str, marked: str) -> list[LineEdit]:
    """The edits that make a text with conflict markers of a replacement's text; the markers stand at column 0."""
    keep = {at for at, line in enumerate(marked.split("\n")) if line.startswith(_MARKERS)}
    return _changed(place, ours, marked, keep)


def _changed(place: Place, ours: str, text: str, keep: set[int]) -> list[LineEdit]:
    """The edits of the lines that differ."""
    old, new = ours.split("\n"), text.split("\n")
    shifted = shift(new, "", place.indent, keep)
    edits = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            edits += _replace(place.numbers, i, j, tuple(shifted[k:m]))
    return edits


def _whole(place: Place, text: str, keep: set[int]) -> list[LineEdit]:
    lines = shift(text.split("\n"), "", place.indent, keep)
    return _replace(place.numbers, 0, len(place.numbers), tuple(lines))


def _replace(numbers: tuple[int, ...], first: int, stop: int, lines: tuple[str, ...]) -> list[LineEdit]:
    """Replace the lines of a text, which need not stand together in the file."""
    if first == stop:
        line = numbers[first] if first < len(numbers) else numbers[-1] + 1
        return [LineEdit(line, line, lines)]
    edits, start = [], first
    for at in range(first, stop):
        if at + 1 == stop or numbers[at + 1] != numbers[at] + 1:
            edits.append(LineEdit(numbers[start], numbers[at] + 1, lines if at + 1 == stop else ()))
            start = at + 1
    return edits


def version_edit(source: SourceFile, line: int, version: str) -> LineEdit | None:
    """The edit that pins a config to another version.

    Args:
        source: the config's file.
        line: where the config is made.
        version: the version.

    Returns:
        None where the config is pinned to none, or not by a text that stands there.
    """
    for call in _calls(source, line):
        for keyword in call.keywords:
            if keyword.arg == "transformers_version":
                return _text_edit(source, keyword.value, version)
    return None


def target_edit(source: SourceFile, line: int, old: str, new: str) -> LineEdit | None:
    """The edit that has a patch name its target anew.

    Args:
        source: the file that declares the patch.
        line: where it does.
        old, new: the target's names.

    Returns:
        None where the target is not named by a text that stands there.
    """
    for call in _calls(source, line):
        for value in (*call.args, *(keyword.value for keyword in call.keywords)):
            if isinstance(value, ast.Constant) and value.value == old:
                return _text_edit(source, value, new)
    return None


def class_edits(source: SourceFile, old: str, new: str) -> list[LineEdit]:
    """The edits that have calls of ``drop_decorators`` name a class anew, where it stands as a text.

    Args:
        source: the file that declares the patches of the class.
        old, new: the class's names.
    """
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "drop_decorators":
            for value in node.args[:1]:
                name = value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
                cls, dot, method = name.partition(".")
                edit = _text_edit(source, value, f"{new}{dot}{method}") if cls == old else None
                found += [edit] if edit is not None else []
    return found


def _calls(source: SourceFile, line: int) -> list[ast.Call]:
    """The calls that a line starts or lies in, the innermost last."""
    calls = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call)]
    return [call for call in calls if call.lineno <= line <= (call.end_lineno or 0)]


def _text_edit(source: SourceFile, value: ast.expr, new: str) -> LineEdit | None:
    """The edit that replaces a text between two quotes, on one line."""
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str) or value.value == new:
        return None
    if source.segment(value) not in (f'"{value.value}"', f"'{value.value}'"):
        return None
    line = source.lines[value.lineno - 1]
    start, end = (offset - source.line_starts[value.lineno - 1] for offset in (source.start(value), source.end(value)))
    return LineEdit(value.lineno, value.lineno + 1, (f"{line[: start + 1]}{new}{line[end - 1 :]}",))
