"""A function of a config, and changes of its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from patchgen_core.syntax.nodes import FUNCTIONS, Positioned
from patchgen_core.syntax.source import SourceFile
from tools.mutation.mutant import Edit

Spanned = Positioned | ast.keyword
Function = ast.FunctionDef | ast.AsyncFunctionDef
_UNREAD = ("annotation", "returns", "decorator_list", "type_params")


class Scope:
    """A function whose text is to be changed.

    Args:
        target: what it takes the place of, as upstream names it.
        source: the file that it stands in.
        function: its definition there.

    Attributes:
        nodes: what can run of it, in the order of the text: no annotations, decorators, docstring or error messages.
    """

    def __init__(self, target: str, source: SourceFile, function: Function) -> None:
        self.target, self.source, self.function = target, source, function
        self._parents: dict[ast.AST, ast.AST] = {}
        self.nodes = list(self._visit(function))

    def _visit(self, node: ast.AST) -> Iterator[ast.AST]:
        yield node
        for name, value in ast.iter_fields(node):
            if name in _UNREAD:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.Raise) and not _is_text(child):
                    self._parents[child] = node
                    yield from self._visit(child)

    @property
    def path(self) -> Path:
        """The file."""
        return self.source.path

    def parent(self, node: ast.AST) -> ast.AST:
        """What a node is a part of."""
        return self._parents[node]

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node is a part of, innermost first, as far as the function."""
        while node in self._parents:
            node = self._parents[node]
            yield node

    def text(self, node: Spanned) -> str:
        """The text of a node."""
        return self.source.text[slice(*self.span(node))]

    def span(self, node: Spanned) -> tuple[int, int]:
        """Where a node starts and ends in the text."""
        at = self.source.offset
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)

    def edit(self, operator: str, node: Spanned, new: str) -> Edit:
        """Put a text in a node's place."""
        return Edit(operator, *self.span(node), new, node)

    def append(self, operator: str, node: ast.expr, more: str) -> Edit:
        """Put a text behind an expression."""
        text = self.text(node)
        is_one = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
        return self.edit(operator, node, f"{text}{more}" if is_one else f"({text}){more}")

    def swap(self, operator: str, first: Spanned, second: Spanned) -> Edit:
        """Exchange two nodes."""
        between = self.source.text[self.span(first)[1] : self.span(second)[0]]
        new = f"{self.text(second)}{between}{self.text(first)}"
        return Edit(operator, self.span(first)[0], self.span(second)[1], new, first)

    def drop(self, operator: str, node: Spanned, among: Sequence[Spanned]) -> Edit:
        """Take one of a call's arguments away, with its comma."""
        number = among.index(node)
        start, end = self.span(node)
        if number + 1 < len(among):
            end = self.span(among[number + 1])[0]
        elif number:
            start = self.span(among[number - 1])[1]
        return Edit(operator, start, end, "", node)

    def between(self, operator: str, left: Spanned, right: Spanned, old: str, new: str) -> Edit:
        """Change an operator that stands between two nodes."""
        start, end = self.span(left)[1], self.span(right)[0]
        return Edit(operator, start, end, self.source.text[start:end].replace(old, new, 1), left)

    def changed(self, edit: Edit) -> str:
        """The text of the whole file with a change."""
        text = self.source.text
        return f"{text[: edit.start]}{edit.new}{text[edit.end :]}"

    @cached_property
    def variables(self) -> dict[str, int]:
        """The function's own names, without ``self`` and ``**kwargs``, by the line that first binds them."""
        arguments = self.function.args
        own = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        found = {argument.arg: self.function.lineno for argument in own if argument.arg not in ("self", "cls")}
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.setdefault(node.id, node.lineno)
        return found

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that a node is a part of."""
        return next(one for one in (node, *self.above(node)) if isinstance(one, ast.stmt))

    def runs_without_gradient(self, node: ast.AST) -> bool:
        """Whether it stands under ``torch.no_grad()``, be it the whole function's."""
        if any("no_grad" in ast.unparse(decorator) for decorator in self.function.decorator_list):
            return True
        above = (one for one in self.above(node) if isinstance(one, ast.With))
        return any("no_grad" in ast.unparse(item) for one in above for item in one.items)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def functions(source: SourceFile, name: str, line: int) -> list[Function]:
    """The function of a name at a line, or the methods of the class there."""
    for dotted, node in source.definitions:
        if node.name == name and source.first_line(node) <= line <= (node.end_lineno or line) and "." not in dotted:
            if isinstance(node, FUNCTIONS):
                return [node]
            return [method for method in node.body if isinstance(method, FUNCTIONS)]
    return []
