"""``patchgen init`` in repositories as people have them, and ``patchgen new`` in one without a table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.project.pyproject import read_table
from tests.cli.test_new_command import site
from tests.conftest import Workspace

__all__ = ["site"]

OTHERS = """# ours
[project]
name = "acme-train"   # the trainer
version = "1.0"

[tool.ruff]
line-length = 100
"""


@pytest.fixture
def bare(work: Workspace) -> Workspace:
    """A repository without ``pyproject.toml``."""
    (work.root / "pyproject.toml").unlink()
    work.models.rmdir()
    work.models.parent.rmdir()
    return work


def table(work: Workspace) -> dict[str, Any]:
    table = read_table(work.root / "pyproject.toml")
    assert table is not None
    return table


def text_of(work: Workspace) -> str:
    return (work.root / "pyproject.toml").read_bytes().decode()


def test_table_goes_to_the_end_of_what_is_there(bare: Workspace) -> None:
    bare.write("pyproject.toml", OTHERS)
    bare.write("acme/__init__.py", "")
    done = bare.patchgen("init")
    assert done.returncode == 0, done.stderr
    assert text_of(bare).startswith(
        OTHERS + '\n[tool.patchgen]\nsearch_root = "acme/models"\npackage_prefix = "acme.models"\n'
        "diffs = true  # check in what changed against upstream, beside each module\n"
    )
    assert done.stdout.startswith("wrote    pyproject.toml\n[tool.patchgen]\n")
    bare.config("", "../../acme/models/toy/toy_gpu_patch_gen_config.py")
    assert bare.patchgen("--list").stdout == "acme.models.toy.toy_gpu_patch_gen_config\n"


def test_file_with_other_line_ends_keeps_them(bare: Workspace) -> None:
    bare.write("acme/__init__.py", "")
    before = b"[project]\r\nname = 'acme'  # no newline below"
    (bare.root / "pyproject.toml").write_bytes(before)
    assert bare.patchgen("init").returncode == 0
    after = (bare.root / "pyproject.toml").read_bytes()
    assert after.startswith(before + b"\r\n\r\n[tool.patchgen]\r\n")
    assert b"\n" not in after.replace(b"\r\n", b"")


def test_file_is_made_where_there_is_none(bare: Workspace) -> None:
    assert bare.patchgen("init", "--search-root", "src/acme/models", "--dry-run").returncode == 0
    assert not (bare.root / "pyproject.toml").exists()
    assert bare.patchgen("init", "--search-root", "src/acme/models").returncode == 0
    assert table(bare) == {"search_root": "src/acme/models", "package_prefix": "acme.models", "diffs": True}


@pytest.mark.parametrize(
    ("files", "search_root", "prefix"),
    [
        (["acme/__init__.py", "tests/__init__.py"], "acme/models", "acme.models"),
        (["src/acme/__init__.py"], "src/acme/models", "acme.models"),
        (["acme_train/__init__.py", "acme_tools/__init__.py"], "acme_train/models", "acme_train.models"),
        (["acme/lm/one/a_patch_gen_config.py"], "acme/lm", "acme.lm"),
        (["acme/lm/one/a_patch_gen_config.py", "acme/lm/two/b_patch_gen_config.py"], "acme/lm", "acme.lm"),
        (["acme/a_patch_gen_config.py"], "acme", "acme"),
        (["acme/lm/one/a_patch_gen_config.py", ".venv/x/site-packages/b_patch_gen_config.py"], "acme/lm", "acme.lm"),
    ],
)
def test_search_root_is_found(bare: Workspace, files: list[str], search_root: str, prefix: str) -> None:
    bare.write("pyproject.toml", OTHERS)
    for file in files:
        bare.write(file, "")
    assert bare.patchgen("init").returncode == 0
    assert (table(bare)["search_root"], table(bare)["package_prefix"]) == (search_root, prefix)


def test_package_alone_is_enough(bare: Workspace) -> None:
    bare.write("src/acme/__init__.py", "")
    assert bare.patchgen("init", "--package-prefix", "acme.lm").returncode == 0
    assert (table(bare)["search_root"], table(bare)["package_prefix"]) == ("src/acme/lm", "acme.lm")


def test_subfolder_writes_into_the_file_of_the_repository(bare: Workspace) -> None:
    bare.write("pyproject.toml", OTHERS)
    bare.write("acme/__init__.py", "")
    subprocess.run([sys.executable, "-m", "patchgen_core", "init"], cwd=bare.root / "acme", check=True)
    assert table(bare)["search_root"] == "acme/models"
    assert not (bare.root / "acme/pyproject.toml").exists()


@pytest.mark.parametrize("text", ["[tool.patchgen]\n", "[tool]\npatchgen.diffs = true\n", "[tool.patchgen.parity]\n"])
def test_table_that_is_there_stays(bare: Workspace, text: str) -> None:
    bare.write("pyproject.toml", OTHERS.replace("[tool.ruff]\nline-length = 100\n", text))
    before = text_of(bare)
    done = bare.patchgen("init", "--search-root", "acme/models")
    assert (done.returncode, text_of(bare)) == (2, before)
    assert "there is already a [tool.patchgen] table" in done.stderr


@pytest.mark.parametrize(
    ("files", "arguments", "message"),
    [
        ({}, [], "there is no package in"),
        ({"a/__init__.py": "", "b/__init__.py": ""}, [], "is ambiguous: there are 'a', 'b'"),
        ({}, ["--search-root", "../models"], "is not a folder below"),
        ({}, ["--search-root", "my-models"], "'my-models' is not a name of a package"),
        ({"pyproject.toml": "[project\n"}, ["--search-root", "acme"], "not valid TOML"),
        ({"pyproject.toml": "tool = {}\n"}, ["--search-root", "acme"], "no table can be added at the end"),
    ],
)
def test_what_cannot_be_told_is_an_error(
    bare: Workspace, files: dict[str, str], arguments: list[str], message: str
) -> None:
    for file, text in files.items():
        bare.write(file, text)
    before = sorted(path for path in bare.root.rglob("*") if path.is_file())
    done = bare.patchgen("init", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert sorted(path for path in bare.root.rglob("*") if path.is_file()) == before


def test_result_as_json(bare: Workspace) -> None:
    done = bare.patchgen("init", "--search-root", "acme/models", "--json")
    found = json.loads(done.stdout)
    assert found["exit_code"] == 0
    assert [found[key] for key in ("file", "search_root", "package_prefix")] == [
        "pyproject.toml",
        "acme/models",
        "acme.models",
    ]


@pytest.mark.slow
def test_new_adds_the_table_where_there_is_none(site: Workspace) -> None:
    (site.root / "pyproject.toml").write_text(OTHERS)
    Path(site.models.parent, "__init__.py").touch()
    assert site.patchgen("new", "toy", "--dry-run").stdout.startswith("would be pyproject.toml\n[tool.patchgen]\n")
    assert text_of(site) == OTHERS
    assert site.patchgen("new", "nothing").returncode == 2
    assert text_of(site) == OTHERS
    done = site.patchgen("new", "toy")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("wrote    pyproject.toml\n")
    assert table(site) == {"search_root": "proj/models", "package_prefix": "proj.models", "diffs": True}
    (site.models / "toy/generated/patched_modeling_toy_gpu.diff").unlink()
    check = site.patchgen("check")
    assert check.returncode == 1
    assert "patched_modeling_toy_gpu.diff does not exist" in check.stdout
