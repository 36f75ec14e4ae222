"""The calls that declare patches: replacements of whole targets, and what all of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any, TypeVar, overload

from patchgen_core.config import arguments, edit_patches
from patchgen_core.config.arguments import caller
from patchgen_core.config.declarations import WITHOUT_FUNCTION, Helper, Patch
from patchgen_core.config.entries import EntryField, place_declaration
from patchgen_core.errors import Location, PatchgenError

T = TypeVar("T")
NameMap = Mapping[str, str] | None

MISSING: Any = object()
"""An argument that a call was not given."""


class Declarations:
    """What gives back decorators, and knows those that decorate nothing."""

    def __init__(self) -> None:
        self._open: list[tuple[str, Location]] = []

    def _decorator(self, record: Callable[[T], T], value: Any, what: str, location: Location) -> Any:
        """``record``, to decorate with, or its result when the call was given what it is about."""
        if value is None:
            hint = "Use it as a decorator, or pass replacement=."
            raise PatchgenError(f"{what} has no replacement", location, hint)
        if value is not MISSING:
            return record(value)
        declaration = (what, location)
        self._open.append(declaration)

        def decorate(obj: T) -> T:
            if declaration in self._open:
                self._open.remove(declaration)
            return record(obj)

        return decorate

    @property
    def unfinished(self) -> list[tuple[str, Location]]:
        """Calls that were meant as decorators and decorate nothing."""
        return list(self._open)


class PatchCalls(Declarations):
    """What declares replacements. A call without one is a decorator for it."""

    patches = EntryField[Patch](place_declaration)

    def __init_subclass__(cls) -> None:
        """Have Python's own errors about arguments name the class that configs make, not one that derives from it."""
        if not cls.__module__.startswith(__package__):
            return
        for base in cls.__mro__[1:-1]:
            for name, function in vars(base).items():
                if isinstance(function, FunctionType):
                    function.__qualname__ = f"{cls.__qualname__}.{name}"

    @overload
    def replace_class(self, target: str, *, name_map: NameMap = ..., description: str = ...) -> Callable[[T], T]: ...
    @overload
    def replace_class(self, target: str, replacement: T, *, name_map: NameMap = ..., description: str = ...) -> T: ...
    def replace_class(
        self,
        target: str,
        replacement: Any = MISSING,
        *,
        name_map: NameMap = None,
        description: str = "",
    ) -> Any:
        """Replace a whole class. The replacement brings its own decorators; upstream's go."""
        patch = Patch("class_replacement", target, description=description)
        return self._declare("replace_class", patch, replacement, name_map)

    @overload
    def replace_function(
        self, target: str, *, name_map: NameMap = ..., description: str = ...
    ) -> Callable[[T], T]: ...
    @overload
    def replace_function(
        self, target: str, replacement: T, *, name_map: NameMap = ..., description: str = ...
    ) -> T: ...
    def replace_function(
        self,
        target: str,
        replacement: Any = MISSING,
        *,
        name_map: NameMap = None,
        description: str = "",
    ) -> Any:
        """Replace a module-level function. The replacement brings its own decorators; upstream's go."""
        patch = Patch("function_replacement", target, description=description)
        return self._declare("replace_function", patch, replacement, name_map)

    @overload
    def override_method(
        self,
        target: str,
        *,
        name_map: NameMap = ...,
        description: str = ...,
        keep_decorators: bool = ...,
        add: bool = ...,
    ) -> Callable[[T], T]: ...
    @overload
    def override_method(
        self,
        target: str,
        replacement: T,
        *,
        name_map: NameMap = ...,
        description: str = ...,
        keep_decorators: bool = ...,
        add: bool = ...,
    ) -> T: ...
    def override_method(
        self,
        target: str,
        replacement: Any = MISSING,
        *,
        name_map: NameMap = None,
        description: str = "",
        keep_decorators: bool = True,
        add: bool = False,
    ) -> Any:
        """Replace one method, or add it when the class inherits or lacks it.

        Upstream's decorators stay and the replacement's own that upstream lacks are added below them;
        ``keep_decorators=False`` leaves only the replacement's own. A property is named by its getter;
        ``Class.name.setter`` and ``Class.name.deleter`` name the others. A method that upstream lacks
        and whose name is close to one it has is taken for a slip, unless ``add=True``.
        """
        arguments.method_target("override_method", target, caller())
        patch = Patch("method_override", target, description=description, keep_decorators=keep_decorators, add=add)
        return self._declare("override_method", patch, replacement, name_map)

    @overload
    def modify_init(self, target: str, *, name_map: NameMap = ..., description: str = ...) -> Callable[[T], T]: ...
    @overload
    def modify_init(self, target: str, replacement: T, *, name_map: NameMap = ..., description: str = ...) -> T: ...
    def modify_init(
        self,
        target: str,
        replacement: Any = MISSING,
        *,
        name_map: NameMap = None,
        description: str = "",
    ) -> Any:
        """Wrap a class's ``__init__``: the function gets ``original_init`` first, then ``self`` and the rest.

        The generated class holds upstream's ``__init__`` as ``_original_init`` beside the new one, and
        calling ``original_init(self, ...)`` runs it.
        """
        patch = Patch("init_modification", target, description=description)
        return self._declare("modify_init", patch, replacement, name_map)

    def _declare(self, call: str, patch: Patch, replacement: Any, name_map: Mapping[str, str] | None) -> Any:
        """Record a patch with its replacement, or give back what records the definition that it decorates."""
        location = caller()
        arguments.target(call, patch.target, location)
        declared = replace(patch, name_map=arguments.name_map(name_map, location), location=location)
        arguments.text("description", patch.description, location, empty=True)

        def record(obj: T) -> T:
            definition = obj.definition if isinstance(obj, Helper) else obj
            edit_patches.remember_place(declared, definition)
            self.patches.append(replace(declared, replacement=definition))
            return obj

        if declared.kind in WITHOUT_FUNCTION:
            return record(None)
        return self._decorator(record, replacement, f"{call} '{patch.target}'", location)
