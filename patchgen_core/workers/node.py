"""What runs on a node of a cluster: an object that answers requests, and paths of one machine on another."""

from __future__ import annotations

import importlib
import os
import pickle
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.workers.sent_folders import unpack_folder


@dataclass(frozen=True)
class Place:
    """Where a run was started.

    Attributes:
        root: the folder that nodes have a copy of.
        folder: the working directory below it.
        search_path: folders that are on ``sys.path`` and below it, or sent.
    """

    root: str
    folder: str
    search_path: tuple[str, ...]


class NodeProcess:
    """A process of a node that has a copy of the project as its working directory.

    Args:
        archives: folders that are sent, each with a reference to a package of it as
            :func:`~patchgen_core.workers.sent_folders.pack_folder` makes it, which is got when it is needed.
    """

    def __init__(self, handler: str, place: Place, archives: Mapping[str, Any]) -> None:
        self._handler = handler
        self._moves = {place.root: os.getcwd()}
        self._receive([place.folder, *place.search_path], archives)
        os.chdir(move_paths(place.folder, self._moves))
        sys.path[:0] = move_paths(list(place.search_path), self._moves)

    def _receive(self, value: Any, archives: Mapping[str, Any]) -> None:
        """Get the folders that a value names, of those that are sent."""
        lacking = [folder for folder in find_folders(value, archives) if folder not in self._moves]
        for folder in lacking:
            (reference,) = archives[folder]
            self._moves[folder] = unpack_folder(importlib.import_module("ray").get(reference))

    def versions(self, names: Sequence[str]) -> tuple[str, dict[str, str]]:
        """The name of the node, and its versions of packages."""
        return platform.node(), find_versions(names)

    def ask(self, data: bytes, archives: Mapping[str, Any]) -> bytes:
        """The pickle of the answer to a pickled request and of the problems of a PatchgenError, one of them None."""
        request = pickle.loads(data)
        self._receive(request, archives)
        request = move_paths(request, self._moves)
        module, _, name = self._handler.partition(":")
        answer, problems = None, None
        try:
            answer = getattr(importlib.import_module(module), name)(request)
        except PatchgenError as error:
            problems = error.problems
        return pickle.dumps(move_paths((answer, problems), {here: there for there, here in self._moves.items()}))


def find_versions(names: Sequence[str]) -> dict[str, str]:
    """The versions of the packages that are installed, of these."""
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def move_paths(value: Any, moves: Mapping[str, str]) -> Any:
    """A value with each path below one of some folders below another instead, in texts as well."""
    if not moves:
        return value
    below = _below(moves)
    return _map_texts(value, lambda text: below.sub(lambda match: moves[match[0]], text))


def find_folders(value: Any, folders: Iterable[str]) -> list[str]:
    """Those of some folders that paths of a value lie below."""
    folders = list(folders)
    below = _below(folders)
    places: dict[str, None] = {}

    def look(text: str) -> str:
        places.update(dict.fromkeys(below.findall(text)))
        return text

    if folders:
        _map_texts(value, look)
    return list(places)


def _below(folders: Iterable[str]) -> re.Pattern[str]:
    longest = sorted(folders, key=len, reverse=True)
    return re.compile(rf"(?:{'|'.join(map(re.escape, longest))})(?![\w.-])")


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A value with other texts in it, and with other paths."""

    def move(value: Any) -> Any:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, Path):
            return Path(move(str(value)))
        if isinstance(value, Mapping):
            return {move(key): move(entry) for key, entry in value.items()}
        if isinstance(value, (tuple, list, set, frozenset)):
            return type(value)(map(move, value))
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{field.name: move(getattr(value, field.name)) for field in fields(value)})
        return value

    return move(value)


def describe_difference(node: str, there: Mapping[str, str], here: Mapping[str, str]) -> Problem | None:
    """What is wrong with a node that has other versions of packages; None where it has the same."""
    for name, own in here.items():
        if there.get(name) != own:
            has = f"has {name} {there[name]}" if name in there else f"has no {name}"
            hint = "Results hold for one set of packages: install the same on all nodes."
            return Problem(f"the node '{node}' {has}, and here is {own}", hint=hint)
    return None
