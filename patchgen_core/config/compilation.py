"""From the syntax tree of a config to the code that is executed."""

from __future__ import annotations
import __future__

import ast
import copy
import sys
import types
from collections.abc import Mapping, Sequence
from typing import TypeGuard
from weakref import WeakKeyDictionary

from patchgen_core.config.input_recording import OWN
from patchgen_core.config.replacement import PATCH_DECORATORS
from patchgen_core.project.project import Project
from patchgen_core.syntax.index import ImportStatement
from patchgen_core.syntax.source import SourceFile, invalid_python

_CODES: WeakKeyDictionary[SourceFile, types.CodeType] = WeakKeyDictionary()


def compiled(source: SourceFile) -> types.CodeType:
    """A config's code, made once for all configs that import from it.

    Patches declared under ``if TYPE_CHECKING:`` count, so such a block runs. Annotations stay unevaluated:
    nothing needs their values, and a replacement's may use names that only upstream's module has.
    """
    if source not in _CODES:
        _CODES[source] = _compile(_with_type_checking(source.tree), source)
    return _CODES[source]


def compiled_for_real(source: SourceFile, project: Project) -> types.CodeType:
    """A config's code where third-party modules are imported for real.

    What decorates a replacement is copied with it, and third-party decorators do nothing here, as those of stubbed
    modules do: many, such as ``auto_docstring`` of transformers, take a method where it stands and no loose function.
    """
    tree = copy.deepcopy(_with_type_checking(source.tree))
    return _compile(_Bare(source.index.imports, project).visit(tree), source)


def _compile(tree: ast.Module, source: SourceFile) -> types.CodeType:
    flags = __future__.annotations.compiler_flag
    try:
        code: types.CodeType = compile(tree, str(source.path), "exec", flags, dont_inherit=True)
    except SyntaxError as error:  # what the grammar allows, such as a keyword that is passed twice
        raise invalid_python(source.path, source.text, error) from None
    return code


def hidden_patches(source: SourceFile) -> list[tuple[str, str]]:
    """The patches that a config declares under ``if TYPE_CHECKING:``, which is false where it is really imported.

    Each as the name that it is declared on and its target.
    """
    blocks = [statement.body for statement in source.tree.body if _is_type_checking(statement)]
    calls = (node for body in blocks for part in body for node in ast.walk(part) if isinstance(node, ast.Call))
    return [
        (_root(call), str(target.value))
        for call in calls
        for target in call.args[:1]
        if isinstance(target, ast.Constant)
        and _declares(call)
        and not ast.unparse(call.func).endswith("add_helper_after")
    ]


def _is_type_checking(statement: ast.stmt) -> TypeGuard[ast.If]:
    """Whether a statement is ``if TYPE_CHECKING:`` and holds more than imports."""
    return (
        isinstance(statement, ast.If)
        and ast.unparse(statement.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        and not all(isinstance(s, (ast.Import, ast.ImportFrom, ast.Pass)) for s in statement.body)
    )


def _with_type_checking(tree: ast.Module) -> ast.Module:
    """The tree with ``if TYPE_CHECKING:`` made true where the block holds more than imports."""
    body: list[ast.stmt] = []
    for statement in tree.body:
        if _is_type_checking(statement):
            test = ast.copy_location(ast.Constant(True), statement.test)
            statement = ast.copy_location(ast.If(test, statement.body, statement.orelse), statement)
        body.append(statement)
    return ast.Module(body, tree.type_ignores)


class _Bare(ast.NodeTransformer):
    """Has third-party decorators of replacements return what they decorate; on a tree of its own."""

    def __init__(self, imports: Mapping[str, Sequence[tuple[ImportStatement, ast.alias]]], project: Project) -> None:
        self.imports, self.project = imports, project

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A function, an async function or a class."""
        if any(_declares(decorator) for decorator in node.decorator_list):
            node.decorator_list = [self._bare(decorator) for decorator in node.decorator_list]
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef  # type: ignore[assignment]

    def _bare(self, decorator: ast.expr) -> ast.expr:
        if _declares(decorator) or not self._is_third_party(_root(decorator)):
            return decorator
        nothing = ast.parse("lambda decorated: decorated", mode="eval").body
        for node in ast.walk(nothing):
            ast.copy_location(node, decorator)
        return nothing

    def _is_third_party(self, name: str) -> bool:
        return any(self._is_elsewhere(statement, alias) for statement, alias in self.imports.get(name, ()))

    def _is_elsewhere(self, statement: ImportStatement, alias: ast.alias) -> bool:
        if isinstance(statement, ast.ImportFrom) and statement.level:
            return False
        module = (statement.module or "") if isinstance(statement, ast.ImportFrom) else alias.name
        top = module.partition(".")[0]
        return top not in (*sys.stdlib_module_names, *OWN, self.project.package_prefix.partition(".")[0])


def _declares(decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(function, ast.Attribute) and function.attr in PATCH_DECORATORS


def _root(decorator: ast.expr) -> str:
    """The name that a decorator starts with; empty for what starts with none."""
    while isinstance(decorator, (ast.Attribute, ast.Call)):
        decorator = decorator.func if isinstance(decorator, ast.Call) else decorator.value
    return decorator.id if isinstance(decorator, ast.Name) else ""
