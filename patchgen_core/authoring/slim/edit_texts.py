"""Edits as they are written in a config, before they are laid out."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass

REST = "..."


@dataclass(frozen=True)
class PlacedCode:
    """Code at a place of a function, all of it for an empty one; ``...`` is a line that stands for upstream's."""

    at: str
    lines: tuple[str, ...]

    def text(self, config: str, target: str, name: str, options: Sequence[str], bound: Sequence[str]) -> str:
        """Its declaration, by a function ``name`` whose parameters are those of ``bound`` that the code uses."""
        kind = "method" if "." in target else "function"
        at = [f"at={_quoted(self.at)}"] if self.at else []
        call = _call(f"@{config}.edit_{kind}", [_quoted(target), *at, *options])
        head = _call(f"def {name}", _used_names(self.lines, bound))
        body = "\n".join(f"    {line}" if line.strip() else "" for line in self.lines)
        return f"{call}\n{head}:\n{body}\n"


@dataclass(frozen=True)
class ReplacedCode:
    """An expression, or a part of one, with what takes its place."""

    old: str
    new: str

    def text(self, config: str, target: str, options: Sequence[str]) -> str:
        """Its declaration."""
        return (
            _call(f"{config}.replace_code", [_quoted(target), _quoted(self.old), _quoted(self.new), *options]) + "\n"
        )


@dataclass(frozen=True)
class DeletedCode:
    """Statements that go."""

    code: str

    def text(self, config: str, target: str, options: Sequence[str]) -> str:
        """Its declaration."""
        return _call(f"{config}.delete_code", [_quoted(target), _quoted(self.code), *options]) + "\n"


@dataclass(frozen=True)
class AddedParameter:
    """A parameter behind another one."""

    parameter: str
    after: str

    def text(self, config: str, target: str, options: Sequence[str]) -> str:
        """Its declaration."""
        after = f"after={_quoted(self.after)}"
        return _call(f"{config}.add_parameter", [_quoted(target), _quoted(self.parameter), after, *options]) + "\n"


EditText = PlacedCode | ReplacedCode | DeletedCode | AddedParameter


def edit_blocks(
    edits: Sequence[EditText], config: str, target: str, name: str, options: Sequence[str], bound: Sequence[str]
) -> list[str]:
    """The declarations of the edits of one target, of which the first has the options; their functions are called
    ``name`` and, from the second on, ``name_2`` and so on."""
    blocks = []
    for number, edit in enumerate(edits):
        given = options if not number else ()
        if isinstance(edit, PlacedCode):
            own = (
                name if not any(isinstance(other, PlacedCode) for other in edits[:number]) else f"{name}_{number + 1}"
            )
            blocks.append(edit.text(config, target, own, given, bound))
        else:
            blocks.append(edit.text(config, target, given))
    return blocks


def _call(function: str, arguments: Sequence[str]) -> str:
    return f"{function}({', '.join(arguments)})"


def _quoted(text: str) -> str:
    """A text as a literal in double quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if "\n" not in text:
        return f'"{escaped}"'
    indented = "\n".join(f"    {line}" if line else "" for line in escaped.split("\n"))
    return f'"""\n{indented}\n    """'


def _used_names(lines: Sequence[str], bound: Collection[str]) -> list[str]:
    """The names of ``bound`` that code reads before it binds them, in the order that they have there."""
    tree = ast.parse("\n".join(lines) if any(_is_code(line) for line in lines) else "pass")
    own: set[str] = set()
    read: set[str] = set()
    for statement in tree.body:
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        inner = {n.id for c in ast.walk(statement) if isinstance(c, ast.comprehension) for n in _names(c.target)}
        read |= {node.id for node in names if isinstance(node.ctx, ast.Load)} - own - inner
        own |= {node.id for node in names if isinstance(node.ctx, ast.Store)} if _binds_always(statement) else set()
    return [name for name in bound if name in read]


def _names(node: ast.AST) -> list[ast.Name]:
    return [inner for inner in ast.walk(node) if isinstance(inner, ast.Name)]


def _binds_always(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign))


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.strip().startswith("#")
