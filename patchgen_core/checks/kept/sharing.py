"""Kept results that machines share: found and written by what went into them, and not by where that lies.

A file's name is a hash of the config, the item, the portable state of the machine and what the closure has; the file
says all of it again, and everything else that went in, which has to be so here as well. A folder of this machine is
called by a name that means the same elsewhere (:mod:`patchgen_core.checks.kept.place_names`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from patchgen_core.checks.kept.contents import package_contents, portable_machine
from patchgen_core.checks.kept.entries import FORMAT, Entry, EntryStore, Question, decode, hash_machine
from patchgen_core.checks.kept.packages import search_path
from patchgen_core.checks.kept.place_names import PlaceNames
from patchgen_core.checks.kept.shared_files import SharedFiles
from patchgen_core.checks.kept.states import SETTINGS
from patchgen_core.config.input_recording import Input
from patchgen_core.errors import PatchgenError
from patchgen_core.files import digest, text_digest
from patchgen_core.project.project import Project

SHARED_FORMAT = 1
_WITH_PATHS = (
    "file",
    "tree",
    "names",
    "module",
    "installed",
    "ruff",
    "own",
    "folder",
    "registering",
    "plan",
    "places",
)


@dataclass(frozen=True)
class _SharedEntry:
    """An entry as it is written, with the name of its file."""

    key: str
    entry: Entry
    shared_format: int = SHARED_FORMAT


class SharedResults:
    """The results that a project shares with other machines, for one session.

    Args:
        machine: the machine's states.
        settings: how the run goes.
    """

    def __init__(self, project: Project, store: EntryStore, machine: Mapping[str, str], settings: object) -> None:
        self.settings = project.shared_cache.here()
        self.project, self.store, self.machine = project, store, machine
        self._places = search_path(project.import_roots)
        self.names = PlaceNames(project.base, self._places)
        self._files = SharedFiles(self.settings.place, project.base, self.settings.time_limit)
        self._options = text_digest(str(self.names.hide(repr(settings))))
        self._bodies: dict[str, bytes | None] = {}
        self._is_told = False

    @cached_property
    def portable(self) -> dict[str, str]:
        """The portable states of the machine, with the contents of what is installed."""
        known = self.store.contents()
        packages, contents = package_contents(self.machine, self.names, known, self.settings)
        if contents != known:
            with suppress(PatchgenError):  # they are read again
                self.store.keep_contents(contents)
        return {**portable_machine(self.machine, self.names, self._places, self.settings), **packages}

    @cached_property
    def _hash(self) -> str:
        return hash_machine(self.portable)

    # --- asking ---

    def expect(self, questions: Iterable[Question]) -> None:
        """Ask for the results of several items at once."""
        keys = dict.fromkeys(key for key in map(self._key, questions) if key and key not in self._bodies)
        self._bodies |= dict.fromkeys(keys)
        self._bodies |= self._files.read(keys)
        self._tell()

    def find(self, question: Question) -> Entry | None:
        """What another machine found out, with its inputs and results as they are here; they may not hold."""
        key = self._key(question)
        self.expect([question])
        body = self._bodies.get(key)
        shared = decode(body, _SharedEntry) if body is not None else None
        if shared is None or (shared.key, shared.shared_format) != (key, SHARED_FORMAT):
            return None
        entry = shared.entry
        if (entry.format, entry.path, entry.item, entry.machine) != (FORMAT, question.path, question.item, self._hash):
            return None
        inputs = {(kind, self.names.show_input(name)): self._show(kind, state) for kind, name, state in entry.inputs}
        inputs[SETTINGS] = question.inputs[SETTINGS]
        if any(input not in inputs for input in question.inputs):
            return None
        listed = tuple((kind, name, state) for (kind, name), state in inputs.items())
        return replace(entry, inputs=listed, results=tuple(self.names.show(result) for result in entry.results))

    def _key(self, question: Question) -> str:
        inputs = self._hidden(question.inputs)
        if inputs is None:
            return ""
        text = [SHARED_FORMAT, FORMAT, question.path, question.item, self._hash, inputs]
        return digest(msgspec.json.encode(text))[:48]

    def _show(self, kind: str, state: Any) -> Any:
        return self.names.show_input(state) if kind in _WITH_PATHS else state

    def _hidden(self, inputs: Mapping[Input, Any]) -> list[tuple[str, str, Any]] | None:
        """Inputs as every machine calls them; None where one of them is this machine's alone."""
        hidden: list[tuple[str, str, Any]] = []
        for (kind, name), state in inputs.items():
            if (kind, name) == SETTINGS:
                state = self._options
            if kind == "root" or self.names.has_names([name, state]):
                return None
            if kind in _WITH_PATHS:
                name, state = self.names.hide_input(name), self.names.hide_input(state)
            if os.path.isabs(name) or (isinstance(state, str) and os.path.isabs(state)):
                return None
            hidden.append((kind, name, state))
        return sorted(hidden, key=lambda input: input[:2])

    # --- writing ---

    def share(self, entries: Iterable[tuple[Entry, Mapping[Input, Any]]]) -> None:
        """Write entries of this machine, each with the closure that it is found by, where this run is to."""
        if not self.settings.writes:
            return
        bodies: dict[str, bytes] = {}
        for entry, closure in entries:
            key = self._key(Question(entry.path, entry.item, closure))
            inputs = self._hidden({(kind, name): state for kind, name, state in entry.inputs})
            if not key or inputs is None or self.names.has_names(list(entry.results)):
                continue
            results = tuple(self.names.hide(result) for result in entry.results)
            hidden = replace(entry, machine=self._hash, inputs=tuple(inputs), results=results)
            bodies[key] = msgspec.json.encode(_SharedEntry(key, hidden))
        self._files.write(bodies)
        self._tell()

    def _tell(self) -> None:
        """Say once why the place cannot be used."""
        if self._files.failure and not self._is_told:
            self._is_told = True
            message = f"patchgen: the shared cache '{self.settings.place}' is not used: {self._files.failure}"
            warnings.warn(message, stacklevel=1)
