"""What instances of a class have, as far as texts tell."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen_core.checks.contract.rule import Subject
from patchgen_core.syntax.classes import Class, assigned_in
from patchgen_core.syntax.index import assigned_names
from patchgen_core.syntax.inference import Inference
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import DEFINITIONS, all_methods, called_name, inside, last_name, statements
from patchgen_core.syntax.signatures import instance_name

BUILTIN_READERS = frozenset(["super", "isinstance", "hasattr", "getattr", "setattr", "type", "print", "id", "len"])
"""Functions that give an instance no attributes that the call does not name."""
_REGISTERING = frozenset(["register_buffer", "register_parameter", "add_module", "register_module"])
ANY_NAME = frozenset(["__getattr__", "__getattribute__"])
"""Methods by which instances have attributes that no text names."""


def own_members(cls: Class) -> frozenset[str] | None:
    """The methods and attributes that a class adds to those of its bases; None when some of them cannot be told."""
    module, node = cls.module, cls.node
    is_only = module.cls(node.name) is node  # else what methods do may be in another class of the name
    return module.fact(_read_members, node, module) if is_only else module.once(_own_members, node)


def _read_members(node: ast.ClassDef, module: Module) -> frozenset[str] | None:
    return _own_members(module, node)


def _own_members(module: Module, node: ast.ClassDef) -> frozenset[str] | None:
    names = declared_members(Class(module, node))
    for call in module.calls_by_class.get(node.name, ()):
        registered = _registered(call.node)
        if registered is None:
            return None
        names |= registered
    return frozenset(names)


def declared_members(cls: Class) -> set[str]:
    """What a class body binds or annotates, and what its methods assign to attributes of ``self``."""
    names = assigned_in(cls.node) | set(cls.module.attributes(cls.name))
    for statement in statements(cls.node.body):
        names |= {statement.name} if isinstance(statement, DEFINITIONS) else set(assigned_names(statement))
    return names


def members(inference: Inference, cls: Class) -> set[str] | None:
    """The methods and attributes of a class and its bases; None when some of them cannot be told."""
    names: set[str] = set()
    for base in inference.bases(cls):
        own = own_members(base) if base is not None else None
        if base is None or own is None:
            return None
        names |= own
        if any("PreTrainedModel" in ast.unparse(outside) for outside in base.node.bases):
            names.add("config")
    return names


def hands_itself_on(function: ast.AST, instance: str) -> bool:
    """Whether a function passes the instance to a function that may give it any attribute."""
    for call in (node for node in inside(function) if isinstance(node, ast.Call)):
        is_known = not isinstance(call.func, ast.Name) or call.func.id in BUILTIN_READERS
        if not is_known and any(isinstance(a, ast.Name) and a.id == instance for a in call.args):
            return True
    return False


def _registered(node: ast.Call) -> set[str] | None:
    """The attribute that a call like ``self.register_buffer("name", ...)`` makes; None for an unknown one."""
    is_setattr = isinstance(node.func, ast.Name) and node.func.id == "setattr"
    is_registering = isinstance(node.func, ast.Attribute) and node.func.attr in _REGISTERING
    if not is_setattr and not is_registering:
        return set()
    place = 1 if is_setattr else 0
    name = node.args[place] if len(node.args) > place else None
    return {str(name.value)} if isinstance(name, ast.Constant) else None


@dataclass(frozen=True)
class Lineage:
    """What instances of a class of a generated module may have: its own members and those of its bases and subclasses,
    as they are now and as they are upstream.

    Attributes:
        names: the members that the generated module and upstream's define.
        outside: the bases that other modules define, each with the module that refers to it.
    """

    names: frozenset[str]
    outside: tuple[tuple[Module, ast.expr], ...]


class Lineages:
    """What instances of the classes of a generated module may have."""

    def __init__(self, subject: Subject) -> None:
        sides = ((subject.generated, subject.inference), (subject.upstream, subject.upstream_inference))
        self._lines: dict[str, dict[Class, None]] = {}
        for module, inference in sides:
            for nodes in module.index.classes.values():
                for node in nodes:
                    line = tuple(filter(None, inference.bases(Class(module, node))))
                    for base in line:
                        self._lines.setdefault(base.name, {}).update(dict.fromkeys(line))
        self._known: dict[str, Lineage | None] = {}

    def find(self, name: str) -> Lineage | None:
        """What instances of a class may have; None when they may have anything."""
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def _find(self, name: str) -> Lineage | None:
        names: set[str] = set()
        outside: list[tuple[Module, ast.expr]] = []
        for base in self._lines.get(name, ()):
            own = own_members(base)
            is_open = own is None or own & ANY_NAME or base.node.keywords
            if own is None or is_open or base.module.fact(_is_open, base.node, base.module):
                return None
            names |= own
            outside += [(base.module, node) for node in base.node.bases if not _is_here(base.module, node)]
        return Lineage(frozenset(names), tuple(outside))


def _is_here(module: Module, base: ast.expr) -> bool:
    return isinstance(base, ast.Name) and module.cls(base.id) is not None


def _is_open(cls: ast.ClassDef, module: Module) -> bool:
    """Whether the code of a class may give its instances attributes of any name."""
    functions = [(function, instance_name(function)) for function in all_methods(cls)]
    makers = [(f, instance) for f, instance in functions if f.name == "__init__"]
    if any(hands_itself_on(function, instance) for function, instance in makers):
        return True
    text = "\n".join(module.source.lines[cls.lineno - 1 : cls.end_lineno])
    if text.isascii() and "__dict__" not in text and "vars" not in text:
        return False
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "__dict__" and last_name(node.value) == instance)
        or (called_name(node) == "vars" and bool(getattr(node, "args", ())))
        for function, instance in functions
        for node in ast.walk(function)
    )
