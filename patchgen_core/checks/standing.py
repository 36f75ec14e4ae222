"""What all items of a config came to when they ran last, for those who look on and run nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.checks.kept.asking import kept_of_project
from patchgen_core.checks.kept.entries import Entry
from patchgen_core.checks.kept.explaining import find_changes
from patchgen_core.checks.kept.keeping import KeptResults
from patchgen_core.checks.order import item_key
from patchgen_core.checks.result import CheckResult, unpack
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import DRIFT, Settings
from patchgen_core.project.project import Project

_PLACE, _VARIABLE = "working directory", "variable "


@dataclass(frozen=True)
class Standing:
    """What an item of a config came to when it ran last.

    Attributes:
        item: its name, such as ``parity[eager]``.
        made: when the result that is kept was made, in seconds since 1970; 0 where none is kept.
        changes: what is no more as it was then; nothing where the result holds.
        is_red: whether it was red when it ran last. Of a red run nothing more is kept.
        results: what is kept, whether it holds or not.
    """

    item: str
    made: float = 0.0
    changes: tuple[str, ...] = ()
    is_red: bool = False
    results: tuple[CheckResult, ...] = ()

    @property
    def check(self) -> str:
        """The name of its check."""
        return self.item.partition("[")[0]

    @property
    def is_current(self) -> bool:
        """Whether a run now, where the kept result was made, would take it."""
        return bool(self.made) and not self.changes and not self.is_red


def read_standings(project: Project, path: Path) -> list[Standing]:
    """What the items of a config file came to, but for those that have never run; nothing where no results are kept.

    A result that a shell made holds in an editor as well: the directory and the environment of the run are left aside,
    but for the variables that the project's own text names.
    """
    session = Session(project, Settings())
    kept = kept_of_project(session, project)
    if kept is None:
        return []
    past = kept.store.past()
    standings = []
    for item in _find_items(kept, path, past, item_key(session, path, "")):
        ran = past.get(item_key(session, path, item))
        is_red = ran is not None and ran.is_red
        standing = _read_standing(kept, path, item, is_red)
        if standing is not None:
            standings.append(standing)
    return standings


def _find_items(kept: KeptResults, path: Path, past: Iterable[str], prefix: str) -> list[str]:
    """The names of the items of a config, that of the drift check aside: as they were last listed, or else run."""
    listed = next(iter(kept.store.find_all(kept.states.name_of(path), "")), None)
    if listed is not None:
        return [name for check, names in listed.names.items() if check != DRIFT for name in names]
    names = (key.removeprefix(prefix) for key in past if key.startswith(prefix))
    return [name for name in names if name != DRIFT]


def _read_standing(kept: KeptResults, path: Path, item: str, is_red: bool) -> Standing | None:
    entries = [entry for entry in kept.store.find_all(kept.states.name_of(path), item) if entry.results]
    if not entries:
        return Standing(item, is_red=True) if is_red else None
    compared = [(entry, tuple(_list_changes(kept, entry))) for entry in entries]
    entry, changes = next((each for each in compared if not each[1]), compared[0])
    try:
        results = tuple(map(unpack, entry.results))
    except ValueError:
        return Standing(item, entry.made, ("it cannot be read",), is_red)
    return Standing(item, entry.made, changes, is_red, results)


def _list_changes(kept: KeptResults, entry: Entry) -> Iterator[str]:
    if not kept.machine:
        yield kept.unknown
        return
    yield from dict.fromkeys(find_changes(kept, entry, _without_shell))


def _without_shell(states: Mapping[str, str]) -> dict[str, str]:
    """A machine's states without those that every shell has otherwise."""
    return {name: state for name, state in states.items() if name != _PLACE and not name.startswith(_VARIABLE)}
