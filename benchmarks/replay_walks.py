"""What the replay carries over: projects, in two forms, from the release on that their configs are written for."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.replay_leaving import make_all
from patchgen_core.authoring.slim.slim import slim
from patchgen_core.build.selection import Selection
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.upgrade.package_configs import select_configs
from patchgen_core.upstream.releases import Release
from tests.upgrade import older
from tools.real_models import SETUPS, read_settings, set_up_project
from tools.real_project import FORWARDS, PYPROJECT
from tools.releases import find_release

RELEASES = (
    *("5.2.0", "5.3.0", "5.4.0", "5.5.4", "5.6.2", "5.7.0", "5.8.1", "5.9.0", "5.10.4", "5.11.0", "5.12.1", "5.13.1"),
    *("5.14.1", "5.15.1", "5.16.1", "5.17.0", "5.18.0", "5.19.0", "5.20.2", "5.21.1", "5.22.2", "5.23.0", "5.24.0"),
)
"""The last release of each minor version. The only release candidates of this major version came before 5.0.0, for
which no project has configs."""
FORMS = ("replacements", "edits")
REAL = {"0.1.9a5": "5.2.0", "0.1.10": "5.2.0", "0.1.11": "5.2.0", "0.1.12": "5.9.0"}
"""The releases of VeOmni that have configs, each with the release of transformers that they are for."""
NEWEST_REAL = "0.1.12"
"""The one that is what people made of the others."""
STARTS = {
    **{"zoo-5.9.0": "5.9.0", "zoo-5.23.0": "5.23.0"},
    **{f"veomni-{version}": release for version, release in REAL.items()},
}
"""The projects by the release that they start at. More of the older zoo's models join it on the way."""


@dataclass(frozen=True)
class Walk:
    """A project in one form, and the release that it starts at.

    Attributes:
        project: ``zoo-5.9.0`` for the zoo as it was for that release, ``veomni-0.1.12`` for a release of VeOmni.
        through: the releases that it is carried through, as far as they come after the first.
    """

    project: str
    form: str
    start: str
    through: tuple[str, ...] = RELEASES

    @property
    def name(self) -> str:
        """What files of it are called."""
        return f"{self.project}-{self.form}"

    @property
    def steps(self) -> tuple[str, ...]:
        """The releases that it is carried over to."""
        later = RELEASES[RELEASES.index(self.start) + 1 :]
        return tuple(version for version in later if version in self.through)


def find_walks() -> list[Walk]:
    """All of them, with replacements first."""
    return [Walk(project, form, start) for form in FORMS for project, start in STARTS.items()]


def make_start(walk: Walk, folder: Path) -> list[str]:
    """Write a walk's project into an empty folder, generated for its first release; returns what is wrong with it."""
    release = find_release(walk.start)
    make = _make_zoo if walk.project.startswith("zoo") else _make_real
    project = make(walk.project.partition("-")[2], folder, release)
    if walk.form == "edits":
        return find_problems(project, release) + slim_configs(project)
    return find_problems(project, release)


def join_models(walk: Walk, folder: Path, version: str) -> list[str]:
    """Add the models that join the older zoo at a release; returns what is wrong with it then."""
    if walk.project != "zoo-5.9.0" or version not in older.JOINING:
        return []
    older.join(folder, version, older.JOINING[version])
    if walk.form == "edits":
        older.take_edits(folder)
    release = find_release(version)
    project = replace(load_project(folder), upstream=(release.folder,))
    problems = find_problems(project, release)
    return problems + (slim_configs(project) if walk.form == "edits" else [])


def find_problems(project: Project, release: Release) -> list[str]:
    """Generate all configs of a project against a release; returns what is wrong with those."""
    selection = select_configs(project)
    broken = make_all(project, selection.configs, release)
    problems = [f"{config}: {text}" for config, texts in broken.items() for text in texts]
    return [*(str(problem) for problem in selection.failed), *problems]


def slim_configs(project: Project) -> list[str]:
    """Make edits of the replacements of all configs, or else of each; returns why some could not be."""
    refused = []
    try:
        slim(Selection(project))
    except PatchgenError:  # one that does not generate
        pass
    else:
        return refused
    for path in project.find_configs():
        try:
            slim(Selection(project, (path,)))
        except PatchgenError as error:
            refused.append(f"{path.name} is not slimmed: {error}")
    return refused


def _make_zoo(version: str, folder: Path, release: Release) -> Project:
    project = older.make_project(folder, _models_of(version), version)
    return replace(project, upstream=(release.folder,))


def _models_of(version: str) -> tuple[str, ...]:
    today = sorted(path.parent.name for path in older.ZOO.glob("*/__init__.py"))
    return older.JOINING.get(version, tuple(today))


def _make_real(version: str, folder: Path, release: Release) -> Project:
    unpacked = find_release(version, "veomni")
    shutil.copytree(unpacked.folder / "veomni", folder / "veomni", ignore=shutil.ignore_patterns("__pycache__"))
    if version != NEWEST_REAL:
        for name, text in FORWARDS.items():
            (folder / "veomni/patchgen" / name).write_text(text)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    set_up_project(folder, read_settings(folder), SETUPS.glob("*.py"))
    return replace(load_project(folder), upstream=(release.folder,))


def people_wrote(walk: Walk, version: str) -> Path | None:
    """The folder of configs' folders with what people made of a project for a release; None for nothing."""
    if walk.project.startswith("zoo") and version == "5.23.0" and walk.start != version:
        return older.ZOO
    if walk.project.startswith("veomni") and REAL[NEWEST_REAL] == version and walk.start != version:
        return find_release(NEWEST_REAL, "veomni").folder / "veomni/models/transformers"
    return None


def choose_walks(names: Sequence[str], through: Sequence[str] = RELEASES) -> list[Walk]:
    """The walks whose names begin with one of some words, all for none, through some releases.

    Raises:
        PatchgenError: a word fits none.
    """
    walks = [replace(walk, through=tuple(through)) for walk in find_walks()]
    for word in names:
        if not any(walk.name.startswith(word) for walk in walks):
            known = ", ".join(walk.name for walk in walks)
            raise PatchgenError(f"no walk's name begins with '{word}'", hint=f"There are {known}.")
    return [walk for walk in walks if not names or walk.name.startswith(tuple(names))]
