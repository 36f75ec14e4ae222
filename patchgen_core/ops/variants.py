"""Classes of a generated module whose methods read slots of their own.

Slots are globals of their module, so all its models share them. A *variant* is a set of slots beside the module's
own: each slot gets a second name in the module's namespace, and every class that reads slots gets a subclass of the
same name in which the functions that read them, and those that call such functions, have the second names in their
code. A model is bound by making its submodules instances of these subclasses. A call looks nothing up that it would
not look up without, and all else that a function reads stays the module's.
"""

from __future__ import annotations

import copyreg
import dis
import functools
import importlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.slot import OpSlot

Key = tuple[tuple[str, str], ...]
"""What a variant binds: pairs of a slot's name in the module and an implementation, sorted."""

_ATTRIBUTE = "_patchgen_variants"
_FULL = "of all its models: call bind_ops with the module instead of the model"


def slots_of(module: ModuleType) -> dict[str, OpSlot]:
    """The slots of a module's namespace by name, without those of variants."""
    variants: Mapping[Key, Variant] = vars(module).get(_ATTRIBUTE, {})
    mine = {name for variant in variants.values() for name in variant.names.values()}
    return {name: value for name, value in vars(module).items() if isinstance(value, OpSlot) and name not in mine}


def origin(cls: type) -> type:
    """The class that a variant's class stands for; any other class itself."""
    found: type = vars(cls).get("_patchgen_origin", cls)
    return found


def key_of(cls: type) -> Key | None:
    """What the variant of a class binds; None when the class is of no variant."""
    return next((vars(base)["_patchgen_key"] for base in cls.__mro__ if "_patchgen_key" in vars(base)), None)


def find_variant(module: ModuleType, key: Key) -> Variant:
    """The variant of a module with these bindings, made when it is first asked for.

    Raises:
        PatchgenError: the module uses slots in a way that only the module as a whole can be bound.
    """
    known: dict[Key, Variant] = vars(module).setdefault(_ATTRIBUTE, {})
    if key not in known or not known[key].is_current():
        known[key] = Variant(module, key)
    return known[key]


class Variant:
    """One set of slots of a module.

    Attributes:
        module: the module.
        key: what it binds.
        slots: its slots, by the names that the module's own have.
        names: the second names of slots and of functions that read them, by their names in the module.
    """

    def __init__(self, module: ModuleType, key: Key) -> None:
        self.module, self.key = module, key
        self._own = slots_of(module)
        self.slots = {name: OpSlot(self._own[name].op_name, self._own[name].variant) for name, _ in key}
        for name, implementation in key:
            self.slots[name].bind(implementation)
        functions = _reading(module, set(self.slots))
        self.names = {name: _second_name(module, name) for name in (*self.slots, *functions)}
        self._classes: dict[type, type] = {}
        self._cloned: dict[int, tuple[Any, Any]] = {}
        _refuse_hidden(module, self.reads)
        for name, slot in self.slots.items():
            vars(module)[self.names[name]] = slot
        for name in functions:
            vars(module)[self.names[name]] = self._clone(vars(module)[name])

    def is_current(self) -> bool:
        """Whether the module still has the slots that it was made for; reloading makes others."""
        return slots_of(self.module) == self._own

    def reads(self, value: Any) -> bool:
        """Whether a function, or what wraps one, reads slots of the module."""
        return any(self._code_reads(function) for function in _functions(value))

    def _code_reads(self, function: FunctionType) -> bool:
        is_mine = function.__globals__ is vars(self.module)
        return is_mine and not self.names.keys().isdisjoint(read_globals(function.__code__))

    def class_for(self, cls: type) -> type:
        """The class whose instances have this variant's slots; ``cls`` itself when it reads none of the module's.

        Raises:
            PatchgenError: the class reaches slots in a way that only the module as a whole can be bound.
        """
        if cls not in self._classes:
            self._classes[cls] = self._make(cls)
        return self._classes[cls]

    def _make(self, cls: type) -> type:
        cloned = {name: self._clone(value) for name, value in _members(cls).items() if self.reads(value)}
        if not cloned:
            return cls
        self._refuse_other_ways(cls)
        namespace = {
            **cloned,
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__,
            "__reduce_ex__": _reduce,
            "_patchgen_origin": cls,
            "_patchgen_module": self.module.__name__,
            "_patchgen_key": self.key,
        }
        return type(cls)(cls.__name__, (cls,), namespace)

    def _refuse_other_ways(self, cls: type) -> None:
        """Refuse methods that reach a function that reads slots by ``super()``, or by the name of a class."""
        bases = [base for base in cls.__mro__ if "_patchgen_origin" not in vars(base)]
        for position, base in enumerate(bases):
            reading = {n for other in bases[position + 1 :] for n, value in vars(other).items() if self.reads(value)}
            for name, value in vars(base).items():
                for function in _functions(value):
                    for way in self._other_ways(function, reading):
                        called = f"{base.__qualname__}.{name} calls {way}"
                        raise PatchgenError(f"{called}, which reads slots", None, f"Bind the slots {_FULL}.")

    def _other_ways(self, function: FunctionType, inherited: set[str]) -> Iterator[str]:
        code = function.__code__
        yield from (f"super().{name}" for name in inherited & _attributes_of("super", code))
        for name in read_globals(code) if function.__globals__ is vars(self.module) else ():
            cls = vars(self.module).get(name)
            if isinstance(cls, type):
                found = _attributes_of(name, code)
                yield from (f"{name}.{n}" for n in found if self.reads(getattr(cls, n, None)))

    def _clone(self, value: Any) -> Any:
        """A function, or what wraps one, with the second names; the same object when it reads no slot."""
        if id(value) not in self._cloned:
            self._cloned[id(value)] = value, self._clone_anew(value)
        return self._cloned[id(value)][1]

    def _clone_anew(self, value: Any) -> Any:
        if not self.reads(value):
            return value
        if isinstance(value, FunctionType):
            return self._clone_function(value)
        if isinstance(value, (staticmethod, classmethod)):
            return type(value)(self._clone(value.__func__))
        if isinstance(value, property):
            return property(self._clone(value.fget), self._clone(value.fset), self._clone(value.fdel), value.__doc__)
        if isinstance(value, functools.partial):
            return functools.partial(self._clone(value.func), *value.args, **value.keywords)
        if isinstance(value, functools.cached_property):
            again = functools.cached_property(self._clone(value.func))
            again.__set_name__(object, value.attrname or "")
            return again
        raise PatchgenError(f"{value!r} wraps a function that reads slots", None, f"Bind the slots {_FULL}.")

    def _clone_function(self, function: FunctionType) -> FunctionType:
        code = _renamed(function.__code__, self.names) if self._code_reads(function) else function.__code__
        cells = [(cell, CellType() if self.reads(_content(cell)) else cell) for cell in function.__closure__ or ()]
        closure = tuple(new for _, new in cells)
        clone = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
        self._cloned[id(function)] = function, clone  # which may close over itself
        for cell, new in cells:
            if new is not cell:
                new.cell_contents = self._clone(cell.cell_contents)
        clone.__kwdefaults__ = function.__kwdefaults__
        functools.update_wrapper(clone, function, updated=())
        clone.__dict__.clear()  # of the __wrapped__ that update_wrapper sets
        clone.__dict__.update({name: self._clone(value) for name, value in vars(function).items()})
        return clone


def refuse_held(name: str, part: Any, module: ModuleType) -> None:
    """Refuse a submodule that keeps a function that reads slots, such as a wrapped ``forward``, as its own attribute.

    Args:
        name: the submodule's, for the error.
        part: the submodule.
        module: the module with the slots.

    Raises:
        PatchgenError: it does; binding would pass that function by.
    """
    known: Mapping[Key, Variant] = vars(module).get(_ATTRIBUTE, {})
    names = {n for variant in known.values() for pair in variant.names.items() for n in pair}
    for attribute, value in vars(part).items():
        for function in _functions(value):
            if function.__globals__ is vars(module) and not names.isdisjoint(read_globals(function.__code__)):
                raise PatchgenError(
                    f"{name} keeps a function that reads slots as its own attribute '{attribute}'",
                    None,
                    "Bind the slots before the model is wrapped or compiled by parts.",
                )


def _members(cls: type) -> dict[str, Any]:
    """What the attributes of an instance are found as, without what variants put there."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if "_patchgen_origin" not in vars(base):
            found |= vars(base)
    return found


def _reading(module: ModuleType, slots: set[str]) -> list[str]:
    """The names of the module's functions that read slots, or call functions that do."""
    names, functions = set(slots), dict[str, set[str]]()
    for name, value in vars(module).items():
        codes = [f.__code__ for f in _functions(value) if f.__globals__ is vars(module)]
        if codes and not isinstance(value, type):
            functions[name] = {read for code in codes for read in read_globals(code)}
    while True:
        more = {name for name, read in functions.items() if name not in names and not names.isdisjoint(read)}
        if not more:
            return sorted(names - slots)
        names |= more


def _refuse_hidden(module: ModuleType, reads: Callable[[Any], bool]) -> None:
    """Refuse functions that read slots and are reached neither by a name of the module nor as a method of a layer."""
    torch = sys.modules["torch"]
    for name, value in vars(module).items():
        if isinstance(value, type):
            hidden = value.__module__ == module.__name__ and not issubclass(value, torch.nn.Module)
            parts: Iterable[Any] = vars(value).values() if hidden else ()
        elif isinstance(value, Mapping):
            parts = value.values() if name != "__builtins__" else ()
        else:
            parts = value if isinstance(value, (list, tuple, set)) else ()
        if any(map(reads, parts)):
            raise PatchgenError(
                f"'{name}' of {module.__name__} holds a function that reads slots", None, f"Bind the slots {_FULL}."
            )


def _functions(value: Any, seen: set[int] | None = None) -> Iterator[FunctionType]:
    """The functions that a function, method or wrapper runs: itself and what it closes over."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    parts: Iterable[Any] = ()
    if isinstance(value, FunctionType):
        yield value
        parts = [*map(_content, value.__closure__ or ()), *vars(value).values()]
    elif isinstance(value, (staticmethod, classmethod, MethodType)):
        parts = [value.__func__]
    elif isinstance(value, property):
        parts = [value.fget, value.fset, value.fdel]
    elif isinstance(value, (functools.partial, functools.cached_property)):
        parts = [value.func]
    elif not isinstance(value, type):
        parts = [getattr(value, "__dict__", {}).get("__wrapped__")]
    for part in parts:
        yield from _functions(part, seen)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@functools.cache
def read_globals(code: CodeType) -> frozenset[str]:
    """The global names that a code object or one nested in it reads."""
    return frozenset(
        step.argval for part in _codes(code) for step in dis.get_instructions(part) if step.opname == "LOAD_GLOBAL"
    )


def _attributes_of(name: str, code: CodeType) -> set[str]:
    """The attributes that are looked up on a global name, or on what a call of it returns."""
    found: set[str] = set()
    for part in _codes(code):
        steps = list(dis.get_instructions(part))
        for index, step in enumerate(steps):
            if step.opname == "LOAD_GLOBAL" and step.argval == name:
                after = [s.argval for s in steps[index + 1 : index + 8] if "ATTR" in s.opname or "METHOD" in s.opname]
                found.update(str(attribute) for attribute in after[:1])
    return found


def _renamed(code: CodeType, names: Mapping[str, str]) -> CodeType:
    """A code object that reads other globals.

    Raises:
        PatchgenError: one of the names is an attribute's as well, which shares the name's place in the code.
    """
    read = names.keys() & _own_globals(code)
    shared = {s.argval for s in dis.get_instructions(code) if s.opname != "LOAD_GLOBAL" and s.argval in read}
    shared &= set(code.co_names)
    for name in shared:
        raise PatchgenError(
            f"{code.co_name} reads the slot or function '{name}' and an attribute of the same name",
            None,
            "Give the slot another name in the patch config, and generate again.",
        )
    return code.replace(
        co_names=tuple(names[name] if name in read else name for name in code.co_names),
        co_consts=tuple(_renamed(c, names) if isinstance(c, CodeType) else c for c in code.co_consts),
    )


def _own_globals(code: CodeType) -> set[str]:
    return {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}


def _second_name(module: ModuleType, name: str) -> str:
    return next(found for n in itertools.count(1) if (found := f"{name}__bound_{n}") not in vars(module))


def _reduce(self: Any, protocol: Any) -> Any:
    """How an instance of a variant's class is copied and pickled: by its origin and what the variant binds."""
    cls = type(self)
    if "_patchgen_origin" not in vars(cls):
        return object.__reduce_ex__(self, protocol)
    reduced: tuple[Any, ...] = object.__reduce_ex__(self, max(protocol, 2))  # type: ignore[assignment]
    if reduced[0] is not copyreg.__newobj__:  # type: ignore[attr-defined]
        raise TypeError(f"{cls.__qualname__} reduces itself in its own way: it cannot be copied with its bindings")
    of = vars(cls)
    return (_remake, (of["_patchgen_module"], of["_patchgen_origin"], of["_patchgen_key"]), *reduced[2:])


def _remake(module: str, cls: type, key: Key) -> Any:
    again = find_variant(importlib.import_module(module), key).class_for(cls)
    return again.__new__(again)  # type: ignore[call-overload]
