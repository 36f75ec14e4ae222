"""Modules and paths, which files are configs, and what a user's word means."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from tests.project.tables import PARITY, TABLE, message, project


def write(root: Path, *paths: str, text: str = "") -> list[Path]:
    files = [root / path for path in paths]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return files


# --- modules and paths -----------------------------------------------------------------------------


LAYOUTS = {
    "package at the root": ("proj/models", "proj.models", ["."]),
    "src layout": ("src/proj/models", "proj.models", ["src", "."]),
    "deep src layout": ("a/b/proj", "proj", ["a/b", "."]),
    "root is the package": (".", "proj.models", ["."]),
    "root by another name": ("code/here", "proj.models", ["."]),
    "tail partly the same": ("other/models", "proj.models", ["."]),
    "trailing slash": ("proj/models/", "proj.models", ["."]),
}


@pytest.mark.parametrize(("search_root", "prefix", "roots"), LAYOUTS.values(), ids=LAYOUTS)
def test_modules_below_the_search_root_go_by_the_prefix(
    tmp_path: Path, search_root: str, prefix: str, roots: list[str]
) -> None:
    found = Project(Path(search_root), prefix, root=tmp_path)
    config, init = write(found.search_root, "toy/a_patch_gen_config.py", "toy/__init__.py")
    assert found.import_roots == tuple((tmp_path / root).resolve() for root in roots)
    assert found.module_name(config) == f"{prefix}.toy.a_patch_gen_config"
    assert found.module_name(init) == f"{prefix}.toy"
    assert found.module_path(f"{prefix}.toy.a_patch_gen_config") == config
    assert found.module_path(f"{prefix}.toy") == init
    assert found.module_path(f"{prefix}.toy.b") is None


def test_modules_beside_the_search_root_go_by_the_import_root(tmp_path: Path) -> None:
    found = Project(Path("src/proj/models"), "proj.models", root=tmp_path)
    beside, outside = write(tmp_path, "src/proj/util.py", "tests/helper.py")
    assert [found.module_name(beside), found.module_name(outside)] == ["proj.util", "tests.helper"]
    assert [found.module_path("proj.util"), found.module_path("tests.helper")] == [beside, outside]
    assert found.module_name(tmp_path.parent / "far.py") == "far"


def test_a_prefix_is_not_a_prefix_of_words(tmp_path: Path) -> None:
    found = Project(Path("proj/models"), "proj.models", root=tmp_path)
    write(tmp_path, "proj/models/x/y.py")
    assert found.module_path("proj.modelsx.y") is None
    assert found.module_name(tmp_path / "proj/models_old/x.py") == "proj.models_old.x"


def test_a_search_root_may_be_absolute(tmp_path: Path) -> None:
    found = Project(tmp_path / "elsewhere", "zoo", root=tmp_path / "project")
    assert found.search_root == tmp_path / "elsewhere"
    assert found.module_name(tmp_path / "elsewhere" / "a.py") == "zoo.a"


# --- finding configs -------------------------------------------------------------------------------


def test_configs_come_in_path_order_from_every_depth_but_hidden_folders(tmp_path: Path) -> None:
    found = project(tmp_path)
    paths = write(
        tmp_path / "proj/models",
        "a/one_patch_gen_config.py",
        "a/two_patch_gen_config.py",
        "b/c/d/three_patch_gen_config.py",
        "top_patch_gen_config.py",
    )
    write(
        tmp_path / "proj/models",
        ".hidden/x_patch_gen_config.py",
        "a/.cache/x_patch_gen_config.py",
        "a/__pycache__/x_patch_gen_config.py",
        "a/patch_gen_config_x.py",
        "a/x_patch_gen_config.pyc",
        "a/x_patch_gen_config.txt",
    )
    write(tmp_path, "proj/outside_patch_gen_config.py")
    assert found.find_configs() == sorted(paths)


def test_links_are_followed_and_every_folder_counts_once(tmp_path: Path) -> None:
    found = project(tmp_path)
    (own,) = write(tmp_path / "proj/models", "b/own_patch_gen_config.py")
    write(tmp_path, "far/linked_patch_gen_config.py")
    models = tmp_path / "proj/models"
    (models / "a").symlink_to(tmp_path / "far")
    (models / "again").symlink_to(tmp_path / "far")
    (models / "b/up").symlink_to(models)
    (models / "b/itself").symlink_to("itself")
    (models / "b/nowhere").symlink_to("nothing")
    assert found.find_configs() == [models / "a/linked_patch_gen_config.py", own]


def test_another_project_inside_keeps_its_configs(tmp_path: Path) -> None:
    found = project(tmp_path)
    (own,) = write(tmp_path / "proj/models", "plain/own_patch_gen_config.py")
    write(tmp_path / "proj/models", "other/deep/x_patch_gen_config.py")
    (tmp_path / "proj/models/other/pyproject.toml").write_text(TABLE)
    (tmp_path / "proj/models/plain/pyproject.toml").write_text("[tool.other]\n")
    (tmp_path / "proj/models/pyproject.toml").write_text(TABLE)
    assert found.find_configs() == [own]


def test_a_search_root_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PatchgenError) as raised:
        project(tmp_path).find_configs()
    assert message(raised.value, tmp_path) == "pyproject.toml: search_root 'proj/models' is not a folder"


def test_output_goes_beside_the_config_and_beside_a_patches_folder(tmp_path: Path) -> None:
    found = project(tmp_path)
    models = tmp_path / "proj/models"
    assert found.output_folder(models / "toy/a_patch_gen_config.py") == models / "toy/generated"
    assert found.output_folder(models / "toy/patches/a.py") == models / "toy/generated"
    assert found.output_folder(models / "toy/patches/deep/a.py") == models / "toy/patches/deep/generated"


LEGACY = f'{TABLE}legacy_patches_prefix = "proj.models.old.patches"\n'
CONFIG = 'from patchgen import PatchConfig\nconfig = PatchConfig("a.b", "c.py")\n'


def test_legacy_configs_are_files_that_make_a_config(tmp_path: Path) -> None:
    found = project(tmp_path, LEGACY)
    folder = tmp_path / "proj/models/old/patches"
    made = write(folder, "gpu.py", "sub/npu.py", text=CONFIG)
    made += write(folder, "annotated.py", text=CONFIG.replace("config =", "config: PatchConfig ="))
    made += write(folder, "broken.py", text=f"{CONFIG}def f(:\n")
    write(folder, "_private.py", text=CONFIG)
    write(folder, "helpers.py", text="from patchgen import PatchConfig\n")
    write(folder, "plain.py", text="x = 1\n")
    write(folder.parent, "beside.py", text=CONFIG)
    assert found.find_configs() == sorted(made)


@pytest.mark.parametrize("prefix", ["proj.models.nowhere.patches", "elsewhere.patches"])
def test_a_legacy_prefix_without_a_folder_finds_nothing(tmp_path: Path, prefix: str) -> None:
    write(tmp_path, "proj/models/old/patches/gpu.py", text=CONFIG)
    assert project(tmp_path, f'{TABLE}legacy_patches_prefix = "{prefix}"\n').find_configs() == []


# --- what a user's word means ----------------------------------------------------------------------


def test_a_config_is_named_by_module_path_or_shorthand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = project(tmp_path, LEGACY)
    config, legacy = write(tmp_path, "proj/models/toy/a_patch_gen_config.py", "proj/models/old/patches/gpu.py")
    assert found.config_path("proj.models.toy.a_patch_gen_config") == config
    assert found.config_path(str(config)) == config
    assert found.config_path("patches.gpu") == legacy
    assert found.config_path("proj.models.old.patches.gpu") == legacy
    monkeypatch.chdir(tmp_path / "proj/models")
    assert found.config_path("toy/a_patch_gen_config.py") == config
    assert found.config_path("./toy/a_patch_gen_config.py") == config


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "proj.models.toy.a_patch_gen_confg",
            "there is no patch config 'proj.models.toy.a_patch_gen_confg' in this project\n"
            "  Did you mean 'proj.models.toy.a_patch_gen_config'?",
        ),
        (
            "patches.gpx",
            "there is no patch config 'proj.models.old.patches.gpx' in this project\n"
            "  Did you mean 'proj.models.old.patches.gpu'?",
        ),
        (
            "a_patch",
            "there is no patch config 'a_patch' in this project\n  Did you mean 'proj.models.toy.a_patch_gen_config'?",
        ),
        ("zebra", "there is no patch config 'zebra' in this project\n  Its configs are below 'proj/models'."),
        (
            "proj.models.toy",
            "there is no patch config 'proj.models.toy' in this project\n"
            "  Did you mean 'proj.models.toy.a_patch_gen_config'?",
        ),
        (
            "nowhere/a.py",
            "there is no config file 'nowhere/a.py' in this project\n  Its configs are below 'proj/models'.",
        ),
        ("a.py", "there is no config file 'a.py' in this project\n  Its configs are below 'proj/models'."),
        (
            "proj/models",
            "there is no config file 'proj/models' in this project\n  Its configs are below 'proj/models'.",
        ),
    ],
)
def test_a_word_that_means_no_config_is_an_error(tmp_path: Path, name: str, expected: str) -> None:
    found = project(tmp_path, LEGACY)
    write(tmp_path, "proj/models/toy/a_patch_gen_config.py", "proj/models/toy/__init__.py")
    write(tmp_path, "proj/models/old/patches/gpu.py", text=CONFIG)
    with pytest.raises(PatchgenError) as raised:
        found.config_path(name)
    assert message(raised.value, tmp_path) == expected


def test_settings_of_parity(tmp_path: Path) -> None:
    (tmp_path / "toys").mkdir()
    tolerance = 'tolerance = { bfloat16 = 6, ours = 0.5, "my-kernel-float32" = 2 }'
    more = f'toy_root = "toys"\n{tolerance}\ndtypes = ["float32"]\nbatches = ["acme.toys:pictures"]\n'
    (tmp_path / "pyproject.toml").write_text(f"{PARITY}{more}", encoding="utf-8")
    (tmp_path / "deep").mkdir()
    found = load_project(tmp_path / "deep").parity
    assert found.toy_root == tmp_path / "toys"
    assert found.tolerance == (("bfloat16", 6.0), ("ours", 0.5), ("my-kernel-float32", 2.0))
    assert (found.dtypes, found.batches) == (("float32",), ("acme.toys:pictures",))
