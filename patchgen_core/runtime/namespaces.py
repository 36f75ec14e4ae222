"""What code changes in the modules, classes and tables of this process, and putting it back.

A patcher is not asked what it does: everything is compared before and after. A module that is imported meanwhile
is remembered as it stands right after its import, so that what is changed in it then is seen as well.
"""

from __future__ import annotations

import sys
import types
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import Any

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "nothing", "__reduce__": lambda self: "MISSING"})()
"""Stands for the value of an attribute that is not there."""

_CLASS = "__class__"
_UNKNOWN = object()
_REGISTERED = ("_modules", "_parameters", "_buffers")  # whose entries are attributes of a torch module
_VOLATILE = frozenset(["__abstractmethods__", "_abc_impl", "__annotations__", "__slotnames__", "__warningregistry__"])


@dataclass(frozen=True, eq=False)
class Change:
    """One attribute or entry that has another value than before; ``MISSING`` stands for none.

    Its owner is the module, class or dict that holds it (for ``__class__``, the object), which ``where`` names, such
    as ``transformers.models.llama.modeling_llama``. ``order`` has the names the owner had before, in order.
    """

    owner: Any
    where: str
    name: Any
    before: Any
    after: Any
    order: tuple[Any, ...] = ()

    @property
    def label(self) -> str:
        """What it is called, such as ``transformers.models.llama.modeling_llama.LlamaRMSNorm``."""
        is_entry = isinstance(self.owner, dict) and not (isinstance(self.name, str) and self.name.isidentifier())
        return f"{self.where}[{self.name!r}]" if is_entry else f"{self.where}.{self.name}"

    @property
    def is_current(self) -> bool:
        """Whether the value is still the one it was changed to."""
        if self.name == _CLASS and not isinstance(self.owner, (dict, type, types.ModuleType)):
            return type(self.owner) is self.after
        return _contents(self.owner).get(self.name, MISSING) is self.after

    def undo(self) -> None:
        """Put the value back that was there before, at its old place among the others."""
        owner, name, before = self.owner, self.name, self.before
        if isinstance(owner, type):
            if before is not MISSING:
                type.__setattr__(owner, name, before)
            elif name in vars(owner):
                type.__delattr__(owner, name)
            return
        if not isinstance(owner, (dict, types.ModuleType)):
            owner.__class__ = before
            return
        table = owner if isinstance(owner, dict) else vars(owner)
        plain: Any = OrderedDict if isinstance(table, OrderedDict) else dict  # not what a subclass makes of it
        if before is MISSING:
            plain.pop(table, name, None)
        else:
            plain.__setitem__(table, name, before)
        if table is not owner:
            return
        names = list(_contents(table))
        order = {name: number for number, name in enumerate(self.order)}
        sorted_names = sorted(names, key=lambda name: order.get(name, len(order)))
        if names != sorted_names:
            for key in sorted_names:
                plain.__setitem__(table, key, plain.pop(table, key))


def _contents(owner: Any) -> dict[Any, Any]:
    """A copy of what a module, class or dict holds, read past what its class makes of reading it."""
    table = owner if isinstance(owner, dict) else vars(owner)
    return dict(dict.items(table)) if isinstance(table, dict) else dict(table)


@dataclass(frozen=True, eq=False)
class _Held:
    owner: Any
    where: str
    contents: dict[Any, Any]


class Watch:
    """Remembers every loaded module and its classes, and tells what has changed since. A context manager.

    Args:
        packages: top-level packages of which every attribute counts, and the entries of the dicts that their modules
            and classes hold. Elsewhere only functions, classes and other callables count: what is swapped
            there, and not the counters and caches that change by themselves.
        own: packages whose modules may change their own package while they are imported, and that counts. What
            another package does to itself when it is imported is none of the patcher's doing.
    """

    def __init__(self, packages: Iterable[str], own: Iterable[str] = ()) -> None:
        self.packages, self.own = frozenset([*packages, *own]), frozenset(own)
        self._held: dict[int, _Held] = {}
        self._finder = _Finder(self)

    def __enter__(self) -> Watch:
        for module in list(sys.modules.values()):
            if issubclass(type(module), types.ModuleType):
                self.hold_module(module)
        sys.meta_path.insert(0, self._finder)
        return self

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self._finder)

    def hold_module(self, module: types.ModuleType) -> None:
        """Remember a module, its classes and, in the watched packages, its dicts."""
        name = module.__name__
        self._hold(module, name)
        for key, value in list(vars(module).items()):
            kind = type(value)
            if issubclass(kind, type):
                self._hold_class(value)
            elif self._is_watched(name):
                self._hold_tables(value, f"{name}.{key}")

    def hold_object(self, value: object, where: str) -> set[int]:
        """Remember an object: its class, its attributes and the dicts among them. The ids of what is remembered."""
        tables = {key: table for key, table in vars(value).items() if isinstance(table, dict)}
        self._held.setdefault(id(value), _Held(value, where, {_CLASS: type(value)}))
        self._hold(vars(value), where)
        for key, table in tables.items():
            self._hold(table, where if key in _REGISTERED else f"{where}.{key}")
        return {id(value), id(vars(value)), *map(id, tables.values())}

    def changes(self) -> list[Change]:
        """What has changed since it was remembered, in the order in which it was."""
        return [change for change in self.all_changes() if self._counts(change) and not self._is_own_doing(change)]

    def side_effects(self) -> list[Change]:
        """What packages that are not watched have changed in themselves, as torch does when it compiles something."""
        return [change for change in self.all_changes() if self._counts(change) and self._is_own_doing(change)]

    def all_changes(self) -> Iterator[Change]:
        """What has changed, with what the interpreter and imports change by themselves."""
        for held in list(self._held.values()):
            yield from self._compare(held)

    def accept(self, change: Change) -> None:
        """Take a change for how things were."""
        contents = self._held[id(change.owner)].contents
        if change.after is MISSING:
            contents.pop(change.name, None)
        else:
            contents[change.name] = change.after

    def _is_watched(self, module: str) -> bool:
        return module.partition(".")[0] in self.packages

    def _hold(self, owner: Any, where: str) -> None:
        if id(owner) not in self._held:
            self._held[id(owner)] = _Held(owner, where, _contents(owner))

    def _hold_class(self, cls: type) -> None:
        if id(cls) in self._held:
            return
        where = f"{cls.__module__}.{cls.__qualname__}"
        self._hold(cls, where)
        if self._is_watched(str(cls.__module__)):
            for key, value in list(vars(cls).items()):
                self._hold_tables(value, f"{where}.{key}")

    def _hold_tables(self, value: Any, where: str) -> None:
        """Remember a dict, or the dicts that an object that is a mapping keeps its entries in."""
        if isinstance(value, types.MappingProxyType):
            return
        if issubclass(type(value), dict):
            self._hold(value, where)
        if issubclass(type(value), Mapping):
            for table in list(getattr(value, "__dict__", {}).values()):
                if issubclass(type(table), dict):
                    self._hold(table, where)

    def _compare(self, held: _Held) -> Iterator[Change]:
        owner, before = held.owner, held.contents
        if _CLASS in before and not isinstance(owner, (dict, type, types.ModuleType)):
            if type(owner) is not before[_CLASS]:
                yield Change(owner, held.where, _CLASS, before[_CLASS], type(owner))
            return
        after = _contents(owner)
        for name in [*before, *(name for name in list(after) if name not in before)]:
            old, new = before.get(name, MISSING), after.get(name, MISSING)
            if old is not new:
                yield Change(owner, held.where, name, old, new, tuple(before))

    def _counts(self, change: Change) -> bool:
        """Whether a change is something that code did on purpose, and not the interpreter or an import."""
        owner = change.owner
        values = [value for value in (change.before, change.after) if value is not MISSING]
        is_called = any(callable(value) for value in values)
        is_special = isinstance(change.name, str) and change.name.startswith("__") and change.name.endswith("__")
        if change.name in _VOLATILE or (is_special and not is_called):
            return False
        if change.before is MISSING and self._is_import(change):
            return False
        if not isinstance(owner, (type, types.ModuleType)):
            return True
        return is_called or self._is_watched(str(owner.__module__ if isinstance(owner, type) else owner.__name__))

    def _is_own_doing(self, change: Change) -> bool:
        package = change.where.partition(".")[0]
        return package not in self.packages and _home(change.after).partition(".")[0] == package

    def _is_import(self, change: Change) -> bool:
        """Whether something was added by importing it: a submodule, or what a lazy package looks up and keeps."""
        if isinstance(change.after, types.ModuleType):
            return True
        home = _home(change.after)
        owner = change.owner
        is_lazy = isinstance(owner, types.ModuleType) and (
            type(owner) is not types.ModuleType or "__getattr__" in vars(owner)
        )
        return is_lazy and _is_below(home, owner.__name__)


def _home(value: Any) -> str:
    """The module that the code of a value stands in, whatever a wrapper says of itself."""
    inner = getattr(value, "__func__", value)
    if isinstance(inner, types.FunctionType):
        home = str(inner.__globals__.get("__name__", ""))
        is_made = home.partition(".")[0] in sys.stdlib_module_names  # as dataclasses makes methods
        return str(inner.__module__) if is_made else home
    is_named = isinstance(inner, (type, types.BuiltinFunctionType))
    return str(getattr(inner if is_named else type(inner), "__module__", None) or "")


def _is_below(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


class _Finder:
    """Has a watch remember every module that is imported from a source file, as it is right after it was executed."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.depth = 0

    def find_spec(self, name: str, path: Any = None, target: types.ModuleType | None = None) -> ModuleSpec | None:
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            self._follow(spec.loader, name)
        return spec

    def _follow(self, loader: SourceFileLoader, name: str) -> None:
        execute = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            del loader.exec_module
            before = None if self.depth else {(id(c.owner), c.name): c.after for c in self.watch.all_changes()}
            self.depth += 1
            try:
                execute(module)
            finally:
                self.depth -= 1
                if before is not None:
                    self._accept(name.partition(".")[0], before)
            loaded = sys.modules.get(name, module)  # a lazy package puts another object in its place
            if issubclass(type(loaded), types.ModuleType):
                self.watch.hold_module(loaded)

        loader.exec_module = exec_module  # type: ignore[method-assign]

    def _accept(self, package: str, before: Mapping[tuple[int, Any], Any]) -> None:
        if package in self.watch.own:
            return
        for change in list(self.watch.all_changes()):
            is_new = before.get((id(change.owner), change.name), _UNKNOWN) is not change.after
            if is_new and change.where.partition(".")[0] == package:
                self.watch.accept(change)
