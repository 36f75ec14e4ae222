"""``[tool.patchgen.shared_cache]``: where machines share the results of checks, and which of them write."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from patchgen_core.errors import Location
from patchgen_core.project.subtable import Mismatch, check_subtable

PLACE_VARIABLE = "PATCHGEN_SHARED_CACHE"
"""The environment variable with a place that wins over the project's; set to nothing, results are not shared."""
WRITE_VARIABLE = "PATCHGEN_SHARED_CACHE_WRITE"
"""The environment variable that has a run write (``1``) or not (``0``), whatever the project says."""
KEYS = ("place", "write", "ignore_variables", "ignore_packages", "time_limit")
WRITER = "CI"
TIME_LIMIT = 10.0


@dataclass(frozen=True)
class SharedCacheSettings:
    """What a project says of results that machines share.

    Attributes:
        place: a folder, from the project's root, or a URL of fsspec, such as ``s3://bucket/folder``; empty for none.
        write: the environment variable that those machines have whose runs write; others only read.
        ignore_variables: patterns of names of environment variables that may differ between machines.
        ignore_packages: patterns of names of installed packages and modules that may.
        time_limit: seconds that the place may take to answer.
    """

    place: str = ""
    write: str = WRITER
    ignore_variables: tuple[str, ...] = ()
    ignore_packages: tuple[str, ...] = ()
    time_limit: float = TIME_LIMIT

    def here(self) -> SharedCacheSettings:
        """The settings with what the environment says."""
        return replace(self, place=os.environ.get(PLACE_VARIABLE, self.place))

    @property
    def writes(self) -> bool:
        """Whether runs write in this environment."""
        chosen = os.environ.get(WRITE_VARIABLE)
        return chosen != "0" if chosen else bool(os.environ.get(self.write))


def read_shared_cache_settings(table: Any, at: Callable[[str], Location]) -> SharedCacheSettings:
    """The settings under ``[tool.patchgen.shared_cache]``, or a place alone; ``at`` says where a key stands.

    A PatchgenError when it is neither, a key is unknown, or a value is of the wrong type.
    """
    table = {"place": table} if isinstance(table, str) else table
    check_subtable("shared_cache", table, KEYS, _find_mismatch, at)
    return SharedCacheSettings(
        table.get("place", ""),
        table.get("write", WRITER),
        tuple(table.get("ignore_variables", ())),
        tuple(table.get("ignore_packages", ())),
        float(table.get("time_limit", TIME_LIMIT)),
    )


def _find_mismatch(key: str, value: Any) -> Mismatch | None:
    """What a value must be, and a hint, when it is not that."""
    if key == "place":
        fits = isinstance(value, str) and bool(value)
        return None if fits else ("a folder or a URL, such as 's3://bucket/patchgen'", "")
    if key == "write":
        fits = isinstance(value, str) and value.isidentifier()
        return None if fits else ("the name of an environment variable, such as 'CI'", "")
    if key == "time_limit":
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 3600
        return None if is_number else ("a number of seconds", "")
    fits = isinstance(value, list) and all(isinstance(entry, str) and entry for entry in value)
    return None if fits else ('a list of patterns, such as ["ACME_*"]', "")
