"""What runs on a node of a cluster: an object that answers requests, and paths of one machine on another."""

from __future__ import annotations

import importlib
import os
import pickle
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from patchgen_core.errors import PatchgenError, Problem


@dataclass(frozen=True)
class Place:
    """Where a run was started.

    Attributes:
        root: the folder that nodes have a copy of.
        folder: the working directory below it.
        search_path: folders below it that are on ``sys.path``.
    """

    root: str
    folder: str
    search_path: tuple[str, ...]


class NodeProcess:
    """A process of a node that has a copy of the project as its working directory."""

    def __init__(self, handler: str, place: Place) -> None:
        self._handler, self._there, self._here = handler, place.root, os.getcwd()
        os.chdir(move_paths(place.folder, self._there, self._here))
        sys.path[:0] = move_paths(list(place.search_path), self._there, self._here)

    def versions(self, names: Sequence[str]) -> tuple[str, dict[str, str]]:
        """The name of the node, and its versions of packages."""
        return platform.node(), find_versions(names)

    def ask(self, data: bytes) -> bytes:
        """The pickle of the answer to a pickled request and of the problems of a PatchgenError, one of them None."""
        request = move_paths(pickle.loads(data), self._there, self._here)
        module, _, name = self._handler.partition(":")
        answer, problems = None, None
        try:
            answer = getattr(importlib.import_module(module), name)(request)
        except PatchgenError as error:
            problems = error.problems
        return pickle.dumps(move_paths((answer, problems), self._here, self._there))


def find_versions(names: Sequence[str]) -> dict[str, str]:
    """The versions of the packages that are installed, of these."""
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def move_paths(value: Any, old: str, new: str) -> Any:
    """A value with each path below the folder ``old`` below ``new`` instead, in texts as well."""

    below = re.compile(re.escape(old) + r"(?![\w.-])")

    def move(value: Any) -> Any:
        if isinstance(value, str):
            return below.sub(lambda _: new, value)
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
