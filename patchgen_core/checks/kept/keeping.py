"""Results of checks that hold as long as everything that went into them is the same.

Everything is looked at before the first check of a run, and again at its end: what was touched meanwhile is not kept.
Only clean and skipped results are kept, with their warnings, notes and figures, as they were before the project's
severities and baseline are applied; anything red is computed afresh. Of the check ``drift`` the cache of what was made
(:mod:`patchgen_core.build.cache`) tells.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen_core.checks.check import Check
from patchgen_core.checks.kept.closure import Closure, describe_looks
from patchgen_core.checks.kept.closures import Closures
from patchgen_core.checks.kept.entries import Entry, EntryStore, Question, hash_machine
from patchgen_core.checks.kept.machine import machine_states
from patchgen_core.checks.kept.made_configs import DECLARED, MadeConfigs, list_other_configs, name_any
from patchgen_core.checks.kept.module_files import ModuleFiles
from patchgen_core.checks.kept.own_words import declared_inputs, follows_configs, follows_functions
from patchgen_core.checks.kept.packages import TooManyFiles
from patchgen_core.checks.kept.states import SETTINGS, States
from patchgen_core.checks.kept.summaries import Summaries
from patchgen_core.checks.kept.to_keep import ToKeep
from patchgen_core.checks.kept.watching import Watching, is_watching, list_unseen
from patchgen_core.checks.result import NOT_KEPT, CheckResult, pack, unpack
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import DRIFT, Settings
from patchgen_core.config.input_recording import Input
from patchgen_core.errors import PatchgenError
from patchgen_core.files import text_digest
from patchgen_core.models.run_files import RunPlace, forget_runs
from patchgen_core.project.cache_folder import cache_folder
from patchgen_core.project.project import Project
from patchgen_core.project.pyproject import PYPROJECT

if TYPE_CHECKING:
    from patchgen_core.checks.kept.sharing import SharedResults

_HARMLESS_SETTINGS = frozenset(("fix", "prune", "caching", "holds_back"))
"""Nothing is kept in a run that writes or uses no cache, and baselines are applied to what is kept."""
_KEPT = ("clean", "skipped")
"""The states of results that are kept: what is skipped hangs on the same things as what is clean."""
ORPHANS = "orphans"
"""An item that is looked for each time: it costs nothing."""


class KeptResults:
    """The kept results of a project, for one session."""

    def __init__(self, session: Session, project: Project) -> None:
        self.session, self.project = session, project
        self.store = EntryStore(cache_folder(project))
        self.unknown = ""
        self._settings = text_digest(repr((str(project.base), *_settings(session.settings))))
        self._made, self._watching = MadeConfigs(session, project), Watching(session, project)
        self.states = States(project, self._settings, self._made.read)
        self._summaries = Summaries(self.store)
        self._closures = Closures(project, session.settings, ModuleFiles(self.states, self._summaries))
        self._results: dict[tuple[str, Path, str], tuple[CheckResult, ...] | None] = {}
        self._names: dict[Path, dict[str, tuple[str, ...]]] = {}
        self._done: list[ToKeep] = []
        self._run_places: set[RunPlace] = set()

    @cached_property
    def machine(self) -> dict[str, str]:
        """The machine's states when they were first asked for; none where they cannot be known."""
        try:
            return machine_states(self.project.import_roots, self.project.base)
        except TooManyFiles as error:
            self.unknown = f"there are too many files in '{error}', which is on the search path"
            return {}

    @cached_property
    def machine_name(self) -> str:
        """What stands for the machine in entries."""
        return hash_machine(self.machine)

    # --- asking ---

    def find(self, check: Check, path: Path, item: str) -> tuple[CheckResult, ...] | None:
        """The results of an item, if they are kept and hold. What goes in is looked at now, whether they do or not."""
        key = (check.name, path, item)
        if check.name == DRIFT:
            return None if item == ORPHANS else self._made.find_drift(path)
        if key not in self._results:
            self._results[key] = self._find(check, path, item)
        return self._results[key]

    def hangs_on_making(self, check: Check, path: Path, item: str) -> bool:
        """Whether a config has to be made before it is known whether a result of it holds."""
        if check.name == DRIFT or (check.name, path, item) in self._results or not self.machine:
            return False
        if path.name == PYPROJECT or self._made.is_known(path):
            return False
        entry = self._find_entry(path, item)
        return entry is not None and any(kind in DECLARED for kind, _, _ in entry.inputs)

    def _find(self, check: Check, path: Path, item: str) -> tuple[CheckResult, ...] | None:
        if declared_inputs(check, path) is None or not self.machine:
            return None
        results = self._believe(check, self._find_entry(path, item))
        if results is not None:
            return results
        closure = self.closure(check, path)
        entry = self._find_shared(path, item, closure)
        results = self._believe(check, entry)
        if entry is not None and results is not None:
            inputs = dict(entry.states)
            self._done.append(ToKeep(path, item, closure, inputs, entry.seconds, results, made=entry.made))
        return results

    def _find_entry(self, path: Path, item: str) -> Entry | None:
        return self.store.find(self.states.name_of(path), item, self.machine_name)

    def _believe(self, check: Check, entry: Entry | None) -> tuple[CheckResult, ...] | None:
        """The results of an entry that holds; what is not clean is none."""
        if entry is None or not self._agrees(entry):
            return None
        try:
            results = tuple(map(unpack, entry.results))
        except ValueError:
            return None
        if not results or any(result.check != check.name or result.status not in _KEPT for result in results):
            return None
        return tuple(replace(result, made=entry.made, seconds=entry.seconds) for result in results)

    def _agrees(self, entry: Entry) -> bool:
        try:
            states = dict(entry.states)
            declared = {each: states.pop(each) for each in list(states) if each[0] in DECLARED}
            return self.states.agrees(states) and self.states.agrees(declared)  # which may have to be made
        except (KeyError, TypeError, ValueError):  # it names what there is no such thing of
            return False

    # --- what machines share ---

    @cached_property
    def shared(self) -> SharedResults | None:
        """What the project shares with other machines; None for nothing."""
        if not self.project.shared_cache.here().place or not self.machine:
            return None
        from patchgen_core.checks.kept.sharing import SharedResults

        return SharedResults(self.project, self.store, self.machine, _settings(self.session.settings))

    def expect(self, items: Iterable[tuple[Check, Path, str]]) -> None:
        """Have those of these items asked for at once that are shared and not kept here."""
        unknown = [item for item in items if self._is_unknown(*item)]
        questions = (self._question(path, item, self.closure(check, path)) for check, path, item in unknown)
        asked = list(filter(None, questions))
        if self.shared is not None and asked:
            self.shared.expect(asked)

    def _is_unknown(self, check: Check, path: Path, item: str) -> bool:
        if check.name == DRIFT or declared_inputs(check, path) is None:
            return False
        is_new = (check.name, path, item) not in self._results
        return is_new and self._believe(check, self._find_entry(path, item)) is None

    def _question(self, path: Path, item: str, closure: Closure) -> Question | None:
        return None if closure.unknown else Question(self.states.name_of(path), item, closure.inputs)

    def _find_shared(self, path: Path, item: str, closure: Closure) -> Entry | None:
        question = self._question(path, item, closure)
        return self.shared.find(question) if self.shared is not None and question is not None else None

    # --- names of items ---

    def list_items(self, check: Check, path: Path) -> list[str]:
        """The names of a check's items, kept or asked for."""
        listing = check.project_items if path.name == PYPROJECT else check.items
        if declared_inputs(check, path) is None:
            return list(listing(path))
        known = self.find_names(check, path)
        if known is None:
            names = self._names[path]
            self.watch_code()
            known = tuple(listing(path))
            closure = self._listing_closure(path)
            if not list_unseen(check, closure.looks) and not self._find_stray(check, closure):
                names[check.name] = known
                self._done = [done for done in self._done if done.names is None or done.path != path]
                self._done.append(ToKeep(path, "", closure, self._read_asked(), names=dict(names)))
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
        entry = self._find_entry(path, "")
        if entry is not None and self._agrees(entry):
            return dict(entry.names)
        closure = self._listing_closure(path)
        entry = self._find_shared(path, "", closure)
        if entry is None or not self._agrees(entry):
            return {}
        self._done.append(ToKeep(path, "", closure, {}, names=entry.names, made=entry.made))
        return dict(entry.names)

    # --- what goes in ---

    def closure(self, check: Check, path: Path) -> Closure:
        """What of the project the results of a check may depend on."""
        closure = self._closures.of_config(
            path,
            tuple(declared_inputs(check, path) or ()),
            runs_code=check.runs_code,
            follows_configs=follows_configs(check),
            follows_functions=follows_functions(check),
        )
        return _judge(check, closure)

    def _listing_closure(self, path: Path) -> Closure:
        return self._closures.of_config(path, (self.project.search_root,) if path.name == PYPROJECT else ())

    def watch_code(self) -> None:
        """Have processes that are started from now on note what they run that looks at what no text tells."""
        if self.machine and not is_watching():
            self._watching.begin(self._listing_closure(self.project.base / PYPROJECT))

    def find_run_place(self) -> RunPlace | None:
        """Where runs of upstream's models are kept; None where it is not known what they depend on."""
        closure = self._closures.of_models()
        if not self.machine or closure.unknown or closure.looks:
            return None
        inputs = sorted(((key, state) for key, state in closure.inputs.items() if key != SETTINGS), key=repr)
        context = text_digest(repr((self.machine_name, inputs)))[:24]
        place = RunPlace(str(self.store.cache_folder), context)
        self._run_places.add(place)
        return place

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
        inputs, reason = self._inputs_of_configs(path)
        start = time.perf_counter()
        results = self.session.run_item(check, path, item)
        seconds = next((result.seconds for result in results), 0.0) or time.perf_counter() - start
        if not results or any(result.status not in _KEPT for result in results):
            return results
        reason = self.unknown or closure.unknown or reason or self._find_stray(check, closure)
        inputs |= self._read_asked(self.session.asked.get((check.name, path), ()))
        if not reason and not self._is_elsewhere():
            packed = tuple(unpack(pack(_without_notes(result))) for result in results)
            done = ToKeep(path, item, closure, inputs, seconds, packed)
            self._done.append(done if follows_configs(check) else self._without_others(done, check.runs_code))
        return tuple(_with_note(result, reason) for result in results)

    def run_apart(self, check: Check, path: Path, item: str) -> tuple[tuple[CheckResult, ...], list[ToKeep]]:
        """The results of an item, and what there is to keep of it: :meth:`take` has it kept by the session that this
        process is forked from."""
        before, self._done = self._done, []
        try:
            return self.run(check, path, item), self._done
        finally:
            self._done = before

    def take(self, done: Iterable[ToKeep]) -> None:
        """Have kept in the end what was run apart."""
        self._done += done

    def _inputs_of_configs(self, path: Path) -> tuple[dict[Input, Any], str]:
        """What the configs of a file depend on beside a closure, and why that is not known."""
        if path.name == PYPROJECT:
            return {}, ""
        inputs, toys, reason = self._made.list_inputs(path)
        for toy in toys:
            inputs |= self._closures.of_place(Path(toy)).inputs
        return inputs, reason

    def _without_others(self, done: ToKeep, runs_code: bool) -> ToKeep:
        """A result that depends on other config files by what the config declares with them, and if it tells of them
        on the lines there: on their texts where that may quote these, as a check does that reads code."""
        name = self.states.name_of(done.path)
        others = [each for each in list_other_configs(done.inputs, name) if each not in done.closure.inputs]
        is_told = bool(others) and name_any(others, map(pack, done.results))
        if not others or (is_told and not runs_code):
            return done
        kinds = DECLARED if is_told else DECLARED[:1]
        states: dict[Input, Any] = {(kind, name): self._made.read(kind, done.path) for kind in kinds}
        return replace(done, left_out=frozenset(others), declared=states)

    def _is_elsewhere(self) -> bool:
        """Whether checks run on other machines, of whose packages and processors nothing is known here."""
        return self.session.items_ahead is not None and self.session.items_ahead.is_elsewhere

    def _read_asked(self, asked: Iterable[Input] = ()) -> dict[Input, Any]:
        """The programs and modules that processes have asked for, and what else has come up."""
        return {each: self.states.read(*each) for each in (*self._watching.list_asked(), *asked)}

    def _find_stray(self, check: Check, closure: Closure) -> str:
        """What a process did that the closures do not tell of."""
        reason = self._watching.find_reason(closure) if check.runs_code else ""
        return reason or self._watching.find_unknown_file(self._closures.list_files)

    def close(self) -> None:
        """Keep what was found out, if everything that went in is still what it was."""
        done, self._done = self._done, []
        self._watching.end()
        try:
            kept = self._keep(done) if (done or self._run_places) and self.machine else []
            self._summaries.keep()
        except (TooManyFiles, PatchgenError, ValueError) as error:
            if not isinstance(error, TooManyFiles):
                warnings.warn(f"patchgen: results of checks cannot be kept: {error}", stacklevel=1)
            return
        if self.shared is not None and done:
            self.shared.share((entry, each.closure.inputs) for each, entry in kept if not each.made)

    def _keep(self, done: list[ToKeep]) -> list[tuple[ToKeep, Entry]]:
        now = States(self.project, self._settings, self._made.read)
        if machine_states(self.project.import_roots, self.project.base) != self.machine:
            forget_runs(self._run_places)
            return []
        entries = [(each, self._entry(each)) for each in done if self._holds(each, now)]
        self.store.keep([entry for _, entry in entries], self.machine)
        return entries

    def _holds(self, done: ToKeep, now: States) -> bool:
        inputs = {**done.inputs, **done.closure.inputs}
        untouched = now.is_untouched_since(self.states, done.closure.inputs)
        return untouched and not done.closure.unknown and now.agrees(inputs)

    def _entry(self, done: ToKeep) -> Entry:
        inputs = {each: state for each, state in done.inputs.items() if each not in done.left_out}
        inputs |= {**done.closure.inputs, **done.declared}
        return Entry(
            path=self.states.name_of(done.path),
            item=done.item,
            machine=self.machine_name,
            made=done.made or time.time(),
            seconds=done.seconds,
            inputs=tuple(sorted(((kind, name, state) for (kind, name), state in inputs.items()), key=lambda e: e[:2])),
            results=tuple(map(pack, done.results)),
            names=done.names or {},
        )


def _judge(check: Check, closure: Closure) -> Closure:
    """A closure with what is not known even where everything that code does is noted that can be."""
    return replace(closure, unknown=closure.unknown or describe_looks(list_unseen(check, closure.looks)))


def _settings(settings: Settings) -> tuple[object, ...]:
    """How the run goes, as far as results depend on it."""
    names = (each.name for each in fields(settings) if each.name not in _HARMLESS_SETTINGS)
    return tuple((name, getattr(settings, name)) for name in names)


def _with_note(result: CheckResult, reason: str) -> CheckResult:
    if not reason or result.status not in _KEPT:
        return result
    return replace(result, notes=(*result.notes, f"{NOT_KEPT}{reason}"))


def _without_notes(result: CheckResult) -> CheckResult:
    """A result without what is about the run that it was made in."""
    return replace(result, notes=tuple(note for note in result.notes if not note.startswith(NOT_KEPT)))
