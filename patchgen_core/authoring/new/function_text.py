"""Upstream's own text of a function, with a patch in it, as a function of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from patchgen_core.syntax.nodes import Function, string_lines, without_docstring
from patchgen_core.syntax.source import SourceFile, shift


class FunctionText:
    """The lines of an upstream function, whose body starts below its ``def``, and what is to change in them."""

    def __init__(self, source: SourceFile, node: Function) -> None:
        self.source, self.node = source, node
        self.first, self.last = node.lineno, source.last_line(node)
        self.indent = source.indent(node.lineno)
        self.inner = source.indent(node.body[0].lineno)
        self._before: dict[int, list[str]] = {}
        self._after: dict[int, list[str]] = {}
        self._instead: dict[int, list[str]] = {}

    def lines_of(self, first: int, last: int) -> list[str]:
        """Upstream's lines, with the indentation that they have."""
        return self.source.lines[first - 1 : last]

    def before(self, line: int, lines: Sequence[str]) -> None:
        """Put lines, written without indentation, before a line of upstream's at that line's indentation."""
        indent = self.source.indent(line)
        self._before.setdefault(line, []).extend(indent + text if text else "" for text in lines)

    def after(self, line: int, lines: Sequence[str], indent: str) -> None:
        """Put lines after a line of upstream's."""
        self._after.setdefault(line, []).extend(indent + text if text else "" for text in lines)

    def instead(self, first: int, last: int, lines: Sequence[str]) -> None:
        """Put lines, with the indentation that they are to have, in the place of some of upstream's."""
        self._instead.update({line: [] for line in range(first, last + 1)})
        self._instead[first] = list(lines)

    def at_start(self, lines: Sequence[str]) -> None:
        """Put lines before the first statement below the docstring."""
        self.before(self.source.comment_line(without_docstring(self.node)[0]), lines)

    def text(self, name: str) -> str:
        """The function at the top level, under another name and without decorators."""
        lines: list[str] = []
        inside, unmoved = string_lines(self.node), set[int]()
        for line in range(self.first, self.last + 1):
            lines += self._before.get(line, [])
            if line in inside and line not in self._instead:
                unmoved.add(len(lines))
            lines += self._instead.get(line, self.lines_of(line, line))
            lines += self._after.get(line, [])
        moved = shift(lines, self.indent, "", unmoved)
        moved[0] = re.sub(rf"^((?:async )?def ){re.escape(self.node.name)}\b", rf"\g<1>{name}", moved[0])
        return "\n".join(moved).rstrip() + "\n"


def marked(number: int, lines: Sequence[str]) -> list[str]:
    """Lines between the markers of a change."""
    return [mark(number), *lines, mark(number)]


def mark(number: int) -> str:
    """The comment that stands before and after a change."""
    return f"# --- Patch.{number} ---"
