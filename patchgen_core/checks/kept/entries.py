"""Kept results on disk: a file for each item of a config and for each text that was looked at, beside those of the
drift check.

A file is a line with the hash of what follows, and JSON. What cannot be read, is cut off, was changed, has another
format or belongs to another user counts as not there. Files are replaced as a whole, so that any number of processes
can use one folder. There is nothing in them that is executed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from patchgen_core.build.entry_folder import EntryFolder, is_old, read_signed, sign, touch
from patchgen_core.checks.kept.source_summary import SourceSummary
from patchgen_core.files import digest, write_files
from patchgen_core.project.cache_folder import prepare_folder

LIMIT = 12_288
"""How many files are kept, of some 10 KiB each; the ones that were used least recently go."""
FOLDER = "checks"
FORMAT = 1
_CONTENTS, _PAST = "contents.json", "past.json"
_ENTRY = re.compile(r"(?:(?:[0-9a-f]{20}|machine|source)-[0-9a-f]{24}|contents|past)\.json")


_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class Entry:
    """What is kept of one item, or the names of the items of a config.

    Attributes:
        path: the config file, from the project's root.
        item: such as ``parity[eager]``; empty for the names of all.
        machine: hash of the machine's states.
        made: when, in seconds since 1970.
        seconds: how long it took.
        inputs: kind, name and state of everything else that went in.
        results: as :func:`~patchgen_core.checks.result.pack` gives them.
        names: the names of the items, by check.
    """

    path: str
    item: str
    machine: str
    made: float
    seconds: float
    inputs: tuple[tuple[str, str, Any], ...]
    results: tuple[dict[str, Any], ...] = ()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def states(self) -> Iterable[tuple[tuple[str, str], Any]]:
        """Each input with the state that it was in."""
        return (((kind, name), state) for kind, name, state in self.inputs)


@dataclass(frozen=True)
class Question:
    """What is looked for: an item of a config, with the closure that it has here."""

    path: str
    item: str
    inputs: Mapping[tuple[str, str], Any]


@dataclass(frozen=True)
class Machine:
    """The states of a machine by name, for telling which of them changed."""

    states: Mapping[str, str]


@dataclass(frozen=True)
class Contents:
    """Hashes of the contents of installed packages, each with the state that the package was in."""

    packages: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Past:
    """How long an item took when it ran last, and whether it was red."""

    seconds: float
    is_red: bool


@dataclass(frozen=True)
class _Source:
    key: str
    summary: SourceSummary


@dataclass(frozen=True)
class _AllPast:
    items: Mapping[str, Past] = field(default_factory=dict)


def hash_machine(states: Mapping[str, str]) -> str:
    """The hash that stands for a machine's states."""
    return digest(repr(sorted(states.items())).encode("utf-8", "surrogateescape"))[:24]


class EntryStore:
    """The kept results in the folder of a project's cache."""

    def __init__(self, cache_folder: Path) -> None:
        self.cache_folder = cache_folder
        self.folder = cache_folder / FOLDER
        self.files = EntryFolder(self.folder, _ENTRY, LIMIT)

    def find(self, path: str, item: str, machine: str) -> Entry | None:
        """What is kept of an item on such a machine; None where there is nothing that can be trusted."""
        return self._read_entry(self.folder / f"{_prefix(path, item)}-{machine}.json", path, item, machine)

    def find_all(self, path: str, item: str) -> list[Entry]:
        """What is kept of an item on whichever machine, newest first."""
        start = f"{_prefix(path, item)}-"
        files = (file for file in self.files.paths() if file.name.startswith(start))
        entries = (self._read_entry(file, path, item, file.stem.removeprefix(start)) for file in files)
        return sorted(filter(None, entries), key=lambda entry: -entry.made)

    def machine(self, name: str) -> Machine | None:
        """The states that a hash stands for."""
        machine = _read(self.folder / f"machine-{name}.json", Machine)
        return machine if machine is not None and hash_machine(machine.states) == name else None

    def contents(self) -> Contents:
        """What is known of the contents of packages."""
        return _read(self.folder / _CONTENTS, Contents) or Contents()

    def keep_contents(self, contents: Contents) -> None:
        """Keep what is known of the contents of packages; a PatchgenError where it cannot be written."""
        prepare_folder(self.cache_folder)
        write_files([(self.folder / _CONTENTS, _text(contents))])

    def source(self, key: str) -> SourceSummary | None:
        """The summary of a text; None where there is none that can be trusted."""
        source = _read(self._source_file(key), _Source)
        return source.summary if source is not None and source.key == key else None

    def keep_sources(self, sources: Mapping[str, SourceSummary]) -> None:
        """Keep summaries of texts; a PatchgenError where they cannot be written."""
        if sources:
            prepare_folder(self.cache_folder)
            write_files([(self._source_file(key), _text(_Source(key, source))) for key, source in sources.items()])
            self.files.bound()

    def past(self) -> Mapping[str, Past]:
        """What became of items when they ran last, by their keys."""
        return (_read(self.folder / _PAST, _AllPast) or _AllPast()).items

    def keep_past(self, past: Mapping[str, Past]) -> None:
        """Keep what became of items; a PatchgenError where it cannot be written."""
        prepare_folder(self.cache_folder)
        write_files([(self.folder / _PAST, _text(_AllPast(past)))])

    def keep(self, entries: Iterable[Entry], machine: Mapping[str, str]) -> None:
        """Keep results of this machine; a PatchgenError where they cannot be written."""
        entries = list(entries)
        if not entries:
            return
        prepare_folder(self.cache_folder)
        files = [(self.folder / f"{_prefix(e.path, e.item)}-{e.machine}.json", _text(e)) for e in entries]
        description = self.folder / f"machine-{hash_machine(machine)}.json"
        write_files([(description, _text(Machine(machine))), *files])
        self.files.bound()

    def _source_file(self, key: str) -> Path:
        return self.folder / f"source-{key[:24]}.json"

    def _read_entry(self, file: Path, path: str, item: str, machine: str) -> Entry | None:
        entry = _read(file, Entry)
        if entry is None or (entry.format, entry.path, entry.item, entry.machine) != (FORMAT, path, item, machine):
            return None
        return entry


def _prefix(path: str, item: str) -> str:
    return digest(f"{path}::{item}".encode("utf-8", "surrogateescape"))[:20]


def _text(value: Entry | Machine | Contents | _Source | _AllPast) -> str:
    return sign(msgspec.json.encode(value)).decode()


def _read(file: Path, kind: type[_Kind]) -> _Kind | None:
    signed = read_signed(file)
    if signed is None or not _is_own(signed[1]):
        return None
    body, status = signed
    value = decode(body, kind)
    if value is None:
        return None
    if is_old(status.st_mtime):
        touch(file)
    return value


def decode(body: bytes, kind: type[_Kind]) -> _Kind | None:
    """What a body says; None where it is nothing of this kind."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _is_own(status: os.stat_result) -> bool:
    """Whether a file belongs to whom this process runs for: what others wrote is not believed."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
