"""The imports of a config's file, and what a replacement's new text needs of them."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from patchgen_core.authoring.line_edits import LineEdit
from patchgen_core.codegen.imports import absolute_imports
from patchgen_core.syntax.index import ImportStatement
from patchgen_core.syntax.nodes import FUNCTIONS
from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.syntax.scopes import Reference, Scope, Scopes
from patchgen_core.syntax.source import SourceFile
from patchgen_core.upstream.module import UpstreamModule

_BUILTINS = frozenset(dir(builtins))
_SHORT, _LONG = 79, 120
"""Between these lies how long lines may be; how long, the file's own lines tell."""
_GUARDS = ("TYPE_CHECKING", "typing.TYPE_CHECKING")


# --- what a text needs -----------------------------------------------------------------------------


def missing_imports(text: str, file: SourceFile, new: SourceFile, upstream: UpstreamModule) -> tuple[str, ...]:
    """The imports that a file lacks for a definition that is to stand in it.

    Names that upstream's module imports or defines and the file does not bind. A name that the file uses already
    without binding it is one that only the generated module has, and stays so, unless Python asks for it where the
    definition stands: in decorators, defaults, base classes and class bodies.

    Args:
        text: the definition.
        file: the file.
        new: upstream's module.
        upstream: its name.

    Returns:
        Statements, one for each name, in the order of the names.
    """
    early, late = needed_names(text)
    left = _global_names(find_scopes(file.tree))
    needed = (early | (late - left)) - file.index.names - _BUILTINS
    found = (_import_of(name, new, upstream) for name in sorted(needed))
    return tuple(dict.fromkeys(filter(None, found)))


def needed_names(text: str) -> tuple[set[str], set[str]]:
    """The global names of a definition: those that Python asks for where it stands, and the others.

    None for a text that is not valid Python, as one with conflicts may be.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return set(), set()
    annotations = {id(node) for node in _annotations(tree)}
    early: set[str] = set()
    late: set[str] = set()
    bound = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, *FUNCTIONS))}
    for reference in find_scopes(tree).references:
        is_early = id(reference.node) not in annotations and not _is_inside_function(reference.scope)
        (early if is_early else late).update(_names(reference))
    return early - bound, late - early - bound


def _global_names(scopes: Scopes) -> set[str]:
    return {name for reference in scopes.references for name in _names(reference)}


def _names(reference: Reference) -> Iterator[str]:
    """The global names that a reference asks for; several in the string of an annotation."""
    node = reference.node
    if isinstance(node, ast.Name):
        names = [node.id]
    else:
        try:
            inner = ast.parse(str(node.value), mode="eval")
        except (SyntaxError, ValueError):
            return
        names = [found.id for found in ast.walk(inner) if isinstance(found, ast.Name)]
    yield from (name for name in names if reference.scope.find(name) is None)


def _annotations(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(annotation, ast.AST):
                yield from ast.walk(annotation)


def _is_inside_function(scope: Scope | None) -> bool:
    while scope is not None:
        if scope.kind == "function":
            return True
        scope = scope.parent
    return False


def _import_of(name: str, new: SourceFile, upstream: UpstreamModule) -> str:
    """The statement that imports a name as upstream's module has it; empty when it has none of that name."""
    if name in new.index.definitions or name in new.index.assigned:
        return f"from {upstream.module} import {name}"
    for statement, alias in new.index.imports.get(name, ()):
        single = type(statement)(**{**dict(ast.iter_fields(statement)), "names": [alias]})
        return absolute_imports(ast.unparse(single), upstream.package, new.path, statement.lineno)
    return ""


# --- adding imports --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Wanted:
    """A name to import: from a module, or the module itself."""

    statement: str
    module: str
    name: str
    alias: str | None
    is_from: bool

    @property
    def entry(self) -> str:
        return f"{self.name} as {self.alias}" if self.alias else self.name


def additions(source: SourceFile, needs: Iterable[str], early: Iterable[str] = ()) -> list[LineEdit]:
    """The edits that add imports to a file, each where it fits best.

    A name joins the statement that imports from its module already, in the layout and order that this has. Another
    statement stands beside those of its package, or else below the last import. Upstream's models are imported under
    ``if TYPE_CHECKING:`` where the file imports them only there.

    Args:
        source: the file.
        needs: the statements.
        early: names that Python asks for where the file is imported.
    """
    wanted = [_wanted(statement) for statement in dict.fromkeys(needs)]
    early = set(early)
    edits: list[LineEdit] = []
    fresh: dict[tuple[int, str], list[_Wanted]] = {}
    joined: dict[int, tuple[ast.ImportFrom, list[_Wanted]]] = {}
    for want in wanted:
        block = _block(source, want, early)
        known = _joinable(source, block, want)
        if known is not None:
            joined.setdefault(known.lineno, (known, []))[1].append(want)
        else:
            key = want.module if want.is_from else want.statement
            fresh.setdefault((_block_key(source, block), key), []).append(want)
    for statement, wants in joined.values():
        edits += _join(source, statement, [want.entry for want in wants])
    for (_, _), wants in sorted(fresh.items()):
        edits.append(_fresh(source, _block(source, wants[0], early), wants))
    return edits


def _wanted(statement: str) -> _Wanted:
    node = ast.parse(statement).body[0]
    assert isinstance(node, (ast.Import, ast.ImportFrom))
    alias = node.names[0]
    if isinstance(node, ast.ImportFrom):
        return _Wanted(statement, node.module or "", alias.name, alias.asname, True)
    return _Wanted(statement, alias.name, alias.name, alias.asname, False)


def _block(source: SourceFile, want: _Wanted, early: set[str]) -> list[ast.stmt]:
    """The statements among which an import belongs: the file's, or those of its ``if TYPE_CHECKING:``."""
    guarded = guarded_block(source)
    name = (want.alias or want.name).partition(".")[0]
    if guarded is None or name in early or not _is_model(want.module):
        return source.tree.body
    plain = [s for s in source.tree.body if isinstance(s, ast.ImportFrom) and _is_model(s.module or "")]
    typed = [s for s in guarded if isinstance(s, ast.ImportFrom) and _is_model(s.module or "")]
    return guarded if typed and not plain else source.tree.body


def _is_model(module: str) -> bool:
    return ".models." in module


def guarded_block(source: SourceFile) -> list[ast.stmt] | None:
    """The statements below a file's ``if TYPE_CHECKING:``; None when it has none."""
    for statement in source.tree.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) in _GUARDS:
            return statement.body
    return None


def _block_key(source: SourceFile, block: list[ast.stmt]) -> int:
    return 0 if block is source.tree.body else block[0].lineno


def _joinable(source: SourceFile, block: list[ast.stmt], want: _Wanted) -> ast.ImportFrom | None:
    """The statement that an import can join; None where there is none that takes another name."""
    if not want.is_from:
        return None
    for statement in block:
        if (
            isinstance(statement, ast.ImportFrom)
            and not statement.level
            and statement.module == want.module
            and statement.names[0].name != "*"
            and stands_alone(source, statement)
            and (_is_bracketed(source, statement) or statement.lineno == statement.end_lineno)
        ):
            return statement
    return None


def stands_alone(source: SourceFile, statement: ast.stmt) -> bool:
    """Whether no other statement shares a line with one."""
    before = source.lines[statement.lineno - 1][: statement.col_offset]
    after = source.text[source.end(statement) :].partition("\n")[0].strip()
    return not before.strip() and (not after or after.startswith("#"))


def _is_bracketed(source: SourceFile, statement: ast.stmt) -> bool:
    return source.segment(statement).endswith(")")


def _join(source: SourceFile, statement: ast.ImportFrom, entries: Sequence[str]) -> list[LineEdit]:
    """The edits that add names to a statement."""
    rows = [(alias.lineno, alias.end_lineno) for alias in statement.names]
    one_each = len({first for first, _ in rows}) == len(rows) and rows[0][0] > statement.lineno
    if one_each and (statement.end_lineno or 0) > (rows[-1][1] or 0):
        return _join_rows(source, statement, entries)
    names = [entry_of(alias) for alias in statement.names]
    for entry in entries:
        names.insert(_place(names, entry), entry)
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    after = source.text[source.end(statement) :].partition("\n")[0]
    has_comments = any("#" in line for line in source.lines[first - 1 : last - 1])
    if has_comments:  # they stay with their names
        return _join_rows(source, statement, entries)
    module = f"{source.indent(first)}from {statement.module} import "
    return [LineEdit(first, last + 1, tuple(laid_out(source, module, names, after)))]


def _join_rows(source: SourceFile, statement: ast.ImportFrom, entries: Sequence[str]) -> list[LineEdit]:
    """Names on lines of their own, between those that are there."""
    names = [entry_of(alias) for alias in statement.names]
    known = list(names)
    last = statement.names[-1]
    indent = source.indent(statement.names[0].lineno) if last.lineno > statement.lineno else "    "
    edits: list[LineEdit] = []
    for entry in entries:
        at = _place(names, entry)
        below = next((known.index(name) for name in names[at:] if name in known), len(known))
        names.insert(at, entry)
        line = statement.names[below].lineno if below < len(known) else (last.end_lineno or last.lineno) + 1
        edits.append(LineEdit(line, line, (f"{indent}{entry},",)))
    if any(edit.start > last.lineno for edit in edits):
        edits += _comma_after(source, last)
    return edits


def _comma_after(source: SourceFile, alias: ast.alias) -> list[LineEdit]:
    """A comma behind a name that has none."""
    end = source.end(alias)
    if re.match(r"\s*,", source.text[end:]):
        return []
    line = alias.end_lineno or alias.lineno
    column = end - source.line_starts[line - 1]
    text = source.lines[line - 1]
    return [LineEdit(line, line + 1, (f"{text[:column]},{text[column:]}",))]


def entry_of(alias: ast.alias) -> str:
    """A name of an import as it is written."""
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def _place(names: Sequence[str], entry: str) -> int:
    """Where a name goes among others: in their order, if they have one, else behind them."""
    orders: tuple[Callable[[str], tuple[int, str]], ...] = (_by_type, _by_letter, _by_code)
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


def _by_letter(name: str) -> tuple[int, str]:
    return 0, name.casefold()


def _by_code(name: str) -> tuple[int, str]:
    return 0, name


def laid_out(source: SourceFile, start: str, names: Sequence[str], after: str = "") -> list[str]:
    """An import on one line, if the file has lines as long, else with a line for each name."""
    line = f"{start}{', '.join(names)}{after}"
    if len(line) <= max(_SHORT, min(_LONG, *map(len, source.lines))):
        return [line]
    indent = start[: len(start) - len(start.lstrip())]
    return [f"{start}({after}", *(f"{indent}    {name}," for name in names), f"{indent})"]


def _fresh(source: SourceFile, block: list[ast.stmt], wants: Sequence[_Wanted]) -> LineEdit:
    """A statement of its own."""
    indent = source.indent(block[0].lineno) if block is not source.tree.body else ""
    if wants[0].is_from:
        names = sorted((want.entry for want in wants), key=_by_type)
        lines = laid_out(source, f"{indent}from {wants[0].module} import ", names)
    else:
        lines = [f"{indent}{wants[0].statement}"]
    imports = [s for s in block if isinstance(s, (ast.Import, ast.ImportFrom))]
    top = wants[0].module.partition(".")[0]
    beside = [s for s in imports if _first_module(s).partition(".")[0] == top]
    if beside:
        modules = [_first_module(s) for s in beside]
        if modules == sorted(modules):
            smaller = [s for s in beside if _first_module(s) <= wants[0].module]
            return _above(source, beside[0], lines) if not smaller else _below(source, smaller[-1], lines)
        return _below(source, beside[-1], lines)
    if imports:
        return _below(source, imports[-1], lines)
    head = block[:1] if isinstance(block[0], ast.Expr) and isinstance(block[0].value, ast.Constant) else []
    return _below(source, head[0], ["", *lines]) if head else _above(source, block[0], [*lines, ""])


def _first_module(statement: ImportStatement) -> str:
    if isinstance(statement, ast.ImportFrom):
        return f"{'.' * statement.level}{statement.module or ''}"
    return statement.names[0].name


def _above(source: SourceFile, statement: ast.stmt, lines: list[str]) -> LineEdit:
    line = source.first_line(statement)
    return LineEdit(line, line, tuple(lines))


def _below(source: SourceFile, statement: ast.stmt, lines: list[str]) -> LineEdit:
    line = (statement.end_lineno or statement.lineno) + 1
    return LineEdit(line, line, tuple(lines))
