"""One pass over a module: which name means what, who calls whom, what ``self`` holds."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from typing import Any

from patchgen_core.syntax.index import bound_name
from patchgen_core.syntax.nodes import DEFINITIONS, Function
from patchgen_core.syntax.occurrences import Binding, Call, Growth, Moment, Scope, Use

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_GROWING = frozenset(["append", "extend", "insert"])


Attributes = dict[str, dict[str, list[tuple[ast.expr | None, Scope]]]]
"""By class and name: expressions, None for what cannot be told, with the scopes that their names mean something in."""


class Walker:
    """One pass over a tree that notes scopes, references, calls and attributes of ``self``.

    Attributes:
        top: the module's scope, with every reference that no other scope binds.
        scopes: the others, by the ``id`` of their nodes.
        calls: every call.
        strings: string literals that are no docstrings, each with its owner.
        attributes: by class, what its methods assign to attributes of ``self``.
        growth: by class, what lists in attributes of ``self`` get beside what they are made of, each a ``Growth``.
        rebound: names of the top level that functions assign.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.calls: list[Call] = []
        self.strings: list[tuple[ast.Constant, str]] = []
        self.attributes: Attributes = {}
        self.growth: Attributes = {}
        self.scopes: dict[int, Scope] = {}
        self.rebound: set[str] = set()
        self.type_parameters: list[str] = []
        self.top = Scope(tree)
        self.scope = self.top
        self.owner = ""
        self.moment: Moment = "import"
        self.lazy_annotations = any(
            isinstance(s, ast.ImportFrom)
            and s.module == "__future__"
            and any(a.name == "annotations" for a in s.names)
            for s in tree.body
        )
        self._visitors: dict[type, Any] = {
            ast.FunctionDef: self._function,
            ast.AsyncFunctionDef: self._function,
            ast.ClassDef: self._class,
            ast.Lambda: self._lambda,
            ast.Name: self._name,
            ast.Call: self._call,
            ast.Constant: self._constant,
            ast.Expr: self._expr,
            ast.Assign: self._assign,
            ast.AnnAssign: self._annotated,
            ast.For: self._for,
            ast.AsyncFor: self._for,
            ast.AugAssign: self._augmented,
            ast.NamedExpr: self._named,
            ast.withitem: self._with_item,
            ast.Import: self._import,
            ast.ImportFrom: self._import,
            ast.ExceptHandler: self._handler,
            ast.Global: self._global,
            ast.Nonlocal: self._nonlocal,
            ast.MatchAs: self._capture,
            ast.MatchStar: self._capture,
            ast.MatchMapping: self._capture,
            **dict.fromkeys(_COMPREHENSIONS, self._comprehension),
        }
        if sys.version_info >= (3, 12):
            for kind in (*DEFINITIONS, ast.TypeAlias):
                self._visitors[kind] = self._with_type_parameters(self._visitors.get(kind, self._generic))
        self._each(tree.body)

    def _visit(self, node: ast.AST) -> None:
        visitor = self._visitors.get(type(node))
        if visitor is not None:
            visitor(node)
        else:
            self._generic(node)

    def _generic(self, node: ast.AST) -> None:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                self._each(value)
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                self._visit(value)

    def _each(self, nodes: list[Any]) -> None:
        for node in nodes:
            if isinstance(node, ast.AST):
                self._visit(node)

    def _with_type_parameters(self, visitor: Callable[[Any], None]) -> Callable[[Any], None]:
        """A visitor of definitions inside which the names in ``def f[T](...)`` refer to nothing else."""

        def visit(node: Any) -> None:
            parameters: list[Any] = node.type_params
            names = [parameter.name for parameter in parameters]
            self.type_parameters += names
            if isinstance(node, DEFINITIONS):
                self._each(parameters)
            visitor(node)
            del self.type_parameters[len(self.type_parameters) - len(names) :]

        return visit

    # --- scopes ------------------------------------------------------------------------------------

    def _enter(self, node: ast.AST, cls: str, self_name: str) -> Scope:
        self.scope = Scope(node, self.scope, cls, self_name, self.owner)
        self.scopes[id(node)] = self.scope
        return self.scope

    def _leave(self) -> None:
        """Hand references that this scope does not bind to the next one that its code sees."""
        scope, parent = self.scope, self.scope.parent
        assert parent is not None
        self.scope = parent
        outer = parent
        while not isinstance(scope.node, ast.ClassDef) and isinstance(outer.node, ast.ClassDef):
            assert outer.parent is not None
            outer = outer.parent
        for use in scope.pending:
            if use.name in scope.globals:
                self.top.pending.append(use)
            elif use.name not in scope.bound:
                outer.pending.append(use)
        scope.pending = []

    def _bind(self, name: str, binding: Binding | None = None) -> None:
        scope = self.scope
        if name in scope.globals:
            scope = self.top
            self.rebound.add(name)
        scope.bound.setdefault(name, []).append(binding or Binding())

    def _function(self, node: Function) -> None:
        self._bind(node.name)
        outer, outer_owner = self.scope, self.owner
        is_method = isinstance(outer.node, ast.ClassDef)
        cls, self_name = outer.cls, outer.self_name
        if is_method:
            assert isinstance(outer.node, ast.ClassDef)
            is_static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
            first = [*node.args.posonlyargs, *node.args.args][:1]
            is_known = bool(first) and not is_static and outer.parent is self.top
            cls, self_name = (outer.node.name, first[0].arg) if is_known else ("", "")
        if isinstance(outer.node, ast.Module) or is_method:
            self.owner = f"{outer.owner}.{node.name}" if is_method and outer.owner else node.name
        self._each(node.decorator_list)
        self._signature(node.args, node.returns)
        self._body(node, node.args, cls, self_name)
        self.owner = outer_owner

    def _body(self, node: Function | ast.Lambda, arguments: ast.arguments, cls: str, self_name: str) -> None:
        scope = self._enter(node, cls, self_name)
        moment, self.moment = self.moment, "call"
        for argument in _arguments(arguments):
            scope.bound.setdefault(argument.arg, []).append(Binding())
        self._each(node.body if isinstance(node.body, list) else [node.body])
        self.moment = moment
        self._leave()

    def _signature(self, arguments: ast.arguments, returns: ast.expr | None = None) -> None:
        self._each([*arguments.defaults, *arguments.kw_defaults])
        for argument in _arguments(arguments):
            self._annotation(argument.annotation)
        self._annotation(returns)

    def _annotation(self, annotation: ast.expr | None, is_evaluated: bool = True) -> None:
        if annotation is None:
            return
        moment = self.moment
        if self.lazy_annotations or not is_evaluated:
            self.moment = "annotation"
        known = len(self.strings)
        self._visit(annotation)
        self.moment = "annotation"
        quoted, self.strings[known:] = self.strings[known:], []
        for string, _ in quoted:
            for name in _names_in(str(string.value)):
                self.scope.pending.append(Use(name, string, self.owner, "annotation"))
        self.moment = moment

    def _lambda(self, node: ast.Lambda) -> None:
        self._signature(node.args)
        self._body(node, node.args, self.scope.cls, self.scope.self_name)

    def _class(self, node: ast.ClassDef) -> None:
        self._bind(node.name)
        outer_owner = self.owner
        if isinstance(self.scope.node, ast.Module):
            self.owner = node.name
        self._each([*node.decorator_list, *node.bases, *node.keywords])
        self._enter(node, "", "")
        self._each(node.body)
        self._leave()
        self.owner = outer_owner

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self._visit(node.generators[0].iter)
        self._enter(node, self.scope.cls, self.scope.self_name)
        for number, generator in enumerate(node.generators):
            if number:
                self._visit(generator.iter)
            self._target(generator.target, Binding(generator.iter, is_item=True))
            self._each(generator.ifs)
        self._each([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self._leave()

    # --- names -------------------------------------------------------------------------------------

    def _name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._bind(node.id)
        elif node.id not in self.type_parameters:
            self._reader(node.id).pending.append(Use(node.id, node, self.owner, self.moment))

    def _reader(self, name: str) -> Scope:
        """The scope that a name is looked up from: a class body reads what is around it until it binds the name."""
        scope = self.scope
        if isinstance(scope.node, ast.ClassDef) and name not in scope.bound:
            while isinstance(scope.node, ast.ClassDef) and scope.parent is not None:
                scope = scope.parent
        return scope

    def _target(self, target: ast.expr, binding: Binding) -> None:
        """Bind what an assignment or loop assigns."""
        if isinstance(target, ast.Name):
            self._bind(target.id, binding)
        elif isinstance(target, (ast.Tuple, ast.List)) and binding.index is None:
            for index, entry in enumerate(target.elts):
                self._target(entry, Binding(binding.value, binding.is_item, index))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for entry in target.elts:
                self._target(entry, Binding())
        elif isinstance(target, ast.Starred):
            self._target(target.value, Binding())
        else:
            is_plain = binding.index is None and not binding.is_item
            self._hold(self.attributes, target, binding.value if is_plain else None)
            if isinstance(target, ast.Subscript):
                item = binding.value if is_plain and binding.value is not None else target
                self._hold(self.growth, target.value, ast.copy_location(Growth([item], ast.Load()), target))
            self._visit(target)

    def _hold(self, held: Attributes, target: ast.expr, value: ast.expr | None) -> None:
        """Note what an attribute of ``self`` is assigned, or grows by."""
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and self.scope.cls:
            name = target.value.id
            home = self.scope.find(name)
            if home is not None and home.is_method and name == home.self_name:
                held.setdefault(home.cls, {}).setdefault(target.attr, []).append((value, self.scope))

    def _assign(self, node: ast.Assign) -> None:
        self._visit(node.value)
        for target in node.targets:
            self._target(target, Binding(node.value))

    def _annotated(self, node: ast.AnnAssign) -> None:
        self._annotation(node.annotation, is_evaluated=isinstance(self.scope.node, (ast.Module, ast.ClassDef)))
        if node.value is not None:
            self._visit(node.value)
        self._target(node.target, Binding(node.value))

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        self._visit(node.iter)
        self._target(node.target, Binding(node.iter, is_item=True))
        self._each([*node.body, *node.orelse])

    def _named(self, node: ast.NamedExpr) -> None:
        self._visit(node.value)
        scope = self.scope
        while isinstance(self.scope.node, _COMPREHENSIONS) and self.scope.parent is not None:
            self.scope = self.scope.parent
        self._target(node.target, Binding(node.value))
        self.scope = scope

    def _augmented(self, node: ast.AugAssign) -> None:
        self._visit(node.value)
        self._target(node.target, Binding())

    def _with_item(self, node: ast.withitem) -> None:
        self._visit(node.context_expr)
        if node.optional_vars is not None:
            self._target(node.optional_vars, Binding())

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self._bind(bound_name(node, alias))

    def _handler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._bind(node.name)
        self._generic(node)

    def _global(self, node: ast.Global) -> None:
        self.scope.globals.update(node.names)
        for name in node.names:
            self.top.bound.setdefault(name, [])

    def _nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            self._bind(name)
            home = self.scope.parent.find(name) if self.scope.parent is not None else None
            if home is not None:
                home.bound[name].append(Binding())

    def _capture(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name:
            self._bind(name)
        self._generic(node)

    # --- what else rules ask for -------------------------------------------------------------------

    def _call(self, node: ast.Call) -> None:
        self.calls.append(Call(node, self.scope))
        if isinstance(node.func, ast.Attribute) and node.func.attr in _GROWING and node.args:
            is_extended = node.func.attr == "extend"
            self._grow(node.func.value, ast.Starred(node.args[0], ast.Load()) if is_extended else node.args[-1])
        self._generic(node)

    def _grow(self, holder: ast.expr, added: ast.expr) -> None:
        """Note what a list gets beside what it was made of."""
        items = ast.copy_location(Growth([added], ast.Load()), holder)
        if isinstance(holder, ast.Name):
            home = self.scope.find(holder.id)
            if home is not None:
                home.bound[holder.id].append(Binding(items if home is self.scope else None))
        self._hold(self.growth, holder, items)

    def _expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring, or another constant that says nothing
            self._visit(node.value)

    def _constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.strings.append((node, self.owner))


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    for argument in (arguments.vararg, arguments.kwarg):
        if argument is not None:
            yield argument


def _names_in(annotation: str) -> set[str]:
    """The names that an annotation in quotes refers to."""
    try:
        tree = ast.parse(annotation.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
