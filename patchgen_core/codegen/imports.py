"""Making relative imports absolute, wherever they stand, and writing the imports a config adds."""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from patchgen_core.config.declarations import ImportSpec
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.syntax.edits import Edit, apply_edits
from patchgen_core.syntax.nodes import blocks
from patchgen_core.syntax.source import SourceFile, parse_source

# Finds every place where a relative import can stand; the syntax tree then says which ones are.
_CANDIDATE = re.compile(r"from[ \t\f\\\n]*\.")
_PREFIX = re.compile(r"from[\s\\]*\.(?:[\s\\]*\.)*[\s\\]*")


BaseOf = Callable[[ast.ImportFrom, Location], str]
"""The package that a relative import at a line starts from, without its dots."""


def absolute_import_edits(source: SourceFile, start: str | BaseOf, first_line: int = 1) -> list[Edit]:
    """The edits that make relative imports absolute; they start from a package, or from what a function says.

    A PatchgenError for one above the top of the package.
    """
    base_of = start if callable(start) else partial(_resolve, start)
    edits = []
    for node in _relative_imports(source):
        base = base_of(node, Location(str(source.path), node.lineno + first_line - 1))
        prefix = _PREFIX.match(source.text, source.start(node))
        assert prefix is not None
        new = f"from {base}." if node.module else f"from {base} "
        edits.append(Edit(prefix.start(), prefix.end(), new))
    return edits


def absolute_imports(text: str, start: str | BaseOf, location: Location) -> str:
    """``text``, which starts at ``location``, with absolute imports."""
    if not _CANDIDATE.search(text):
        return text
    source = parse_source(Path(location.file), text)
    return apply_edits(text, absolute_import_edits(source, start, location.line))[0]


def _relative_imports(source: SourceFile) -> Iterator[ast.ImportFrom]:
    offsets = (match.end() - 1 for match in _CANDIDATE.finditer(source.text))
    lines = sorted({bisect.bisect_right(source.line_starts, offset) for offset in offsets})

    def visit(body: list[ast.stmt]) -> Iterator[ast.ImportFrom]:
        for statement in body:
            at = bisect.bisect_left(lines, statement.lineno)
            if at == len(lines) or lines[at] > (statement.end_lineno or 0):
                continue
            if isinstance(statement, ast.ImportFrom):
                if statement.level:
                    yield statement
            else:
                for block in blocks(statement):
                    yield from visit(block)

    return visit(source.tree.body)


def relative_base(node: ast.ImportFrom, package: str) -> str:
    """The package that the dots of a relative import in ``package`` stand for; empty above the top."""
    parts = package.split(".") if package else []
    return ".".join(parts[: len(parts) - node.level + 1]) if node.level <= len(parts) else ""


def _resolve(package: str, node: ast.ImportFrom, location: Location) -> str:
    base = relative_base(node, package)
    if not base:
        dots = "." * node.level
        raise PatchgenError(f"relative import {dots}{node.module or ''} leads out of package '{package}'", location)
    return base


def import_statement(spec: ImportSpec) -> str:
    """The source line of an added import."""
    if not spec.is_from_import:
        return f"import {spec.module}" + (f" as {spec.alias}" if spec.alias else "")
    names = ", ".join(spec.names)
    return f"from {spec.module} import {names}" + (f" as {spec.alias}" if spec.alias else "")


def imported_names(spec: ImportSpec) -> list[str]:
    """The names that an added import binds."""
    if spec.alias:
        return [spec.alias]
    if not spec.is_from_import:
        return [spec.module.split(".")[0]]
    return [name.split(" as ")[-1].strip() for name in spec.names]
