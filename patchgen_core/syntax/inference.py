"""What an expression is and what a call calls, as far as the module itself makes it evident."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from patchgen_core.syntax.classes import (
    Class,
    assigned_in,
    dataclass_fields,
    has_fields,
    is_class_method,
    is_made_otherwise,
    makes_instances,
    named_bases,
    resolution_order,
)
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import FUNCTIONS, Function, decorator_names, last_name, methods
from patchgen_core.syntax.scopes import Call, Growth, NameBinding, Scope
from patchgen_core.syntax.signatures import Signature, is_static, signature_of

_LISTS = frozenset(["ModuleList", "list", "tuple", "reversed"])
_PROPERTIES = frozenset(["property", "cached_property"])
_BUILDERS = frozenset(["_from_config", "from_config", "from_pretrained"])
_DEPTH = 40
_CALLEES = "callees"


@dataclass(frozen=True)
class Value:
    """What an expression is: a class, an instance of it, a list of such, or ``super()`` in a method of it."""

    kind: Literal["class", "instance", "list", "super"]
    cls: Class


@dataclass(frozen=True)
class Callee:
    """What a call calls; a dataclass has no ``function``.

    ``name`` is how messages call it, ``dotted`` is ``Class.method``, ``function``, or the class for a dataclass.
    """

    name: str
    module: Module
    signature: Signature
    function: Function | None
    dotted: str


@dataclass(frozen=True)
class Asked:
    """What an answer depends on beside the statement that it is about.

    Attributes:
        names: names of the top level.
        keys: other answers, which are remembered.
    """

    names: set[str] = field(default_factory=set)
    keys: set[tuple[object, str]] = field(default_factory=set)

    def all_names(self, asked_by: Mapping[tuple[object, str], Asked]) -> set[str]:
        """The names that it depends on, those of other answers as well; each of these may depend on the other."""
        names, waiting = set(self.names), list(self.keys)
        seen = set(waiting)
        while waiting:
            other = asked_by[waiting.pop()]
            names |= other.names
            waiting += other.keys - seen
            seen |= other.keys
        return names


class Inference:
    """Answers questions about one module; ``follow`` gives the definition behind an import, None where none is."""

    def __init__(self, module: Module, follow: Callable[[str], tuple[Module, ast.AST] | None] = lambda name: None):
        self.module, self._follow = module, follow
        self._lines: dict[Class, tuple[Class | None, ...]] = {}
        self._methods: dict[tuple[Class, str, Class | None], tuple[Class, Function] | None] = {}
        self._cache: dict[tuple[object, str], tuple[Value, ...]] = {}
        self._meanings: dict[str, tuple[object, ...]] = {}
        self._asked = Asked()
        self._asked_by: dict[tuple[object, str], Asked] = {}

    def callees_in(self, statement: ast.stmt) -> list[tuple[Call, tuple[Callee, ...]]]:
        """Every call in a statement of the top level with what it may call."""
        return self.module.kept(_CALLEES, statement, self._means, lambda: self._find_callees(statement))

    def _find_callees(self, statement: ast.stmt) -> tuple[list[tuple[Call, tuple[Callee, ...]]], set[str]]:
        """The same, and the names of the top level that this depends on."""
        before, self._asked = self._asked, Asked()
        callees = [(call, self.callees(call.node, call.scope)) for call in self.module.calls_in(statement)]
        asked, self._asked = self._asked, before
        return callees, asked.all_names(self._asked_by)

    def _means(self, name: str) -> tuple[object, ...]:
        """What a name of the top level means: the same as long as that is the same."""
        if name not in self._meanings:
            index = self.module.index
            bound = (index.definitions.get(name, ()), index.imports.get(name, ()), index.assigned.get(name, ()))
            self._meanings[name] = (*map(tuple, bound), name in self.module.rebound, self._follow(name))
        return self._meanings[name]

    def callees(self, call: ast.Call, scope: Scope) -> tuple[Callee, ...]:
        """What a call may call; empty when that is not evident."""
        function = call.func
        if isinstance(function, ast.Name) and scope.find(function.id) is None:
            definition = self._global(function.id)
            if definition is not None and isinstance(definition[1], FUNCTIONS):
                name = definition[1].name
                return (Callee(f"'{name}'", definition[0], signature_of(definition[1], False), definition[1], name),)
        if isinstance(function, ast.Attribute):
            methods = self._method_callees(function, scope)
            if methods is not None:
                return methods
        callees = [self._call_of(value) for value in self.values(function, scope)]
        return tuple(callee for callee in callees if callee is not None) if None not in callees else ()

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
            return self._items(node.elts, scope, depth)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            inner = self.module.scope_of(node)
            return _as("list", self.values(node.elt, inner, depth + 1), "instance") if inner else ()
        if isinstance(node, ast.Subscript):
            table = self._table(node.value, scope)
            if table is not None:
                return self._union([(entry, scope) for entry in table.values], depth)
            holders = self.values(node.value, scope, depth + 1)
            kind: Literal["list", "instance"] = "list" if isinstance(node.slice, ast.Slice) else "instance"
            return _as(kind, holders, "list")
        return ()

    def find_method(self, cls: Class, name: str, after: Class | None = None) -> tuple[Class, Function] | None:
        """A method of a class or of its bases in the module; None when there is none or a base outside may have it.

        The search starts behind ``after``, as ``super()`` in it does.
        """
        key = (cls, name, after)
        line = self.bases(cls)
        if key not in self._methods:
            start = line.index(after) + 1 if after is not None else 0
            self._methods[key] = _first_method(line[start:], name)
        return self._methods[key]

    def bases(self, cls: Class) -> tuple[Class | None, ...]:
        """A class and its bases in the order they are looked at; None for one that another module defines."""
        line = self._lines.get(cls)
        if line is None:
            line = self._lines[cls] = resolution_order(cls)
        for base in line:
            if base is not None and base.module is self.module:
                self._asked.names.update(named_bases(base.node))
        return line

    def class_of(self, name: str) -> Class | None:
        """The class that a name of the top level stands for."""
        definition = self._global(name)
        return (
            Class(definition[0], definition[1])
            if definition is not None and isinstance(definition[1], ast.ClassDef)
            else None
        )

    def _own_class(self, name: str) -> ast.ClassDef | None:
        self._asked.names.add(name)
        return self.module.cls(name)

    # --- expressions -------------------------------------------------------------------------------

    def _global(self, name: str) -> tuple[Module, ast.AST] | None:
        self._asked.names.add(name)
        definition = self.module.definition(name) if name not in self.module.rebound else None
        return (self.module, definition) if definition is not None else self._follow(name)

    def _table(self, node: ast.expr, scope: Scope) -> ast.Dict | None:
        """The literal that a name of the top level stands for, as ``ATTENTION_CLASSES`` does."""
        if not isinstance(node, ast.Name) or scope.find(node.id) is not None:
            return None
        self._asked.names.add(node.id)
        if node.id in self.module.rebound:
            return None
        assigned = self.module.index.assigned.get(node.id, [])
        value = getattr(assigned[0], "value", None) if len(assigned) == 1 else None
        return value if isinstance(value, ast.Dict) else None

    def _name(self, name: str, scope: Scope, depth: int) -> tuple[Value, ...]:
        home = scope.find(name)
        if home is not None:
            if home.is_method and name == home.self_name and len(home.bound[name]) == 1:
                cls = self._own_class(home.cls)
                is_class = isinstance(home.node, FUNCTIONS) and (
                    is_class_method(home.node) or makes_instances(home.node)
                )
                return (Value("class" if is_class else "instance", Class(self.module, cls)),) if cls else ()
            bound = home.bound[name]
            return self._remembered(id(home), name, lambda: [(b.value, self._bound(b, home, depth)) for b in bound])
        definition = self._global(name)
        if definition is not None and isinstance(definition[1], ast.ClassDef):
            return (Value("class", Class(definition[0], definition[1])),)
        return ()

    def _bound(self, binding: NameBinding, scope: Scope, depth: int) -> tuple[Value, ...]:
        """What a local name holds after one of its assignments."""
        value = binding.value
        if value is None:
            return ()
        if not binding.is_item:
            return self.values(value, scope, depth + 1) if binding.index is None else ()
        looped = value if binding.index is None else _looped(value, binding.index)
        return _as("instance", self.values(looped, scope, depth + 1), "list") if looped is not None else ()

    def _items(self, entries: list[ast.expr], scope: Scope, depth: int) -> tuple[Value, ...]:
        """A list of what several expressions may be, those with a star item by item."""
        plain = [(entry, scope) for entry in entries if not isinstance(entry, ast.Starred)]
        spread = [(entry.value, scope) for entry in entries if isinstance(entry, ast.Starred)]
        parts = [_as("list", self._union(plain, depth), "instance")] if plain else []
        parts += [_as("list", self._union(spread, depth), "list")] if spread else []
        return tuple(dict.fromkeys(v for values in parts for v in values)) if all(parts) else ()

    def _union(self, entries: list[tuple[ast.expr, Scope]], depth: int) -> tuple[Value, ...]:
        """What several expressions may be, None aside; empty when one of them is not evident."""
        return _joined([(entry, self.values(entry, scope, depth + 1)) for entry, scope in entries])

    def _attribute(self, node: ast.Attribute, scope: Scope, depth: int) -> tuple[Value, ...]:
        holders = self.values(node.value, scope, depth + 1)
        attribute_values: list[Value] = []
        for holder in holders:
            values = self._held(holder.cls, node.attr, depth) if holder.kind == "instance" else ()
            if not values:
                return ()
            attribute_values += values
        return tuple(dict.fromkeys(attribute_values))

    def _held(self, cls: Class, attribute: str, depth: int) -> tuple[Value, ...]:
        """What an instance of a class has as an attribute."""
        inference = self if cls.module is self.module else Inference(cls.module)
        line = itertools.takewhile(lambda base: base is not None, self.bases(cls))
        home = next((b for b in line if b is not None and attribute in b.module.attributes(b.name)), None)
        if home is None:
            return ()
        assigned = [*home.module.attributes(home.name)[attribute], *home.module.growth(home.name).get(attribute, [])]
        return self._remembered(
            cls,
            attribute,
            lambda: [(v, inference.values(v, s, depth + 1) if v is not None else ()) for v, s in assigned],
        )

    def _remembered(
        self, holder: object, name: str, find: Callable[[], list[tuple[ast.expr | None, tuple[Value, ...]]]]
    ) -> tuple[Value, ...]:
        """What a name or attribute may be, found out once; what depends on itself is not evident."""
        key = (holder, name)
        self._asked.keys.add(key)
        if key not in self._cache:
            self._cache[key] = ()
            before = self._asked
            self._asked = self._asked_by[key] = Asked()
            self._cache[key] = _joined(find())
            self._asked = before
        return self._cache[key]

    def _result(self, call: ast.Call, scope: Scope, depth: int) -> tuple[Value, ...]:
        """What a call returns: an instance of the class that is called, or a list."""
        function = call.func
        name = last_name(function)
        if name == "super" and not call.args and scope.cls and isinstance(function, ast.Name):
            cls = self._own_class(scope.cls)
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
            method = self.find_method(holder.cls, node.attr, after)
            is_held = any(b is not None and node.attr in b.module.attributes(b.name) for b in self.bases(holder.cls))
            if holder.kind == "instance" and is_held:
                return None
            is_metaclass = node.attr == "__new__" and holder.kind == "instance"
            if method is None or is_metaclass or decorator_names(method[1]) & _PROPERTIES:
                return ()
            callees.append(_callee(*method, bound=holder.kind != "class"))
        return tuple(callees)

    def _call_of(self, value: Value) -> Callee | None:
        """What calling a class or an instance of it runs."""
        cls = value.cls
        if value.kind == "class":
            return self._constructor(cls)
        if value.kind == "instance":
            method = self.find_method(cls, "__call__") or self.find_method(cls, "forward")
            return _callee(*method, bound=True) if method is not None else None
        return None

    def _constructor(self, cls: Class) -> Callee | None:
        line = self.bases(cls)
        if any(base is not None and is_made_otherwise(base) for base in line):
            return None
        maker = next((b for b in line if b is None or has_fields(b) or methods(b.node, "__init__")), None)
        if maker is not None and has_fields(maker) and not methods(maker.node, "__init__"):
            fields = dataclass_fields(maker)
            signature = Signature(tuple(fields)) if fields is not None else None
            return Callee(f"'{cls.name}'", cls.module, signature, None, cls.name) if signature is not None else None
        method = self.find_method(cls, "__init__")
        return _callee(*method, bound=True, name=f"'{cls.name}'") if method is not None else None


def _joined(alternatives: list[tuple[ast.expr | None, tuple[Value, ...]]]) -> tuple[Value, ...]:
    """What any of several expressions may be; empty when one of them is not evident.

    None and an empty list say nothing, and what a list grows by counts only for lists.
    """
    others = [values for node, values in alternatives if not isinstance(node, Growth) and not _says_nothing(node)]
    grown = [values for node, values in alternatives if isinstance(node, Growth)]
    if all(value.kind == "list" for values in others for value in values):
        others += grown
    return tuple(dict.fromkeys(v for values in others for v in values)) if all(others) else ()


def _says_nothing(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Call) and last_name(node.func) in _LISTS:
        return not node.args or (len(node.args) == 1 and _says_nothing(node.args[0]))
    is_none = isinstance(node, ast.Constant) and node.value is None
    return is_none or (isinstance(node, (ast.List, ast.Tuple)) and not node.elts)


def _first_method(line: Sequence[Class | None], name: str) -> tuple[Class, Function] | None:
    """The first definition of a method in several classes, up to one that another module defines."""
    for base in line:
        definitions = methods(base.node, name) if base is not None else []
        if base is None or name in assigned_in(base.node):
            return None
        if definitions:
            return (base, definitions[0]) if len(definitions) == 1 else None
    return None


def _looped(value: ast.expr, index: int) -> ast.expr | None:
    """What a place of the tuples that a loop unpacks goes through."""
    if not isinstance(value, ast.Call) or any(isinstance(argument, ast.Starred) for argument in value.args):
        return None
    place = {"enumerate": 0 if index == 1 else -1, "zip": index}.get(last_name(value.func), -1)
    return value.args[place] if 0 <= place < len(value.args) else None


def _as(kind: Literal["list", "instance"], values: tuple[Value, ...], source_kind: str) -> tuple[Value, ...]:
    """Values of another kind, when all are of the wanted one."""
    return tuple(Value(kind, v.cls) for v in values) if all(v.kind == source_kind for v in values) else ()


def _callee(cls: Class, function: Function, bound: bool, name: str = "") -> Callee:
    is_bound = (bound or is_class_method(function)) and not is_static(function) and not makes_instances(function)
    signature = signature_of(function, is_bound)
    dotted = f"{cls.name}.{function.name}"
    return Callee(name or f"'{dotted}'", cls.module, signature, function, dotted)
