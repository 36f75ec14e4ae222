"""Edits that several targets share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, overload

from patchgen_core.config import arguments, edit_patches
from patchgen_core.config.arguments import caller
from patchgen_core.config.declarations import Patch
from patchgen_core.config.entries import PlacedPair, PlacedText
from patchgen_core.config.patch_calls import MISSING, Declarations
from patchgen_core.errors import Location, PatchgenError

T = TypeVar("T")


class Edits(Declarations):
    """Edits that are declared once, for any number of targets.

    ``edit_method`` and ``edit_function`` take them in the place of a function. The calls are those of a config,
    without a target. All of them stand before the first call that takes the edits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.location = caller()
        self._patches: list[Patch] = []
        self._decorators: list[PlacedText] = []
        self._used_at: Location | None = None

    def __repr__(self) -> str:
        return "Edits()"

    @overload
    def edit(self, *, at: str = ..., count: int = ...) -> Callable[[T], T]: ...
    @overload
    def edit(self, edit: T, *, at: str = ..., count: int = ...) -> T: ...
    def edit(self, edit: Any = MISSING, *, at: str = "", count: int = 1) -> Any:
        """Change the target where ``at`` is, or its whole body, as ``edit_method`` does."""
        location = arguments.decorated_at(edit, caller())
        patch = edit_patches.placed_edit("edit", "method_edit", at, count, location)

        def record(obj: T) -> T:
            edit_patches.remember_place(patch, obj)
            self._add(replace(patch, replacement=obj), location)
            return obj

        return self._decorator(record, edit, "edit", location)

    def replace_code(self, old: str, new: str, *, count: int = 1) -> None:
        """Put another expression or statement into the place of one, as a config's ``replace_code`` does."""
        location = caller()
        self._add(edit_patches.code_replacement(old, new, count, location), location)

    def delete_code(self, code: str, *, count: int = 1) -> None:
        """Take statements out, or an item of a list, tuple or set."""
        location = caller()
        self._add(edit_patches.code_deletion(code, count, location), location)

    def add_parameter(self, parameter: str, *, after: str = "", before: str = "", documentation: str = "") -> None:
        """Give the target one more parameter, as a config's ``add_parameter`` does."""
        location = caller()
        self._add(edit_patches.parameter_addition(parameter, after, before, documentation, location), location)

    def remove_parameter(self, parameter: str) -> None:
        """Take a parameter out of the target's signature."""
        location = caller()
        self._add(edit_patches.parameter_removal(parameter, location), location)

    def drop_decorators(self, *names: str) -> None:
        """Take decorators off the target, as a config's ``drop_decorators`` does."""
        location = caller()
        self._refuse_late(location)
        for name in names:
            placed = PlacedText(arguments.text("drop_decorators: a name", name, location))
            placed.location = location
            self._decorators.append(placed)

    def _add(self, patch: Patch, location: Location) -> None:
        self._refuse_late(location)
        self._patches.append(patch)

    def _refuse_late(self, location: Location) -> None:
        if self._used_at is not None:
            message = f"these edits are in use already, since {self._used_at}"
            raise PatchgenError(message, location, "Declare all of them before the first call that takes them.")

    def of(
        self, patch: Patch, name_map: Mapping[str, str], location: Location
    ) -> tuple[list[Patch], list[PlacedPair]]:
        """The edits of a target, and the decorators that they take off it; ``patch`` has kind, target and reason.

        Raises:
            PatchgenError: there are none, or one of them is not finished.
        """
        if self._open:
            call, at = self._open[0]
            raise PatchgenError(f"{call} has no function", at, "Use it as a decorator, or pass edit=.")
        if not self._patches and not self._decorators:
            hint = f"Declare edits on what is made at {self.location}, such as edits.replace_code(old, new)."
            raise PatchgenError(f"'{patch.target}' gets edits, and there are none", location, hint)
        self._used_at = self._used_at or location
        patches = [
            replace(
                own,
                kind=patch.kind if own.kind == "method_edit" else own.kind,
                target=patch.target,
                name_map=dict(name_map),
                description="" if number else patch.description,
                used_at=location,
                comments_at=None if number else self.location,
            )
            for number, own in enumerate(self._patches)
        ]
        return patches, [_pair(patch.target, name, location) for name in self._decorators]


def _pair(target: str, name: PlacedText, used_at: Location) -> PlacedPair:
    pair = PlacedPair((target, str(name)))
    pair.location, pair.used_at = name.location, used_at
    return pair
