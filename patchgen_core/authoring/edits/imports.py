"""Imports that a config's file gets, each where it fits best.

libcst's own ``AddImportsVisitor`` puts a name first in its statement, whatever the order there, and a new statement at
the top of the file; here both follow what the file has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import libcst as cst
import libcst.matchers as m

from patchgen_core.authoring.edits.import_layout import (
    Import,
    code_of,
    entry_of,
    import_of,
    module_of,
    names_of,
    width_of,
    with_names,
)

_GUARD = m.If(test=m.Name("TYPE_CHECKING") | m.Attribute(m.Name("typing"), m.Name("TYPE_CHECKING")))


def add_imports(module: cst.Module, statements: Iterable[str], early: Collection[str] = ()) -> cst.Module:
    """A file with further imports.

    A name joins the statement that imports from its module already, in the layout and order that this has. Another
    statement stands beside those of its package, one of the standard library among those of that, and any other below
    the last import. Upstream's models are imported under ``if TYPE_CHECKING:`` where the file imports them only there
    and does not need them while it is imported (``early``). Each statement imports one name.
    """
    width = width_of(module)
    lines = [cst.ensure_type(cst.parse_statement(statement), cst.SimpleStatementLine) for statement in statements]
    for line in sorted(lines, key=_module_on):
        statement = _import_on(line)
        guard, bound = guard_of(module), entry_of(names_of(statement)[0]).rpartition(" as ")[2]
        models = ".models." in module_of(statement) and bound not in early
        if guard is not None and models and _has_models(guard.body) and not _has_models(module):
            block = cst.ensure_type(guard.body, cst.IndentedBlock)
            indent = module.default_indent if block.indent is None else block.indent
            new = guard.with_changes(body=block.with_changes(body=with_import(block.body, line, indent, width)))
            module = module.with_changes(body=[new if s is guard else s for s in module.body])
        else:
            module = module.with_changes(body=with_import(module.body, line, "", width))
    return module


def _import_on(line: cst.SimpleStatementLine) -> Import:
    statement = import_of(line)
    assert statement is not None
    return statement


def _module_on(line: cst.SimpleStatementLine) -> str:
    statement = _import_on(line)
    return module_of(statement) if isinstance(statement, cst.ImportFrom) else code_of(statement)


def is_guard(statement: cst.CSTNode) -> bool:
    """Whether a statement begins with ``if TYPE_CHECKING:``."""
    return m.matches(statement, _GUARD)


def guard_of(module: cst.Module) -> cst.If | None:
    """A file's ``if TYPE_CHECKING:`` block; None when it has none."""
    guards = (s for s in module.body if isinstance(s, cst.If) and is_guard(s))
    return next((guard for guard in guards if isinstance(guard.body, cst.IndentedBlock)), None)


def _has_models(block: cst.BaseSuite | cst.Module) -> bool:
    """Whether a block imports from upstream's models."""
    return any(isinstance(s, cst.ImportFrom) and ".models." in module_of(s) for _, s in _imports(block.body))


def _imports(body: Sequence[cst.CSTNode]) -> list[tuple[int, Import]]:
    """The imports of a block, with the numbers of their lines in it."""
    return [
        (number, statement)
        for number, line in enumerate(body)
        for statement in (line.body if isinstance(line, cst.SimpleStatementLine) else ())
        if isinstance(statement, (cst.Import, cst.ImportFrom))
    ]


def with_import(
    body: Sequence[cst.BaseStatement], line: cst.SimpleStatementLine, indent: str, width: int
) -> list[cst.BaseStatement]:
    """The statements of a block with an import among them."""
    new_import = _import_on(line)
    for number, other in enumerate(body):
        statement = import_of(other)
        if isinstance(statement, cst.ImportFrom) and _can_join(statement, new_import):
            names = names_of(statement)
            name = names_of(new_import)[0]
            at = _place([entry_of(each) for each in names], entry_of(name))
            assert isinstance(other, cst.SimpleStatementLine)
            joined = with_names(other, [*names[:at], name, *names[at:]], indent, width)
            return [*body[:number], joined, *body[number + 1 :]]
    new_line = with_names(line, names_of(new_import), indent, width)
    if _is_standard(new_import) and _imports(body):
        return _with_standard(body, new_line)
    return _with_line(body, new_line, module_of(new_import))


def _can_join(statement: cst.ImportFrom, new_import: Import) -> bool:
    """Whether a statement imports from the module of an import and takes another name."""
    is_same = isinstance(new_import, cst.ImportFrom) and module_of(statement) == module_of(new_import)
    return is_same and bool(names_of(statement)) and (statement.lpar is not None or "\\" not in code_of(statement))


def _place(names: Sequence[str], entry: str) -> int:
    """Where a name goes among others: in their order, if they have one, else behind them."""
    orders: tuple[Callable[[str], Any], ...] = (_by_type, str.casefold, str)
    for order in orders:
        keys = [order(name) for name in names]
        if keys == sorted(keys):
            return sum(other < order(entry) for other in keys)
    return len(names)


def _by_type(name: str) -> tuple[int, str]:
    """The order of import sorters: constants, classes, then what is written in small letters."""
    plain = name.partition(" ")[0]
    kind = 0 if plain.isupper() and len(plain) > 1 else 1 if plain[:1].isupper() else 2
    return kind, name.casefold()


def _is_standard(statement: Import) -> bool:
    """Whether a statement imports from the standard library."""
    return module_of(statement).partition(".")[0] in sys.stdlib_module_names - {"__future__"}


def _with_standard(body: Sequence[cst.BaseStatement], line: cst.SimpleStatementLine) -> list[cst.BaseStatement]:
    """The statements of a block with imports and a new one of the standard library: in the order of those that are
    there, if they have one, else behind them; above all other imports where there are none."""
    imports = [(number, s) for number, s in _imports(body) if module_of(s) != "__future__"]
    standard = [(number, _by_kind(s)) for number, s in imports if _is_standard(s)]
    if not standard:
        first = imports[0][0] if imports else _imports(body)[-1][0] + 1
        between = cst.EmptyLine(indent=False)
        return with_line_above(body, first, line, between) if first < len(body) else [*body, line]
    keys, key = [other for _, other in standard], _by_kind(_import_on(line))
    at = sum(other < key for other in keys) if keys == sorted(keys) else len(keys)
    if at == 0:
        return with_line_above(body, standard[0][0], line)
    number = standard[at - 1][0] + 1
    return [*body[:number], line, *body[number:]]


def _by_kind(statement: Import) -> tuple[bool, str]:
    """The order of import sorters: whole modules first."""
    return isinstance(statement, cst.ImportFrom), module_of(statement)


def _with_line(
    body: Sequence[cst.BaseStatement], line: cst.SimpleStatementLine, module: str
) -> list[cst.BaseStatement]:
    """The statements of a block with a new one that imports a module or from it."""
    imports = [(number, module_of(statement)) for number, statement in _imports(body)]
    beside = [(number, other) for number, other in imports if other.partition(".")[0] == module.partition(".")[0]]
    modules = [other for _, other in beside]
    if beside and modules == sorted(modules):
        if modules[0] > module:
            return with_line_above(body, beside[0][0], line)
        beside = [(number, other) for number, other in beside if other <= module]
    if imports:
        at = (beside or imports)[-1][0] + 1
        return [*body[:at], line, *body[at:]]
    if not body:
        return [line]
    if m.matches(body[0], m.SimpleStatementLine([m.Expr(m.SimpleString())])):
        return [body[0], line.with_changes(leading_lines=[cst.EmptyLine(indent=False)]), *body[1:]]
    return with_line_above(body, 0, line, cst.EmptyLine(indent=False))


def with_line_above(
    body: Sequence[cst.BaseStatement], at: int, line: cst.SimpleStatementLine, *between: cst.EmptyLine
) -> list[cst.BaseStatement]:
    """Statements with one more above another; comments stay above both, and what is given stands between."""
    line = line.with_changes(leading_lines=getattr(body[at], "leading_lines", ()))
    return [*body[:at], line, body[at].with_changes(leading_lines=between), *body[at + 1 :]]
