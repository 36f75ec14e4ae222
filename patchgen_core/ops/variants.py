"""Classes of a generated module whose methods read slots of their own.

Slots are globals of their module, so all its models share them. A *variant* is a set of slots beside the module's
own: each slot gets a second name in the module's namespace, and every class that reads slots gets a subclass of the
same name in which the functions that read them, and those that call such functions, have the second names in their
code. A model is bound by making its submodules instances of these subclasses. A call looks nothing up that it would
not look up without, and all else that a function reads stays the module's.

The subclass of a class inherits from the subclasses of its bases as well, so that ``super()`` finds the variant's
methods. What reaches a slot in ways that no copy of a function can change is refused.
"""

from __future__ import annotations

import copyreg
import functools
import importlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.functions import (
    attributes_of_globals,
    cell_content,
    find_foreign_reader,
    is_layer,
    names_in,
    reachable_code,
    read_globals,
    readers,
    reads_slots,
    rename_globals,
)
from patchgen_core.ops.kernel_slot import KernelSlot, find_kernel

Key = tuple[tuple[str, str], ...]
"""What a variant binds: pairs of a slot's name in the module and an implementation, sorted."""

LOCK = threading.RLock()
"""Held while variants and their classes are made."""

_ATTRIBUTE = "_patchgen_variants"
_INSTEAD = "Bind the slots of all its models: call bind_ops with the module instead of the model."


class _VariantSlot(KernelSlot):
    """A slot of a variant."""


def slots_of(module: ModuleType) -> dict[str, KernelSlot]:
    """The slots of a module's namespace by name, without those of variants."""
    entries = list(vars(module).items())  # which other threads may add to
    return {
        name: value for name, value in entries if isinstance(value, KernelSlot) and type(value) is not _VariantSlot
    }


def origin(cls: type) -> type:
    """The class that a variant's class stands for; any other class itself."""
    original: type = vars(cls).get("_patchgen_origin", cls)
    return original


def is_variant(cls: type) -> bool:
    """Whether a class is of a variant itself, not by what it inherits."""
    return "_patchgen_origin" in vars(cls)


def key_of(cls: type) -> Key | None:
    """What the variant of a class binds; None when the class is of no variant."""
    return next((vars(base)["_patchgen_key"] for base in cls.__mro__ if is_variant(base)), None)


def follows_module(cls: type) -> bool:
    """Whether methods of a class read slots that are their module's."""
    if key_of(cls) is not None:
        return False
    parts = (part for base in cls.__mro__ for value in vars(base).values() for part in reachable_code(value))
    return any(isinstance(part, FunctionType) and reads_slots(part) for part in parts)


def find_variant(module: ModuleType, key: Key) -> Variant:
    """The variant of a module with these bindings, made when it is first asked for.

    PatchgenError when only the module as a whole can be bound, for how it uses slots, or when it has other slots.
    """
    with LOCK:
        variants: dict[Key, Variant] = vars(module).setdefault(_ATTRIBUTE, {})
        if key not in variants or not variants[key].is_current():
            variants[key] = Variant(module, key)
        return variants[key]


class Variant:
    """One set of slots of a module.

    Attributes:
        key: what it binds.
        slots: its slots, by the names that the module's own have.
        names: the second names of slots and of functions that read them, by their names in the module.
    """

    def __init__(self, module: ModuleType, key: Key) -> None:
        self.module, self.key = module, key
        self._own = slots_of(module)
        if self._own.keys() != dict(key).keys():
            bound, has = ", ".join(sorted(dict(key))), ", ".join(sorted(self._own)) or "none"
            raise PatchgenError(f"the model's slots are {bound}; those of {module.__name__} are {has}")
        self.slots = {name: _VariantSlot(slot.op_name, slot.variant) for name, slot in self._own.items()}
        for name, implementation in key:
            self.slots[name].set(implementation, find_kernel(self.slots[name], implementation))
        self._reading = {name: vars(module)[name] for name in sorted(readers(vars(module), self._own))}
        self.names = {name: _second_name(module, name) for name in self._reading}
        self._classes: dict[type, tuple[Any, type]] = {}
        self._cloned: dict[int, tuple[Any, Any]] = {}
        self._refuse_hidden()
        clones = {self.names[name]: self._clone(value, name) for name, value in self._reading.items()}
        vars(module).update(clones)

    def is_current(self) -> bool:
        """Whether the module has the slots and functions, and the registry the kernels, that it was made for."""
        namespace = vars(self.module)
        if slots_of(self.module) != self._own or readers(namespace, self._own) != self._reading.keys():
            return False
        if any(namespace[name] is not value for name, value in self._reading.items()):
            return False
        return all(find_kernel(self.slots[name], chosen) is self.slots[name].bound_kernel for name, chosen in self.key)

    def reads(self, value: Any) -> bool:
        """Whether a function, or what wraps one, reads slots of the module."""
        return any(map(self._is_read, reachable_code(value)))

    def _is_read(self, part: FunctionType | KernelSlot) -> bool:
        if isinstance(part, KernelSlot):
            return any(part is slot for slot in self._own.values())
        is_mine = part.__globals__ is vars(self.module)
        return is_mine and not self.names.keys().isdisjoint(read_globals(part.__code__))

    def class_for(self, cls: type) -> type:
        """The class whose instances have this variant's slots; ``cls`` itself when it reads none of the module's.

        PatchgenError when the class reaches slots in a way that only the module as a whole can be bound.
        """
        with LOCK:
            cls = origin(cls)
            reading = {name: v for name, v in vars(cls).items() if name != "__init__" and self.reads(v)}
            bases = tuple(map(self.class_for, cls.__bases__))
            if cls not in self._classes or self._classes[cls][0] != (reading, bases):
                self._classes[cls] = (reading, bases), self._make(cls, reading, bases)
            return self._classes[cls][1]

    def made_for(self, cls: type) -> type | None:
        """What :meth:`class_for` returned the last time; None when it never was asked, or the slots are others now."""
        return self._classes[cls][1] if cls in self._classes and slots_of(self.module) == self._own else None

    def _make(self, cls: type, reading: Mapping[str, Any], bases: tuple[type, ...]) -> type:
        for name, value in vars(cls).items():
            self._refuse_named(f"{cls.__qualname__}.{name}", value)
        changed = [new for new, base in zip(bases, cls.__bases__) if new is not base]
        if not reading and not changed:
            return cls
        namespace = {
            **{name: self._clone(value, f"{cls.__qualname__}.{name}") for name, value in reading.items()},
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__,
            "__init__": _init(cls),
            "__reduce_ex__": _reduce,
            "_patchgen_origin": cls,
            "_patchgen_module": self.module.__name__,
            "_patchgen_key": self.key,
        }
        is_wrapper = any(map(is_variant, cls.__mro__))  # of what was bound before
        if is_wrapper:
            _refuse_overriding(cls, changed)
        return type(cls)(cls.__name__, (*changed, cls) if is_wrapper else (cls, *changed), namespace)

    def _refuse_hidden(self) -> None:
        """Refuse what reads slots and is reached neither by a name of the module nor as a method of a layer."""
        namespace = vars(self.module)
        mine = [v for v in namespace.values() if isinstance(v, type) and v.__module__ == self.module.__name__]
        layers = [value for value in namespace.values() if is_layer(value)]
        hidden = [*_outside_of_layers(mine), *(type(part) for layer in layers for part in layer.modules())]
        for cls in hidden:
            if any(self.reads(value) for base in cls.__mro__ for value in vars(base).values()):
                where = f"{cls.__qualname__} of {self.module.__name__}"
                raise PatchgenError(f"{where} reads slots outside of a model's layers", None, _INSTEAD)
        for name, value in namespace.items():
            if not isinstance(value, type):
                self._refuse_named(name, value)

    def _refuse_named(self, where: str, value: Any) -> None:
        """Refuse a function that reaches one that reads slots by the name of its class."""
        for function in reachable_code(value):
            if not isinstance(function, FunctionType):
                continue
            values = map(function.__globals__.get, names_in(function.__code__))
            if any(map(self._is_class, values)):
                for name, attribute in attributes_of_globals(function.__code__):
                    cls = function.__globals__.get(name)
                    if self._is_class(cls) and self.reads(getattr(cls, attribute, None)):
                        message = f"{where} calls {name}.{attribute}, which reads slots"
                        raise PatchgenError(message, None, _INSTEAD)

    def _is_class(self, value: Any) -> bool:
        return isinstance(value, type) and any(base.__module__ == self.module.__name__ for base in value.__mro__)

    def _clone(self, value: Any, where: str) -> Any:
        """A function, or what wraps one, with the second names; the same object when it reads no slot."""
        if id(value) not in self._cloned:
            try:
                self._cloned[id(value)] = value, self._clone_anew(value, where)
            except PatchgenError:
                self._cloned.clear()  # of what was begun
                raise
        return self._cloned[id(value)][1]

    def _clone_anew(self, value: Any, where: str) -> Any:
        if not self.reads(value):
            return value
        if isinstance(value, KernelSlot):
            return next(self.slots[name] for name, slot in self._own.items() if slot is value)
        if isinstance(value, FunctionType):
            return self._clone_function(value, where)
        if type(value) in (staticmethod, classmethod):
            return type(value)(self._clone(value.__func__, where))
        if type(value) is property:
            fget, fset, fdel = (self._clone(part, where) for part in (value.fget, value.fset, value.fdel))
            return property(fget, fset, fdel, value.__doc__)
        if type(value) is functools.cached_property:
            again = functools.cached_property(self._clone(value.func, where))
            again.__set_name__(object, value.attrname or "")
            return again
        if type(value) in (functools.partial, functools.partialmethod):
            arguments = [self._clone(argument, where) for argument in value.args]
            keywords = {name: self._clone(argument, where) for name, argument in value.keywords.items()}
            return type(value)(self._clone(value.func, where), *arguments, **keywords)
        kind = type(value).__qualname__
        raise PatchgenError(f"{where} reaches a function that reads slots, or a slot, by a {kind}", None, _INSTEAD)

    def _clone_function(self, function: FunctionType, where: str) -> FunctionType:
        code = rename_globals(function.__code__, self.names) if self._is_read(function) else function.__code__
        cells = [(cell, CellType() if self.reads(cell_content(cell)) else cell) for cell in function.__closure__ or ()]
        closure = tuple(new for _, new in cells)
        clone = FunctionType(code, function.__globals__, function.__name__, None, closure)
        self._cloned[id(function)] = function, clone  # which may close over itself
        for cell, new in cells:
            if new is not cell:
                new.cell_contents = self._clone(cell.cell_contents, where)
        if function.__defaults__ is not None:
            clone.__defaults__ = tuple(self._clone(value, where) for value in function.__defaults__)
        if function.__kwdefaults__ is not None:
            clone.__kwdefaults__ = {name: self._clone(v, where) for name, v in function.__kwdefaults__.items()}
        functools.update_wrapper(clone, function, updated=())
        clone.__dict__.clear()  # of the __wrapped__ that update_wrapper sets
        clone.__dict__.update({name: self._clone(value, where) for name, value in vars(function).items()})
        return clone


def methods_held(model: Any) -> list[tuple[Any, str, MethodType]]:
    """Part, name and method of what a model's parts keep as their own attributes, as wrappers of ``forward`` do."""
    parts = {id(part) for part in model.modules()}
    return [
        (part, attribute, value)
        for part in model.modules()
        for attribute, value in vars(part).items()
        if isinstance(value, MethodType)
        and id(value.__self__) in parts
        and getattr(type(value.__self__), value.__name__, None) is value.__func__
    ]


def refuse_strays(model: Any, variants: Iterable[Variant]) -> None:
    """Refuse, by a PatchgenError, a model that reads slots which none of the variants can replace.

    A method reads slots of a module that is not the variants', or calls a function of another module that does; or a
    part keeps a function that reads slots as its own attribute, other than a method (:func:`methods_held`).
    """
    namespaces = [vars(variant.module) for variant in variants]
    for cls in dict.fromkeys(base for part in model.modules() for base in type(part).__mro__ if not is_variant(base)):
        for name, value in vars(cls).items():
            for function in reachable_code(value):
                if isinstance(function, FunctionType):
                    _refuse_stray(f"{cls.__qualname__}.{name}", function, namespaces)
    names = [readers(namespace) for namespace in namespaces]
    methods = {(id(part), attribute) for part, attribute, _ in methods_held(model)}
    for name, part in model.named_modules():
        for attribute, value in vars(part).items():
            if (id(part), attribute) not in methods and any(
                _is_held(reached, namespaces, names) for reached in reachable_code(value)
            ):
                raise PatchgenError(
                    f"{name or type(part).__name__} keeps what reads slots as its own attribute '{attribute}'",
                    None,
                    "Bind before the model is wrapped or compiled by parts, or call bind_ops with the module.",
                )


def _is_held(part: FunctionType | KernelSlot, namespaces: list[dict[str, Any]], names: list[frozenset[str]]) -> bool:
    for namespace, reading in zip(namespaces, names):
        if isinstance(part, KernelSlot):
            if any(part is value for value in namespace.values()):
                return True
        elif part.__globals__ is namespace and not reading.isdisjoint(read_globals(part.__code__)):
            return True
    return False


def _refuse_stray(where: str, function: FunctionType, namespaces: list[dict[str, Any]]) -> None:
    other = find_foreign_reader(function)
    if other:
        raise PatchgenError(f"{where} calls {other} of another module, which reads slots there", None, _INSTEAD)
    if not any(function.__globals__ is namespace for namespace in namespaces) and reads_slots(function):
        home = function.__globals__.get("__name__", "a module")
        raise PatchgenError(
            f"{where} reads slots of {home}: of an earlier import of it, or of a module of no class of the model",
            None,
            "Make the model of the module that is imported now, or call bind_ops with the module.",
        )


def _refuse_overriding(cls: type, changed: Iterable[type]) -> None:
    """Refuse to bind anew what was wrapped by a class that overrides methods which read slots."""
    names = {n for new in changed for base in new.__mro__ if is_variant(base) for n in vars(base)}
    names -= {"__module__", "__doc__", "__init__", "__qualname__", "__reduce_ex__"}
    for base in itertools.takewhile(lambda base: not is_variant(base), cls.__mro__):
        for name in sorted(names & vars(base).keys()):
            raise PatchgenError(
                f"{cls.__qualname__} overrides {name} of a class that was bound before", None, "Bind before wrapping."
            )


def _outside_of_layers(classes: Iterable[type]) -> Iterator[type]:
    """Those of a module's classes, and of the classes nested in them, that are no layers and no bases of layers."""
    torch = importlib.import_module("torch")
    every = [*classes]
    for cls in every:
        nested = [value for value in vars(cls).values() if isinstance(value, type)]
        every += [value for value in nested if value.__qualname__ == f"{cls.__qualname__}.{value.__name__}"]
    bases = {base for cls in every if issubclass(cls, torch.nn.Module) for base in cls.__mro__}
    return (cls for cls in every if cls not in bases)


def _second_name(module: ModuleType, name: str) -> str:
    return next(new for n in itertools.count(1) if (new := f"{name}__bound_{n}") not in vars(module))


def _init(cls: type) -> Callable[..., None]:
    """The ``__init__`` of a variant's class: what is made by calling it is of the origin, as its parts are."""

    @functools.wraps(cls.__init__)  # type: ignore[misc]
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if vars(type(self)).get("_patchgen_origin") is cls:
            object.__setattr__(self, "__class__", cls)
        cls.__init__(self, *args, **kwargs)  # type: ignore[misc]

    return __init__


def _reduce(self: Any, protocol: Any) -> Any:
    """How an instance of a variant's class is copied and pickled: by its origin and what the variant binds."""
    cls, of = type(self), vars(type(self))
    homes = (vars(base) for base in cls.__mro__ if not is_variant(base))
    reduce = next(home["__reduce_ex__"] for home in homes if "__reduce_ex__" in home)
    if not is_variant(cls):
        return reduce(self, protocol)
    reduced = reduce(self, max(protocol, 2))
    if reduced[:2] != (copyreg.__newobj__, (cls,)):  # type: ignore[attr-defined]
        raise TypeError(f"{cls.__qualname__} reduces itself in its own way: it cannot be copied with its bindings")
    return (_remake, (of["_patchgen_module"], of["_patchgen_origin"], of["_patchgen_key"]), *reduced[2:])


def _remake(module: str, cls: type, key: Key) -> Any:
    home = importlib.import_module(module)
    variant: Variant | None = vars(home).get(_ATTRIBUTE, {}).get(key)
    again = variant.made_for(cls) if variant else None
    if again is None:
        again = find_variant(home, key).class_for(cls)
    return again.__new__(again)  # type: ignore[call-overload]
