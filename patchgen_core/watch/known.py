"""What is known of a config file when its generated files are up to date, to tell what a save concerns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgen_core.build.inputs import InputReader
from patchgen_core.build.results import ConfigResult, Outcome
from patchgen_core.build.ruff_setup import RuffSettings
from patchgen_core.config.tracing import Input
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.files import file_digest, text_digest
from patchgen_core.project.project import Project
from patchgen_core.upstream.module import UpstreamModule, find_upstream


class Asking(InputReader):
    """Answers questions, and remembers which were asked."""

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self.asked: dict[Input, Any] = {}

    def read(self, kind: str, name: str) -> Any:
        """The state of an input."""
        state = super().read(kind, name)
        self.asked[kind, name] = state
        return state


@dataclass(frozen=True)
class Known:
    """What is known of a config file.

    Attributes:
        outcomes: what it makes, without the texts.
        answers: what that depends on; None when that is not known, as of a config with errors.
        outputs: its generated files, with the hashes of what should be in them.
        files: the files that it depends on, and those that it makes.
        folders: where a change may concern it although no file of ``files`` is changed.
        is_doubtful: whether it depends on more than ``answers`` tells.
    """

    outcomes: tuple[Outcome, ...]
    answers: Mapping[Input, Any] | None = None
    outputs: Mapping[Path, str | None] = field(default_factory=dict)
    files: frozenset[Path] = frozenset()
    folders: frozenset[Path] = frozenset()
    is_doubtful: bool = False

    @property
    def problems(self) -> list[Problem]:
        """Why it makes nothing."""
        return [problem for outcome in self.outcomes for problem in outcome.problems]

    def is_current(self, machine: InputReader) -> bool:
        """Whether the generated files are there, and still what the config makes, as far as ``answers`` tell.

        Args:
            machine: answers what it depends on.
        """
        if self.answers is None or any(file_digest(path) != contents for path, contents in self.outputs.items()):
            return False
        return all(machine.read(*question) == answer for question, answer in self.answers.items())


def learn(project: Project, path: Path, results: Sequence[ConfigResult], asked: Mapping[Input, Any]) -> Known:
    """What is known of a config file after a check that has written what drifted.

    Args:
        project: the project.
        path: the config file.
        results: what became of its configs.
        asked: what the results depend on that came from the cache, which does not say so itself.
    """
    outcomes = [result.outcome for result in results]
    slim = tuple(Outcome(o.path, o.label, output=o.output, problems=o.problems) for o in outcomes)
    answers = dict(asked)
    for outcome in outcomes:
        answers |= outcome.inputs or {}
    unknown = Known(slim, files=frozenset([path]), folders=frozenset([path.parent]))
    if not answers or any(result.status not in ("clean", "fixed") for result in results):
        return unknown
    files = {path, *(project.base / about for kind, about in answers if kind == "file")}
    try:
        upstreams = [find_upstream(about) for kind, about in answers if kind == "upstream"]
        settings = [path for kind, about in answers if kind == "ruff" for path in _settings(project, about)]
    except PatchgenError:
        return unknown
    outputs = {file: contents for outcome in outcomes for file, contents in _outputs(outcome)}
    files |= {*outputs, *(file for outcome in outcomes for file in _executed(outcome))}
    files |= {upstream.path for upstream in upstreams}
    folders = {file.parent for file in (*files, *settings)} | set(map(_site, upstreams))
    is_doubtful = any(outcome.doubt for outcome in outcomes)
    return Known(slim, answers, outputs, frozenset(files), frozenset(folders), is_doubtful)


def _site(upstream: UpstreamModule) -> Path:
    """The folder that an upstream package lies in, and that its version is told in."""
    depth = upstream.module.count(".") + (upstream.path.name == "__init__.py")
    return upstream.path.parents[depth]


def _settings(project: Project, folder: str) -> list[Path]:
    """The files of the ruff settings that count in a folder."""
    known = RuffSettings(project)
    return known.chain(known.file(project.base / folder))


def _outputs(outcome: Outcome) -> Iterator[tuple[Path, str | None]]:
    if outcome.artifact is not None:
        for path, text in outcome.artifact.files:
            yield path, text_digest(text)
    elif outcome.output is not None:  # known from the cache, which has looked at them
        for path in (outcome.output, outcome.output.with_suffix(".diff")):
            yield path, file_digest(path)


def _executed(outcome: Outcome) -> Iterator[Path]:
    """The files of the project that were executed to load a config."""
    modules = outcome.loaded.modules if outcome.loaded is not None else {}
    return (Path(namespace["__file__"]) for namespace in modules.values() if namespace.get("__file__"))
