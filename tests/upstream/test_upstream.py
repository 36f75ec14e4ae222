"""Finding an upstream module on disk."""

from __future__ import annotations

import os
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.upstream.module import UpstreamModule, distribution_version, find_upstream
from tests.conftest import UPSTREAM, Workspace


def error(module: str, work: Workspace) -> str:
    with pytest.raises(PatchgenError) as raised:
        find_upstream(module, location=Location("config.py", 3))
    return str(raised.value).replace(f"{work.site}/", "")


def copy(folder: Path, version: str | None = None) -> Path:
    """A copy of the upstream module in another folder; returns its file."""
    path = folder.joinpath(*UPSTREAM.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True)
    path.write_text("")
    (folder / "acme" / "__init__.py").write_text("")
    if version is not None:
        info = folder / f"acme-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme\nVersion: {version}\n")
    return path


def test_a_module_is_found_with_the_version_beside_its_package(work: Workspace) -> None:
    path = work.upstream("", version="3.1")
    assert find_upstream(UPSTREAM) == UpstreamModule(UPSTREAM, path, "acme", "3.1")


def test_nothing_is_imported(work: Workspace) -> None:
    work.upstream("raise RuntimeError('upstream was imported')\n")
    modules = set(sys.modules)
    find_upstream(UPSTREAM)
    find_upstream("acme.models.toy")
    assert {name for name in set(sys.modules) - modules if name.startswith("acme")} == set()


def test_the_first_copy_on_the_path_wins(work: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work.upstream("", version="1.0")
    path = copy(tmp_path / "copy", "2.0")
    monkeypatch.syspath_prepend(str(tmp_path / "copy"))
    assert find_upstream(UPSTREAM) == UpstreamModule(UPSTREAM, path, "acme", "2.0")


def test_pythonpath_chooses_the_copy_that_is_generated_from(work: Workspace, tmp_path: Path) -> None:
    work.upstream("", version="1.0")
    work.config("")
    copy(tmp_path / "copy", "2.0")
    search = os.pathsep.join(map(str, (tmp_path / "copy", work.site, Path(__file__).parents[2])))
    done = work.patchgen("proj.models.toy.toy_gpu_patch_gen_config", PYTHONPATH=search)
    assert done.returncode == 0, done.stderr
    assert "Based on: acme==2.0\n" in (work.models / "toy/generated/patched_modeling_toy_gpu.py").read_text()


def test_given_folders_are_searched_first(work: Workspace, tmp_path: Path) -> None:
    work.upstream("", version="1.0")
    path = copy(tmp_path / "copy", "2.0")
    assert find_upstream(UPSTREAM, [tmp_path / "nothing", tmp_path / "copy"]).path == path
    assert find_upstream(UPSTREAM, [tmp_path / "nothing"]).version == "1.0"


def test_without_metadata_the_version_is_unknown(work: Workspace) -> None:
    path = copy(work.site)
    assert find_upstream(UPSTREAM) == UpstreamModule(UPSTREAM, path, "acme", "unknown")


def test_an_import_name_finds_a_distribution_with_dashes(work: Workspace) -> None:
    work.upstream("", module="fast_kernels.norm", version="0.1")
    (work.site / "fast_kernels-0.1.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: fast-kernels\nVersion: 0.1\n"
    )
    assert find_upstream("fast_kernels.norm").version == "0.1"


def test_relative_imports_start_from_the_package(work: Workspace) -> None:
    work.upstream("")
    assert find_upstream(UPSTREAM).package == "acme.models.toy"
    assert find_upstream("acme.models").package == "acme.models"


def test_a_package_is_its_init(work: Workspace) -> None:
    work.upstream("")
    assert find_upstream("acme.models").path == work.site / "acme/models/__init__.py"
    assert find_upstream("acme").path == work.site / "acme/__init__.py"


def test_a_package_wins_over_a_module_of_its_name(work: Workspace) -> None:
    work.upstream("")
    (work.site / "acme/models.py").write_text("")
    assert find_upstream("acme.models").path == work.site / "acme/models/__init__.py"


def test_a_package_without_init_is_searched(work: Workspace) -> None:
    path = work.upstream("")
    for init in work.site.rglob("__init__.py"):
        init.unlink()
    assert find_upstream(UPSTREAM).path == path


def test_a_single_file_is_upstream_too(work: Workspace) -> None:
    (work.site / "lonely.py").write_text("")
    (work.site / "neighbour").mkdir()
    (work.site / "neighbour/__init__.py").write_text("")
    assert find_upstream("lonely").path == work.site / "lonely.py"
    assert error("lonely.neighbour", work).startswith("config.py:3: upstream has no module 'lonely.neighbour'")


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("acem.models.toy", "upstream package 'acem' is not installed"),
        (
            "acme.models.toy.modeling_toi",
            "upstream has no module 'acme.models.toy.modeling_toi'\n  Did you mean 'acme.models.toy.modeling_toy'?",
        ),
        (
            "acme.models.toyy.modeling_toyy",
            "upstream has no module 'acme.models.toyy.modeling_toyy'\n  Did you mean 'acme.models.toy.modeling_toy'?",
        ),
        (
            "acme.models.toy.modeling_toy.py",
            "upstream has no module 'acme.models.toy.modeling_toy.py'\n  Did you mean 'acme.models.toy.modeling_toy'?",
        ),
        ("acme.zebra", "upstream has no module 'acme.zebra'\n  It was looked for in 'acme'."),
        (".models.toy", "'.models.toy' is not a module name\n  Name it absolutely."),
        ("acme.", "'acme.' is not a module name\n  Name it absolutely."),
    ],
)
def test_a_module_that_is_not_there_is_an_error_with_the_nearest(work: Workspace, module: str, expected: str) -> None:
    work.upstream("")
    assert error(module, work) == f"config.py:3: {expected}"


def test_a_module_that_is_no_python_file_is_an_error(work: Workspace) -> None:
    assert "'sys'" in error("sys", work)


def test_version_of_a_source_tree_without_metadata(work: Workspace) -> None:
    work.upstream("")
    for metadata in work.site.glob("acme-*.dist-info/METADATA"):
        metadata.unlink()
        metadata.parent.rmdir()
    (work.site / "acme/__init__.py").write_text('"""Acme."""\n__version__ = "2.1.dev0"\n')
    assert find_upstream(UPSTREAM).version == "2.1.dev0"


# --- versions --------------------------------------------------------------------------------------


def test_versions_of_installed_packages_are_those_of_their_metadata() -> None:
    known = {(found.metadata["Name"], Path(str(found.locate_file("")))): found.version for found in distributions()}
    assert len(known) > 10
    for (name, folder), version in known.items():
        for spelled in (name, name.upper(), name.replace("-", "_"), name.replace("-", ".")):
            assert distribution_version(spelled, folder) == version, spelled


INFOS = {
    "usual": {"acme_toys-1.2.dist-info/METADATA": "Name: acme-toys\nVersion: 1.2\n\nVersion: 3\n"},
    "of a build": {"acme_toys.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: acme-toys\nVersion: 1.3\n"},
    "spelled otherwise": {"Acme.Toys-1.4.dist-info/METADATA": "VERSION: 1.4\nName: Acme.Toys\n"},
    "with a blank": {"acme_toys-1.5.dist-info/METADATA": "Name: acme-toys\nVersion: 1.5 \n"},
    "in Windows' lines": {"acme_toys-1.6.dist-info/METADATA": "Name: acme-toys\r\nVersion: 1.6\r\n\r\nText\r\n"},
    "late": {"acme_toys-1.8.dist-info/METADATA": f"Summary: {'x' * 9000}\nVersion: 1.8\n"},
    "of another": {"acme_toys_more-1.9.dist-info/METADATA": "Name: acme-toys-more\nVersion: 1.9\n"},
    "none": {},
}


@pytest.mark.parametrize("files", INFOS.values(), ids=INFOS)
def test_version_is_what_importlib_metadata_reads(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir()
        path.write_bytes(text.encode())
    found = list(distributions(name="acme.toys", path=[str(tmp_path)]))
    assert distribution_version("acme.toys", tmp_path) == (found[0].version if found else None)
    assert bool(found) == any("acme_toys_more" not in name for name in files)


def test_version_in_a_folder_that_is_none(tmp_path: Path) -> None:
    assert distribution_version("acme", tmp_path / "nothing") is None
