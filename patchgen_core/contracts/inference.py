"""What an expression is and what a call calls, as far as the module itself makes it evident."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from patchgen_core.codegen.source import FUNCTIONS, Function
from patchgen_core.codegen.targets import methods
from patchgen_core.contracts.module import Binding, Module, Scope, decorator_name
from patchgen_core.contracts.signatures import Parameter, Signature, is_static, signature_of

_PLAIN_BASES = frozenset(
    ["Module", "object", "ABC", "PreTrainedModel", "GradientCheckpointingLayer", "GenerationMixin"]
)
_LISTS = frozenset(["ModuleList", "list", "tuple", "reversed"])
_BUILDERS = frozenset(["_from_config", "from_config", "from_pretrained"])
_DEPTH = 12


@dataclass(frozen=True)
class Class:
    """A class and the module it stands in."""

    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name


@dataclass(frozen=True)
class Value:
    """What an expression is: a class, an instance of it, a list of such, or ``super()`` in a method of it."""

    kind: Literal["class", "instance", "list", "super"]
    cls: Class


@dataclass(frozen=True)
class Callee:
    """What a call calls.

    Attributes:
        name: how messages call it.
        module: where it stands.
        signature: what it takes.
        function: its definition; None for a dataclass.
        dotted: ``Class.method``, ``function``, or the class for a dataclass.
    """

    name: str
    module: Module
    signature: Signature
    function: Function | None
    dotted: str


class Inference:
    """Answers questions about one module.

    Args:
        module: the module.
        follow: the class or function behind a name that the module imports, with the module it stands in; None
            for what is not to be looked into.
    """

    def __init__(self, module: Module, follow: Callable[[str], tuple[Module, ast.AST] | None] = lambda name: None):
        self.module, self._follow = module, follow

    def callees(self, call: ast.Call, scope: Scope) -> tuple[Callee, ...]:
        """What a call may call; empty when that is not evident."""
        function = call.func
        if isinstance(function, ast.Name) and scope.find(function.id) is None:
            found = self._global(function.id)
            if found is not None and isinstance(found[1], FUNCTIONS):
                name = found[1].name
                return (Callee(f"'{name}'", found[0], signature_of(found[1], False), found[1], name),)
        if isinstance(function, ast.Attribute):
            methods = self._method_callees(function, scope)
            if methods is not None:
                return methods
        callees = []
        for value in self.values(function, scope):
            callee = self._call_of(value)
            if callee is None:
                return ()
            callees.append(callee)
        return tuple(callees)

    def values(self, node: ast.expr, scope: Scope, depth: int = 0) -> tuple[Value, ...]:
        """What an expression may be; empty when that is not evident."""
        if depth > _DEPTH:
            return ()
        if isinstance(node, ast.Name):
            return self._name(node.id, scope, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope, depth)
        if isinstance(node, ast.Call):
            return self._result(node, scope, depth)
        if isinstance(node, ast.IfExp):
            return self._union([(node.body, scope), (node.orelse, scope)], depth)
        if isinstance(node, ast.NamedExpr):
            return self.values(node.value, scope, depth + 1)
        if isinstance(node, (ast.List, ast.Tuple)):
            return _as("list", self._union([(entry, scope) for entry in node.elts], depth), "instance")
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            inner = self.module.scope_of(node)
            return _as("list", self.values(node.elt, inner, depth + 1), "instance") if inner else ()
        if isinstance(node, ast.Subscript):
            found = self.values(node.value, scope, depth + 1)
            kind: Literal["list", "instance"] = "list" if isinstance(node.slice, ast.Slice) else "instance"
            return _as(kind, found, "list")
        return ()

    def find_method(self, cls: Class, name: str, after: Class | None = None) -> tuple[Class, Function] | None:
        """A method of a class or of its bases in the module; None when there is none or a base outside may have it.

        Args:
            cls: the class.
            name: the method.
            after: start behind this class, as ``super()`` in it does.
        """
        passed = after is None
        for base in self.bases(cls):
            if base is None:
                return None
            found = methods(base.node, name) if passed else []
            if found:
                return (base, found[0]) if len(found) == 1 else None
            passed = passed or (after is not None and base.node is after.node)
        return None

    def bases(self, cls: Class, seen: tuple[ast.ClassDef, ...] = ()) -> Iterator[Class | None]:
        """A class and its bases in the order they are looked at; None for one that another module defines."""
        yield cls
        for base in cls.node.bases:
            name = ast.unparse(base).rpartition(".")[2]
            found = cls.module.cls(base.id) if isinstance(base, ast.Name) else None
            if found is not None and found not in (*seen, cls.node):
                yield from self.bases(Class(cls.module, found), (*seen, cls.node))
            elif name not in _PLAIN_BASES and not name.endswith("PreTrainedModel"):
                yield None

    def class_of(self, name: str) -> Class | None:
        """The class that a name of the top level stands for."""
        found = self._global(name)
        return Class(found[0], found[1]) if found is not None and isinstance(found[1], ast.ClassDef) else None

    # --- expressions -------------------------------------------------------------------------------

    def _global(self, name: str) -> tuple[Module, ast.AST] | None:
        found = self.module.definition(name)
        return (self.module, found) if found is not None else self._follow(name)

    def _name(self, name: str, scope: Scope, depth: int) -> tuple[Value, ...]:
        home = scope.find(name)
        if home is not None:
            if name == home.self_name and len(home.bound[name]) == 1:
                cls = self.module.cls(home.cls)
                is_class = isinstance(home.node, FUNCTIONS) and any(
                    decorator_name(d) == "classmethod" for d in home.node.decorator_list
                )
                return (Value("class" if is_class else "instance", Class(self.module, cls)),) if cls else ()
            found = [self._bound(binding, home, depth) for binding in home.bound[name]]
            return tuple(dict.fromkeys(v for values in found for v in values)) if all(found) else ()
        definition = self._global(name)
        if definition is not None and isinstance(definition[1], ast.ClassDef):
            return (Value("class", Class(definition[0], definition[1])),)
        return ()

    def _bound(self, binding: Binding, scope: Scope, depth: int) -> tuple[Value, ...]:
        """What a local name holds after one of its assignments."""
        value = binding.value
        if value is None:
            return ()
        if not binding.is_item:
            return self.values(value, scope, depth + 1) if binding.index is None else ()
        called = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
        if called == "enumerate" and binding.index == 1 and isinstance(value, ast.Call):
            value = value.args[0]
        elif called == "zip" and binding.index is not None and isinstance(value, ast.Call):
            if binding.index >= len(value.args):
                return ()
            value = value.args[binding.index]
        elif binding.index is not None:
            return ()
        return _as("instance", self.values(value, scope, depth + 1), "list")

    def _union(self, entries: list[tuple[ast.expr, Scope]], depth: int) -> tuple[Value, ...]:
        """What several expressions may be, None aside; empty when one of them is not evident."""
        found = [
            self.values(entry, scope, depth + 1)
            for entry, scope in entries
            if not (isinstance(entry, ast.Constant) and entry.value is None)
        ]
        return tuple(dict.fromkeys(v for values in found for v in values)) if all(found) else ()

    def _attribute(self, node: ast.Attribute, scope: Scope, depth: int) -> tuple[Value, ...]:
        holders = self.values(node.value, scope, depth + 1)
        found: list[Value] = []
        for holder in holders:
            values = self._held(holder.cls, node.attr, depth) if holder.kind == "instance" else ()
            if not values:
                return ()
            found += values
        return tuple(dict.fromkeys(found))

    def _held(self, cls: Class, attribute: str, depth: int) -> tuple[Value, ...]:
        """What an instance of a class has as an attribute."""
        inference = self if cls.module is self.module else Inference(cls.module)
        assigned: list[tuple[ast.expr, Scope]] = []
        for base in self.bases(cls):
            if base is None:
                break
            for value, scope in base.module.attributes(base.name).get(attribute, ()):
                if value is None:
                    return ()
                assigned.append((value, scope))
            if assigned:
                break
        return inference._union(assigned, depth + 1) if assigned else ()

    def _result(self, call: ast.Call, scope: Scope, depth: int) -> tuple[Value, ...]:
        """What a call returns: an instance of the class that is called, or a list."""
        function = call.func
        name = ast.unparse(function).rpartition(".")[2]
        if name == "super" and not call.args and scope.cls and isinstance(function, ast.Name):
            cls = self.module.cls(scope.cls)
            return (Value("super", Class(self.module, cls)),) if cls else ()
        if name in _LISTS and len(call.args) == 1:
            values = self.values(call.args[0], scope, depth + 1)
            return values if all(value.kind == "list" for value in values) else ()
        if name in _BUILDERS and isinstance(function, ast.Attribute):
            return _as("instance", self.values(function.value, scope, depth + 1), "class")
        return _as("instance", self.values(function, scope, depth + 1), "class")

    # --- calls -------------------------------------------------------------------------------------

    def _method_callees(self, node: ast.Attribute, scope: Scope) -> tuple[Callee, ...] | None:
        """The methods behind ``value.name(...)``; None when it is an attribute that holds something."""
        callees: list[Callee] = []
        for holder in self.values(node.value, scope):
            if holder.kind == "list":
                return ()
            after = holder.cls if holder.kind == "super" else None
            found = self.find_method(holder.cls, node.attr, after)
            is_held = any(b is not None and node.attr in b.module.attributes(b.name) for b in self.bases(holder.cls))
            if holder.kind == "instance" and is_held:
                return None
            if found is None:
                return ()
            callees.append(_callee(*found, bound=holder.kind != "class"))
        return tuple(callees)

    def _call_of(self, value: Value) -> Callee | None:
        """What calling a class or an instance of it runs."""
        cls = value.cls
        if value.kind == "class":
            found = self.find_method(cls, "__init__")
            if found is not None:
                return _callee(*found, bound=True, name=f"'{cls.name}'")
            fields = self._fields(cls)
            return None if fields is None else Callee(f"'{cls.name}'", cls.module, fields, None, cls.name)
        if value.kind == "instance":
            found = self.find_method(cls, "__call__") or self.find_method(cls, "forward")
            return _callee(*found, bound=True) if found is not None else None
        return None

    def _fields(self, cls: Class) -> Signature | None:
        """What the constructor of a dataclass takes; None for what is none, or not wholly of this module."""
        fields = self.fields(cls)
        return None if fields is None else Signature(tuple(fields))

    def fields(self, cls: Class) -> list[Parameter] | None:
        """The fields of a dataclass in order, inherited ones first; None when a base is of another module."""
        chain = list(self.bases(cls))
        if not any(decorator_name(d) == "dataclass" for d in cls.node.decorator_list):
            return None
        found: dict[str, Parameter] = {}
        for base in reversed(chain):
            if base is None:
                outside = {ast.unparse(b).rpartition(".")[2] for c in chain if c is not None for b in c.node.bases}
                inner = {c.name for c in chain if c is not None}
                if outside - inner - {"ModelOutput"}:
                    return None
                continue
            for statement in base.node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    is_field = "ClassVar" not in ast.unparse(statement.annotation)
                    name = statement.target.id
                    found |= {name: Parameter(name, "either", statement.value is None)} if is_field else {}
        return list(found.values())


def _as(kind: Literal["list", "instance"], values: tuple[Value, ...], wanted: str) -> tuple[Value, ...]:
    """Values of another kind, when all are of the wanted one."""
    return tuple(Value(kind, v.cls) for v in values) if all(v.kind == wanted for v in values) else ()


def _callee(cls: Class, function: Function, bound: bool, name: str = "") -> Callee:
    is_class_method = any(decorator_name(d) == "classmethod" for d in function.decorator_list)
    signature = signature_of(function, (bound or is_class_method) and not is_static(function))
    dotted = f"{cls.name}.{function.name}"
    return Callee(name or f"'{dotted}'", cls.module, signature, function, dotted)
