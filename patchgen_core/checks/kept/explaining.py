"""Why a kept result holds no more: what changed since it was made, by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen_core.checks.check import Check
from patchgen_core.checks.kept.entries import Entry
from patchgen_core.checks.kept.keeping import ORPHANS, KeptResults
from patchgen_core.checks.kept.own_words import declared_inputs
from patchgen_core.checks.settings import DRIFT

_INPUTS = {
    "upstream": "upstream's module",
    "ruff": "ruff's settings for",
    "own": "what import sorting finds for",
    "registering": "the kernels that are registered in",
    "plan": "what is declared by",
    "places": "the lines of other configs that notes tell of, for",
}


@dataclass(frozen=True)
class Explanation:
    """What became of the kept result of an item.

    Attributes:
        made: when it was made, in seconds since 1970; 0 where nothing is kept.
        changes: what is not what it was; nothing where the result holds.
        reason: why nothing is kept; empty where something is, or where the item has not been clean yet.
    """

    item: str
    made: float = 0.0
    changes: tuple[str, ...] = ()
    reason: str = ""


def explain_kept(kept: KeptResults, check: Check, path: Path, item: str) -> Explanation:
    """What changed since the newest kept result of an item was made."""
    if check.name == DRIFT:
        reason = "it is looked for each time" if item == ORPHANS else "the cache of what configs make tells of it"
        return Explanation(item, reason=reason)
    if declared_inputs(check, path) is None:
        return Explanation(item, reason="the check does not declare what it reads")
    if not kept.machine:
        return Explanation(item, reason=kept.unknown)
    name = kept.states.name_of(path)
    entry = kept.store.find(name, item, kept.machine_name)
    if entry is None:
        entry = next(iter(kept.store.find_all(name, item)), None)
    if entry is None:
        return Explanation(item, reason=kept.closure(check, path).unknown)
    return Explanation(item, entry.made, tuple(dict.fromkeys(find_changes(kept, entry))))


def find_changes(
    kept: KeptResults, entry: Entry, select: Callable[[Mapping[str, str]], Mapping[str, str]] = dict
) -> Iterator[str]:
    """What is not what it was when a kept result was made; of a machine's states only those that ``select`` takes
    count."""
    if entry.machine != kept.machine_name:
        machine = kept.store.machine(entry.machine)
        if machine is None:
            yield "the machine, or what is installed"
        else:
            yield from _machine_changes(select(machine.states), select(kept.machine))
    for (kind, name), state in entry.states:
        now = kept.states.read(kind, name)
        if now != state:
            yield from _input_changes(kind, name, state, now)


def _machine_changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            yield f"{_difference(before.get(name), now.get(name))}: {name}"


def _input_changes(kind: str, name: str, before: Any, now: Any) -> Iterator[str]:
    if kind in ("file", "variable"):
        yield f"{_difference(before, now)}: {name if kind == 'file' else f'variable {name}'}"
    elif kind in ("tree", "names"):
        for entry in sorted({*(before or ()), *(now or ())}):
            is_before, is_now = entry in (before or ()), entry in (now or ())
            if is_before != is_now:
                yield f"{'gone' if is_before else 'new'}: {os.path.join(name, entry)}"
    elif kind == "settings":
        yield "changed: the options of the run, or the place of the project"
    elif kind == "program":
        yield f"changed: the program '{name}' is {now or 'nowhere'} and not {before or 'nowhere'}"
    elif kind == "assigned":
        yield f"changed: {'some' if now else 'no'} code of the project assigns '{name}'"
    elif kind in ("module", "installed"):
        yield f"changed: 'import {name}' finds {now or 'nothing'} and not {before or 'nothing'}"
    else:
        yield f"changed: {_INPUTS.get(kind, kind)} {name}".rstrip()


def _difference(before: object, now: object) -> str:
    return "new" if before is None else "gone" if now is None else "changed"
