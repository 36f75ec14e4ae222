"""What ruff does where a project's settings leave it to ruff: fixed here, because ruff's defaults change with its
version."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

RULES = ("E4", "E7", "E9", "F", "I")
"""The rules whose fixes are applied where a project selects none: mistakes, unused imports and sorted imports."""
TARGET = "py310"
"""The version of Python that generated files are for, where a project says none."""
_SETTLED = re.compile(r"[EFIW]\d*")
"""Selectors whose fixes are alike in all versions of ruff that this package runs with."""


def own_options(tables: Sequence[Mapping[str, Any]], has_target: bool) -> list[str]:
    """The arguments of ruff that stand for its defaults, given the tables of the settings, the nearest first.

    ``has_target`` says that the version of Python follows from something else, such as ``requires-python``.
    """
    options = []
    if not has_target and not any("target-version" in table for table in tables):
        options.append(f"target-version={json.dumps(TARGET)}")
    lints = [_lint(table) for table in tables]
    if not any("select" in lint for lint in lints):
        select, ignore = _flatten(lints)
        options.append(f"lint={{select={json.dumps(select)},ignore={json.dumps(ignore)}}}")  # two would be two layers
    return [argument for option in options for argument in ("--config", option)]


def hangs_on_version(tables: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the settings choose what changes from one version of ruff to the next: previews, or rules beside the
    oldest."""
    lints = [_lint(table) for table in tables]
    selected = {code for lint in lints for key in ("select", "extend-select") for code in _codes(lint, key)}
    sections = [section for table in tables for section in (table, table.get("lint"), table.get("format"))]
    has_preview = any(isinstance(section, Mapping) and section.get("preview") is True for section in sections)
    return has_preview or any(not _SETTLED.fullmatch(code) for code in selected)


def _lint(table: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the linter, which old files have at the top."""
    lint = table.get("lint")
    return {**table, **(lint if isinstance(lint, Mapping) else {})}


def _codes(lint: Mapping[str, Any], key: str) -> list[str]:
    value = lint.get(key)
    return [code for code in value if isinstance(code, str)] if isinstance(value, list) else []


def _flatten(lints: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The selectors to run and to leave out, when each file of settings changes what the one that it extends says."""
    select, ignore = list(RULES), list[str]()
    for lint in reversed(lints):
        added = _codes(lint, "extend-select")
        removed = [*_codes(lint, "ignore"), *_codes(lint, "extend-ignore")]
        select = [*_outside(select, removed), *added]
        ignore = [*_outside(ignore, added), *removed]
    return select, ignore


def _outside(codes: Iterable[str], others: Sequence[str]) -> list[str]:
    return [code for code in codes if not any(_covers(other, code) for other in others)]


def _covers(wide: str, narrow: str) -> bool:
    """Whether one selector means all that another one does: ``F`` does of ``F401``, and not of ``FURB``."""
    if wide == "ALL":
        return True
    is_prefix = narrow.startswith(wide)
    return is_prefix and (wide == "PL" or not narrow[len(wide) : len(wide) + 1].isalpha())
