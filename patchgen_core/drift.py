"""Does what is checked in equal what the configs make? If not, why, and how to mend it."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from patchgen_core.artifacts import (
    Artifact,
    Outcome,
    Progress,
    make_artifacts,
    read_text,
    unified_diff,
    write_files,
)
from patchgen_core.codegen.header import FORMAT, Fingerprint, copy_fingerprint, is_generated, read_fingerprint
from patchgen_core.codegen.plan import short_hash
from patchgen_core.codegen.source import DEFINITIONS
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.loading import Loader
from patchgen_core.project import OUTPUT_FOLDER, Project, walk_files

CauseKind = Literal["upstream moved", "config changed", "edited by hand", "generator changed", "missing", "orphan"]
Status = Literal["clean", "drifted", "fixed", "error"]


@dataclass(frozen=True)
class Cause:
    """Why a file is not what its config makes: the kind, and what exactly."""

    kind: CauseKind
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


@dataclass(frozen=True)
class FileDrift:
    """A file that differs.

    Attributes:
        path: the file.
        old: its text; None when it does not exist.
        new: what it should be.
    """

    path: Path
    old: str | None
    new: str

    @property
    def diff(self) -> str:
        """Unified diff from what is there to what should be."""
        return self._diff(self.old or "")

    @property
    def telling_diff(self) -> str:
        """The diff without the header's hashes, which change with everything else."""
        old = copy_fingerprint(self.new, self.old or "")
        return self._diff(old) if old != self.new else self.diff

    def _diff(self, old: str) -> str:
        name = display_path(self.path)
        if old.replace("\r\n", "\n") == self.new:
            return ""
        return unified_diff(old, self.new, f"{name} (checked in)", f"{name} (generated now)")


@dataclass(frozen=True)
class ConfigResult:
    """The gate's verdict on one config."""

    outcome: Outcome
    status: Status
    causes: tuple[Cause, ...] = ()
    files: tuple[FileDrift, ...] = ()


@dataclass(frozen=True)
class DriftReport:
    """The gate's verdict on a project.

    Attributes:
        results: one for each config.
        orphans: generated files that no config makes.
        removed: orphans that were removed.
    """

    results: tuple[ConfigResult, ...]
    orphans: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 clean, 1 drift, 2 a config with errors."""
        statuses = {result.status for result in self.results}
        if "error" in statuses:
            return 2
        return 1 if "drifted" in statuses or self.orphans else 0


def check(
    project: Project,
    configs: Sequence[Path] | None = None,
    *,
    name: str | None = None,
    output: Path | None = None,
    loader: Loader | None = None,
    progress: Progress | None = None,
) -> DriftReport:
    """Compare what is on disk with a fresh generation.

    Args:
        project: the project to check.
        configs: config files; all of the project's by default, and then orphans are looked for as well.
        name, output, loader, progress: as for :func:`~patchgen_core.artifacts.make_artifacts`.

    Raises:
        PatchgenError: the project has no configs, or ruff cannot run.
    """
    every = configs is None
    paths = project.find_configs() if configs is None else list(configs)
    if not paths:
        raise PatchgenError(
            f"there is no patch config below '{display_path(project.search_root)}'",
            None,
            "A config is a file whose name ends in '_patch_gen_config.py'.",
        )
    outcomes = make_artifacts(project, paths, name=name, output=output, loader=loader, progress=progress)
    orphans = find_orphans(project, outcomes) if every and output is None else ()
    return DriftReport(tuple(compare(outcome) for outcome in outcomes), orphans)


def compare(outcome: Outcome) -> ConfigResult:
    """The verdict on one config."""
    artifact = outcome.artifact
    if artifact is None:
        return ConfigResult(outcome, "error")
    found = [FileDrift(path, read_text(path), text) for path, text in artifact.files]
    drifted = tuple(file for file in found if file.old != file.new)
    if not drifted:
        return ConfigResult(outcome, "clean")
    return ConfigResult(outcome, "drifted", explain(artifact, found[0].old, found[1].old), drifted)


def fix(report: DriftReport, prune: bool = False) -> DriftReport:
    """Write what drifted, and with ``prune`` remove orphans; configs with errors are left alone.

    Raises:
        PatchgenError: a file cannot be written.
    """
    results = []
    for result in report.results:
        if result.status == "drifted":
            write_files((file.path, file.new) for file in result.files)
            result = replace(result, status="fixed")
        results.append(result)
    if not prune:
        return replace(report, results=tuple(results))
    for path in report.orphans:
        os.unlink(path)
    return DriftReport(tuple(results), (), report.orphans)


def find_orphans(project: Project, outcomes: Iterable[Outcome]) -> tuple[Path, ...]:
    """Generated files in the project's output folders that no config makes any more.

    Folders of configs that failed before their output was known are left out.
    """
    expected: set[Path] = set()
    unknown: set[Path] = set()
    for outcome in outcomes:
        if outcome.output is not None:
            expected.add(outcome.output.with_suffix(""))
        else:
            unknown.add(project.output_folder(outcome.path))
    found = []
    for path in walk_files(project.search_root):
        if path.suffix not in (".py", ".diff") or OUTPUT_FOLDER not in path.parent.parts:
            continue
        if path.with_suffix("") in expected or unknown.intersection(path.parents):
            continue
        with path.open(encoding="utf-8", errors="replace") as file:
            head = file.read(2000)
        if is_generated(head) if path.suffix == ".py" else f"\n+++ {OUTPUT_FOLDER}/" in head:
            found.append(path)
    return tuple(sorted(found))


# --- why -------------------------------------------------------------------------------------------


def explain(artifact: Artifact, old: str | None, old_diff: str | None) -> tuple[Cause, ...]:
    """Why the files on disk are not what the config makes; at least one cause."""
    causes: list[Cause] = []
    if old is None:
        return (Cause("missing", f"{artifact.path.name} does not exist"),)
    if old != artifact.text:
        causes += _explain_module(artifact, old, old_diff)
    if old_diff is None:
        causes.append(Cause("missing", f"{artifact.diff_path.name} does not exist"))
    elif old == artifact.text:
        causes.append(Cause("edited by hand", artifact.diff_path.name))
    return tuple(causes)


def _explain_module(artifact: Artifact, old: str, old_diff: str | None) -> list[Cause]:
    plan = artifact.plan
    mark = read_fingerprint(old)
    if mark is None and "\r\n" in old and read_fingerprint(old.replace("\r\n", "\n")) is not None:
        return [Cause("edited by hand", "its line endings were changed to CRLF")]
    if mark is None:
        return [Cause("edited by hand", "its header cannot be read")]
    same_source = mark.source == plan.upstream.module
    is_same_text = mark.upstream == short_hash(plan.source.text)
    causes = []
    moved = Changes()
    if same_source and not (is_same_text and mark.version == plan.upstream.version):
        base = reverse_diff(old, old_diff) if old_diff and mark.sealed else None
        if base is not None and not is_same_text:
            moved = compare_definitions(base, artifact.base)
        causes.append(Cause("upstream moved", _describe_move(artifact, mark, is_same_text, base, moved)))
    ours = compare_definitions(old, artifact.text).without(moved)
    if not same_source:
        causes.append(Cause("config changed", f"source_module was {mark.source}"))
    elif mark.config != plan.fingerprint:
        causes.append(Cause("config changed", str(ours)))
    if not mark.sealed:
        causes.append(Cause("edited by hand", "" if causes else str(ours)))
    if mark.format != FORMAT:
        causes.append(Cause("generator changed", f"its output format went from {mark.format} to {FORMAT}"))
    return causes or [Cause("generator changed", "ruff's version or settings are not what they were")]


def _describe_move(artifact: Artifact, mark: Fingerprint, is_same_text: bool, base: str | None, moved: Changes) -> str:
    upstream = artifact.plan.upstream
    versions = f"{upstream.distribution} {mark.version}"
    if mark.version != upstream.version:
        versions += f" -> {upstream.version}"
    if is_same_text:
        return f"{versions}, with the same text"
    if base is None:
        return f"{versions}; what changed cannot be told without the .diff that belongs to the file"
    return f"{versions}; {moved or 'outside of its classes and functions'}"


@dataclass(frozen=True)
class Changes:
    """Classes, methods and functions that differ between two versions of a module."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.removed)

    def __str__(self) -> str:
        parts = (("changed", self.changed), ("added", self.added), ("removed", self.removed))
        return "; ".join(f"{', '.join(names)} {word}" for word, names in parts if names)

    def without(self, other: Changes) -> Changes:
        """These changes less those of ``other``."""
        gone = {*other.changed, *other.added, *other.removed}

        def rest(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name for name in names if name not in gone)

        return Changes(rest(self.changed), rest(self.added), rest(self.removed))


def compare_definitions(old: str, new: str) -> Changes:
    """How the classes, methods and functions of two sources differ; nothing when one cannot be parsed."""
    try:
        before, after = _definitions(old), _definitions(new)
    except SyntaxError:
        return Changes()
    return Changes(
        tuple(name for name in after if name in before and before[name] != after[name]),
        tuple(
            name for name in after if name not in before and name.rpartition(".")[0] not in set(after) - set(before)
        ),
        tuple(
            name for name in before if name not in after and name.rpartition(".")[0] not in set(before) - set(after)
        ),
    )


def _definitions(text: str) -> dict[str, str]:
    """What each top-level class, method and function says; a class without its methods."""
    found: dict[str, str] = {}
    for node in ast.parse(text).body:
        if not isinstance(node, DEFINITIONS):
            continue
        rest = node
        if isinstance(node, ast.ClassDef):
            own = [s for s in node.body if isinstance(s, DEFINITIONS)]
            found[node.name] = ""
            for method in own:
                name = f"{node.name}.{method.name}"
                found[name] = found.get(name, "") + ast.dump(method)
            rest = ast.ClassDef(**{**dict(ast.iter_fields(node)), "body": [s for s in node.body if s not in own]})
        found[node.name] = ast.dump(rest)
    return found


def reverse_diff(text: str, diff: str) -> str | None:
    """The text that a unified diff was made from, given the one it leads to; None when they do not fit."""
    lines = text.split("\n")
    result: list[str] = []
    position = 0
    for line in diff.split("\n")[2:]:
        kind, rest = line[:1], line[1:]
        if kind == "@":
            start = line.split("+")[1].split(" ")[0].split(",")
            first = int(start[0]) - (0 if len(start) == 2 and start[1] == "0" else 1)
            result += lines[position:first]
            position = first
        elif kind == "-":
            result.append(rest)
        elif kind in (" ", "+"):
            if position >= len(lines) or lines[position] != rest:
                return None
            position += 1
            if kind == " ":
                result.append(rest)
    return "\n".join(result + lines[position:])
