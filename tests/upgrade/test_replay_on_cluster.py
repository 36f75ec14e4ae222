"""The replay has the nodes of a Ray cluster take steps, and judge them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.replay import main
from benchmarks.replay_walks import FORMS, find_problems, slim_configs
from tests.upgrade import older
from tools.ray_cluster import start_cluster
from tools.releases import find_release

START, NEXT = "5.9.0", "5.16.1"


def make_start(home: Path, form: str) -> None:
    """Llama of the older zoo, as a walk keeps what it starts with."""
    folder, release = home / START, find_release(START)
    folder.mkdir(parents=True)
    project = replace(older.make_project(folder, ["llama"], START), upstream=(release.folder,))
    assert find_problems(project, release) == []
    assert form != "edits" or slim_configs(project) == []
    (home / f"{START}.json").write_text(json.dumps({"problems": []}))


@pytest.mark.slow
def test_two_walks_go_on_at_two_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    homes = {form: tmp_path / f"zoo-5.9.0-{form}" for form in FORMS}
    for form, home in homes.items():
        make_start(home, form)
    with start_cluster(2) as cluster:
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        options = ["--walks", "zoo-5.9.0", "--releases", START, NEXT, "--steps", NEXT, "--folder", str(tmp_path)]
        assert main([*options, "--on", "ray"]) == 0
    told = capsys.readouterr().out
    assert "replacements: 5 patches in 1 steps; parity ran for 5 of them" in told
    assert "edits: 6 patches in 1 steps; parity ran for 6 of them" in told
    processes = {json.loads((home / f"{NEXT}.json").read_text())["process"] for home in homes.values()}
    assert len(processes) == 2
    assert not any(process.endswith(f" {os.getpid()}") for process in processes)
    for home in homes.values():
        generated = home / NEXT / "zoo/llama/generated/patched_modeling_llama_gpu.py"
        assert f"transformers=={NEXT}" in generated.read_text()
