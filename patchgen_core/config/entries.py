"""What a config holds of one kind: a list that takes a set's operations as well, and places what comes in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView, ValuesView
from dataclasses import replace
from types import GeneratorType
from typing import Any, Generic, SupportsIndex, TypeVar, overload

from patchgen_core.config.arguments import caller
from patchgen_core.config.declarations import Allowance, Helper, ImportSpec, Patch, Tolerance
from patchgen_core.errors import Location

T = TypeVar("T")
Place = Callable[[Any, Location], Any]
_MANY: tuple[type, ...] = (list, tuple, set, frozenset, dict, KeysView, ValuesView, GeneratorType, filter, map)


class PlacedText(str):
    """A name or a block of source, and the line that it was declared on."""

    location: Location | None = None


class PlacedPair(tuple[Any, ...]):
    """A target and the name of one of its decorators, and the line that they were declared on.

    ``used_at`` is, where targets share it, the call that names this target.
    """

    location: Location | None = None
    used_at: Location | None = None


_DECLARATIONS = (Patch, ImportSpec, Helper, Allowance, Tolerance)
_PLACED = (PlacedText, PlacedPair, *_DECLARATIONS)


class Entries(list[T]):
    """Entries in the order in which they came, each with the line that it was declared on.

    What comes from another config brings its line along; what comes without one gets that of the call. The operations
    of a set add no entry that is there already.
    """

    def __init__(self, values: Iterable[T] = (), place: Place = lambda value, location: value) -> None:
        self._place = place
        super().__init__(self._placed(values))

    def _placed(self, values: Iterable[T]) -> list[T]:
        ordered = sorted(values, key=str) if isinstance(values, (set, frozenset)) else list(values)
        if all(map(_is_placed, ordered)):
            return ordered
        location = caller()
        return [value if _is_placed(value) else self._place(value, location) for value in ordered]

    def _like(self, values: Iterable[T]) -> Entries[T]:
        return Entries(values, self._place)

    def append(self, value: T) -> None:
        """Add an entry at the end."""
        super().append(*self._placed([value]))

    def insert(self, index: SupportsIndex, value: T) -> None:
        """Add an entry before another."""
        super().insert(index, *self._placed([value]))

    def extend(self, values: Iterable[T]) -> None:
        """Add entries at the end."""
        super().extend(self._placed(values))

    def __iadd__(self, values: Iterable[T]) -> Entries[T]:  # type: ignore[override,misc]
        self.extend(values)
        return self

    def copy(self) -> Entries[T]:
        """The same entries again."""
        return self._like(self)

    def add(self, value: T) -> None:
        """Add an entry that is not there yet."""
        if value not in self:
            self.append(value)

    def update(self, *others: Iterable[T]) -> None:
        """Add the entries of all others that are not there yet."""
        for other in others:
            for value in self._placed(other):
                self.add(value)

    def discard(self, value: T) -> None:
        """Take an entry out, if it is there."""
        self[:] = [entry for entry in self if entry != value]

    def difference_update(self, *others: Iterable[T]) -> None:
        """Take the entries of all others out."""
        self[:] = self.difference(*others)

    def intersection_update(self, *others: Iterable[T]) -> None:
        """Leave only what is in all others."""
        self[:] = self.intersection(*others)

    def union(self, *others: Iterable[T]) -> Entries[T]:
        """These entries and those of all others."""
        result = self.copy()
        result.update(*others)
        return result

    def difference(self, *others: Iterable[T]) -> Entries[T]:
        """These entries without those of any other."""
        gone = [value for other in others for value in other]
        return self._like(entry for entry in self if entry not in gone)

    def intersection(self, *others: Iterable[T]) -> Entries[T]:
        """The entries that are in all others as well."""
        lists = [list(other) for other in others]
        return self._like(entry for entry in self if all(entry in other for other in lists))

    def isdisjoint(self, other: Iterable[T]) -> bool:
        """Whether nothing is in both."""
        return not self.intersection(other)

    def issubset(self, other: Iterable[T]) -> bool:
        """Whether all entries are in the other as well."""
        return not self.difference(other)

    def issuperset(self, other: Iterable[T]) -> bool:
        """Whether all entries of the other are in this one."""
        return all(value in self for value in other)

    def __or__(self, other: Iterable[T]) -> Entries[T]:
        return self.union(other)

    def __ror__(self, other: Iterable[T]) -> Entries[T]:
        return self._like(other).union(self)

    def __ior__(self, other: Iterable[T]) -> Entries[T]:
        self.update(other)
        return self

    def __and__(self, other: Iterable[T]) -> Entries[T]:
        return self.intersection(other)

    def __rand__(self, other: Iterable[T]) -> Entries[T]:
        return self._like(other).intersection(self)

    def __iand__(self, other: Iterable[T]) -> Entries[T]:
        self.intersection_update(other)
        return self

    def __sub__(self, other: Iterable[T]) -> Entries[T]:
        return self.difference(other)

    def __rsub__(self, other: Iterable[T]) -> Entries[T]:
        return self._like(other).difference(self)

    def __isub__(self, other: Iterable[T]) -> Entries[T]:
        self.difference_update(other)
        return self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (set, frozenset)):
            return self.issubset(other) and self.issuperset(other)
        return super().__eq__(other)

    __hash__ = None


class EntryField(Generic[T]):
    """An attribute of a config that holds entries; what is assigned to it is copied.

    What is no collection stays as it is: it is reported when the config is generated.
    """

    def __init__(self, place: Place) -> None:
        self.place = place

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, config: None, owner: type) -> EntryField[T]: ...
    @overload
    def __get__(self, config: object, owner: type) -> Entries[T]: ...
    def __get__(self, config: object | None, owner: type) -> EntryField[T] | Entries[T]:
        if config is None:
            return self
        entries: Entries[T] = vars(config)[self.name]
        return entries

    def __set__(self, config: object, values: Iterable[T]) -> None:
        vars(config)[self.name] = Entries(values, self.place) if isinstance(values, _MANY) else values


def _is_placed(value: Any) -> bool:
    return isinstance(value, _PLACED) and value.location is not None


def place_text(value: Any, location: Location) -> Any:
    """A text with its line."""
    return _at(PlacedText(value), location) if isinstance(value, str) else value


def place_pair(value: Any, location: Location) -> Any:
    """A pair with its line."""
    return _at(PlacedPair(value), location) if isinstance(value, tuple) else value


def _at(value: PlacedText | PlacedPair, location: Location) -> PlacedText | PlacedPair:
    value.location = location
    return value


def place_declaration(value: Any, location: Location) -> Any:
    """A declaration with its line."""
    return replace(value, location=location) if isinstance(value, _DECLARATIONS) else value


def place_helper(value: Any, location: Location) -> Any:
    """A class or function as a helper, with its line."""
    return place_declaration(value, location) if isinstance(value, Helper) else Helper(value, location=location)
