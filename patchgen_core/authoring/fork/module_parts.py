"""What a module consists of, and in what two modules differ."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from patchgen_core.syntax.forms import PROSE, form
from patchgen_core.syntax.index import assigned_names, bound_name, index_module
from patchgen_core.syntax.nodes import COMPOUND, DEFINITIONS, Definition, statements
from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.syntax.source import SourceFile

_PACKAGE = "transformers"
_DOCUMENTATION = ("_DOCSTRING", "_FOR_DOC")
"""How constants are called that decorators of transformers put into docstrings."""

_FIELDS = ("dataclass", "TypedDict", "NamedTuple", "Output")
"""What the decorators and bases of classes are called whose attributes have an order."""

Place = tuple[str, str]
"""A module, and what is imported from it; nothing for the module itself."""


@dataclass(frozen=True)
class ModuleParts:
    """A module whose imports are absolute, as code: docstrings, annotations and comments do not matter."""

    source: SourceFile

    @cached_property
    def definitions(self) -> dict[str, list[Definition]]:
        """Classes and functions of the top level, and methods by their dotted names."""
        named: dict[str, list[Definition]] = {}
        for node in self.source.tree.body:
            if isinstance(node, DEFINITIONS):
                named.setdefault(node.name, []).append(node)
                for inner in node.body if isinstance(node, ast.ClassDef) else ():
                    if isinstance(inner, DEFINITIONS):
                        named.setdefault(f"{node.name}.{inner.name}", []).append(inner)
        return named

    @cached_property
    def forms(self) -> dict[str, str]:
        """What each definition says, a class without its methods."""
        return {name: "".join(_form(node) for node in nodes) for name, nodes in self.definitions.items()}

    @cached_property
    def statements(self) -> dict[str, ast.stmt]:
        """The other statements of the top level by what they say; neither plain imports nor the docstring."""
        body = self.source.tree.body
        others = (s for s in body if not isinstance(s, (*DEFINITIONS, ast.Import, ast.ImportFrom)))
        return {_statement_form(s): s for s in others if not _is_prose(s)}

    @cached_property
    def imports(self) -> dict[str, Place]:
        """What plain imports of the top level bind."""
        return dict(_imported(self.source.tree.body))

    @cached_property
    def guarded(self) -> dict[str, Place]:
        """What other imports of the top level bind."""
        return dict(_imported([s for s in statements(self.source.tree.body) if s not in self.source.tree.body]))

    @cached_property
    def used(self) -> frozenset[str]:
        """The global names that its code refers to."""
        hints = {id(inner) for node in ast.walk(self.source.tree) for hint in _hints(node) for inner in ast.walk(hint)}
        return frozenset(name for name, node in self._references if id(node) not in hints)

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """The global names that its code and its annotations refer to."""
        return frozenset(name for name, _ in self._references)

    @cached_property
    def _references(self) -> list[tuple[str, ast.AST]]:
        references = find_scopes(self.source.tree).references
        return [(name, r.node) for r in references for name in r.names if r.is_global(name)]


def _hints(node: ast.AST) -> list[ast.expr]:
    """The annotations of a parameter, a function or a variable."""
    return [hint for name in ("annotation", "returns") if (hint := getattr(node, name, None)) is not None]


def _form(node: Definition) -> str:
    if not isinstance(node, ast.ClassDef):
        return form(node, ignore=PROSE)
    rest = [s for s in node.body if not isinstance(s, (*DEFINITIONS, ast.Pass)) and not _is_prose(s)]
    has_fields = any(word in ast.unparse(part) for part in (*node.decorator_list, *node.bases) for word in _FIELDS)
    if not has_fields and _is_in_any_order(rest):
        rest.sort(key=lambda statement: form(statement))
    return form(ast.ClassDef(**{**dict(ast.iter_fields(node)), "body": rest}), ignore=PROSE)


def _is_in_any_order(body: list[ast.stmt]) -> bool:
    """Whether the statements of a class are assignments that do not need one another; fields have an order."""
    names = [name for statement in body for name in assigned_names(statement)]
    are_assignments = all(isinstance(statement, (ast.Assign, ast.AnnAssign)) for statement in body)
    values = (getattr(statement, "value", None) for statement in body)
    used = {n.id for value in values if value is not None for n in ast.walk(value) if isinstance(n, ast.Name)}
    return are_assignments and len(set(names)) == len(names) and not used & set(names)


def _statement_form(statement: ast.stmt) -> str:
    """What a statement says; of a constant that holds a docstring, only its name."""
    names = assigned_names(statement)
    if len(names) == 1 and names[0].endswith(_DOCUMENTATION) and isinstance(statement, ast.Assign):
        return f"documentation {names[0]}"
    if names == ["__all__"] and isinstance(statement, ast.Assign):
        return f"__all__ {sorted(listed_names(statement))}"
    return form(statement, ignore=PROSE)


def listed_names(statement: ast.stmt) -> set[str]:
    """The names that ``__all__`` lists."""
    return {str(node.value) for node in ast.walk(statement) if isinstance(node, ast.Constant)}


def _is_prose(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _imported(body: list[ast.stmt]) -> Iterator[tuple[str, Place]]:
    for statement in body:
        if isinstance(statement, ast.ImportFrom):
            yield from ((bound_name(statement, a), (statement.module or "", a.name)) for a in statement.names)
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                module = alias.name if alias.asname else alias.name.split(".")[0]
                yield bound_name(statement, alias), (module, "")


def is_same_place(one: Place | None, other: Place | None) -> bool:
    """Whether two imports bind the same; what a module of transformers defines, the package itself has as well."""
    if one is None or other is None:
        return one is other
    one, other = _attribute(one), _attribute(other)
    if one == other:
        return True
    modules = (one[0], other[0])
    return one[1] == other[1] != "" and _PACKAGE in modules and all(m.split(".")[0] == _PACKAGE for m in modules)


def _attribute(place: Place) -> Place:
    """``import a.b as c`` as ``from a import b as c``."""
    module, attribute = place
    head, _, last = module.rpartition(".")
    return (head, last) if not attribute and head else place


def is_import_guard(statement: ast.stmt) -> bool:
    """Whether a statement does nothing but import where it can, with a constant where it cannot."""
    if not isinstance(statement, COMPOUND):
        return False
    inner = [s for s in statements([statement]) if not isinstance(s, (*COMPOUND, ast.Pass))]
    return all(isinstance(s, (ast.Import, ast.ImportFrom)) or _is_fallback(s) for s in inner)


def _is_fallback(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)


def bound_by(statement: ast.stmt) -> set[str]:
    """The names of the top level that a statement binds."""
    index = index_module(ast.Module([statement], []))
    return {*index.names, *(n for s in statements([statement]) for n in assigned_names(s))}


@dataclass(frozen=True)
class Mismatch:
    """Something in which two modules differ; ``name`` is a definition's, or empty for a statement or an import."""

    name: str
    message: str
    line: int = 1


def find_mismatches(fork: ModuleParts, made: ModuleParts) -> list[Mismatch]:
    """In what a generated module is not a fork: definitions, statements, and what imports bind that its code uses.

    Docstrings, annotations of functions, comments, layout, the order of definitions and the spelling of imports do not
    count, nor imports that nothing in the fork uses.
    """
    return [*_of_definitions(fork, made), *_of_statements(fork, made), *_of_imports(fork, made)]


def _of_definitions(fork: ModuleParts, made: ModuleParts) -> Iterator[Mismatch]:
    for name, nodes in fork.definitions.items():
        if name not in made.forms:
            yield Mismatch(name, f"{name} is missing", nodes[0].lineno)
        elif made.forms[name] != fork.forms[name]:
            yield Mismatch(name, f"{name} differs", nodes[0].lineno)
    for name in made.definitions:
        if name not in fork.definitions:
            yield Mismatch(name, f"{name} is upstream's, and the fork lacks it")


def _of_statements(fork: ModuleParts, made: ModuleParts) -> Iterator[Mismatch]:
    for key, statement in fork.statements.items():
        if key not in made.statements and not is_import_guard(statement):
            yield Mismatch("", f"'{_first_line(statement)}' is missing", statement.lineno)
    for key, statement in made.statements.items():
        if key not in fork.statements and not is_import_guard(statement):
            yield Mismatch("", f"'{_first_line(statement)}' is upstream's, and the fork lacks it")


def _of_imports(fork: ModuleParts, made: ModuleParts) -> Iterator[Mismatch]:
    for name in sorted(fork.used):
        place = fork.imports.get(name) or fork.guarded.get(name)
        if place is not None and not is_same_place(place, made.imports.get(name) or made.guarded.get(name)):
            yield Mismatch("", f"'{name}' is not imported from '{place[0]}'")


def _first_line(statement: ast.stmt) -> str:
    return ast.unparse(statement).split("\n")[0][:100]
