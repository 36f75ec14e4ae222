"""The upgrade of a repository to a release of transformers: what merges cleanly, and what is left, by its cause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct

from patchgen_core.project.cache_folder import ENVIRONMENT as CACHE_FOLDER
from patchgen_service.environments import InstallFailed, PythonEnvironment, Recipe, make_environment
from patchgen_service.git.mirror import Mirror
from patchgen_service.isolation.box import Box, Kind
from patchgen_service.isolation.probe import NotIsolated, choose_isolation
from patchgen_service.isolation.process import run_command
from patchgen_service.running.order import RunOrder
from patchgen_service.running.run import Workplace
from patchgen_service.running.upstream_changes import add_history, describe_change

_MUST_CHANGE = "must change"
_LARGEST_FILE = 8 << 20
_OPTIONS = ("--offline", "--apply", "--allow-dirty", "--no-gate", "--json")
_PIN = re.compile(r"^(\s*transformers\s*==\s*)[^\s;#]+", re.IGNORECASE | re.MULTILINE)


class UpgradeFailed(Exception):
    """An upgrade came to no end of its own; its text says why, in a sentence."""


@dataclass(frozen=True)
class UpgradeWork:
    """What a release asks of a repository.

    Attributes:
        files: what merges cleanly and was generated anew, by path from the repository's root.
        rest: the configs of which something is left to people, by cause.
    """

    files: Mapping[str, bytes]
    rest: Mapping[str, tuple[str, ...]]


class _Problem(Struct):
    message: str
    file: str | None = ""


class _Commit(Struct):
    subject: str
    pull_request: int | None = None


class _Finding(Struct):
    kind: str
    about: str
    relation: str
    risk: str
    detail: str | None = ""
    commits: list[_Commit] = []


class _Merge(Struct):
    clean: bool


class _Patch(Struct):
    risk: str
    findings: list[_Finding]
    errors: list[_Problem]
    merge: _Merge | None = None


class _Config(Struct):
    path: str
    patches: list[_Patch]
    findings: list[_Finding]


class _Applied(Struct):
    written: list[str]
    generated: list[str]


class _Report(Struct):
    errors: list[_Problem]
    configs: list[_Config] = []
    applied: _Applied | None = None


def upgrade_repository(order: RunOrder, mirror: Mirror, place: Workplace) -> UpgradeWork:
    """Upgrade the projects of a commit to the release that the order names, in a box and a worktree of its own.

    Raises:
        UpgradeFailed: nothing can be told of the release.
        GitError: the commit cannot be had.
    """
    folder = place.work / order.run
    mirror.remove_worktree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    mirror.add_worktree(order.sha, folder)
    try:
        kind = choose_isolation(place.isolation, order.is_trusted)
        constraints = _read_text(folder, order.constraints) if order.constraints else ""
        recipe = Recipe(order.python, constraints, order.extras, order.transformers, place.index)
        environment = make_environment(place.environments, recipe, kind, place.install_limits)
        work = upgrade_checkout(folder, order, environment, kind, place)
    except (NotIsolated, InstallFailed, OSError) as error:
        raise UpgradeFailed(str(error)) from error
    finally:
        mirror.remove_worktree(folder)
    changed = {path: content for path, content in work.files.items() if mirror.read_file(order.sha, path) != content}
    if constraints and (pinned := pin_release(constraints, order.transformers)) != constraints:
        changed[order.constraints] = pinned.encode()
    return UpgradeWork(changed, work.rest)


def upgrade_checkout(
    folder: Path, order: RunOrder, environment: PythonEnvironment, kind: Kind, place: Workplace
) -> UpgradeWork:
    """Upgrade the projects of a worktree, in which it is written; an UpgradeFailed as for a repository."""
    files: dict[str, bytes] = {}
    rest: dict[str, list[str]] = {}
    for project in order.projects:
        report = _upgrade_project(folder, project, order.transformers, environment, kind, place)
        files |= _collect(folder, project, report)
        for cause, config in _list_rest(report):
            rest.setdefault(cause, []).append(_from_root(project, config))
    return UpgradeWork(files, {cause: tuple(dict.fromkeys(configs)) for cause, configs in rest.items()})


def pin_release(constraints: str, version: str) -> str:
    """Constraints that name this release of transformers where they named another."""
    return _PIN.sub(lambda match: match[1] + version, constraints)


def _upgrade_project(
    folder: Path, project: str, version: str, environment: PythonEnvironment, kind: Kind, place: Workplace
) -> _Report:
    """Run the upgrade, which finds the release in the environment and the one before in the generated files."""
    variables = {
        "PATH": f"{environment.python.parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        **({} if kind == "none" else {CACHE_FOLDER: "/tmp/patchgen-cache"}),
    }
    if not (folder / project).is_dir():
        raise UpgradeFailed(f"The commit has no folder '{project}'.")
    box = Box(
        folder / project,
        environment.readable,
        writable=(folder,),
        hidden=place.hidden,
        environment=variables,
        limits=place.limits,
    )
    command = [str(environment.python), "-m", "patchgen_core", "upgrade", "--to", version, *_OPTIONS]
    if (with_history := add_history(box, command, place.history)) is not None:
        try:
            return _run_upgrade(project, kind, *with_history)
        except UpgradeFailed:  # a history that lacks a release is no reason to do without the rest
            pass
    return _run_upgrade(project, kind, box, command)


def _run_upgrade(project: str, kind: Kind, box: Box, command: Sequence[str]) -> _Report:
    lines: list[bytes] = []
    exit = run_command(kind, box, command, lines.append)
    if exit.message:
        raise UpgradeFailed(f"The upgrade of '{project}' was ended. {exit.message}")
    try:
        report = msgspec.json.decode(b"\n".join(lines), type=_Report)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        last = " / ".join(exit.tail.strip().splitlines()[-3:])
        raise UpgradeFailed(f"The upgrade of '{project}' wrote no report{': ' + last if last else ''}.") from None
    if report.applied is None:
        reason = "; ".join(problem.message for problem in report.errors) or f"it ended with code {exit.code}"
        raise UpgradeFailed(f"The upgrade of '{project}' failed: {reason}.")
    return report


def _collect(folder: Path, project: str, report: _Report) -> Iterator[tuple[str, bytes]]:
    """The files that were written, each by its path. What leads out of the worktree was no work of the upgrade's."""
    assert report.applied is not None
    for path in (*report.applied.written, *report.applied.generated):
        name = _from_root(project, path)
        file = folder / name
        if "\0" in name or file.resolve() != folder.resolve() / name:
            continue
        if file.is_relative_to(folder) and file.is_file() and file.stat().st_size <= _LARGEST_FILE:
            yield name, file.read_bytes()


def _list_rest(report: _Report) -> Iterator[tuple[str, str]]:
    """Each cause for which something is left, with the config that it is left in."""
    for problem in report.errors:
        yield problem.message, problem.file or ""
    for config in report.configs:
        for patch in config.patches:
            is_merged = patch.merge is not None and patch.merge.clean and not patch.errors
            is_open = patch.risk == _MUST_CHANGE or (patch.merge is not None and not patch.merge.clean)
            if is_open and not is_merged:
                yield _explain(patch), config.path
        for finding in config.findings:
            if finding.risk == _MUST_CHANGE:
                yield _describe(finding), config.path


def _explain(patch: _Patch) -> str:
    """Upstream's change that a patch does not follow; for want of one, what is wrong with the patch."""
    worst = [finding for finding in patch.findings if finding.risk == _MUST_CHANGE]
    of_target = [finding for finding in patch.findings if finding.relation == "target"]
    for finding in (*worst, *of_target):
        return _describe(finding)
    return patch.errors[0].message if patch.errors else "upstream changed it"


def _describe(finding: _Finding) -> str:
    name = finding.about.rpartition(".")[2] if finding.relation == "target" else finding.about
    text = f"{name} {finding.kind}{': ' if finding.detail else ''}{finding.detail or ''}"
    if not finding.commits:
        return text
    commit = finding.commits[0]
    return f"{text} ({describe_change(commit.subject, commit.pull_request)})"


def _from_root(project: str, path: str) -> str:
    return path if path.startswith("/") else (PurePosixPath(project) / path).as_posix()


def _read_text(folder: Path, path: str) -> str:
    file = folder / path
    if file.resolve() != folder.resolve() / path or not file.is_file():
        raise UpgradeFailed(f"The commit has no constraints file '{path}'.")
    return file.read_text(encoding="utf-8", errors="replace")
