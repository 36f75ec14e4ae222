"""Objects that stand for third-party modules and their contents while a config is loaded."""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any, NoReturn


class StubValueError(Exception):
    """A config asked a stub for a value that only the real object has.

    Attributes:
        path: the dotted name that the stub stands for.
        is_source_enough: whether its module need not be imported, only executed from its file.
    """

    def __init__(self, reason: str, path: str, is_source_enough: bool = False) -> None:
        super().__init__(reason)
        self.path, self.is_source_enough = path, is_source_enough


class Stub:
    """Anything of a module that was not imported, and anything derived from it.

    It can be called, subscripted, combined with ``|``, used as a decorator and as a base class. Asking for
    its value raises :class:`StubValueError`.
    """

    __slots__ = ("_stub_path",)

    def __init__(self, path: str) -> None:
        object.__setattr__(self, "_stub_path", path)

    def __getattr__(self, name: str) -> Stub:
        if name.startswith("__") and name.endswith("__") and name != "__version__":
            raise AttributeError(name)
        return Stub(f"{stub_path(self)}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        _raise(self, f"sets {name} on")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A decorator returns what it decorates; any other call makes a stub."""
        if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type)):
            return args[0]
        if len(args) == 1 and not kwargs and isinstance(args[0], (property, staticmethod, classmethod)):
            return args[0]
        return Stub(f"{stub_path(self)}()")

    def __getitem__(self, key: Any) -> Stub:
        return Stub(f"{stub_path(self)}[...]")

    def __or__(self, other: Any) -> Stub:
        return Stub(f"{stub_path(self)} | ...")

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __hash__(self) -> int:
        return id(self)


class StubModule(types.ModuleType):
    """A module that was not imported; every name in it is a :class:`Stub`."""

    def __getattr__(self, name: str) -> Stub:
        if name.startswith("__") and name.endswith("__") and name != "__version__":
            raise AttributeError(name)
        return Stub(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As of a stub: what looked like a module may have been a class."""
        return Stub(self.__name__)(*args, **kwargs)


def stub_path(stub: Any) -> str:
    """The dotted name a stub or a stubbed module stands for."""
    path = object.__getattribute__(stub, "_stub_path") if type(stub) is Stub else stub.__name__
    assert isinstance(path, str)
    return path


def is_stub(value: Any) -> bool:
    """Whether a value is a stub or a stubbed module."""
    return type(value) in (Stub, StubModule)


def ask_for_value(stub: Any) -> NoReturn:
    """Raise what asking a stub for its value raises."""
    _raise(stub, "needs the value of")


def _raise(stub: Any, use: str) -> NoReturn:
    path = stub_path(stub)
    raise StubValueError(f"it {use} {path}", path)


# Modules of the standard library that compare what they are given, without a config asking for it.
_NEUTRAL = frozenset(
    ("typing", "typing_extensions", "types", "dataclasses", "inspect", "enum", "functools", "collections.abc")
)


def _asks(use: str, neutral: Any = None) -> Any:
    def asks(self: Stub, *args: Any) -> Any:
        if neutral is not None and sys._getframe(1).f_globals.get("__name__") in _NEUTRAL:
            return neutral(self, *args)
        _raise(self, use)

    return asks


_USES = {
    "takes the length of": "len",
    "iterates over": "iter next reversed contains aiter anext",
    "compares": "lt le gt ge",
    "needs the number or text of": "int float complex index str format bytes round",
    "computes with": (
        "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul "
        "and rand xor rxor lshift rlshift rshift rrshift neg pos abs invert"
    ),
    "enters": "enter exit aenter aexit",
    "awaits": "await",
    "checks the type with": "instancecheck subclasscheck",
    "sets an item of": "setitem delitem",
}
for _use, _names in _USES.items():
    for _name in _names.split():
        setattr(Stub, f"__{_name}__", _asks(_use))
for _name, _use, _neutral in (
    ("repr", "needs the number or text of", stub_path),
    ("bool", "tests the truth of", lambda self: True),
    ("eq", "compares", lambda self, other: self is other),
    ("ne", "compares", lambda self, other: self is not other),
):
    setattr(Stub, f"__{_name}__", _asks(_use, _neutral))


def stub_builtins(import_function: Any) -> dict[str, Any]:
    """Builtins for a stubbed config: its own import, and questions about stubs that raise.

    ``hasattr`` and the like would answer for a stub what may not hold for the real object.
    """
    names = vars(builtins).copy()

    def guarded(function: Any, use: str, asks: Any) -> Any:
        def call(*args: Any) -> Any:
            if args and is_stub(args[0]) and asks(args):
                _raise(args[0], use)
            return function(*args)

        return call

    def build_class(body: Any, name: str, /, *bases: Any, **keywords: Any) -> Any:
        """Keywords of a class are for its bases and its metaclass; a stub of either takes none."""
        if any(map(is_stub, (*bases, *keywords.values()))):
            keywords = {}
        return builtins.__build_class__(body, name, *bases, **keywords)

    names["__build_class__"] = build_class
    names["__import__"] = import_function
    names["hasattr"] = guarded(hasattr, "asks for an attribute of", lambda args: True)
    names["getattr"] = guarded(getattr, "asks for an attribute of", lambda args: len(args) == 3)
    names["callable"] = guarded(callable, "asks whether it can call", lambda args: True)
    names["isinstance"] = guarded(isinstance, "checks the type of", lambda args: True)
    names["issubclass"] = guarded(issubclass, "checks the type of", lambda args: True)
    names["vars"] = guarded(vars, "lists the names of", lambda args: True)
    names["dir"] = guarded(dir, "lists the names of", lambda args: True)
    return names
