"""Results of checks that hold as long as everything that went into them is the same.

Everything is looked at before the first check of a run, and again at its end: what was touched meanwhile is not kept.
Only clean results are kept, with their warnings, notes and figures, as they were before the project's severities and
baseline are applied; anything red is computed afresh. Of the check ``drift`` the cache of what was made
(:mod:`patchgen_core.build.cache`) tells.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from patchgen_core.build.inputs import InputReader
from patchgen_core.build.selection import Selection
from patchgen_core.checks.check import Check
from patchgen_core.checks.checked_in.compare import find_rivals
from patchgen_core.checks.kept.closure import Closure, Roots, find_closure, split_references
from patchgen_core.checks.kept.entries import Entry, EntryStore, hash_machine
from patchgen_core.checks.kept.machine import machine_states
from patchgen_core.checks.kept.module_files import ModuleFiles
from patchgen_core.checks.kept.packages import TooManyFiles, is_metadata, is_own_package
from patchgen_core.checks.kept.states import States
from patchgen_core.checks.result import CheckResult, drift_result, pack, unpack
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import DRIFT, Settings
from patchgen_core.config.input_recording import Input
from patchgen_core.errors import PatchgenError
from patchgen_core.files import text_digest
from patchgen_core.project.cache_folder import cache_folder
from patchgen_core.project.project import Project
from patchgen_core.project.pyproject import PYPROJECT

SWITCH = "PATCHGEN_KEEP_CHECKS"
"""The environment variable that, set to 0, has only results of the check of the drift kept."""
_HARMLESS_SETTINGS = frozenset(("fix", "prune", "caching", "holds_back"))
"""Nothing is kept in a run that writes or uses no cache, and baselines are applied to what is kept."""
ORPHANS = "orphans"
"""An item that is looked for each time: it costs nothing."""


@dataclass(frozen=True)
class _Done:
    """A result that is to be kept, or names of items, with what it depends on beside the closure."""

    path: Path
    item: str
    closure: Closure
    inputs: Mapping[Input, Any]
    seconds: float = 0.0
    results: tuple[CheckResult, ...] = ()
    names: Mapping[str, tuple[str, ...]] | None = None


def kept_results(session: Session, path: Path) -> KeptResults | None:
    """What is kept for the project of a config; None where nothing is, or files are being rewritten."""
    settings = session.settings
    if not settings.caching or settings.fix or settings.prune or os.environ.get(SWITCH) == "0":
        return None
    try:
        project = session.project(path)
    except PatchgenError:  # the check says so
        return None
    if project.upstream:  # another release than the one that models run with
        return None
    return session.resource(project, KeptResults, lambda: KeptResults(session, project))


def run_check(session: Session, check: Check, path: Path, item: str) -> tuple[CheckResult, ...]:
    """The results of an item: kept ones where they hold, else those of a run, which are kept if they are clean."""
    kept = kept_results(session, path)
    return session.run_item(check, path, item) if kept is None else kept.run(check, path, item)


def list_items(session: Session, check: Check, path: Path) -> list[str]:
    """The names of a check's items for a config file, or for the ``pyproject.toml`` of a project."""
    kept = kept_results(session, path)
    listing = check.project_items if path.name == PYPROJECT else check.items
    if kept is None:
        return list(listing(path))
    return kept.list_items(check, path)


def find_fresh(session: Session, items: Iterable[tuple[Check, Path, str]]) -> list[tuple[Check, Path, str]]:
    """The items that have to run, of all that a session is to give results of: each a check, a file and a name.

    The session gets to know of which configs something has to be made.
    """
    items = list(items)
    names: dict[Path, set[str]] = {}
    for check, path, _ in items:
        if path.name != PYPROJECT:
            names.setdefault(path, set()).add(check.name)
    before = dict(session.chosen)
    for path, checks in names.items():
        session.chosen[path] = before.get(path, set()) | checks
    fresh = [each for each in items if not _is_kept(session, *each)]
    for path in names.keys() - before.keys() - {path for _, path, _ in fresh}:
        del session.chosen[path]
    return fresh


def is_everything_kept(session: Session, checks: Iterable[Check], paths: Iterable[Path]) -> bool:
    """Whether no check has to run, as far as that is known without listing the items of one."""
    items = []
    paths = list(paths)
    for check in checks:
        for path in paths:
            kept = kept_results(session, path)
            names = kept.find_names(check, path) if kept is not None else None
            if names is None:
                return False
            items += [(check, path, name) for name in names]
    for check, path, _ in items:
        session.chosen.setdefault(path, set()).add(check.name)
    return all(_is_kept(session, *item) for item in items if item[2] != ORPHANS)


def _is_kept(session: Session, check: Check, path: Path, item: str) -> bool:
    kept = kept_results(session, path)
    return kept is not None and kept.find(check, path, item) is not None


class KeptResults:
    """The kept results of a project, for one session."""

    def __init__(self, session: Session, project: Project) -> None:
        self.session, self.project = session, project
        self.store = EntryStore(cache_folder(project))
        self.failure = ""
        self.unknown = ""
        self._settings = text_digest(repr((str(project.base), *_settings(session.settings))))
        self.states = States(project, self._settings)
        self._files = ModuleFiles(self.states)
        self._closures: dict[Roots, Closure] = {}
        self._results: dict[tuple[str, Path, str], tuple[CheckResult, ...] | None] = {}
        self._names: dict[Path, dict[str, tuple[str, ...]]] = {}
        self._done: list[_Done] = []
        self._clean_drift: dict[Path, tuple[CheckResult, ...]] | None = None

    @cached_property
    def machine(self) -> dict[str, str]:
        """The machine's states when they were first asked for; none where they cannot be known."""
        try:
            return machine_states(self.project.import_roots, self.project.base)
        except TooManyFiles as error:
            self.unknown = f"there are too many files in '{error}', which is on the search path"
            return {}

    # --- asking ---

    def find(self, check: Check, path: Path, item: str) -> tuple[CheckResult, ...] | None:
        """The results of an item, if they are kept and hold. What goes in is looked at now, whether they do or not."""
        key = (check.name, path, item)
        if check.name == DRIFT:
            return None if item == ORPHANS else self._find_drift(path)
        if key not in self._results:
            self._results[key] = self._find(check, path, item)
        return self._results[key]

    def _find(self, check: Check, path: Path, item: str) -> tuple[CheckResult, ...] | None:
        if declared_inputs(check, path) is None or not self.machine:
            return None
        entry = self.store.find(self.states.name_of(path), item, hash_machine(self.machine))
        if entry is not None and self.states.agrees(inputs_of(entry)):
            try:
                results = tuple(map(unpack, entry.results))
            except ValueError:
                results = ()
            if results and all(result.check == check.name and result.status == "clean" for result in results):
                return tuple(replace(result, made=entry.made, seconds=entry.seconds) for result in results)
        self.closure(check, path)
        return None

    def _find_drift(self, path: Path) -> tuple[CheckResult, ...] | None:
        """The result of the drift check, if those of all that are going to run are known: two configs that write one
        file are an error of both."""
        if self._clean_drift is None:
            self._clean_drift = self._read_drift()
        return self._clean_drift.get(path)

    def _read_drift(self) -> dict[Path, tuple[CheckResult, ...]]:
        session, cache = self.session, self.session.cache(self.project)
        paths = [path for path, names in session.chosen.items() if DRIFT in names and self._is_own(path)]
        selection, reader = Selection(self.project), InputReader(self.project)
        results = {path: cache.find(selection, path, reader) for path in paths} if cache is not None else {}
        if not all(results.values()) or find_rivals(results):
            return {}
        return {path: tuple(map(drift_result, of_path)) for path, of_path in results.items()}

    def _is_own(self, path: Path) -> bool:
        try:
            return self.session.project(path) == self.project
        except PatchgenError:
            return False

    def list_items(self, check: Check, path: Path) -> list[str]:
        """The names of a check's items, kept or asked for."""
        listing = check.project_items if path.name == PYPROJECT else check.items
        if declared_inputs(check, path) is None:
            return list(listing(path))
        known = self.find_names(check, path)
        if known is None:
            names = self._names[path]
            names[check.name] = known = tuple(listing(path))
            self._done = [done for done in self._done if done.names is None or done.path != path]
            self._done.append(_Done(path, "", self._listing_closure(path), {}, names=dict(names)))
        return list(known)

    def find_names(self, check: Check, path: Path) -> tuple[str, ...] | None:
        """The names of a check's items, if they are kept or cost nothing."""
        if check.name == DRIFT:
            return tuple(check.project_items(path) if path.name == PYPROJECT else check.items(path))
        if declared_inputs(check, path) is None:
            return None
        if path not in self._names:
            self._names[path] = self._find_names(path)
        return self._names[path].get(check.name)

    def _find_names(self, path: Path) -> dict[str, tuple[str, ...]]:
        if not self.machine:
            return {}
        entry = self.store.find(self.states.name_of(path), "", hash_machine(self.machine))
        if entry is not None and self.states.agrees(inputs_of(entry)):
            return dict(entry.names)
        self._listing_closure(path)
        return {}

    # --- what goes in ---

    def closure(self, check: Check, path: Path) -> Closure:
        """What of the project the results of a check may depend on."""
        return self._closure(path, tuple(declared_inputs(check, path) or ()), check.runs_code)

    def _listing_closure(self, path: Path) -> Closure:
        return self._closure(path, (self.project.search_root,) if path.name == PYPROJECT else (), True)

    def _closure(self, path: Path, more: tuple[Path, ...], runs_code: bool) -> Closure:
        project, settings = self.project, self.session.settings
        references = (project.setup, *settings.setups, *project.parity.batches, *settings.toy_batches)
        own = split_references((*references, *project.kernels))
        folders = [] if path.name == PYPROJECT else [project.output_folder(path).parent, path.parent]
        folders += [project.parity.toy_root] if project.parity.toy_root is not None else []
        files = own.files if path.name == PYPROJECT else (path, *own.files)
        roots = replace(own, folders=tuple(dict.fromkeys([*folders, *more])), files=files, run=runs_code)
        if roots not in self._closures:
            self._closures[roots] = find_closure(self._files, roots)
        return self._closures[roots]

    # --- running and keeping ---

    def run(self, check: Check, path: Path, item: str) -> tuple[CheckResult, ...]:
        """The results of an item, kept or new."""
        results = self.find(check, path, item)
        if results is not None:
            return results
        if check.name == DRIFT:
            return tuple(check.run(path, item))
        if declared_inputs(check, path) is None:
            new = self.session.run_item(check, path, item)
            return tuple(_with_note(result, "the check does not declare what it reads") for result in new)
        closure = self.closure(check, path)
        inputs, reason = self._inputs_of_configs(path, closure)
        start = time.perf_counter()
        results = self.session.run_item(check, path, item)
        seconds = next((result.seconds for result in results), 0.0) or time.perf_counter() - start
        if not results or any(result.status != "clean" for result in results):
            return results
        reason = self.unknown or closure.unknown or reason or self._find_stray()
        if not reason:
            packed = tuple(unpack(pack(result)) for result in results)
            self._done.append(_Done(path, item, closure, inputs, seconds, packed))
        return tuple(_with_note(result, reason) for result in results)

    def _find_stray(self) -> str:
        """What is wrong where a process has read a file of the project that no closure has."""
        base = f"{self.project.base}{os.sep}"
        running = (closure for roots, closure in self._closures.items() if roots.run)
        known = {name for closure in running for kind, name in closure.inputs if kind == "file"}
        for path in sorted(self.session.opened_files(self.project)):
            name = self.states.name_of(Path(path))
            is_hidden = any(part.startswith(".") for part in name.split("/"))
            is_known = (
                is_hidden or name in known or is_own_package(path) or is_metadata(path, self.project.import_roots)
            )
            if path.startswith(base) and not is_known:
                return f"'{name}' was read, which the texts of the project's modules do not tell"
        return ""

    def _inputs_of_configs(self, path: Path, closure: Closure) -> tuple[dict[Input, Any], str]:
        """What the configs of a file depend on beside a closure, and why that is not known."""
        inputs: dict[Input, Any] = {}
        if path.name == PYPROJECT:
            return inputs, ""
        try:
            results = self.session.results(path)
        except PatchgenError as error:  # the check meets it as well
            return inputs, error.problems[0].message
        for result in results:
            outcome = result.outcome
            if result.status != "clean" or outcome.artifact is None:
                return inputs, "the generated files have drifted"
            if outcome.inputs is None or outcome.uncacheable:
                return inputs, outcome.uncacheable or "it is not known what the config depends on"
            inputs |= outcome.inputs
            toy = outcome.artifact.plan.config.toy_config
            if isinstance(toy, str):
                place = Path(toy)
                roots = Roots(folders=(place,)) if place.is_dir() else Roots(files=(place,))
                inputs |= find_closure(self._files, roots).inputs
        return inputs, ""

    def close(self) -> None:
        """Keep what was found out, if everything that went in is still what it was."""
        done, self._done = self._done, []
        if not done or not self.machine:
            return
        now = States(self.project, self._settings)
        try:
            if machine_states(self.project.import_roots, self.project.base) != self.machine:
                return
            self.store.keep([self._entry(each) for each in done if self._holds(each, now)], self.machine)
        except TooManyFiles:
            return
        except (PatchgenError, ValueError) as error:
            self.failure = str(error)

    def _holds(self, done: _Done, now: States) -> bool:
        inputs = {**done.inputs, **done.closure.inputs}
        untouched = now.is_untouched_since(self.states, done.closure.inputs)
        return untouched and not done.closure.unknown and now.agrees(inputs)

    def _entry(self, done: _Done) -> Entry:
        inputs = {**done.inputs, **done.closure.inputs}
        return Entry(
            path=self.states.name_of(done.path),
            item=done.item,
            machine=hash_machine(self.machine),
            made=time.time(),
            seconds=done.seconds,
            inputs=tuple(sorted(((kind, name, state) for (kind, name), state in inputs.items()), key=lambda e: e[:2])),
            results=tuple(map(pack, done.results)),
            names=done.names or {},
        )


def inputs_of(entry: Entry) -> Iterable[tuple[Input, Any]]:
    """The inputs of a kept result with the states that they were in."""
    return (((kind, name), state) for kind, name, state in entry.inputs)


def declared_inputs(check: Check, path: Path) -> Iterable[Path] | None:
    """What a check says that it reads beside a config's own files: only what the class itself says counts, because
    another one may read more."""
    return check.inputs(path) if "inputs" in vars(type(check)) else None


def _settings(settings: Settings) -> tuple[object, ...]:
    """How the run goes, as far as results depend on it."""
    names = (field.name for field in fields(settings) if field.name not in _HARMLESS_SETTINGS)
    return tuple((name, getattr(settings, name)) for name in names)


def _with_note(result: CheckResult, reason: str) -> CheckResult:
    if not reason or result.status != "clean":
        return result
    return replace(result, notes=(*result.notes, f"not kept: {reason}"))
