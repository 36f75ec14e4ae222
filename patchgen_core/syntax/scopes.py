"""Which scope each name of a syntax tree belongs to, by the interpreter's rules."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from patchgen_core.syntax.nodes import Function

Kind = Literal["module", "function", "class", "comprehension", "annotation"]
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, eq=False)
class Scope:
    """A part of a program that has names of its own.

    Attributes:
        node: what makes it: a definition, a lambda, a comprehension, or the type parameters of a definition.
        kind: ``annotation`` is the scope of type parameters and of a ``type`` statement.
        parent: the scope around it; None for the module's.
        bound: the names that are bound in it.
        outer_names: names that it declares with ``nonlocal``.
        global_names: names that it declares with ``global``.
    """

    node: ast.AST
    kind: Kind
    parent: Scope | None = None
    bound: set[str] = field(default_factory=set)
    outer_names: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)

    def owner(self, name: str) -> Scope | None:
        """The function, class or comprehension whose name this is, when it is used here; None for a global name."""
        scope, sees_class = self, True
        while scope.parent is not None:
            if scope.kind != "class" or sees_class:
                if name in scope.global_names:
                    return None
                if name in scope.bound and name not in scope.outer_names:
                    return scope
            sees_class = sees_class and scope.kind == "annotation"
            scope = scope.parent
        return None


@dataclass(frozen=True)
class Reference:
    """A name that is read, or a string in an annotation, and the scope that it is evaluated in."""

    node: ast.Name | ast.Constant
    scope: Scope


@dataclass(frozen=True)
class Scopes:
    """What a syntax tree refers to and what it binds, in the order of evaluation.

    Attributes:
        references: the names that are read, and the strings of annotations, without those in ``Literal[...]``.
        bindings: each binding of a name, with the scope that it is written in.
    """

    references: list[Reference] = field(default_factory=list)
    bindings: list[tuple[str, Scope]] = field(default_factory=list)

    def bind(self, name: str, scope: Scope) -> None:
        """Note that a name is bound in a scope."""
        scope.bound.add(name)
        self.bindings.append((name, scope))

    def visit(self, node: ast.AST, scope: Scope) -> None:
        """Note what a node binds and refers to in a scope."""
        handler = _HANDLERS.get(type(node).__name__)
        if handler is not None:
            handler(self, node, scope)
        else:
            self.visit_all(ast.iter_child_nodes(node), scope)

    def visit_all(self, nodes: Iterable[ast.AST | None], scope: Scope) -> None:
        """Note what several nodes bind and refer to; None is no node."""
        for node in nodes:
            if node is not None:
                self.visit(node, scope)


def find_scopes(tree: ast.Module) -> Scopes:
    """The references and bindings of a module."""
    found = Scopes()
    found.visit_all(tree.body, Scope(tree, "module"))
    return found


def _name(found: Scopes, node: ast.Name, scope: Scope) -> None:
    if isinstance(node.ctx, ast.Load):
        found.references.append(Reference(node, scope))
    else:
        found.bind(node.id, scope)


def _function(found: Scopes, node: Function, scope: Scope) -> None:
    found.bind(node.name, scope)
    found.visit_all([*node.decorator_list, *node.args.defaults, *node.args.kw_defaults], scope)
    outer = _type_parameters(found, node, scope)
    for argument in _arguments(node.args):
        _annotation(found, argument.annotation, outer)
    _annotation(found, node.returns, outer)
    inner = _parameters(found, node, outer)
    found.visit_all(node.body, inner)


def _lambda(found: Scopes, node: ast.Lambda, scope: Scope) -> None:
    found.visit_all([*node.args.defaults, *node.args.kw_defaults], scope)
    found.visit(node.body, _parameters(found, node, scope))


def _parameters(found: Scopes, node: Function | ast.Lambda, scope: Scope) -> Scope:
    inner = Scope(node, "function", scope)
    for argument in _arguments(node.args):
        found.bind(argument.arg, inner)
    return inner


def _arguments(args: ast.arguments) -> Iterator[ast.arg]:
    yield from (*args.posonlyargs, *args.args, *args.kwonlyargs)
    yield from (argument for argument in (args.vararg, args.kwarg) if argument is not None)


def _class(found: Scopes, node: ast.ClassDef, scope: Scope) -> None:
    found.bind(node.name, scope)
    found.visit_all(node.decorator_list, scope)
    outer = _type_parameters(found, node, scope)
    found.visit_all([*node.bases, *node.keywords], outer)
    found.visit_all(node.body, Scope(node, "class", outer))


def _type_parameters(found: Scopes, node: ast.AST, scope: Scope) -> Scope:
    """The scope of a definition's type parameters; the one around the definition when it has none."""
    parameters: list[ast.AST] = getattr(node, "type_params", [])
    if not parameters:
        return scope
    inner = Scope(node, "annotation", scope)
    for parameter in parameters:
        found.bind(parameter.name, inner)  # type: ignore[attr-defined]  # Python 3.12
        for name in ("bound", "default_value"):
            value = getattr(parameter, name, None)
            found.visit_all([value], Scope(parameter, "annotation", inner))
    return inner


def _type_alias(found: Scopes, node: ast.AST, scope: Scope) -> None:
    found.visit(node.name, scope)  # type: ignore[attr-defined]  # Python 3.12
    outer = _type_parameters(found, node, scope)
    found.visit(node.value, Scope(node, "annotation", outer))  # type: ignore[attr-defined]


def _comprehension(found: Scopes, node: Comprehension, scope: Scope) -> None:
    inner = Scope(node, "comprehension", scope)
    for number, part in enumerate(node.generators):
        found.visit(part.iter, inner if number else scope)
        found.visit_all([part.target, *part.ifs], inner)
    found.visit_all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt], inner)


def _walrus(found: Scopes, node: ast.NamedExpr, scope: Scope) -> None:
    found.visit(node.value, scope)
    while scope.kind == "comprehension" and scope.parent is not None:
        scope = scope.parent
    found.bind(node.target.id, scope)


def _annotated(found: Scopes, node: ast.AnnAssign, scope: Scope) -> None:
    if node.simple or node.value is not None or not isinstance(node.target, ast.Name):
        found.visit(node.target, scope)
    _annotation(found, node.annotation, scope)
    found.visit_all([node.value], scope)


def _annotation(found: Scopes, node: ast.expr | None, scope: Scope) -> None:
    if node is not None:
        found.visit(node, scope)
        found.references.extend(Reference(text, scope) for text in _strings(node))


def _strings(node: ast.AST) -> Iterator[ast.Constant]:
    """The strings of an annotation that may be annotations themselves."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node
    elif isinstance(node, ast.Subscript) and "Literal" in (
        getattr(node.value, "id", ""),
        getattr(node.value, "attr", ""),
    ):
        return
    elif not isinstance(node, ast.JoinedStr):
        for child in ast.iter_child_nodes(node):
            yield from _strings(child)


def _declared_global(found: Scopes, node: ast.Global, scope: Scope) -> None:
    scope.global_names.update(node.names)


def _declared_nonlocal(found: Scopes, node: ast.Nonlocal, scope: Scope) -> None:
    scope.outer_names.update(node.names)


def _import(found: Scopes, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
    for alias in node.names:
        if alias.name != "*":
            found.bind(alias.asname or alias.name.split(".")[0], scope)


def _named(found: Scopes, node: ast.AST, scope: Scope) -> None:
    """An exception handler or a pattern, which may bind a name."""
    name = getattr(node, "name", None) or getattr(node, "rest", None)
    if name is not None:
        found.bind(name, scope)
    found.visit_all(ast.iter_child_nodes(node), scope)


_HANDLERS: dict[str, Callable[..., None]] = {  # by name: not every Python has every node
    "Name": _name,
    "FunctionDef": _function,
    "AsyncFunctionDef": _function,
    "Lambda": _lambda,
    "ClassDef": _class,
    "TypeAlias": _type_alias,
    "ListComp": _comprehension,
    "SetComp": _comprehension,
    "DictComp": _comprehension,
    "GeneratorExp": _comprehension,
    "NamedExpr": _walrus,
    "AnnAssign": _annotated,
    "Global": _declared_global,
    "Nonlocal": _declared_nonlocal,
    "Import": _import,
    "ImportFrom": _import,
    "ExceptHandler": _named,
    "MatchAs": _named,
    "MatchStar": _named,
    "MatchMapping": _named,
}
