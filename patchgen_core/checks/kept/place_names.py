"""Names of a machine's folders that mean the same on another one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_TOKEN = re.compile(r"\{(?:root|prefix|python|place\d+)\}")
_END = r"(?![\w.-])"


class PlaceNames:
    """The project's root, and folders that modules are imported from, each with a name in braces.

    Args:
        base: the project's root, ``{root}``.
        places: the search path; a place in the project is called from its root, unless packages are installed there.
    """

    def __init__(self, base: Path, places: Sequence[str]) -> None:
        root = str(base)
        own = [place for place in places if _is_inside(place, root) and not place.endswith("-packages")]
        others = [place for place in places if place not in own]
        self.folders = {"{root}": root, "{prefix}": sys.prefix, "{python}": sys.base_prefix}
        self.folders |= {f"{{place{number}}}": place for number, place in enumerate(others)}
        names = {folder: name for name, folder in self.folders.items()}
        self._names = {os.path.realpath(folder): name for folder, name in names.items()} | names
        longest = sorted(map(re.escape, self._names), key=len, reverse=True)
        self._anywhere = re.compile(rf"(?<![\w.-])(?:{'|'.join(longest)}){_END}")

    def has_names(self, value: Any) -> bool:
        """Whether a text reads as one of these names already."""
        return any(map(_TOKEN.search, _texts(value)))

    def hide(self, value: Any) -> Any:
        """A JSON value whose texts have the names for the folders, wherever in a text they stand."""
        return _map(value, lambda text: self._anywhere.sub(lambda match: self._names[match[0]], text))

    def show(self, value: Any) -> Any:
        """A JSON value whose texts have this machine's folders."""
        return _map(value, lambda text: _TOKEN.sub(lambda match: self.folders.get(match[0], match[0]), text))

    def hide_input(self, value: Any) -> Any:
        """The name or state of an input: a path from the project's root stays as it is."""

        def hide(text: str) -> str:
            path = text if os.path.isabs(text) else os.path.join(self.folders["{root}"], text)
            hidden = str(self.hide(path)) if text else text
            return text if hidden.startswith("{root}") else hidden

        return _map(value, hide)

    def show_input(self, value: Any) -> Any:
        """The name or state of an input as it is here."""
        base = f"{self.folders['{root}']}{os.sep}"
        return _map(value, lambda text: str(self.show(text)).removeprefix(base))


def _is_inside(place: str, root: str) -> bool:
    return place == root or place.startswith(f"{root}{os.sep}")


def _map(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _map(entry, change) for key, entry in value.items()}
    return [_map(entry, change) for entry in value] if isinstance(value, (list, tuple)) else value


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    values = [*value, *value.values()] if isinstance(value, dict) else value
    return [text for entry in values for text in _texts(entry)] if isinstance(values, (list, tuple)) else []
