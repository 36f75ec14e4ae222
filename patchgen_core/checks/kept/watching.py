"""What processes that run code of a project note of it, and what that means for results of theirs."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from patchgen_core.checks.check import Check
from patchgen_core.checks.kept.closure import Closure, Look, describe_looks
from patchgen_core.checks.kept.module_files import find_own_places
from patchgen_core.checks.kept.own_words import runs_in_workers
from patchgen_core.checks.kept.packages import is_metadata, is_own_package
from patchgen_core.checks.session import Session
from patchgen_core.config.input_recording import Input, input_name
from patchgen_core.project.cache_folder import cache_folder
from patchgen_core.project.project import Project
from patchgen_core.workers.watched_code import (
    LOOKED,
    MODULE,
    PROGRAM,
    RAN,
    VARIABLE,
    Watched,
    read_watched,
    write_watched,
)


class Watching:
    """What processes of a project are to note, and what they did, for one session."""

    def __init__(self, session: Session, project: Project) -> None:
        self._session, self._project = session, project
        self._file: Path | None = None
        self._watched = Watched()
        self._harmless: set[str] = set()

    def begin(self, closure: Closure) -> None:
        """Have processes that are started from now on note which code of a closure runs that may look at more; where
        there is none, nothing."""
        functions: dict[str, list[int]] = {str(self._project.base / look.name): [] for look in closure.looks}
        for look in closure.functions:
            functions.setdefault(str(self._project.base / look.name), []).append(look.first)
        if not functions:
            return
        own = sorted({entry.name.partition(".")[0] for place in self._places for entry in _scan(place)})
        with contextlib.suppress(OSError):  # nothing of them is kept then
            number, name = tempfile.mkstemp(prefix="patchgen-watched-", suffix=".json")
            os.close(number)
            self._file = Path(name)
            write_watched(self._file, Watched(str(self._project.base), functions, own))

    def end(self) -> None:
        """Forget it."""
        if self._file is not None:
            if os.environ.get(VARIABLE) == str(self._file):
                del os.environ[VARIABLE]
            with contextlib.suppress(OSError):
                self._file.unlink()
            self._file = None

    def find_reason(self, closure: Closure) -> str:
        """Why results of a check that runs code cannot be kept: code of its closure ran that looks at more, or would
        not have been noticed if it had; empty for no such reason."""
        unwatched = [look for look in closure.looks if not self._is_watched(look)]
        return describe_looks(unwatched) or _describe_notes(self._notes(), self._project.base, closure)

    def list_asked(self) -> list[Input]:
        """The programs that the project's code has asked for, and what decides whether modules of the project are
        there that were asked for."""
        notes = self._notes()
        modules = [note.removeprefix(MODULE) for note in notes if note.startswith(MODULE)]
        folders = (place.joinpath(*name.split(".")[:-1]) for name in modules for place in self._places)
        return [
            *(("program", note.removeprefix(PROGRAM)) for note in notes if note.startswith(PROGRAM)),
            *(("module", name) for name in modules),
            *(("names", input_name(self._project, folder)) for folder in folders),
        ]

    @property
    def _places(self) -> tuple[Path, ...]:
        return (*self._project.import_roots, *find_own_places(self._project))

    def _is_watched(self, look: Look) -> bool:
        self._watched = self._watched if self._watched.functions else read_watched()
        lines = self._watched.functions.get(str(self._project.base / look.name))
        return lines is not None and (look.first in lines if look.first else look.only_asks)

    def _notes(self) -> set[str]:
        return set(filter(_is_note, self._session.opened_files(self._project)))

    def find_unknown_file(self, list_known: Callable[[], set[str]]) -> str:
        """Why no result can be kept: a process has read a file of the project that is none of the known ones."""
        project = self._project
        base, cache = f"{project.base}{os.sep}", f"{cache_folder(project)}{os.sep}"
        new = self._session.opened_files(project) - self._harmless
        known = list_known() if new else set()
        for path in sorted(new):
            if path.startswith(base) and not path.startswith(cache):
                name = input_name(project, Path(path))
                is_hidden = any(part.startswith(".") for part in name.split("/"))
                is_known = is_hidden or name in known or is_own_package(path)
                if not is_known and not is_metadata(path, project.import_roots):
                    return f"'{name}' was read, which the texts of the project's modules do not tell"
            self._harmless.add(path)
        return ""


def is_watching() -> bool:
    """Whether processes that are started now are told what to note."""
    return VARIABLE in os.environ


def list_unseen(check: Check, looks: Iterable[Look]) -> list[Look]:
    """Those of which nothing is told when code of the project runs for a check: what runs at an import, or all of them
    where that need not be in processes that are watched."""
    if not check.runs_code:
        return []
    is_watched = runs_in_workers(check)
    return [look for look in looks if not (is_watched and (look.first or look.only_asks))]


def _describe_notes(notes: Iterable[str], base: Path, closure: Closure) -> str:
    """Why a result cannot be kept in whose process this was noted; empty for no such reason. What code did that is no
    part of the closure concerns another result of that process."""
    functions = {f"{RAN}{base / look.name}:{look.first}": look for look in closure.functions}
    for note in sorted(notes):
        if note.startswith(LOOKED):
            return f"it was looked {note.removeprefix(LOOKED)}"
        look = functions.get(note)
        if look is not None and not look.only_asks:
            return f"{look}, and ran"
    return ""


def _is_note(text: str) -> bool:
    """Whether something that a process told is a note, and not a file that it has opened."""
    return text.startswith((RAN, MODULE, PROGRAM, LOOKED))


def _scan(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from folder.iterdir()
