"""What a config holds as a text: the module that it patches, and the file that it makes."""

from __future__ import annotations

from typing import overload

from patchgen_core.config import arguments
from patchgen_core.config.arguments import caller
from patchgen_core.errors import Location


class TextField:
    """An attribute of a config that holds a text. Configs assign to those of another one that they import, so each
    knows the line that it was given on; a PatchgenError there for what is no text.

    Args:
        empty: whether the text may be empty.
    """

    def __init__(self, empty: bool = False) -> None:
        self._is_empty_fine = empty

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, config: None, owner: type) -> TextField: ...
    @overload
    def __get__(self, config: object, owner: type) -> str: ...
    def __get__(self, config: object | None, owner: type) -> TextField | str:
        if config is None:
            return self
        value: str = vars(config)[self._name]
        return value

    def __set__(self, config: object, value: str) -> None:
        location = caller()
        vars(config)[self._name] = arguments.text(self._name, value, location, self._is_empty_fine)
        vars(config)[_place_name(self._name)] = location


def place_of(config: object, name: str) -> Location:
    """The line that the text of a name was given on."""
    location: Location = vars(config)[_place_name(name)]
    return location


def _place_name(name: str) -> str:
    return f"_{name}_location"
