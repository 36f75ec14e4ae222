"""``pyproject.toml``: its tables, and where in it a key stands."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from typing import Any

from patchgen_core.errors import Location, PatchgenError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYPROJECT = "pyproject.toml"


def declares_project(path: Path) -> bool:
    """Whether a file is a ``pyproject.toml`` with a ``[tool.patchgen]`` table, be it a broken one."""
    if not path.is_file():
        return False
    try:
        return read_table(path) is not None
    except PatchgenError:
        return "tool.patchgen" in path.read_text(encoding="utf-8", errors="replace")


def read_table(path: Path) -> dict[str, Any] | None:
    """The table ``[tool.patchgen]`` of a file that has it; a PatchgenError when it cannot be read or is no table."""
    tool = read_toml(path).get("tool", {})
    table = tool.get("patchgen") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise PatchgenError("tool.patchgen is not a table", Location(str(path)))
    return table


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; a PatchgenError when it cannot be read. Whoever reads the same text shares them."""
    try:
        return _parse_once(path.read_bytes().decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PatchgenError(f"not valid TOML: {error}", Location(str(path))) from None
    except OSError as error:
        raise PatchgenError(f"cannot be read: {error.strerror}", Location(str(path))) from None


def parse_toml(text: str) -> dict[str, Any]:
    """The tables in a text; a ValueError when it is not valid."""
    tables: dict[str, Any] = tomllib.loads(text)
    return tables


_parse_once = functools.lru_cache(maxsize=8)(parse_toml)


def key_line(path: Path, key: str, table: str = "tool.patchgen") -> int:
    """The line of a key of a table; tomllib keeps no positions."""
    inside = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            header = re.sub(r"\s", "", stripped.split("#")[0])
            if header.replace('"', "").replace("'", "") == f"[{table}.{key}]":
                return number
            inside = header == f"[{table}]"
        elif inside and _first_key(stripped) == key:
            return number
    return 0


def _first_key(line: str) -> str:
    """The first part of the key that a line sets."""
    quoted = re.match(r"([\"'])(.*?)\1", line)
    return quoted[2] if quoted else re.split(r"[.=]", line)[0].strip()
