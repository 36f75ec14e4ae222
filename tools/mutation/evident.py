"""The calls of a modeling file whose callee a reader can tell, and which of them Python would refuse.

The measure for PG202: worked out with ``ast`` and ``inspect`` and nothing of patchgen. It looks for classes that are
mentioned, wherever that is: in ``__init__``, in a table of classes, in a loop over a list of modules.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tools.sweep import DEFINITIONS, METHODS, Method, own_methods, top_level

_SAME_ITEMS = ("reversed", "list", "tuple", "ModuleList", "Sequential")
_DEPTH = 8


@dataclass(frozen=True)
class Evident:
    """A call and what it calls.

    Attributes:
        node: the call.
        owner: the ``Class.method`` or function it stands in; empty for the top level.
        callee: the ``Class.method`` or function that it runs; the class for a dataclass.
        named: what messages call the callee: for a construction the class.
        function: the callee's definition; None for a dataclass.
        signature: what the callee takes, without ``self``.
    """

    node: ast.Call
    owner: str
    callee: str
    named: str
    function: Method | None
    signature: inspect.Signature


@dataclass(frozen=True)
class Place:
    """Where an expression stands: the class and the functions around it, the innermost last."""

    cls: str
    functions: tuple[Method | ast.Lambda, ...] = ()
    owner: str = ""


class Reader:
    """Reads one modeling file."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        functions: dict[str, list[ast.AST]] = {}
        for node in top_level(tree):
            if isinstance(node, DEFINITIONS):
                functions.setdefault(node.name, []).append(node)
        single = {name: nodes[0] for name, nodes in functions.items() if len(nodes) == 1}
        self.classes = {name: node for name, node in single.items() if isinstance(node, ast.ClassDef)}
        self.functions = {name: node for name, node in single.items() if isinstance(node, METHODS)}
        self.tables = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        self._locals: dict[int, dict[str, list[tuple[ast.expr, int | None, bool]]]] = {}

    @cached_property
    def calls(self) -> list[Evident]:
        """Every evident call."""
        return [callee for node, place in self._places() for callee in self._callees(node, place)]

    def line_of(self, cls: str) -> list[str]:
        """A class and its bases in this module, in the order they are searched."""
        line = [cls]
        for base in self.classes[cls].bases:
            if isinstance(base, ast.Name) and base.id in self.classes:
                line += [name for name in self.line_of(base.id) if name not in line]
        return line

    def method(self, cls: str, name: str, after: bool = False) -> tuple[str, Method] | None:
        """The definition of a method that an instance of a class has, and whose it is."""
        for owner in self.line_of(cls)[after:]:
            for function in own_methods(self.classes[owner]):
                if function.name == name:
                    return owner, function
        return None

    # --- calls -------------------------------------------------------------------------------------

    def _places(self) -> Iterator[tuple[ast.Call, Place]]:
        def visit(node: ast.AST, place: Place) -> Iterator[tuple[ast.Call, Place]]:
            if isinstance(node, ast.Call):
                yield node, place
            inner = place
            if isinstance(node, ast.ClassDef):
                inner = Place(node.name if not place.owner else "", (), place.owner or node.name)
            elif isinstance(node, (*METHODS, ast.Lambda)):
                owner = place.owner
                if isinstance(node, METHODS) and not place.functions:
                    owner = f"{owner}.{node.name}" if owner else node.name
                inner = Place(place.cls, (*place.functions, node), owner)
            for child in ast.iter_child_nodes(node):
                yield from visit(child, inner)

        return visit(self.tree, Place(""))

    def _callees(self, call: ast.Call, place: Place) -> Iterator[Evident]:
        function = call.func
        if isinstance(function, ast.Name):
            if function.id in self.functions and not self._is_local(function.id, place):
                node = self.functions[function.id]
                yield Evident(call, place.owner, node.name, node.name, node, _signature(node, bound=False))
            for cls in self._named_classes(function, place):
                yield from self._construction(call, place, cls)
        if isinstance(function, ast.Attribute):
            holders = self._holders(function.value, place)
            yield from self._method_calls(call, place, function, holders)
            return
        for cls in self.kinds(function, place):
            yield from self._forward(call, place, cls)

    def _holders(self, value: ast.expr, place: Place) -> list[tuple[str, bool, bool]]:
        """The classes that ``value.name`` is looked up in, whether as on an instance and whether behind the class."""
        if isinstance(value, ast.Call) and ast.unparse(value) == "super()" and place.cls in self.classes:
            return [(place.cls, True, True)]
        if isinstance(value, ast.Name) and value.id in self.classes and not self._is_local(value.id, place):
            return [(value.id, False, False)]
        return [(cls, True, False) for cls in self.kinds(value, place)]

    def _method_calls(
        self, call: ast.Call, place: Place, function: ast.Attribute, holders: list[tuple[str, bool, bool]]
    ) -> Iterator[Evident]:
        for cls, on_instance, after in holders:
            definition = self.method(cls, function.attr, after)
            if definition is not None:
                owner, node = definition
                marks = {ast.unparse(d) for d in node.decorator_list}
                if not marks & {"property", "cached_property"}:
                    bound = (on_instance or "classmethod" in marks) and "staticmethod" not in marks
                    dotted = f"{owner}.{node.name}"
                    yield Evident(call, place.owner, dotted, dotted, node, _signature(node, bound))
            elif on_instance and not after:
                for held in self.held(cls, function.attr):
                    yield from self._forward(call, place, held)

    def _forward(self, call: ast.Call, place: Place, cls: str) -> Iterator[Evident]:
        definition = self.method(cls, "forward")
        if definition is not None:
            dotted = f"{definition[0]}.forward"
            yield Evident(call, place.owner, dotted, dotted, definition[1], _signature(definition[1], bound=True))

    def _construction(self, call: ast.Call, place: Place, cls: str) -> Iterator[Evident]:
        definition = self.method(cls, "__init__")
        if definition is not None:
            yield Evident(
                call,
                place.owner,
                f"{definition[0]}.__init__",
                cls,
                definition[1],
                _signature(definition[1], bound=True),
            )
        elif any("dataclass" in ast.unparse(d) for d in self.classes[cls].decorator_list):
            bases = {ast.unparse(b) for name in self.line_of(cls) for b in self.classes[name].bases}
            if bases <= {*self.classes, "ModelOutput"}:
                yield Evident(call, place.owner, cls, cls, None, self._fields(cls))

    def _fields(self, cls: str) -> inspect.Signature:
        fields: dict[str, inspect.Parameter] = {}
        for name in reversed(self.line_of(cls)):
            for node in self.classes[name].body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    default = inspect.Parameter.empty if node.value is None else None
                    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
                    fields[node.target.id] = inspect.Parameter(node.target.id, kind, default=default)
        return inspect.Signature(list(fields.values()))

    # --- what things are ---------------------------------------------------------------------------

    def held(self, cls: str, attribute: str) -> list[str]:
        """The classes of this module that an attribute may hold an instance of, or a list of instances."""
        names: list[str] = []
        for owner in self.line_of(cls):
            for method in own_methods(self.classes[owner]):
                for node in ast.walk(method):
                    for target in getattr(node, "targets", [getattr(node, "target", None)]):
                        if isinstance(target, ast.Attribute) and ast.unparse(target) == f"self.{attribute}":
                            value = getattr(node, "value", None)
                            place = Place(owner, (method,))
                            names += self._mentioned(value, place) if isinstance(value, ast.expr) else []
            if names:
                break
        return list(dict.fromkeys(names))

    def _mentioned(self, value: ast.expr, place: Place, depth: int = 0) -> list[str]:
        """The classes that are called in an expression, by name or out of a table; not in the arguments of one."""
        names: list[str] = []
        waiting: list[ast.AST] = [value]
        while waiting:
            node = waiting.pop(0)
            called = [n for n in ast.walk(node.func) if isinstance(n, ast.Name)] if isinstance(node, ast.Call) else []
            classes = [cls for name in called for cls in self._named_classes(name, place)]
            names += classes
            waiting += [] if classes else ast.iter_child_nodes(node)
        if not names and isinstance(value, (ast.Name, ast.IfExp)) and depth < _DEPTH:
            for name in (n for n in ast.walk(value) if isinstance(n, ast.Name)):
                for source, _, _ in self._sources(name.id, place):
                    names += self._mentioned(source, place, depth + 1)
        return names

    def _named_classes(self, name: ast.Name, place: Place) -> list[str]:
        """The classes that a name stands for: one itself, a table's, or those that a local name may be."""
        if not self._is_local(name.id, place):
            if name.id in self.classes:
                return [name.id]
            table = self.tables.get(name.id)
            sources = [table] if isinstance(table, ast.Dict) else []
        else:
            entries = [
                value for value, index, is_item in self._sources(name.id, place) if index is None and not is_item
            ]
            sources = [v for e in entries for v in ([e.body, e.orelse] if isinstance(e, ast.IfExp) else [e])]
            sources = [source for source in sources if isinstance(source, ast.Name)]
        inner = (node for source in sources for node in ast.walk(source) if isinstance(node, ast.Name))
        return [node.id for node in inner if node.id in self.classes]

    def kinds(self, node: ast.expr, place: Place, depth: int = 0) -> list[str]:
        """The classes of this module that an expression may be an instance of, or a list of instances."""
        if depth > _DEPTH:
            return []
        if isinstance(node, ast.Name):
            if node.id == "self" and not self._sources("self", place):
                return [place.cls] if place.cls in self.classes else []
            kinds = [kind for source in self._sources(node.id, place) for kind in self._item(*source, place, depth)]
        elif isinstance(node, ast.Attribute):
            kinds = [k for cls in self.kinds(node.value, place, depth + 1) for k in self.held(cls, node.attr)]
        elif isinstance(node, ast.Subscript):
            kinds = self.kinds(node.value, place, depth + 1)
        elif isinstance(node, ast.IfExp):
            kinds = [k for entry in (node.body, node.orelse) for k in self.kinds(entry, place, depth + 1)]
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if isinstance(node.func, ast.Name) and node.func.id in self.classes:
                kinds = [node.func.id]
            elif name.rpartition(".")[2] in _SAME_ITEMS and len(node.args) == 1:
                kinds = self.kinds(node.args[0], place, depth + 1)
            else:
                kinds = []
        else:
            kinds = []
        return list(dict.fromkeys(kinds))

    def _item(self, value: ast.expr, index: int | None, is_item: bool, place: Place, depth: int) -> list[str]:
        """What is unpacked from an expression: as a whole, or one place of the tuples that it yields."""
        name = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
        if isinstance(value, ast.Call) and is_item and index is not None:
            if name == "enumerate":
                return self.kinds(value.args[0], place, depth + 1) if index == 1 else []
            if name == "zip":
                return self.kinds(value.args[index], place, depth + 1) if index < len(value.args) else []
        return self.kinds(value, place, depth + 1) if index is None else []

    def _is_local(self, name: str, place: Place) -> bool:
        parameters = (a.arg for f in place.functions for a in ast.walk(f.args) if isinstance(a, ast.arg))
        return name in parameters or bool(self._sources(name, place))

    def _sources(self, name: str, place: Place) -> list[tuple[ast.expr, int | None, bool]]:
        """Where a local name gets its values: the expression, the place in a tuple, and whether by a loop."""
        for function in reversed(place.functions):
            if id(function) not in self._locals:
                self._locals[id(function)] = _assigned(function)
            if name in self._locals[id(function)]:
                return self._locals[id(function)][name]
        return []


def _assigned(function: ast.AST) -> dict[str, list[tuple[ast.expr, int | None, bool]]]:
    sources: dict[str, list[tuple[ast.expr, int | None, bool]]] = {}
    for node in ast.walk(function):
        pairs: list[tuple[ast.expr, ast.expr, bool]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value, False) for target in node.targets]
        elif isinstance(node, (ast.NamedExpr, ast.AnnAssign)) and node.value is not None:
            pairs = [(node.target, node.value, False)]
        elif isinstance(node, (ast.For, ast.comprehension)):
            pairs = [(node.target, node.iter, True)]
        for target, value, is_item in pairs:
            if isinstance(target, ast.Name):
                sources.setdefault(target.id, []).append((value, None, is_item))
            elif isinstance(target, ast.Tuple):
                for index, entry in enumerate(target.elts):
                    if isinstance(entry, ast.Name):
                        sources.setdefault(entry.id, []).append((value, index, is_item))
    return sources


# --- what Python refuses -------------------------------------------------------------------------------


def _signature(function: Method, bound: bool) -> inspect.Signature:
    return signature(function.args, bound)


def signature(arguments: ast.arguments, bound: bool) -> inspect.Signature:
    """What a function with these arguments takes, as Python itself sees it."""
    plain = ast.parse("def f(): pass").body[0]
    assert isinstance(plain, ast.FunctionDef)
    plain.args = ast.arguments(
        [ast.arg(a.arg) for a in arguments.posonlyargs],
        [ast.arg(a.arg) for a in arguments.args],
        ast.arg(arguments.vararg.arg) if arguments.vararg else None,
        [ast.arg(a.arg) for a in arguments.kwonlyargs],
        [None if d is None else ast.Constant(None) for d in arguments.kw_defaults],
        ast.arg(arguments.kwarg.arg) if arguments.kwarg else None,
        [ast.Constant(None) for _ in arguments.defaults],
    )
    namespace: dict[str, object] = {}
    tree = ast.fix_missing_locations(ast.Module([plain], []))
    exec(compile(tree, "<signature>", "exec"), namespace)
    signature = inspect.signature(namespace["f"])
    parameters = list(signature.parameters.values())
    is_first = bool(parameters) and parameters[0].kind in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return signature.replace(parameters=parameters[1:]) if bound and is_first else signature


def is_refused(call: ast.Call, taken: inspect.Signature) -> bool:
    """Whether Python raises TypeError for a call, whatever its stars hold."""
    args = [None for argument in call.args if not isinstance(argument, ast.Starred)]
    keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg is not None}
    has_stars = len(args) < len(call.args) or len(keywords) < len(call.keywords)
    try:
        (taken.bind_partial if has_stars else taken.bind)(*args, **keywords)
    except TypeError:
        return True
    return False
