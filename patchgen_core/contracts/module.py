"""A module's syntax tree with its scopes: which name means what, who calls whom, what ``self`` holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from patchgen_core.codegen.index import ModuleIndex, bound_name, index_module
from patchgen_core.codegen.source import DEFINITIONS, FUNCTIONS, Definition, Function, SourceFile
from patchgen_core.codegen.targets import methods

Moment = Literal["import", "call", "annotation"]
"""When a reference is evaluated: while the module is imported, when a function runs, or as an annotation."""

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


@dataclass(frozen=True)
class Use:
    """A reference to a name that no function or class between it and the module's top level binds.

    Attributes:
        name: the name.
        node: where it stands; a string for an annotation in quotes.
        owner: the class, method or function it is in, as ``Class.method``; empty at the top level.
        moment: when it is evaluated.
    """

    name: str
    node: ast.expr
    owner: str
    moment: Moment


@dataclass(frozen=True)
class Binding:
    """How a local name gets a value.

    Attributes:
        value: the expression it comes from; None when that cannot be told.
        is_item: whether it is an item of the value, as in a loop.
        index: its place in a tuple that the value or item is unpacked from.
    """

    value: ast.expr | None = None
    is_item: bool = False
    index: int | None = None


@dataclass
class Scope:
    """The names of a function, class body or comprehension; of the module when ``parent`` is None.

    Attributes:
        node: what it is the scope of.
        parent: the scope around it.
        cls: name of the class that ``self`` is an instance of; empty outside of methods.
        self_name: what a method calls its instance.
        owner: the class, method or function, as ``Class.method``.
        bound: local names and how they get their values.
    """

    node: ast.AST
    parent: Scope | None = None
    cls: str = ""
    self_name: str = ""
    owner: str = ""
    bound: dict[str, list[Binding]] = field(default_factory=dict)
    globals: set[str] = field(default_factory=set)
    pending: list[Use] = field(default_factory=list)

    def find(self, name: str) -> Scope | None:
        """The scope that binds a name as code in this scope sees it; None when only the module may."""
        scope: Scope | None = self
        while scope is not None and scope.parent is not None:
            is_visible = scope is self or not isinstance(scope.node, ast.ClassDef)
            if is_visible and name in scope.bound and name not in scope.globals:
                return scope
            scope = scope.parent
        return None


@dataclass(frozen=True)
class Call:
    """A call and the scope it stands in."""

    node: ast.Call
    scope: Scope

    @property
    def owner(self) -> str:
        """The class, method or function it is in."""
        return self.scope.owner


class Module:
    """A module that rules look at.

    Attributes:
        source: its text and tree.
        name: dotted name; empty for one that was generated.
    """

    def __init__(self, source: SourceFile, name: str = "") -> None:
        self.source, self.name = source, name

    @property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return self.source.tree

    @cached_property
    def index(self) -> ModuleIndex:
        """What the top level binds."""
        return index_module(self.tree)

    @cached_property
    def _walked(self) -> _Walker:
        return _Walker(self.tree)

    @property
    def uses(self) -> list[Use]:
        """References to names of the top level, in no particular order."""
        return self._walked.top.pending

    @property
    def calls(self) -> list[Call]:
        """Every call."""
        return self._walked.calls

    @property
    def strings(self) -> list[tuple[ast.Constant, str]]:
        """String literals that are no docstrings, each with its owner."""
        return self._walked.strings

    @property
    def bound(self) -> set[str]:
        """Every name that the top level binds, or a function by ``global``."""
        return set(self._walked.top.bound)

    @cached_property
    def uses_of(self) -> dict[str, list[Use]]:
        """The references by name."""
        found: dict[str, list[Use]] = {}
        for use in self.uses:
            found.setdefault(use.name, []).append(use)
        return found

    def attributes(self, cls: str) -> dict[str, list[tuple[ast.expr | None, Scope]]]:
        """What the methods of a class assign to attributes of ``self``; None for what cannot be told."""
        return self._walked.attributes.get(cls, {})

    def scope_of(self, function: ast.AST) -> Scope | None:
        """The scope of a function of this module."""
        return self._walked.scopes.get(id(function))

    def definition(self, name: str) -> Definition | None:
        """The one top-level class or function of a name; None when there is none or branches define several."""
        found = self.index.definitions.get(name, [])
        elsewhere = name in self.index.imports or name in self.index.assigned
        return found[0] if len(found) == 1 and not elsewhere else None

    def cls(self, name: str) -> ast.ClassDef | None:
        """The one top-level class of a name."""
        found = self.definition(name)
        return found if isinstance(found, ast.ClassDef) else None

    def function(self, dotted: str) -> Function | None:
        """The one definition of ``function`` or ``Class.method``; a property's getter."""
        name, _, method = dotted.partition(".")
        found = self.definition(name)
        if not method:
            return found if isinstance(found, FUNCTIONS) else None
        return own_method(found, method) if isinstance(found, ast.ClassDef) else None

    def owner_at(self, line: int) -> str:
        """The class, method or function that a line belongs to, decorators included; empty for none."""
        owner = ""
        for name, node in self._spans:
            if self.source.first_line(node) <= line <= (node.end_lineno or 0):
                owner = name
        return owner

    @cached_property
    def _spans(self) -> list[tuple[str, Definition]]:
        return [(name, node) for name, node in self.source.definitions if "<locals>" not in name]


def own_method(node: ast.ClassDef, name: str) -> Function | None:
    """The one definition of a method in a class's own body; None when there is none or there are several."""
    found = methods(node, name)
    return found[0] if len(found) == 1 else None


def decorator_name(decorator: ast.expr) -> str:
    """A decorator without its arguments and the module it comes from."""
    return ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator).rpartition(".")[2]


def decorator_names(node: Definition) -> set[str]:
    """The names of a definition's decorators."""
    return {decorator_name(decorator) for decorator in node.decorator_list}


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """What a function's body holds, without the functions and classes defined in it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (*DEFINITIONS, ast.Lambda)):
            yield from inside(child)


class _Walker:
    """One pass over a tree that notes scopes, references, calls and attributes of ``self``."""

    def __init__(self, tree: ast.Module) -> None:
        self.calls: list[Call] = []
        self.strings: list[tuple[ast.Constant, str]] = []
        self.attributes: dict[str, dict[str, list[tuple[ast.expr | None, Scope]]]] = {}
        self.scopes: dict[int, Scope] = {}
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
            ast.NamedExpr: self._named,
            ast.Import: self._import,
            ast.ImportFrom: self._import,
            ast.ExceptHandler: self._handler,
            ast.Global: self._global,
            ast.MatchAs: self._capture,
            ast.MatchStar: self._capture,
            ast.MatchMapping: self._capture,
            **dict.fromkeys(_COMPREHENSIONS, self._comprehension),
        }
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
        scope = self.top if name in self.scope.globals else self.scope
        scope.bound.setdefault(name, []).append(binding or Binding())

    def _function(self, node: Function) -> None:
        self._bind(node.name)
        outer, outer_owner = self.scope, self.owner
        is_method = isinstance(outer.node, ast.ClassDef)
        cls, self_name = outer.cls, outer.self_name
        if is_method:
            assert isinstance(outer.node, ast.ClassDef)
            is_static = "staticmethod" in decorator_names(node)
            first = [*node.args.posonlyargs, *node.args.args][:1]
            cls, self_name = outer.node.name, first[0].arg if first and not is_static else ""
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

    def _annotation(self, annotation: ast.expr | None) -> None:
        if annotation is None:
            return
        moment, self.moment = self.moment, "annotation"
        if not self.lazy_annotations and moment == "import":
            self.moment = "import"
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
        if isinstance(node.ctx, ast.Load):
            self.scope.pending.append(Use(node.id, node, self.owner, self.moment))
        else:
            self._bind(node.id)

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
            is_own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and self.scope.self_name
            if is_own and target.value.id == self.scope.self_name:  # type: ignore[attr-defined]
                assert isinstance(target, ast.Attribute)
                is_plain = binding.index is None and not binding.is_item
                found = self.attributes.setdefault(self.scope.cls, {}).setdefault(target.attr, [])
                found.append((binding.value if is_plain else None, self.scope))
            self._visit(target)

    def _assign(self, node: ast.Assign) -> None:
        self._visit(node.value)
        for target in node.targets:
            self._target(target, Binding(node.value))

    def _annotated(self, node: ast.AnnAssign) -> None:
        self._annotation(node.annotation)
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

    def _capture(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name:
            self._bind(name)
        self._generic(node)

    # --- what else rules ask for -------------------------------------------------------------------

    def _call(self, node: ast.Call) -> None:
        self.calls.append(Call(node, self.scope))
        self._generic(node)

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
