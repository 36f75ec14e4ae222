"""What is known of what the configs of a project make: from the cache of that, or made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from patchgen_core.build.inputs import InputReader
from patchgen_core.build.results import ConfigResult, Declared, Outcome
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.outputs import find_rivals
from patchgen_core.checks.result import CheckResult, drift_result
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import DRIFT
from patchgen_core.config.input_recording import Input
from patchgen_core.errors import PatchgenError
from patchgen_core.files import text_digest
from patchgen_core.project.project import CONFIG_SUFFIX, Project

DECLARED = ("plan", "places")
"""Kinds of inputs: what a config file declares, and the lines where, in whichever files that is."""


class MadeConfigs:
    """What the configs of a project make, for one session."""

    def __init__(self, session: Session, project: Project) -> None:
        self.session, self.project = session, project
        self._selection, self._reader = Selection(project), InputReader(project)
        self._kept: dict[Path, list[ConfigResult]] = {}
        self._declared: dict[Path, tuple[Declared, ...]] = {}
        self._clean_drift: dict[Path, tuple[CheckResult, ...]] | None = None

    # --- the check of the drift ---

    def find_drift(self, path: Path) -> tuple[CheckResult, ...] | None:
        """The result of the drift check, if those of all that are going to run are known: two configs that write one
        file are an error of both."""
        if self._clean_drift is None:
            self._clean_drift = self._read_drift()
        return self._clean_drift.get(path)

    def _read_drift(self) -> dict[Path, tuple[CheckResult, ...]]:
        paths = [path for path, names in self.session.chosen.items() if DRIFT in names and self._is_own(path)]
        results = {path: self._find(path) for path in paths}
        if not all(results.values()) or find_rivals(results):
            return {}
        return {path: tuple(map(drift_result, of_path)) for path, of_path in results.items()}

    def _is_own(self, path: Path) -> bool:
        try:
            return self.session.project(path) == self.project
        except PatchgenError:
            return False

    def _find(self, path: Path) -> list[ConfigResult]:
        """What the cache knows of a file whose generated modules are what they should be."""
        if path not in self._kept:
            cache = self.session.cache(self.project)
            self._kept[path] = cache.find(self._selection, path, self._reader) if cache is not None else []
        return self._kept[path]

    # --- what results depend on ---

    def is_known(self, path: Path) -> bool:
        """Whether what a config file declares is known without making anything."""
        return path in self._declared or bool(self._find(path))

    def read(self, kind: str, path: Path) -> str | None:
        """The state of what a config file declares; None where its generated modules are not what they should be."""
        if path not in self._declared:
            self._declared[path] = self._look(path)
        states = [getattr(each, kind) for each in self._declared[path]]
        return text_digest(repr(states)) if states else None

    def _look(self, path: Path) -> tuple[Declared, ...]:
        try:
            results = self._find(path) or self.session.results(path)
        except PatchgenError:  # the check of the drift says so
            return ()
        declared = [_declared_by(self.project, result.outcome) for result in results if result.status == "clean"]
        known = tuple(each for each in declared if each is not None)
        return known if len(known) == len(results) else ()

    def list_inputs(self, path: Path) -> tuple[dict[Input, Any], list[str], str]:
        """What the configs of a file depend on, the paths of toy configurations that they name, and why that is not
        known."""
        inputs: dict[Input, Any] = {}
        toys: list[str] = []
        try:
            results = self.session.results(path)
        except PatchgenError as error:  # the check meets it as well
            return inputs, toys, error.problems[0].message
        for result in results:
            outcome = result.outcome
            if result.status != "clean" or outcome.artifact is None:
                return inputs, toys, "the generated files have drifted"
            if outcome.inputs is None or outcome.uncacheable:
                return inputs, toys, outcome.uncacheable or "it is not known what the config depends on"
            inputs |= outcome.inputs
            toy = outcome.artifact.plan.config.toy_config
            toys += [toy] if isinstance(toy, str) else []
        return inputs, toys, ""


def _declared_by(project: Project, outcome: Outcome) -> Declared | None:
    if outcome.artifact is None:
        return outcome.declared
    from patchgen_core.build.declared import hash_declared  # which loads what makes configs

    return hash_declared(outcome.artifact.plan, project)


def list_other_configs(inputs: Iterable[Input], own: str) -> list[Input]:
    """The config files among inputs beside the one that is called ``own``."""
    return [(kind, name) for kind, name in inputs if kind == "file" and name.endswith(CONFIG_SUFFIX) and name != own]


def name_any(files: Iterable[Input], results: Iterable[Mapping[str, Any]]) -> bool:
    """Whether packed results have the name of one of these files in them."""
    text = repr(list(results))
    return any(name.rpartition("/")[2] in text for _, name in files)
