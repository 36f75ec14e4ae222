"""Patch configs in a project's settings of ruff: which of its rules do not fit them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from patchgen_core.authoring.init.additions import Addition, append
from patchgen_core.files import read_text
from patchgen_core.project.project import CONFIG_SUFFIX
from patchgen_core.project.pyproject import PYPROJECT, parse_toml, read_toml

PART = "ruff"
_PATTERN, _CODES = f"*{CONFIG_SUFFIX}", ["F821", "F841"]
_COMMENT = "# replacements use names of the generated module, and edits bind names for it"
_LINE = f'"{_PATTERN}" = ["F821", "F841"]\n'


def find_ruff_file(base: Path) -> Path | None:
    """The file of a project's folder that ruff reads; None where there is none."""
    for name in (".ruff.toml", "ruff.toml"):
        if (base / name).is_file():
            return base / name
    path = base / PYPROJECT
    return path if path.is_file() and "ruff" in read_toml(path).get("tool", {}) else None


def add_ignores(path: Path, text: str | None = None) -> Addition:
    """The exceptions for patch configs in a file of ruff's settings, whose text may be given.

    They go below a table ``extend-per-file-ignores``, which adds to what the project ignores; the rest stays as it is.
    """
    text = (read_text(path) or "") if text is None else text
    keys = ["tool", "ruff", "lint"] if path.name == PYPROJECT else ["lint"]
    header = f"[{'.'.join([*keys, 'extend-per-file-ignores'])}]"
    lines = f"{header}\n{_COMMENT}\n{_LINE}"
    tables = parse_toml(text)
    lint = _find(tables, keys)
    if any(CONFIG_SUFFIX in str(pattern) or "_patch_gen_config" in str(pattern) for pattern in _patterns(lint)):
        return Addition(PART, path, lines, is_there=True, reason="it has exceptions for patch configs")
    rows = text.splitlines(keepends=True)
    at = next((number for number, row in enumerate(rows, 1) if row.strip() == header), 0)
    new = "".join([*rows[:at], f"{_COMMENT}\n{_LINE}", *rows[at:]]) if at else append(text, lines)
    expected = copy.deepcopy(tables)
    _find(expected, keys, make=True).setdefault("extend-per-file-ignores", {})[_PATTERN] = _CODES
    try:
        is_added = parse_toml(new) == expected
    except ValueError:
        is_added = False
    if not is_added:
        return Addition(PART, path, lines, reason="nothing can be added safely to its tables in their form")
    return Addition(PART, path, lines, new)


def _patterns(lint: dict[str, Any]) -> list[str]:
    tables = (lint.get(name, {}) for name in ("per-file-ignores", "extend-per-file-ignores"))
    return [pattern for table in tables if isinstance(table, dict) for pattern in table]


def _find(tables: dict[str, Any], keys: list[str], make: bool = False) -> dict[str, Any]:
    for key in keys:
        value = tables.setdefault(key, {}) if make else tables.get(key, {})
        tables = value if isinstance(value, dict) else {}
    return tables
