"""From the table ``[tool.patchgen]`` to a project."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from patchgen_core.errors import Location, PatchgenError, Problem, did_you_mean, display_path
from patchgen_core.project.import_name import refuse_other_patchgen
from patchgen_core.project.parity_settings import read_settings
from patchgen_core.project.project import Project
from patchgen_core.project.pyproject import PYPROJECT, key_line, read_table
from patchgen_core.project.severity_settings import read_severity
from patchgen_core.project.sharded_settings import read_sharded_settings
from patchgen_core.project.shared_cache_settings import read_shared_cache_settings

_READERS: Mapping[str, Callable[[Any, Callable[[str], Location]], Any]] = {
    "sharded": read_sharded_settings,
    "shared_cache": read_shared_cache_settings,
    "severity": read_severity,
}
"""What reads the tables in the table, beside that of parity."""


def load_project(start: Path | None = None) -> Project:
    """The project of the nearest ``pyproject.toml`` with a ``[tool.patchgen]`` table, from ``start`` upwards.

    A PatchgenError when there is none, or a key in it is unknown or of the wrong type, or the import name ``patchgen``
    is not this package's.
    """
    refuse_other_patchgen()
    start = Path(os.path.abspath(start or os.getcwd()))
    if (nearest := _find_table(start)) is not None:
        return _project(*nearest)
    raise PatchgenError(
        f"no pyproject.toml with a [tool.patchgen] table in '{display_path(start)}' or above it",
        None,
        "Run 'patchgen init' to add one, or write search_root = \"<folder of the configs>\" and "
        'package_prefix = "<its package>" yourself.',
    )


def has_table(start: Path) -> bool:
    """Whether a folder or one above it has a ``pyproject.toml`` with the table; a PatchgenError for a broken one."""
    return _find_table(Path(os.path.abspath(start))) is not None


def _find_table(start: Path) -> tuple[Path, dict[str, Any]] | None:
    for folder in (start, *start.parents):
        path = folder / PYPROJECT
        if path.is_file() and (table := read_table(path)) is not None:
            return path, table
    return None


def _project(path: Path, table: Mapping[str, Any]) -> Project:
    types = {f.name: str(f.type) for f in fields(Project) if f.name not in ("root", "upstream")}
    problems = []
    values: dict[str, Any] = {}

    def at(key: str) -> Location:
        return Location(str(path), key_line(path, key))

    for key, value in table.items():
        if key not in types:
            hint = did_you_mean(key, types) or f"Known keys: {', '.join(types)}."
            problems.append(Problem(f"[tool.patchgen] has no key '{key}'", at(key), hint))
        elif key == "parity" or key in _READERS:
            values[key] = _read_part(path, key, value, problems)
        elif (expected := _mismatch(key, types[key], value)) is not None:
            problems.append(Problem(f"[tool.patchgen] {key} must be {expected}, not {value!r}", at(key)))
        else:
            values[key] = value
    for key in ("search_root", "package_prefix"):
        if key not in table:
            problems.append(Problem(f"[tool.patchgen] lacks '{key}'", Location(str(path))))
    if problems:
        raise PatchgenError.from_problems(problems)
    return Project(root=path.parent, **values)


def _read_part(path: Path, key: str, table: Any, problems: list[Problem]) -> Any:
    """The settings of a table in the table; what is wrong with it goes to the problems."""

    def at(name: str) -> Location:
        return Location(str(path), key_line(path, name, f"tool.patchgen.{key}") or key_line(path, key))

    try:
        if key == "parity":
            return read_settings(table, path.parent, at)
        return _READERS[key](table, at)
    except PatchgenError as error:
        problems += error.problems
        return None


def _mismatch(key: str, annotation: str, value: Any) -> str | None:
    """What a value must be, when it is not that."""
    if annotation.startswith("tuple[tuple"):
        fits = isinstance(value, dict) and all(_mismatch(key, "tuple", codes) is None for codes in value.values())
        return None if fits else 'a table of lists of strings, such as { "acme.models.*" = ["PG214"] }'
    if annotation.startswith("tuple"):
        fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return None if fits else "a list of strings"
    if annotation == "bool":
        return None if isinstance(value, bool) else "true or false"
    if not isinstance(value, str) or not value:
        return "a non-empty string"
    if key == "setup":
        fits = value.count(":") == 1 and all(part.isidentifier() for part in re.split("[.:]", value))
        return None if fits else "a function, such as 'acme.testing:setup'"
    is_dotted = all(part.isidentifier() for part in value.split("."))
    return "a dotted package name" if key.endswith("prefix") and not is_dotted else None
