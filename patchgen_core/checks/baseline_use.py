"""What a run came to beside the baselines of its projects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.checks.baseline import Baseline, KnownFinding, find_deleted, find_gone
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import DRIFT
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project


@dataclass(frozen=True)
class BaselineUse:
    """What a run came to beside one baseline.

    Attributes:
        held: how many findings were held back.
        gone: known findings that are not there any more.
        is_shrunk: whether these were taken out of the file.
    """

    path: Path
    held: int
    gone: Mapping[KnownFinding, int]
    is_shrunk: bool = False


def close_baselines(
    session: Session, results: Iterable[CheckResult], is_whole: bool, shrinks: bool
) -> list[BaselineUse]:
    """Compare the baselines of a run's projects with all of its results, and where that is wanted take what is gone
    out of them. ``is_whole`` is that of :func:`find_gone`.

    Raises:
        PatchgenError: a baseline cannot be read or written.
    """
    by_project: dict[Project, list[CheckResult]] = {}
    for result in results:
        if result.check == DRIFT:
            continue
        try:
            by_project.setdefault(session.project(Path(result.path)), []).append(result)
        except PatchgenError:  # the result says so itself
            continue
    uses = []
    for project, of_project in by_project.items():
        baseline = session.baseline(project)
        if baseline is not None:
            uses.append(_close(project, baseline, of_project, is_whole, shrinks))
    return uses


def _close(
    project: Project, baseline: Baseline, results: Sequence[CheckResult], is_whole: bool, shrinks: bool
) -> BaselineUse:
    gone = find_gone(baseline, results, is_whole)
    deleted = find_deleted(baseline, map(project.module_name, project.find_configs())) if baseline.counts else {}
    gone |= Counter(deleted)
    if gone and shrinks:
        replace(baseline, counts=Counter(baseline.counts) - gone).write()
    return BaselineUse(baseline.path, sum(len(result.held) for result in results), gone, bool(gone and shrinks))
