"""The modules that a comparison reads, each parsed once."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from patchgen_core.files import read_text


def parse_module(path: str, text: str | None = None) -> ast.Module:
    """A module's tree, which nobody changes: of a text, or of what its file holds now; an empty one where that is no
    Python, which the import tells of."""
    return _parse((read_text(Path(path)) or "") if text is None else text)


@functools.lru_cache(maxsize=4)
def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.Module([], [])


@functools.lru_cache(maxsize=4)
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a module."""
    return tuple(ast.walk(tree))
