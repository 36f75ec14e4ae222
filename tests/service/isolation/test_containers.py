"""Containers of a service that was killed are ended by the next one; those of others are left alone.

What stands in for podman here prints what podman 4.3 prints of three containers, and notes what it is told to remove.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from patchgen_service.isolation.box import Box
from patchgen_service.isolation.commands import build_command
from patchgen_service.isolation.containers import LABEL, remove_orphans

_OWN = "from patchgen_service.isolation.containers import own_label\nprint(own_label())"


def _label_of_a_process_that_was_killed() -> str:
    code = f"{_OWN}\nimport os, sys\nsys.stdout.flush()\nos.kill(os.getpid(), 9)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()


def _own_label(folder: Path) -> str:
    (label,) = (
        word for word in build_command("podman", Box(folder), ["true"]) if word.startswith(f"--label={LABEL}=")
    )
    return label.removeprefix("--label=")


def _put_podman_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch, output: str) -> Path:
    (folder / "output").write_text(output)
    script = f'#!/bin/sh\nif [ "$1" = ps ]; then cat {folder}/output; else echo "$@" >> {folder}/removed; fi\n'
    (folder / "podman").write_text(script)
    (folder / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder / "removed"


def test_containers_whose_process_was_killed_are_removed_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, own = _label_of_a_process_that_was_killed(), _own_label(tmp_path)
    pid = own.split("-")[1]
    labels = {
        "killed": killed,
        "own": own,
        "elsewhere": f"{LABEL}=1-{pid}-1",
        "the number was given to another process": own.rpartition("-")[0] + "-1",
    }
    containers = [
        {"Names": [name], "Labels": dict([label.split("=")]), "State": "running"} for name, label in labels.items()
    ]
    removed = _put_podman_on_path(tmp_path, monkeypatch, json.dumps(containers))
    assert remove_orphans() == ["killed", "the number was given to another process"]
    assert [line.split("--time=0 ")[1] for line in removed.read_text().splitlines()] == remove_orphans()


@pytest.mark.parametrize("output", ["", "[]", "null", "Error: it does not work", '[{"Names": []}]'])
def test_where_podman_tells_of_none_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    removed = _put_podman_on_path(tmp_path, monkeypatch, output)
    assert remove_orphans() == []
    assert not removed.exists()


def test_without_podman_there_is_nothing_to_remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert remove_orphans() == []
