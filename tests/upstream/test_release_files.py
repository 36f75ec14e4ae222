"""What is unpacked of a wheel of transformers is all that generating and checking the zoo reads of it."""

from __future__ import annotations

import ast
import importlib.util
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from patchgen_core.build.artifacts import make_outcomes
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.project.project import Project, load_project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.selecting import Selection, select_configs
from patchgen_core.upstream.module import find_upstream
from patchgen_core.upstream.needed import dotted_name
from patchgen_core.upstream.releases import Release, Releases
from tests.conftest import ROOT

pytestmark = pytest.mark.torch

LOOKED_INTO = ("modeling_utils", "configuration_utils", "cache_utils", "masking_utils", "modeling_rope_utils")


@pytest.fixture(scope="module")
def project() -> Project:
    return load_project(ROOT)


@pytest.fixture(scope="module")
def selection(project: Project) -> Selection:
    return select_configs(project)


@pytest.fixture(scope="module")
def release(selection: Selection, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The installed release as a wheel, of which what the zoo needs is unpacked."""
    folder = tmp_path_factory.mktemp("release")
    releases = Releases(folder / "kept")
    installed = releases.installed()
    assert installed is not None
    path = folder / f"transformers-{installed.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted((installed.folder / "transformers").rglob("*.py")):
            archive.write(file, file.relative_to(installed.folder).as_posix())
        metadata = f"Metadata-Version: 2.1\nName: transformers\nVersion: {installed.version}\n"
        archive.writestr(f"transformers-{installed.version}.dist-info/METADATA", metadata)
    return releases.wheel(path, selection.modules)


def test_zoo_is_generated_and_checked_as_with_what_is_installed(
    project: Project, selection: Selection, release: Release
) -> None:
    assert _made(project, selection, (release.folder,)) == _made(project, selection, ())


def _made(project: Project, selection: Selection, folders: tuple[Path, ...]) -> list[tuple[str, str]]:
    """Each config's module and what the contract rules say of it, or why there is none."""
    against, sources = replace(project, upstream=folders), SourceCache()
    contracts = Contracts(against, sources)
    made = []
    for outcome in make_outcomes(against, selection.configs, sources):
        said = "".join(map(str, outcome.problems))
        if outcome.artifact is not None:
            said = f"{outcome.artifact.text}{contracts.examine(outcome.artifact, outcome.path)}"
        made.append((outcome.label, said))
    return made


def test_all_that_the_zoos_modules_import_is_there_and_little_else(selection: Selection, release: Release) -> None:
    known = set(release.modules)
    unpacked = {dotted_name(path.relative_to(release.folder).as_posix()) for path in release.folder.rglob("*.py")}
    assert len(unpacked) < len(known) / 4
    for name in (*selection.modules, *(f"transformers.{name}" for name in LOOKED_INTO)):
        upstream = find_upstream(name, (release.folder,))
        assert known.intersection(_imports(upstream.path, upstream.package)) <= unpacked, name


def _imports(path: Path, package: str) -> Iterator[str]:
    """The modules that a file may import, by its syntax tree."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
