"""What becomes of configs: plain data, which imports nothing of the generator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from patchgen_core.errors import Problem, display_path

if TYPE_CHECKING:
    from patchgen_core.codegen.plan import Plan
    from patchgen_core.config.loading import LoadedConfig
    from patchgen_core.project.project import Project
    from patchgen_core.syntax.source import SourceFile

Status = Literal["clean", "drifted", "fixed", "error"]
CauseKind = Literal[
    "upstream moved",
    "config changed",
    "edited by hand",
    "generator changed",
    "made by another generator",
    "missing",
    "orphan",
]

Progress = Callable[[int, int], None]
"""Told how many of how many configs are done."""


@dataclass(frozen=True)
class Cause:
    """Why a file is not what its config makes.

    When upstream moved, ``upstream_diff`` is what it changed in the very targets that the config patches. The
    generated file does not show that: the patches stand there.
    """

    kind: CauseKind
    detail: str = ""
    upstream_diff: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


@dataclass(frozen=True)
class Artifact:
    """The files of one config, as they should be.

    Attributes:
        read_base: gives ``base``, which many runs need not.
        keeps_diff: whether the project has the diff checked in beside the module.
    """

    plan: Plan
    path: Path
    text: str
    read_base: Callable[[], str] = field(compare=False, repr=False)
    keeps_diff: bool = False

    @property
    def diff_path(self) -> Path:
        """Where the diff goes: beside the module."""
        return self.path.with_suffix(".diff")

    @cached_property
    def source(self) -> SourceFile:
        """The module, parsed."""
        from patchgen_core.syntax.source import parse_source

        return parse_source(self.path, self.text)

    def use_source(self, source: SourceFile | None) -> None:
        """Have the module been parsed already; with None, have it parsed again when it is asked for."""
        self.__dict__.pop("source", None)
        if source is not None:
            self.__dict__["source"] = source

    @cached_property
    def base(self) -> str:
        """Upstream's text as the diff has it: what the project would generate without a patch, no header."""
        return self.read_base()

    @cached_property
    def diff(self) -> str:
        """The unified diff of upstream against ``text``."""
        from patchgen_core.syntax.diffs import unified_diff

        upstream = f"{self.plan.upstream.module.replace('.', '/')}.py"
        return unified_diff(self.base, self.text, upstream, f"generated/{self.plan.config.target_file}")

    @property
    def files(self) -> tuple[tuple[Path, str], ...]:
        """Both files, each with its text."""
        return ((self.path, self.text), (self.diff_path, self.diff))

    @property
    def has_diff(self) -> bool:
        """Whether the diff belongs on disk: the project has diffs, or one is there."""
        return self.keeps_diff or self.diff_path.exists()

    def output(self, save_diff: bool = False) -> tuple[tuple[Path, str], ...]:
        """The files that belong on disk, with the diff where it is asked for here as well."""
        return self.files if save_diff or self.has_diff else ((self.path, self.text),)


@dataclass(frozen=True)
class Declared:
    """Hashes of all that a config declares, and of the lines that it is declared on.

    Attributes:
        plan: of what is declared, with the files where, and which of their lines come before others; the same when
            lines move.
        places: of the lines.
    """

    plan: str
    places: str


@dataclass(frozen=True)
class Outcome:
    """What became of one config: an artifact, or the problems that prevented it.

    Attributes:
        output: where its generated module goes; None when that is not known.
        line: 1-based line that it is declared on; 0 when that is not known.
        loading: how it was loaded, ``stubbed`` or ``imported``; empty when it could not be.
        loaded: the config itself; None when it could not be loaded, or did not have to be.
        artifact: what it makes; None when there are problems, or when it did not have to be made.
        inputs: what the artifact depends on, see :mod:`patchgen_core.build.inputs`; None when that is not known.
        uncacheable: why it depends on more than that; empty for no such reason.
        declared: hashes of what the config declares, where no artifact was made because they are kept.
    """

    path: Path
    label: str
    output: Path | None = None
    line: int = 0
    loading: str = ""
    loading_reason: str = ""
    loaded: LoadedConfig | None = None
    artifact: Artifact | None = None
    problems: tuple[Problem, ...] = ()
    inputs: Mapping[tuple[str, str], Any] | None = field(default=None, compare=False, repr=False)
    uncacheable: str = ""
    declared: Declared | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class FileDrift:
    """A file that differs from ``new``, what it should be; ``old`` is None when it does not exist.

    ``aligned``: where another generator made ``old``, the new text with the code of the old one.
    """

    path: Path
    old: str | None
    new: str
    aligned: str | None = None

    @property
    def diff(self) -> str:
        """Unified diff from what is there to what should be."""
        return self._diff(self.old or "")

    @property
    def telling_diff(self) -> str:
        """The diff without the header's hashes, which change with everything else; of what another generator made,
        without what is no code."""
        from patchgen_core.syntax.header import copy_fingerprint

        if self.aligned is not None:
            return self._diff(self.aligned)
        old = copy_fingerprint(self.new, self.old or "")
        return self._diff(old) if old != self.new else self.diff

    def _diff(self, old: str) -> str:
        from patchgen_core.syntax.diffs import unified_diff, with_owners

        name = display_path(self.path)
        if old.replace("\r\n", "\n") == self.new:
            return ""
        diff = unified_diff(old, self.new, f"{name} (checked in)", f"{name} (generated now)")
        return with_owners(diff, self.new) if self.path.suffix == ".py" else diff


@dataclass(frozen=True)
class ConfigResult:
    """The gate's verdict on one config; ``copies`` are of files that were edited by hand and written over."""

    outcome: Outcome
    status: Status
    causes: tuple[Cause, ...] = ()
    files: tuple[FileDrift, ...] = ()
    copies: tuple[Path, ...] = ()


@dataclass(frozen=True)
class DriftReport:
    """The gate's verdict on a project, None where nothing was checked; ``orphans`` are generated files that no config
    makes."""

    results: tuple[ConfigResult, ...]
    orphans: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()
    project: Project | None = field(default=None, compare=False, repr=False)

    @property
    def exit_code(self) -> int:
        """0 clean, 1 drift, 2 a config with errors."""
        statuses = {result.status for result in self.results}
        if "error" in statuses:
            return 2
        return 1 if "drifted" in statuses or self.orphans else 0
