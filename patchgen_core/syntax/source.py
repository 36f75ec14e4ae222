"""A Python source file: its text, its syntax tree, and the lines its definitions stand on."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.files import digest, short_hash
from patchgen_core.syntax.index import ModuleIndex, index_module
from patchgen_core.syntax.nodes import (
    DEFINITIONS,
    FUNCTIONS,
    Definition,
    Function,
    Positioned,
    guarded_lines,
    statements,
    string_lines,
)


@dataclass(frozen=True)
class SourceFile:
    """Source text with ``\\n`` newlines and no byte order mark, and its syntax tree.

    ``digest`` is a hash of the file's contents; empty for a text that only stands for a file.
    """

    path: Path
    text: str
    tree: ast.Module = field(repr=False)
    digest: str = ""

    @cached_property
    def lines(self) -> list[str]:
        """The text's lines without their newlines; ``lines[0]`` is line 1."""
        return self.text.split("\n")

    @cached_property
    def short_hash(self) -> str:
        """A hash of the text, as the headers of generated files have it."""
        return short_hash(self.text)

    @cached_property
    def line_starts(self) -> list[int]:
        """Offset in ``text`` where each line starts."""
        return [0, *accumulate(len(line) + 1 for line in self.lines)]

    def offset(self, line: int, column: int) -> int:
        """Offset in ``text`` of an ``ast`` position, whose columns count UTF-8 bytes."""
        text = self.lines[line - 1]
        if not text.isascii():
            column = len(text.encode()[:column].decode())
        return self.line_starts[line - 1] + column

    def start(self, node: Positioned) -> int:
        """Offset where a node starts."""
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: Positioned) -> int:
        """Offset one past a node's end."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.end_lineno, node.end_col_offset)

    def segment(self, node: Positioned) -> str:
        """The text of a node."""
        return self.text[self.start(node) : self.end(node)]

    def indent(self, line: int) -> str:
        """The white space that a line starts with."""
        text = self.lines[line - 1]
        return text[: len(text) - len(text.lstrip(" \t\f"))]

    def first_line(self, node: ast.stmt) -> int:
        """The line a statement starts on, its decorators included."""
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        return self.decorator_lines(decorators[0])[0] if decorators else node.lineno

    def decorator_lines(self, decorator: ast.expr) -> tuple[int, int]:
        """First and last line of a decorator, with its ``@`` and any brackets around it."""
        first, last = decorator.lineno, decorator.end_lineno or decorator.lineno
        while not self.lines[first - 1].lstrip().startswith("@"):
            first -= 1
        end = re.compile(r"[\s)]*").match(self.text, self.end(decorator))
        brackets = end[0].rpartition(")")[0] if end is not None else ""
        return first, last + brackets.count("\n")

    def last_line(self, node: ast.stmt) -> int:
        """The line a statement ends on, with the comments below it that are indented deeper than it."""
        assert node.end_lineno is not None
        last = node.end_lineno
        depth = len(self.indent(self.first_line(node)))
        for number in range(last + 1, len(self.lines) + 1):
            text = self.lines[number - 1].strip()
            if text.startswith("#") and len(self.indent(number)) > depth:
                last = number
            elif text:
                break
        return last

    def comment_line(self, node: ast.stmt) -> int:
        """The first line of the comment block directly above a statement, or the statement's own."""
        first = self.first_line(node)
        return first - len(self.comments_above(first))

    def comments_above(self, line: int) -> tuple[str, ...]:
        """The comment block directly above a line, at column 0."""
        first, indent = line, self.indent(line)
        while first > 1 and self.lines[first - 2].startswith(f"{indent}#"):
            first -= 1
        return tuple(text.removeprefix(indent) for text in self.lines[first - 1 : line - 1])

    @cached_property
    def index(self) -> ModuleIndex:
        """What the module binds at its top level."""
        return index_module(self.tree)

    def owner_at(self, line: int) -> str:
        """The class, method or function that a line belongs to, decorators included; empty for none."""
        owner = ""
        for name, node in self.definitions:
            if "<locals>" not in name and self.first_line(node) <= line <= (node.end_lineno or 0):
                owner = name
        return owner

    @cached_property
    def functions(self) -> dict[str, list[Function]]:
        """The functions of each name, at any depth."""
        functions: dict[str, list[Function]] = {}
        for _, node in self.definitions:
            if isinstance(node, FUNCTIONS):
                functions.setdefault(node.name, []).append(node)
        return functions

    @cached_property
    def string_lines(self) -> frozenset[int]:
        """The lines that start inside a string literal."""
        return frozenset(string_lines(self.tree))

    @cached_property
    def guarded_lines(self) -> set[int]:
        """The lines of imports whose failure the code handles."""
        return guarded_lines(self.tree.body)

    @cached_property
    def definitions(self) -> list[tuple[str, Definition]]:
        """Every class and function at any depth, with its ``__qualname__``."""
        return list(_walk_definitions(self.tree.body, ""))


def _walk_definitions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Definition]]:
    for statement in statements(body):
        if isinstance(statement, DEFINITIONS):
            name = prefix + statement.name
            yield name, statement
            inner = "." if isinstance(statement, ast.ClassDef) else ".<locals>."
            yield from _walk_definitions(statement.body, name + inner)


def shift(lines: Iterable[str], indent: str, new_indent: str, keep: Container[int]) -> list[str]:
    """Move lines from one indentation to another; a line with less than ``indent`` loses what it has, empty ones stay.

    ``keep`` are numbers, from 0, of lines that start inside a string literal and so stay as they are.
    """
    if not indent and not new_indent:
        return ["" if line.isspace() and number not in keep else line for number, line in enumerate(lines)]
    cut = len(indent)
    moved = []
    for number, line in enumerate(lines):
        if number in keep:
            moved.append(line)
        elif not line or line.isspace():
            moved.append("")
        elif line.startswith(indent):
            moved.append(new_indent + line[cut:])
        else:
            moved.append(new_indent + line.lstrip(" \t\f"))
    return moved


class SourceCache:
    """Reads and parses each file once a run."""

    def __init__(self) -> None:
        self._files: dict[Path, SourceFile] = {}
        self._recorded: dict[Path, SourceFile] = {}

    @contextmanager
    def recording(self) -> Iterator[Mapping[Path, SourceFile]]:
        """The files that are asked for meanwhile; not to be nested."""
        recorded: dict[Path, SourceFile] = {}
        self._recorded = recorded
        yield recorded
        self._recorded = {}

    def get(self, path: Path) -> SourceFile:
        """The parsed file; a PatchgenError when it cannot be read, decoded or parsed."""
        if path not in self._files:
            self._files[path] = read_source(path)
        self._recorded[path] = self._files[path]
        return self._files[path]

    def fork(self) -> SourceCache:
        """Another cache that begins with the files of this one."""
        forked = SourceCache()
        forked._files.update(self._files)
        return forked

    def clear(self) -> None:
        """Forget every file: what a config was loaded into refers to this object for as long as Python keeps that."""
        self._files.clear()
        self._recorded = {}

    def forget(self, paths: Iterable[Path]) -> None:
        """Forget some files."""
        for path in paths:
            self._files.pop(path, None)
            self._recorded.pop(path, None)

    def has(self, path: Path) -> bool:
        """Whether there is such a file, or a text that stands for it."""
        return path in self._files or path.is_file()

    def put(self, path: Path, text: str) -> SourceFile:
        """Let a text, which has to be valid Python, stand for a file, which need not be there."""
        self._files[path] = parse_source(path, text)
        return self._files[path]


def read_source(path: Path) -> SourceFile:
    """Read and parse a Python file as the interpreter would: encoding cookie, byte order mark, any newlines."""
    try:
        data = path.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
        text += "" if text.endswith("\n") or not text else "\n"
    except (OSError, UnicodeDecodeError, SyntaxError, LookupError) as error:
        raise PatchgenError(f"cannot be read: {error}", Location(str(path))) from None
    return parse_source(path, text, digest(data))


def parse_source(path: Path, text: str, contents: str = "") -> SourceFile:
    """Parse source text that came from, or stands for, ``path``; ``contents`` is the hash of what the file holds.

    A PatchgenError has the line that is not valid Python.
    """
    try:
        return SourceFile(path, text, ast.parse(text, filename=str(path)), contents)
    except (SyntaxError, ValueError, RecursionError) as error:
        _refuse_markers(path, text)
        raise invalid_python(path, text, error) from None


def invalid_python(path: Path, text: str, error: SyntaxError | ValueError | RecursionError) -> PatchgenError:
    """What is said of a text that Python refuses, at the line that it refuses."""
    line = getattr(error, "lineno", 0) or 0
    message = getattr(error, "msg", None) or str(error)
    if not line and "\0" in text:  # which some versions of Python name no line of
        line = text.count("\n", 0, text.index("\0")) + 1
    line_text = text.split("\n")[line - 1].strip() if line else ""
    return PatchgenError(f"not valid Python: {message}", Location(str(path), line), excerpt=line_text)


def _refuse_markers(path: Path, text: str) -> None:
    """Raise a PatchgenError that names the first conflict marker of a text that is no Python, if it has whole ones."""
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines, 1) if line.startswith("<<<<<<< ")]
    ends = [number for number, line in enumerate(lines, 1) if line.startswith(">>>>>>> ")]
    if starts and ends and starts[0] < ends[-1]:
        count = f"the {len(starts)} conflicts" if len(starts) > 1 else "the conflict"
        hint = f"Resolve {count}: keep what is right of the sides, and delete the lines with the markers."
        raise PatchgenError("conflict markers are left", Location(str(path), starts[0]), hint, lines[starts[0] - 1])


def is_python(text: str) -> bool:
    """Whether a text can be parsed, by the bytes of its file."""
    try:
        parse_bytes(text)
    except (SyntaxError, ValueError):
        return False
    return True


def parse_bytes(text: str) -> ast.Module:
    """The syntax tree of a text, by the bytes of its file."""
    return ast.parse(text.encode("utf-8", "surrogateescape"))
