"""What is asked of a process that runs items of checks, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen_core.checks.settings import Settings
from patchgen_core.config.input_recording import Input
from patchgen_core.errors import Problem
from patchgen_core.project.project import Project


@dataclass(frozen=True)
class ItemRequest:
    """An item to run.

    Attributes:
        home: the project that the session was started in.
        named: config files beside those that projects find.
        check: ``package.module:Class`` of the check.
        path: the config file, or the ``pyproject.toml`` of a project.
        chosen: the config files that write to the same folder and of which checks run, with the names of those.
        is_elsewhere: whether another machine asks, which has not looked at what there is here.
    """

    home: Project | None
    settings: Settings
    named: tuple[Path, ...]
    check: str
    path: Path
    item: str
    chosen: Mapping[Path, frozenset[str]]
    is_elsewhere: bool = False


@dataclass(frozen=True)
class ItemAnswer:
    """What came of an item.

    Attributes:
        results: packed; None where the check raised what only the process that asks can tell, with its traceback.
        problems: of the PatchgenError that it raised.
        seconds: how long it took.
        opened: files that processes of the project have opened.
        asked: inputs that came up, as :meth:`Check.take_asked` has them.
    """

    results: tuple[dict[str, Any], ...] | None = None
    problems: tuple[Problem, ...] = ()
    seconds: float = 0.0
    opened: tuple[str, ...] = ()
    asked: frozenset[Input] = frozenset()
