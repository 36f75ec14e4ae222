"""``patchgen matrix``: what it prints, writes and returns."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from patchgen_core.report.matrix.breaks import short_names
from patchgen_core.upstream.releases import release_folder
from tests.conftest import PREAMBLE, Workspace
from tests.upstream.shop import keep, open_project, open_shop

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
MATRIX = ("matrix", "--package", "acme", "--offline")


@pytest.fixture
def shop(work: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    open_shop(tmp_path / "wheels", monkeypatch)
    keep(open_project(work), tmp_path / "wheels")
    return work


def test_table_legend_and_what_breaks(shop: Workspace) -> None:
    done = shop.patchgen(*MATRIX, "--versions", "2.0,1.0,1.2.1,1.3,0.9")
    assert done.returncode == 1, done.stderr
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines[0].split() == ["0.9", "1.0", "1.2.1", "1.3", "2.0"]
    assert lines[1].split() == ["toy_gpu", "none", "base", "cosm", "1", "chg", "2", "BRK"]
    legend = {line.split()[0] for line in lines[3:] if line}
    assert {"BRK", "none", "chg", "cosm", "base"} <= legend
    text = done.stdout
    assert "Breaks in 1.5, works in 1.4" in text
    assert "upstream acme.models.toy.modeling_toy has no class 'Norm'" in text
    assert "toy_gpu: Norm.forward  proj/models/toy/toy_gpu_patch_gen_config.py:6" in text
    assert "Breaks in 1.6, works in 1.5" in text
    assert "Works from 1.0 on, breaks in 0.9" in text
    assert lines[-1] == "1 config: 1 cannot be generated from 2.0 correctly."


def test_verbose_shows_patches_and_what_upstream_changed(shop: Workspace) -> None:
    text = shop.patchgen(*MATRIX, "-v", "--no-bisect", "--versions", "1.0,1.2.0,1.2.1,1.3").stdout
    assert "  Head.forward" in text
    assert "toy_gpu: Norm.forward" in text
    assert "  1.2.0 to 1.2.1  cosmetic" in text
    assert "  1.3  changed" in text


@pytest.mark.slow
def test_many_versions_stand_in_several_blocks(shop: Workspace) -> None:
    text = shop.patchgen(*MATRIX, "--no-bisect", "--versions", "0.9..2.0,1.2.0,1.4rc1").stdout
    assert all(len(line) <= 100 for line in text.splitlines() if "toy_gpu  " in line)
    narrow = shop.patchgen(*MATRIX, "--no-bisect", "--versions", "0.9..2.0", COLUMNS="40", TTY_COMPATIBLE="1").stdout
    heads = [line.split() for line in _ESCAPE.sub("", narrow).splitlines() if line.startswith("     ")]
    versions = ["0.9", "1.0", "1.1", "1.2.1", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8", "2.0"]
    assert len(heads) >= 3
    assert [version for head in heads for version in head][:11] == versions


def test_json_holds_everything(shop: Workspace) -> None:
    done = shop.patchgen(*MATRIX, "--json", "--versions", "1.0,2.0")
    data = json.loads(done.stdout)
    assert (data["schema"], data["exit_code"], done.returncode) == (1, 1, 1)
    assert (data["versions"], data["distribution"]) == (["1.0", "2.0"], "acme")
    (config,) = data["configs"]
    assert (config["path"], config["base"]) == ("proj/models/toy/toy_gpu_patch_gen_config.py", "1.0")
    norm, head = config["patches"]
    assert (norm["target"], norm["line"], norm["last_working"], norm["first_broken"]) == (
        "Norm.forward",
        6,
        "1.4",
        "1.5",
    )
    assert not norm["is_exact"]  # offline
    assert [cell["state"] for cell in head["cells"]] == ["ok", "breaks"]
    assert head["cells"][1]["errors"][0]["code"] == "PG201"
    assert data["tried"]


def test_markdown_and_html_files(shop: Workspace) -> None:
    done = shop.patchgen(*MATRIX, "--versions", "1.0,2.0", "--markdown", "out/m.md", "--html", "out/m.html")
    assert done.returncode == 1, done.stderr
    text = (shop.root / "out/m.md").read_text(encoding="utf-8")
    assert "| config | 1.0 | 2.0 |" in text
    assert "| `toy_gpu` | ✅ base | ❌ 2 BRK |" in text
    assert "### Breaks in 1.5, works in 1.4" in text
    assert "`toy_gpu: Norm.forward`" in text
    page = (shop.root / "out/m.html").read_text(encoding="utf-8")
    assert "Norm.forward" in page
    assert "1.5" in page


def test_without_versions_the_base_and_what_is_at_hand(shop: Workspace) -> None:
    kept = release_folder(shop.project) / "acme"
    for place in list(kept.iterdir()):
        if place.is_dir() and place.name not in ("1.1", "1.3"):
            shutil.rmtree(place)
    done = shop.patchgen(*MATRIX)
    assert done.stdout.splitlines()[0].split() == ["1.0", "1.1", "1.3"]
    assert done.returncode == 0
    assert done.stdout.rstrip().endswith("1 config: none breaks in 1.3.")


@pytest.mark.slow
def test_without_versions_and_online_the_base_and_the_latest(shop: Workspace) -> None:
    done = shop.patchgen("matrix", "--package", "acme", "--no-bisect")
    assert done.stdout.splitlines()[0].split() == ["1.0", "2.0"]


def test_config_that_does_not_load_is_told_beside_the_others(shop: Workspace) -> None:
    shop.config("raise SystemExit('broken')\n", "bad/bad_gpu_patch_gen_config.py")
    done = shop.patchgen(*MATRIX, "--versions", "1.0")
    assert done.returncode == 2
    assert "toy_gpu  base" in done.stdout
    assert "bad_gpu_patch_gen_config.py" in done.stdout + done.stderr
    assert "broken" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--versions", "1.0,5.5"], "5.5"),
        (["--versions", "newest"], "'newest' is not a version"),
        (["--versions", " , "], "--versions names no version"),
        (["--versions", "1.0", "proj.models.toy.toy_gpu"], "Did you mean 'proj.models.toy.toy_gpu_patch_gen_config'?"),
        (["--source", "nowhere"], "there is no folder 'nowhere'"),
        (["--versions", "1.0", "--package", "acne"], "no config is about 'acne'"),
    ],
)
def test_usage_errors(shop: Workspace, arguments: list[str], said: str) -> None:
    done = shop.patchgen(*MATRIX, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_named_configs_only(shop: Workspace) -> None:
    shop.config("", "other/other_gpu_patch_gen_config.py", PREAMBLE.replace("patched_modeling", "other_modeling"))
    done = shop.patchgen(*MATRIX, "--versions", "1.0", "proj.models.other.other_gpu_patch_gen_config")
    assert "other_gpu  base" in done.stdout
    assert "toy_gpu  " not in done.stdout


def test_short_names_tell_configs_apart() -> None:
    labels = [
        "zoo.a.toy_gpu_patch_gen_config",
        "zoo.b.toy_gpu_patch_gen_config",
        "zoo.a.toy_gpu_patch_gen_config:other",
    ]
    assert list(short_names(labels).values()) == ["a.toy_gpu", "b.toy_gpu", "toy_gpu:other"]
