"""Writing replacements that were carried over into the configs, and generating these anew."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.build.hand_edits import copy_path, is_as_written
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.errors import Location, Problem
from patchgen_core.files import read_text, write_files
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.moved_lines import MovedLines
from patchgen_core.upgrade.results import Rebase, UpgradeReport
from patchgen_core.upgrade.upgrading import Standing
from patchgen_core.upgrade.writing.candidates import Candidate, Key, Omission, find_candidates
from patchgen_core.upgrade.writing.git import refuse_dirty
from patchgen_core.upgrade.writing.rehearsing import Rehearsal, RehearsalResult, files_of
from patchgen_core.upgrade.writing.rewriting import rewrite
from patchgen_core.upstream.releases import Release

SKIPPED = "it was skipped"
"""Why something is left that a person did not decide about."""
Look = Callable[[Sequence[LoadedConfig], SourceCache], Standing]
"""Finds out what there is to look at in configs with their new texts."""


@dataclass(frozen=True)
class Applied:
    """What was written into a project.

    Attributes:
        written: the configs, and the other files that replacements stand in.
        merged, marked: the replacements that have their new text, without and with conflict markers.
        left: those that were not written, each with the reason.
        copies: of generated files that were edited by hand and written over.
        problems: why configs do not generate against the new release after all.
        unfinished: the files of configs that are not generated, since something of them is left or marked.
        standing: what there still is to look at; None where nobody looked.
    """

    written: tuple[Path, ...] = ()
    merged: tuple[Rebase, ...] = ()
    marked: tuple[Rebase, ...] = ()
    left: tuple[tuple[Rebase, str], ...] = ()
    generated: tuple[Path, ...] = ()
    copies: tuple[Path, ...] = ()
    problems: tuple[Problem, ...] = ()
    unfinished: frozenset[Path] = frozenset()
    standing: Standing | None = None


def apply(
    project: Project,
    report: UpgradeReport,
    release: Release,
    *,
    allow_dirty: bool = False,
    conflicts: bool = False,
    skipped: Collection[Location] = (),
    look: Look | None = None,
) -> Applied:
    """Write what an upgrade carried over into the configs, and generate these against the new release.

    The configs are loaded and generated with their new text before anything is written. What they do not generate with
    is left out; everything else is written at once. The files of a config that something was left out of stay as they
    are: they hold the text of upstream that what is left is still to be carried over from.

    Args:
        allow_dirty: write even where git could not take back what is written.
        conflicts: write what has conflicts as well, with conflict markers. Its config does not load then.
        skipped: the places of replacements that a person left as they are for now.
        look: called with the configs that change, as they will be, before anything is written.

    Raises:
        PatchgenError: files of the project are not committed, or git cannot tell; ruff cannot run; or a file cannot be
            written.
    """
    if not allow_dirty:
        refuse_dirty(project.base)
    rehearsal = Rehearsal(project, report, release.folder, release.version)
    candidates, omissions = find_candidates(project, report, rehearsal.files, rehearsal.uses, conflicts)
    omissions += [Omission(c.rebase, SKIPPED) for c in candidates if c.rebase.location in skipped]
    candidates = [candidate for candidate in candidates if candidate.rebase.location not in skipped]
    candidates, used = rehearsal.leave_used(candidates)
    omissions += used
    marked = [candidate for candidate in candidates if candidate.is_marked]
    chosen, result, more = rehearsal.settle([candidate for candidate in candidates if not candidate.is_marked])
    omissions += more
    changed = {key for candidate in chosen for key in candidate.configs}
    configs = [loaded for loaded in result.loaded if (str(loaded.path), loaded.label) in changed]
    standing = look(configs, result.sources) if look is not None else None
    applied = _write(rehearsal, chosen, marked, omissions, result, _unfinished(report, omissions))
    return replace(applied, standing=standing)


def _unfinished(report: UpgradeReport, omissions: Sequence[Omission]) -> dict[Key, Problem]:
    """The configs that something is left to be done in, with what to say of that."""
    places = {omission.rebase.location for omission in omissions}
    problems = {}
    for config in report.configs:
        left = [rebase for rebase in config.rebases if rebase.location in places]
        if left:
            kinds = {rebase.noun for rebase in left}
            nouns = f"{left[0].noun}s" if len(kinds) == 1 else "patches and names" if "name" in kinds else "patches"
            verb = "is" if len(left) == 1 else "are"
            message = f"{config.config} is not generated: {len(left)} of its {nouns} {verb} left"
            hint = "Carry over the rest by hand, or decide that nothing is needed; then generate it."
            problems[config.path, config.config] = Problem(message, Location(config.path, config.line), hint)
    return problems


def _write(
    rehearsal: Rehearsal,
    chosen: Sequence[Candidate],
    marked: Sequence[Candidate],
    omissions: Sequence[Omission],
    result: RehearsalResult,
    unfinished: Mapping[Key, Problem],
) -> Applied:
    unloadable = {candidate.path for candidate in marked}
    ready = [key for key in result.artifacts if key not in unfinished]
    hidden = {key for key, loaded in rehearsal.loaded.items() if files_of(loaded) & unloadable}
    good = [result.artifacts[key] for key in ready if key not in hidden]
    rewritten = rewrite(rehearsal.project, rehearsal.files, [*chosen, *marked], rehearsal.pins(ready))
    contents = [(path, file.encoded) for path, file in rewritten.items()]
    outputs = [file for artifact in good for file in artifact.output()]
    copies = _copies(rehearsal.project, (artifact.path for artifact in good))
    told = [*unfinished.values(), *map(_marked_problem, marked)]
    lines = MovedLines(problem.location.file for problem in told if problem.location)
    done = set(write_files([*copies, *contents, *outputs]))
    failed = [problem for key, problems in result.problems.items() if key not in hidden for problem in problems]
    return Applied(
        written=tuple(path for path, _ in contents if path in done),
        merged=tuple(candidate.rebase for candidate in chosen),
        marked=tuple(candidate.rebase for candidate in marked),
        left=tuple((omission.rebase, omission.reason) for omission in omissions),
        generated=tuple(path for path, _ in outputs if path in done),
        copies=tuple(path for path, _ in copies),
        unfinished=frozenset(Path(path) for path, _ in {*unfinished, *hidden}),
        problems=(
            *dict.fromkeys(failed),
            *(replace(problem, location=problem.location and lines.now(problem.location)) for problem in told),
            *_left_behind(rehearsal, done),
        ),
    )


def _copies(project: Project, paths: Iterable[Path]) -> list[tuple[Path, str]]:
    """Copies of the generated files among some that were edited by hand, with their texts."""
    texts = ((path, read_text(path)) for path in paths)
    return [(copy_path(project, path, text), text) for path, text in texts if text and not is_as_written(text)]


def _left_behind(rehearsal: Rehearsal, written: Collection[Path]) -> Iterator[Problem]:
    """The configs that use what was written and are not part of the upgrade."""
    for loaded in rehearsal.others if written else ():
        if files_of(loaded) & set(written):
            message = (
                f"{loaded.label} uses what was written, and is not part of this upgrade: its files were not generated"
            )
            yield Problem(message, loaded.config.location, "Upgrade it as well, or generate it.")


def _marked_problem(candidate: Candidate) -> Problem:
    count = len(candidate.rebase.merged.conflicts)
    message = f"'{candidate.name}' has {count} conflict{'s' * (count != 1)} marked: its file does not load"
    return Problem(message, candidate.rebase.location, "Resolve them, and generate the configs that use it.")
