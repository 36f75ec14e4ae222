"""The gate runs against a release that is not installed, and says what it could not check."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from patchgen_core.upgrade.writing.gating import run_gate
from patchgen_core.upstream.releases import Release
from tests.conftest import CONFIG, Workspace
from tests.upgrade.upgraded import Upgrading
from tools.ray_cluster import start_cluster

TEXT = """
@config.override_method("Norm.forward")
def norm_forward(self, x):
    return gain(x)
"""
PARTS = "def cached(x):\n    return x\n\n\ndef scale(x):\n    return x\n"
NEW_PARTS = "def gain(x):\n    return x\n\n\ndef scale(x):\n    return x\n\n\ndef timed(x):\n    return x\n"


@pytest.fixture
def upgraded(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> Upgrading:
    """A project that is generated for a release which has what the installed one lacks."""
    upgrading = Upgrading(work)
    work.upstream(PARTS, "acme.models.toy.parts")
    upgrading.release_module(NEW_PARTS, "acme.models.toy.parts")
    old = TEXT.replace("gain", "scale")
    work.config(old)
    upgrading.generate()
    upgrading.apply({"Norm.forward": "def norm_forward(self, x):\n    return gain(x)"})
    monkeypatch.setenv("PYTHONPATH", str(work.site))
    return upgrading


def lines(upgrading: Upgrading, release: Release) -> tuple[str, ...]:
    """What the gate says about the project's one config."""
    told: list[str] = []
    run = run_gate(upgrading.work.project, [upgrading.work.models / CONFIG], release, echo=told.append)
    assert "".join(told) == run.output
    assert bool(run.exit_code) == any(result.is_bad for result in run.results)
    return (f"exact: {run.is_exact}", *run.lines)


def test_its_processes_import_the_release(upgraded: Upgrading) -> None:
    assert lines(upgraded, upgraded.release) == (
        "exact: True",
        "drift, import and contract hold for 1 config with acme 2.0",
    )


@pytest.mark.slow
def test_it_runs_on_a_cluster_whose_nodes_have_another_release(
    upgraded: Upgrading, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_cluster(1) as cluster:
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        upgraded.release_module(NEW_PARTS.replace("gain", "loss"), "acme.models.toy.parts")
        run = run_gate(upgraded.work.project, [upgraded.work.models / CONFIG], upgraded.release, cluster="ray")
        assert run.lines[1:] == lines(upgraded, upgraded.release)[2:], run.output
        upgraded.release_module(NEW_PARTS, "acme.models.toy.parts")
        run = run_gate(upgraded.work.project, [upgraded.work.models / CONFIG], upgraded.release, cluster="ray")
        assert run.lines == lines(upgraded, upgraded.release)[1:], run.output


def test_what_does_not_hold_is_told(upgraded: Upgrading) -> None:
    upgraded.release_module(NEW_PARTS.replace("gain", "loss"), "acme.models.toy.parts")
    found = lines(upgraded, upgraded.release)
    assert found[0] == "exact: True"
    assert found[1].startswith("drift and contract hold")
    assert found[2].startswith(
        "import fails for proj.models.toy.toy_gpu_patch_gen_config: patched_modeling_toy_gpu.py"
    )
    assert "cannot import name 'gain'" in found[2]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("import acme_needs_this", "acme 2.0 needs acme_needs_this, which is not installed"),
        (
            "raise ImportError('tokenizers>=9 is required, but found tokenizers==1.\\nTry: pip')",
            "acme 2.0 does not import here: tokenizers>=9 is required, but found tokenizers==1",
        ),
        ("import os; os._exit(3)", "acme 2.0 does not import here: importing it ends Python with exit code 3"),
    ],
)
@pytest.mark.mostly_slow(1)
def test_a_release_that_does_not_import_here(upgraded: Upgrading, statement: str, reason: str) -> None:
    (upgraded.folder / "acme" / "__init__.py").write_text(statement)
    assert lines(upgraded, upgraded.release) == (
        "exact: False",
        "drift and contract hold for 1 config with acme 2.0",
        f"{reason}: only the checks that import nothing ran: drift, contract. "
        "For its import and parity checks, install acme==2.0.",
    )


def test_a_wheel_is_unpacked_in_whole(upgraded: Upgrading, tmp_path: Path) -> None:
    wheel = tmp_path / "acme-2.0-py3-none-any.whl"
    (upgraded.folder / "acme" / "data.txt").write_text("needed")
    init = "from importlib.resources import files\nassert files(__package__).joinpath('data.txt').read_text()"
    (upgraded.folder / "acme" / "__init__.py").write_text(init)
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in upgraded.folder.rglob("*.*"):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(upgraded.folder))
        archive.write(upgraded.folder / "acme-2.0.dist-info" / "METADATA", "acme-2.0.dist-info/METADATA")
    release = upgraded.releases.wheel(wheel)
    found = lines(upgraded, release)
    assert found == ("exact: True", "drift, import and contract hold for 1 config with acme 2.0")
    assert (release.folder / "acme" / "data.txt").read_text() == "needed"


def test_a_config_with_conflicts_is_no_crash(upgraded: Upgrading) -> None:
    path = upgraded.work.models / CONFIG
    path.write_text(path.read_text() + "<<<<<<< ours\n")
    found = lines(upgraded, upgraded.release)
    assert "drift fails for proj.models.toy.toy_gpu_patch_gen_config: not valid Python: invalid syntax" in found
