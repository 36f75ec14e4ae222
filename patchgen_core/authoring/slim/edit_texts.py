"""Edits as they are written in a config, before they are laid out."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from patchgen_core.authoring.edits.literals import literal

REST = "..."
_DROP = "drop_decorators"
_BUILTINS = frozenset(dir(builtins))
_INDENT = "    "


@dataclass(frozen=True)
class Holder:
    """What edits are declared on: a config, for a target, or edits that targets share, by the name of either."""

    name: str
    target: str = ""

    def call(self, method: str, arguments: Sequence[str]) -> str:
        """A call of one of its methods."""
        targets = [literal(self.target, _INDENT)] if self.target else []
        return _call(f"{self.name}.{method}", [*targets, *arguments])

    def decorator(self, arguments: Sequence[str]) -> str:
        """What declares a function as an edit."""
        if not self.target:
            return f"@{self.name}.edit" + (f"({', '.join(arguments)})" if arguments else "")
        return f"@{self.call(edit_call(self.target), arguments)}"


def edit_call(target: str) -> str:
    """The method of a config that declares an edit of a target."""
    return "edit_method" if "." in target else "edit_function"


@dataclass(frozen=True)
class PlacedCode:
    """Code at a place of a function, all of it for an empty one; ``...`` is a line that stands for upstream's."""

    at: str
    lines: tuple[str, ...]

    def text(self, holder: Holder, name: str, options: Sequence[str], bound: Sequence[str]) -> str:
        """Its declaration, by a function ``name`` whose parameters are those of ``bound`` that the code uses."""
        at = [f"at={literal(self.at, _INDENT)}"] if self.at else []
        return f"{holder.decorator([*at, *options])}\n{self.function(name, bound)}"

    def function(self, name: str, bound: Sequence[str]) -> str:
        """The function alone."""
        head = _call(f"def {name}", _used_names(self.lines, bound))
        body = "\n".join(f"    {line}" if line.strip() else "" for line in self.lines)
        return f"{head}:\n{body}\n"

    @property
    def names(self) -> Iterator[str]:
        """What its function may be called, from what its code calls first and what that is assigned to."""
        tree = ast.parse("\n".join(self.lines) if any(map(_is_code, self.lines)) else "pass")
        nodes = sorted((n for n in ast.walk(tree) if isinstance(n, (ast.Call, ast.Assign))), key=_start)
        calls = [node.func for node in nodes if isinstance(node, ast.Call)]
        plain = [f.id for f in calls if isinstance(f, ast.Name) and f.id not in _BUILTINS]
        methods = [f.attr for f in calls if isinstance(f, ast.Attribute) and _is_own(f)]
        targets = [_assigned(node) for node in nodes if isinstance(node, ast.Assign)]
        own = [_assigned(node) for node in nodes if isinstance(node, ast.Assign) and _calls(node.value, plain)]
        for callee in [*plain, *methods][:1]:
            yield f"call_{callee}"
            yield from (f"call_{callee}_for_{name}" for name in filter(None, [*own, *targets]))
        yield from (f"change_{name}" for name in filter(None, targets))

    @property
    def size(self) -> int:
        """How many lines it takes."""
        return len(self.lines) + self.at.count("\n") + 3


@dataclass(frozen=True)
class QuotedEdit:
    """An edit whose code is in quotes: the call of the DSL, and its arguments."""

    method: str
    arguments: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """How many lines it takes."""
        return 1 + sum(text.count("\n") for text in self.arguments)

    def text(self, holder: Holder, options: Sequence[str]) -> str:
        """Its declaration."""
        named = [f"{name}={literal(value, _INDENT)}" for name, value in self.options if value]
        arguments = [literal(argument, _INDENT) for argument in self.arguments]
        return holder.call(self.method, [*arguments, *named, *options]) + "\n"


def replaced_code(old: str, new: str) -> QuotedEdit:
    """An expression, or a part of one, with what takes its place."""
    return QuotedEdit("replace_code", (old, new))


def deleted_code(code: str) -> QuotedEdit:
    """Statements that go."""
    return QuotedEdit("delete_code", (code,))


def added_parameter(parameter: str, after: str, documentation: str) -> QuotedEdit:
    """A parameter behind another one."""
    return QuotedEdit("add_parameter", (parameter,), (("after", after), ("documentation", documentation)))


def removed_parameter(parameter: str) -> QuotedEdit:
    """A parameter that goes."""
    return QuotedEdit("remove_parameter", (parameter,))


def dropped_decorator(name: str) -> QuotedEdit:
    """A decorator that goes."""
    return QuotedEdit(_DROP, (name,))


EditText = PlacedCode | QuotedEdit


def edit_blocks(
    edits: Sequence[EditText],
    holder: Holder,
    name: str,
    options: Sequence[str],
    bound: Sequence[str],
    names: Collection[str] = (),
) -> list[str]:
    """The declarations of the edits of one target, of which the first that takes them has the options.

    The first function of a config's edits is called ``name``, the others after what they call or assign, or with a
    number where those are ``names`` that their file has.
    """
    blocks, taken = list[str](), {*names} - ({name} if holder.target else set())
    first = next((e for e in edits if not isinstance(e, QuotedEdit) or e.method != _DROP), None)
    for number, edit in enumerate(edits, 1):
        given = options if edit is first else ()
        if isinstance(edit, PlacedCode):
            free = (one for one in (name, *edit.names) if one not in taken)
            own = next(free, f"{name}_{number}")
            taken.add(own)
            blocks.append(edit.text(holder, own, given, bound))
        else:
            blocks.append(edit.text(holder, given))
    return blocks


def _start(node: ast.Call | ast.Assign) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _is_own(function: ast.Attribute) -> bool:
    """Whether a method is one of the target's class or of a part of it, such as ``self.visual.dummy_forward``."""
    return re.fullmatch(r"self(\.\w+)+", ast.unparse(function)) is not None


def _assigned(node: ast.Assign) -> str:
    """The one name that a statement assigns to; empty for another one."""
    (target, *more) = node.targets
    return target.id if isinstance(target, ast.Name) and not more else ""


def _calls(node: ast.expr, names: Sequence[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names[:1]


def _call(function: str, arguments: Sequence[str]) -> str:
    return f"{function}({', '.join(arguments)})"


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
