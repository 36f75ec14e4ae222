"""Carrying one patch over to the installed release, for somebody who looks at that patch alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgen_core.config.loading import Loader
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.package_configs import select_configs
from patchgen_core.upgrade.release_module import generated_file
from patchgen_core.upgrade.results import ConfigVerdict, PatchVerdict, UpgradeReport
from patchgen_core.upgrade.upgrading import upgrade
from patchgen_core.upgrade.writing.candidates import Omission, find_candidates
from patchgen_core.upgrade.writing.rehearsing import Rehearsal, files_of
from patchgen_core.upgrade.writing.rewriting import rewrite
from patchgen_core.upstream.recorded import recorded_version
from patchgen_core.upstream.releases import Releases, release_folder


@dataclass(frozen=True)
class PatchMerge:
    """What merging upstream's change into a patch would write.

    Attributes:
        texts: the new texts of files; none where nothing has to change.
        left: why it cannot be merged, or why parts cannot; ``conflicts`` says that a person could decide.
        others: the configs that use what is to be written, and still stand on the old release.
        versions: the release that the patch is of, and the one that is installed; the first is empty where its text is
            not at hand.
        missing: the release whose text is not at hand; empty where it is, or where nothing says which one it is.
    """

    versions: tuple[str, str]
    texts: Mapping[Path, str] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    conflicts: int = 0
    others: tuple[str, ...] = ()
    missing: str = ""


def merge_patch(
    project: Project, path: Path, target: str, package: str, *, with_markers: bool = False, offline: bool = True
) -> list[PatchMerge]:
    """What upstream changed below the patches of a target, merged into those of a config file; one for each config.

    The old text is the one that the generated file and its diff hold, or that of a release. The generated files stay
    as they are.

    Args:
        with_markers: write conflicts as well, with their markers.
        offline: take no other release than one that is at hand; otherwise it is downloaded.

    Raises:
        PatchgenError: a config does not load, the package is not installed, or its release cannot be downloaded.
    """
    selection = select_configs(project, [path], package)
    if selection.failed:
        raise PatchgenError.from_problems(selection.failed)
    releases = Releases(release_folder(project), package, offline=offline)
    release = releases.installed()
    if release is None:
        raise PatchgenError(f"{package} is not installed, so there is nothing to merge")
    report = upgrade(selection, release, releases)
    merges = []
    for config in report.configs:
        alone = replace(report, configs=(_of_target(config, target),))
        rehearsal = Rehearsal(project, alone, release.folder, release.version)
        merge = _merge(project, rehearsal, alone, with_markers)
        merges.append(merge if config.old else replace(merge, missing=_recorded_version(project, config)))
    return merges


def _recorded_version(project: Project, config: ConfigVerdict) -> str:
    """The release that a config's generated file says it is of; empty where it says none."""
    loaded = Loader(project, SourceCache()).load(Path(config.path))
    outputs = (generated_file(project, each) for each in loaded if each.label == config.config)
    return next(filter(None, map(recorded_version, outputs)), "")


def _of_target(config: ConfigVerdict, target: str) -> ConfigVerdict:
    """A verdict in which nothing but the patches of one target is to be carried over."""
    patches = tuple(
        patch if patch.target == target else replace(patch, rebase=None, new_name="") for patch in config.patches
    )
    return replace(config, patches=patches, findings=())


def _merge(project: Project, rehearsal: Rehearsal, report: UpgradeReport, with_markers: bool) -> PatchMerge:
    [config] = report.configs
    candidates, omissions = find_candidates(project, report, rehearsal.files, rehearsal.uses, with_markers)
    candidates, used = rehearsal.leave_used(candidates)
    marked = [candidate for candidate in candidates if candidate.is_marked]
    chosen, _, more = rehearsal.settle([candidate for candidate in candidates if not candidate.is_marked])
    rewritten = rewrite(project, rehearsal.files, [*chosen, *marked])
    texts = {path: file.encoded for path, file in rewritten.items()}
    others = tuple(other.label for other in rehearsal.others if files_of(other) & texts.keys()) if texts else ()
    conflicts = sum(len(patch.rebase.merged.conflicts) for patch in config.patches if patch.rebase is not None)
    left = (
        *_reasons([*omissions, *used, *more]),
        *_unmerged(config.patches),
        *(config.notes if not config.old else ()),
    )
    return PatchMerge((config.old, config.new), texts, left, conflicts, others)


def _reasons(omissions: Sequence[Omission]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(omission.reason for omission in omissions))


def _unmerged(patches: Sequence[PatchVerdict]) -> list[str]:
    """The problems of patches that there is nothing to carry over of."""
    return [problem.message for patch in patches if patch.rebase is not None for problem in patch.problems]
