"""What a piece of syntax says, apart from how it is written."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS, Definition, docstring_of, without_docstring
from patchgen_core.syntax.source import SourceFile, shift

_UNSAID = frozenset(["ctx", "type_comment", "kind", "type_ignores", "lineno", "type_params"])


Ignored = Literal["docstrings", "annotations", "decorators"]
PROSE: frozenset[Ignored] = frozenset(["docstrings", "annotations"])
"""What changes nothing that code does; the annotations of a class body make fields and are never ignored."""


def is_same_syntax(ours: Any, theirs: Any) -> bool:
    """Whether two nodes, or two lists of them, are the same to the parser, wherever they stand."""
    if isinstance(ours, list):
        is_list = isinstance(theirs, list) and len(ours) == len(theirs)
        return is_list and all(map(is_same_syntax, ours, theirs))
    if isinstance(ours, ast.AST):
        names = ours._fields if type(ours) is type(theirs) else None
        return names is not None and all(
            is_same_syntax(getattr(ours, name, None), getattr(theirs, name, None)) for name in names
        )
    return type(ours) is type(theirs) and bool(ours == theirs)


def is_same_code(
    ours: ast.AST, theirs: ast.AST, packages: tuple[str, str] = ("", ""), ignore: Collection[Ignored] = ()
) -> bool:
    """Whether two nodes have the same form; ``packages`` are where the relative imports of each start from.

    ``ignore`` is what may differ beside layout, comments and the spelling of imports.
    """
    return form(ours, packages[0], ignore) == form(theirs, packages[1], ignore)


def form(node: ast.AST, package: str = "", ignore: Collection[Ignored] = ()) -> str:
    """What a node says: equal for two nodes that differ in layout, comments and the spelling of imports only.

    ``ignore`` is what else does not count; decorators are those of the node itself.
    """
    if "decorators" in ignore and isinstance(node, DEFINITIONS):
        node = type(node)(**{**dict(ast.iter_fields(node)), "decorator_list": []})
    return _Form(package, ignore).of(node)


def body_form(node: Definition, package: str = "") -> str:
    """What the body of a definition does: no docstring, no annotations."""
    return _Form(package, PROSE).of_body(node)


class _Form:
    def __init__(self, package: str, ignore: Collection[Ignored]) -> None:
        self.package = package
        self.docstrings, self.annotations = "docstrings" not in ignore, "annotations" not in ignore
        self.parts: list[str] = []

    def of(self, node: ast.AST) -> str:
        self._node(node, False)
        return "".join(self.parts)

    def of_body(self, node: Definition) -> str:
        self._value(self._body(node), isinstance(node, FUNCTIONS))
        return "".join(self.parts)

    def _node(self, node: ast.AST, in_function: bool) -> None:
        write = self.parts.append
        if isinstance(node, ast.Name):
            write(node.id)
            write(" ")
            return
        if isinstance(node, ast.Constant):
            write(f"{type(node.value).__name__}:{node.value!r} ")
            return
        if isinstance(node, ast.ImportFrom):
            self._import(node)
            return
        if isinstance(node, ast.AnnAssign) and in_function and not self.annotations:
            self._annotated(node)
            return
        write(f"{type(node).__name__}(")
        inner = isinstance(node, (*FUNCTIONS, ast.Lambda)) or (in_function and not isinstance(node, ast.ClassDef))
        for name in node._fields:
            if name in _UNSAID and not (name == "type_params" and getattr(node, name, None)):
                continue
            value = getattr(node, name, None)
            if value is None or (name in ("annotation", "returns") and self._is_unsaid(node)):
                continue
            if name == "body" and isinstance(node, DEFINITIONS):
                value = self._body(node)
            write(f"{name}=")
            self._value(value, inner)
        write(")")

    def _is_unsaid(self, node: ast.AST) -> bool:
        return not self.annotations and isinstance(node, (ast.arg, *FUNCTIONS))

    def _value(self, value: object, in_function: bool) -> None:
        if isinstance(value, list):
            self.parts.append("[")
            for entry in value:
                self._value(entry, in_function)
            self.parts.append("]")
        elif isinstance(value, ast.AST):
            self._node(value, in_function)
        else:
            self.parts.append(f"{value!r} ")

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.parts.append("Assign(targets=[")
            self._node(node.target, True)
            self.parts.append("]value=")
            self._node(node.value, True)
            self.parts.append(")")

    def _body(self, node: Definition) -> list[ast.AST]:
        docstring, rest = docstring_of(node), without_docstring(node)
        if docstring is None or not self.docstrings:
            return [*rest]
        return [ast.Constant(ast.get_docstring(node)), *rest]

    def _import(self, node: ast.ImportFrom) -> None:
        names = " ".join(f"{alias.name}:{alias.asname or ''}" for alias in node.names)
        self.parts.append(f"from {resolved(node, self.package)} import {names};")


def resolved(node: ast.ImportFrom, package: str) -> str:
    """The absolute name of the module that a statement imports from."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    base = parts[: len(parts) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def text_of(source: SourceFile, node: Definition) -> str:
    """The text of a definition at column 0, its decorators included."""
    first, last = source.first_line(node), source.last_line(node)
    keep = {line - first for line in range(first, last + 1) if line in source.string_lines}
    return "\n".join(shift(source.lines[first - 1 : last], source.indent(node.lineno), "", keep)) + "\n"


def expression_text(node: ast.AST, limit: int = 70) -> str:
    """An expression as a sentence quotes it."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def contrasted(old: str, new: str, limit: int = 70) -> tuple[str, str]:
    """Two texts as a sentence quotes them: of long ones, the part where they differ."""
    if max(len(old), len(new)) <= limit:
        return old, new
    same = next((n for n, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
    start = max(0, same - limit // 3)

    def part(text: str) -> str:
        end = "..." if len(text) > start + limit else ""
        return f"{'...' if start else ''}{text[start : start + limit]}{end}"

    return part(old), part(new)


def quoted(names: Iterable[str], word: str = "and") -> str:
    """Names as a sentence lists them: ``'a', 'b' and 'c'``."""
    return listed([f"'{name}'" for name in names], word)


def listed(parts: Sequence[str], word: str = "and") -> str:
    """Parts of a sentence: ``a, b and c``."""
    return f" {word} ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
