"""Which scope each name of a syntax tree belongs to, by the interpreter's rules."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from patchgen_core.syntax.index import bound_name
from patchgen_core.syntax.nodes import Function
from patchgen_core.syntax.scopes import Assignment, Call, Kind, Moment, NameBinding, NameReference, Scope, Scopes
from patchgen_core.syntax.signatures import instance_name

_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Capture = ast.MatchAs | ast.MatchStar | ast.MatchMapping


def find_scopes(tree: ast.Module, has_lazy_annotations: bool | None = None) -> Scopes:
    """The scopes of a module, and what stands in them.

    Args:
        has_lazy_annotations: whether annotations are not evaluated, where ``tree`` is a part of a module.
    """
    is_lazy = annotations_are_lazy(tree) if has_lazy_annotations is None else has_lazy_annotations
    return _Analysis(tree, is_lazy).scopes


class _Analysis:
    """One pass over a tree; a visitor is named for the type of the nodes that it takes, with their scope."""

    def __init__(self, tree: ast.Module, has_lazy_annotations: bool) -> None:
        self.top = Scope(tree, "module")
        self.scopes = Scopes(self.top)
        self.owner = ""
        self.moment: Moment = "import"
        self.is_in_annotation = False
        self.has_lazy_annotations = has_lazy_annotations
        self._visit_all(tree.body, self.top)
        self._note_outer_bindings()

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        visitor = _VISITORS.get(type(node).__name__, _Analysis._generic)
        visitor(self, node, scope)

    def _generic(self, node: ast.AST, scope: Scope) -> None:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                self._visit_all(value, scope)
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                self._visit(value, scope)

    def _visit_all(self, nodes: Iterable[Any], scope: Scope) -> None:
        """Visit several nodes; what is no node, as the names of a ``global`` statement, is passed over."""
        for node in nodes:
            if isinstance(node, ast.AST):
                self._visit(node, scope)

    # --- scopes ------------------------------------------------------------------------------------

    def _enter(self, node: ast.AST, kind: Kind, parent: Scope, cls: str = "", self_name: str = "") -> Scope:
        scope = Scope(node, kind, parent, self.owner, cls, self_name)
        if kind != "annotation":  # its node is the definition's, which has a scope of its own
            self.scopes.inner[id(node)] = scope
        return scope

    def _bind(self, name: str, scope: Scope, binding: NameBinding | None = None) -> None:
        self.scopes.bindings.append((name, scope))
        if name in scope.global_names:
            scope = self.top
            self.scopes.rebound.add(name)
        scope.bound.setdefault(name, []).append(binding or NameBinding())

    def _note_outer_bindings(self) -> None:
        """Note that names which a function binds for an outer one have values there that cannot be told."""
        for scope in self.scopes.inner.values():
            for name in scope.outer_names:
                home = scope.find(name)
                if home is not None:
                    home.bound[name].append(NameBinding())

    def visit_FunctionDef(self, node: Function, scope: Scope) -> None:
        self._bind(node.name, scope)
        outer_owner = self.owner
        is_method = isinstance(scope.node, ast.ClassDef)
        if scope is self.top or is_method:
            self.owner = f"{scope.owner}.{node.name}" if is_method and scope.owner else node.name
        self._visit_all([*node.decorator_list, *node.args.defaults, *node.args.kw_defaults], scope)
        around = self._type_parameters(node, scope)
        for argument in _arguments(node.args):
            self._annotation(argument.annotation, around)
        self._annotation(node.returns, around)
        cls, self_name = scope.cls, scope.self_name
        if isinstance(scope.node, ast.ClassDef):
            self_name = instance_name(node) if scope.outer is self.top else ""
            cls = scope.node.name if self_name else ""
        self._body(node, node.body, self._enter(node, "function", around, cls, self_name))
        self.owner = outer_owner

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda, scope: Scope) -> None:
        self._visit_all([*node.args.defaults, *node.args.kw_defaults], scope)
        self._body(node, [node.body], self._enter(node, "function", scope, scope.cls, scope.self_name))

    def _body(self, node: Function | ast.Lambda, body: Iterable[ast.AST], scope: Scope) -> None:
        moment, self.moment = self.moment, "call"
        for argument in _arguments(node.args):
            self._bind(argument.arg, scope)
        self._visit_all(body, scope)
        self.moment = moment

    def visit_ClassDef(self, node: ast.ClassDef, scope: Scope) -> None:
        self._bind(node.name, scope)
        outer_owner = self.owner
        if scope is self.top:
            self.owner = node.name
        self._visit_all(node.decorator_list, scope)
        around = self._type_parameters(node, scope)
        self._visit_all([*node.bases, *node.keywords], around)
        self._visit_all(node.body, self._enter(node, "class", around))
        self.owner = outer_owner

    def _type_parameters(self, node: ast.AST, scope: Scope) -> Scope:
        """The scope of a definition's type parameters; the one around the definition when it has none."""
        parameters: list[Any] = getattr(node, "type_params", [])
        if not parameters:
            return scope
        inner = self._enter(node, "annotation", scope, scope.cls, scope.self_name)
        for parameter in parameters:
            self._bind(parameter.name, inner)
            for name in ("bound", "default_value"):
                self._evaluate_later(parameter, getattr(parameter, name, None), inner)
        return inner

    def visit_TypeAlias(self, node: Any, scope: Scope) -> None:
        self._visit(node.name, scope)
        self._evaluate_later(node, node.value, self._type_parameters(node, scope))

    def _evaluate_later(self, node: ast.AST, value: ast.expr | None, scope: Scope) -> None:
        """Visit what Python evaluates in a scope of its own, when it is asked for."""
        moment, self.moment = self.moment, "call"
        self._visit_all([value], self._enter(node, "annotation", scope))
        self.moment = moment

    def visit_ListComp(self, node: _Comprehension, scope: Scope) -> None:
        inner = self._enter(node, "comprehension", scope, scope.cls, scope.self_name)
        for number, generator in enumerate(node.generators):
            self._visit(generator.iter, inner if number else scope)
            self._target(generator.target, NameBinding(generator.iter, is_item=True), inner)
            self._visit_all(generator.ifs, inner)
        self._visit_all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt], inner)

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    # --- annotations -------------------------------------------------------------------------------

    def _annotation(self, node: ast.expr | None, scope: Scope, is_evaluated: bool = True) -> None:
        if node is None:
            return
        moment, was_in_annotation = self.moment, self.is_in_annotation
        if self.has_lazy_annotations or not is_evaluated:
            self.moment = "annotation"
        self.is_in_annotation = True
        self._visit(node, scope)
        self.is_in_annotation = was_in_annotation
        self.moment = moment
        for text in _quoted_annotations(node):
            self.scopes.references.append(NameReference(text, scope, self.owner, "annotation"))

    def visit_AnnAssign(self, node: ast.AnnAssign, scope: Scope) -> None:
        self._annotation(node.annotation, scope, is_evaluated=scope.kind in ("module", "class"))
        if node.value is not None:
            self._visit(node.value, scope)
        if node.simple or node.value is not None or not isinstance(node.target, ast.Name):
            self._target(node.target, NameBinding(node.value), scope)

    # --- names -------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name, scope: Scope) -> None:
        if isinstance(node.ctx, ast.Load):
            is_ahead = scope.kind == "class" and node.id not in scope.bound
            self.scopes.references.append(NameReference(node, scope, self.owner, self.moment, is_ahead))
        else:
            self._bind(node.id, scope)

    def _target(self, target: ast.expr, binding: NameBinding, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, scope, binding)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for index, entry in enumerate(target.elts):
                is_first_level = binding.index is None
                part = NameBinding(binding.value, binding.is_item, index) if is_first_level else NameBinding()
                self._target(entry, part, scope)
        elif isinstance(target, ast.Starred):
            self._target(target.value, NameBinding(), scope)
        else:
            value = binding.value if binding.is_value else None
            self.scopes.assignments.append(Assignment(target, value, scope))
            self._visit(target, scope)

    def visit_Assign(self, node: ast.Assign, scope: Scope) -> None:
        self._visit(node.value, scope)
        for target in node.targets:
            self._target(target, NameBinding(node.value), scope)

    def visit_AugAssign(self, node: ast.AugAssign, scope: Scope) -> None:
        self._visit(node.value, scope)
        self._target(node.target, NameBinding(), scope)

    def visit_For(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        self._visit(node.iter, scope)
        self._target(node.target, NameBinding(node.iter, is_item=True), scope)
        self._visit_all([*node.body, *node.orelse], scope)

    visit_AsyncFor = visit_For

    def visit_NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> None:
        self._visit(node.value, scope)
        while scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        self._bind(node.target.id, scope, NameBinding(node.value))

    def visit_withitem(self, node: ast.withitem, scope: Scope) -> None:
        self._visit(node.context_expr, scope)
        if node.optional_vars is not None:
            self._target(node.optional_vars, NameBinding(), scope)

    def visit_Import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        for alias in node.names:
            self._bind(bound_name(node, alias), scope)

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node: ast.ExceptHandler, scope: Scope) -> None:
        if node.name:
            self._bind(node.name, scope)
        self._generic(node, scope)

    def visit_MatchAs(self, node: _Capture, scope: Scope) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name:
            self._bind(name, scope)
        self._generic(node, scope)

    visit_MatchMapping = visit_MatchStar = visit_MatchAs

    def visit_Global(self, node: ast.Global, scope: Scope) -> None:
        scope.global_names.update(node.names)
        for name in node.names:
            self.top.bound.setdefault(name, [])

    def visit_Nonlocal(self, node: ast.Nonlocal, scope: Scope) -> None:
        scope.outer_names.update(node.names)

    # --- calls and strings -------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call, scope: Scope) -> None:
        self.scopes.calls.append(Call(node, scope))
        self._visit(node.func, scope)
        self._visit_all(node.args, scope)
        for keyword in node.keywords:
            self._visit(keyword.value, scope)

    def visit_Expr(self, node: ast.Expr, scope: Scope) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring, or another constant that says nothing
            self._visit(node.value, scope)

    def visit_Constant(self, node: ast.Constant, scope: Scope) -> None:
        if isinstance(node.value, str) and not self.is_in_annotation:
            self.scopes.strings.append((node, self.owner))


_VISITORS = {name.removeprefix("visit_"): method for name, method in vars(_Analysis).items()}


def annotations_are_lazy(tree: ast.Module) -> bool:
    """Whether a module has annotations that are not evaluated, by its ``from __future__ import annotations``."""
    futures = (s for s in tree.body if isinstance(s, ast.ImportFrom) and s.module == "__future__")
    return any(alias.name == "annotations" for statement in futures for alias in statement.names)


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None)


def _quoted_annotations(node: ast.AST) -> Iterator[ast.Constant]:
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
            yield from _quoted_annotations(child)
