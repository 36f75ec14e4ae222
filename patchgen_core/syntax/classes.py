"""Classes: their bases in order, and what calling one runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen_core.syntax.index import assigned_names, bound_name
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import Function, decorator_name, decorator_names, last_name, methods, statements
from patchgen_core.syntax.signatures import Parameter

_PLAIN_BASES = frozenset(
    ["Module", "object", "ABC", "Generic", "PreTrainedModel", "GradientCheckpointingLayer", "GenerationMixin"]
)
_CLASS_METHODS = frozenset(["__init_subclass__", "__class_getitem__"])


@dataclass(frozen=True)
class Class:
    """A class and the module it stands in."""

    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name


def named_bases(node: ast.ClassDef) -> list[str]:
    """A class's name, and those of its bases that are plain names."""
    return [node.name, *(base.id for base in node.bases if isinstance(base, ast.Name))]


def resolution_order(cls: Class) -> tuple[Class | None, ...]:
    """A class and its bases in the order they are looked at; None for one that another module defines."""
    ancestors = list(_ancestors(cls, ()))
    last = {base: place for place, base in enumerate(ancestors)}
    return tuple(base for place, base in enumerate(ancestors) if base is None or last[base] == place)


def _ancestors(cls: Class, below: tuple[ast.ClassDef, ...]) -> Iterator[Class | None]:
    """A class and its bases, depth first; a base of several of them more than once."""
    yield cls
    for base in cls.node.bases:
        name = last_name(base.value if isinstance(base, ast.Subscript) else base)
        base_node = cls.module.cls(base.id) if isinstance(base, ast.Name) else None
        if base_node is not None and base_node not in (*below, cls.node):
            yield from _ancestors(Class(cls.module, base_node), (*below, cls.node))
        elif name not in _PLAIN_BASES and not name.endswith("PreTrainedModel"):
            yield None


def assigned_in(node: ast.ClassDef) -> set[str]:
    """The names that a class body binds by assigning or importing."""
    names = set()
    for statement in statements(node.body):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            names |= {bound_name(statement, alias) for alias in statement.names}
        elif getattr(statement, "value", None) is not None:
            names |= set(assigned_names(statement))
    return names


def is_class_method(function: Function) -> bool:
    """Whether a method is given its class when it is called."""
    return function.name in _CLASS_METHODS or "classmethod" in decorator_names(function)


def makes_instances(function: Function) -> bool:
    """Whether a method is ``__new__``, which is given its class and is called like a static method."""
    return function.name == "__new__"


def is_made_otherwise(cls: Class) -> bool:
    """Whether calling a class runs something else than its ``__init__``."""
    node = cls.node
    has_metaclass = any(k.arg == "metaclass" and last_name(k.value) != "ABCMeta" for k in node.keywords)
    return has_metaclass or bool(methods(node, "__new__")) or any(last_name(b).endswith("Enum") for b in node.bases)


def has_fields(cls: Class) -> bool:
    """Whether a class is a dataclass by its own decorator."""
    return _dataclass(cls.node) is not None


def dataclass_fields(cls: Class) -> list[Parameter] | None:
    """The fields of a dataclass as its constructor takes them: inherited ones first, those by keyword only last.

    None when a base is of another module, or when the decorator makes no constructor.
    """
    line = resolution_order(cls)
    decorator = _dataclass(cls.node)
    if decorator is None or _option(decorator, "init", False):
        return None
    outside = {last_name(base) for c in line if c is not None for base in c.node.bases}
    inner = {c.name for c in line if c is not None}
    if None in line and outside - inner - {"ModelOutput"}:
        return None
    fields: dict[str, Parameter] = {}
    for base in reversed(line):
        base_decorator = _dataclass(base.node) if base is not None else None
        if base is not None and base_decorator is not None:
            fields |= _own_fields(base.node, _option(base_decorator, "kw_only", True))
    return sorted(fields.values(), key=lambda field: field.kind == "keyword")


def _own_fields(node: ast.ClassDef, by_keyword: bool) -> dict[str, Parameter]:
    fields = {}
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            annotation, name = ast.unparse(statement.annotation), statement.target.id
            if annotation.rpartition(".")[2] == "KW_ONLY":
                by_keyword = True
            elif "ClassVar" not in annotation:
                fields[name] = Parameter(name, "keyword" if by_keyword else "either", statement.value)
    return fields


def _dataclass(node: ast.ClassDef) -> ast.expr | None:
    return next((d for d in node.decorator_list if decorator_name(d) == "dataclass"), None)


def _option(decorator: ast.expr, name: str, value: bool) -> bool:
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    return any(k.arg == name and isinstance(k.value, ast.Constant) and k.value.value is value for k in keywords)
