"""Correct configs, and what it means to break one."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tools.mutation.evident import Reader
from tools.sweep import DEFINITIONS, METHODS, Method

NEW = "patchgen_new"
_REPLACING = ("override_method", "replace_function", "replace_class")


@dataclass(frozen=True)
class Piece:
    """A class or function of a config that takes the place of upstream's."""

    target: str
    call: str
    index: int
    text: str

    @property
    def owner(self) -> str:
        """What the generated module calls it."""
        return ".".join(self.target.split(".")[:2])

    def node(self) -> ast.AST:
        """Its definition, fresh to be changed."""
        return ast.parse(self.text).body[0]

    def function(self) -> Method:
        """Its definition as a function, fresh to be changed."""
        node = self.node()
        assert isinstance(node, METHODS)
        return node

    @property
    def is_bound(self) -> bool:
        """Whether its first parameter is passed by the call itself."""
        decorators = map(ast.unparse, self.function().decorator_list)
        return "." in self.target and "staticmethod" not in decorators


@dataclass(frozen=True)
class Config:
    """A correct config.

    Attributes:
        name: what reports call it.
        statements: the config's top-level statements, as text.
        generated: what it makes.
        upstream: upstream's module.
        is_alone: whether a mutant keeps only the patch with the defect, which makes it fast.
        package: the project's package.
    """

    name: str
    statements: tuple[str, ...]
    generated: str
    upstream: str
    is_alone: bool = False
    package: str = ""

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """What it replaces with code of its own."""
        pieces = []
        for index, text in enumerate(self.statements):
            node = ast.parse(text).body[0]
            for decorator in node.decorator_list if isinstance(node, DEFINITIONS) else ():
                call = decorator.func.attr if is_config_call(decorator) else ""
                if call in _REPLACING:
                    target = decorator.args[0].value
                    pieces.append(Piece(target, call, index, text))
        return tuple(pieces)

    @cached_property
    def reader(self) -> Reader:
        """What can be told of the calls in what it makes."""
        return Reader(ast.parse(self.generated))

    @cached_property
    def original(self) -> Reader:
        """What can be told of upstream."""
        return Reader(ast.parse(self.upstream))

    def with_changes(self, changes: Mapping[int, str] | None = None, more: str = "") -> str:
        """The config's text with some of its statements changed, and more below it."""
        changes = changes or {}
        replaced = {piece.index for piece in self.pieces} if self.is_alone else set()
        staying = [n for n in range(len(self.statements)) if n in changes or n not in replaced]
        return "\n\n".join([*(changes.get(n, self.statements[n]) for n in staying), more]) + "\n"


def split(text: str) -> tuple[str, ...]:
    """The top-level statements of a module, as text."""
    lines = text.split("\n")
    texts = []
    for node in ast.parse(text).body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        texts.append("\n".join(lines[first - 1 : node.end_lineno]))
    return tuple(texts)


def is_config_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith("config.")
