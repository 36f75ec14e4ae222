"""The modules that a comparison reads, each parsed once."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

from patchgen_core.files import read_text
from patchgen_core.syntax.nodes import list_nodes

_MODULES = 8
"""How many are held: the generated one, upstream's, and those that patches come from."""


def parse_module(path: str, text: str | None = None) -> ast.Module:
    """A module's tree, which nobody changes: of a text, or of what its file holds now; an empty one where that is no
    Python, which the import tells of."""
    return _parse((read_text(Path(path)) or "") if text is None else text)


@functools.lru_cache(_MODULES)
def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.Module([], [])


@functools.lru_cache(_MODULES)
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a module."""
    return tuple(list_nodes(tree))


def lines_with_code(path: str, text: str | None = None) -> frozenset[int]:
    """The lines that have something to run, of a text, or of what a module's file holds now; none where that is no
    Python."""
    return _lines_with_code((read_text(Path(path)) or "") if text is None else text)


@functools.lru_cache(_MODULES)
def _lines_with_code(text: str) -> frozenset[int]:
    try:
        return frozenset(_lines_of(compile(text, "", "exec")))
    except SyntaxError:
        return frozenset()


def _lines_of(code: CodeType) -> Iterator[int]:
    yield from (line for _, _, line in code.co_lines() if line)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _lines_of(constant)
