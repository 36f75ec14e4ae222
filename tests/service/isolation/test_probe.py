"""The probe at the start: what does not hold is seen, and then nothing runs that is not trusted."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from patchgen_service.isolation.box import MEBIBYTE, Box, Limits
from patchgen_service.isolation.commands import build_command
from patchgen_service.isolation.probe import Isolation, NotIsolated, choose_isolation, find_isolation, probe

INSERT = 'for a; do shift; [ "$a" = --chdir ] && set -- "$@" %s; set -- "$@" "$a"; done\nexec $real "$@"'


def put_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Have another ``bwrap`` in place of the real one, which the script finds at ``$real``."""
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\nreal={shutil.which('bwrap')}\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_bubblewrap_isolates_here() -> None:
    assert find_isolation(["bubblewrap"]) == Isolation("bubblewrap")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'uid map: Permission denied' >&2; exit 1", "uid map: Permission denied"),
        ("exit 0", "it ended without a message"),
        (INSERT % "--share-net", "it opens connections"),
        (INSERT % "--dev-bind / /", "it reads files outside"),
    ],
    ids=["forbidden", "silent", "network", "files"],
)
def test_isolation_that_does_not_hold_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, problem: str
) -> None:
    put_on_path(tmp_path, monkeypatch, script)
    assert problem in probe("bubblewrap")


def test_nothing_runs_that_is_not_trusted_where_nothing_isolates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    isolation = find_isolation()
    assert isolation.kind == "none"
    assert [problem.split(":")[0] for problem in isolation.problems] == ["bubblewrap", "podman"]
    with pytest.raises(NotIsolated, match="mark the repository as trusted"):
        choose_isolation(isolation, is_trusted=False)
    assert choose_isolation(isolation, is_trusted=True) == "none"


def test_container_has_what_the_box_has(tmp_path: Path) -> None:
    own, other, hidden = tmp_path / "own", tmp_path / "other", tmp_path / "other" / "secret"
    hidden.mkdir(parents=True)
    limits = Limits(seconds=7, memory=64 * MEBIBYTE, processes=9, disk=5 * MEBIBYTE)
    readable = {own: own, other: Path("/checkout"), tmp_path: tmp_path}
    box = Box(own, readable, (own,), (hidden,), {"LANG": "C"}, limits=limits)
    command = build_command("podman", box, ["true", "--rm"], tmp_path / "name" / "pid")
    assert command[:3] == ["podman", "run", "--rm"]
    expected = {
        "--network=none",
        "--read-only",
        "--cap-drop=all",
        "--env-host=false",
        f"--volume={other}:/checkout:ro",
        f"--volume={own}:{own}:rw",
        f"--tmpfs={hidden}:ro,size=64k,notmpcopyup",
        f"--memory={limits.memory}",
        "--pids-limit=9",
        "--timeout=67",
        "--env=LANG=C",
        "--env=TMPDIR=/tmp",
        "--name=name",
        f"--conmon-pidfile={tmp_path / 'name' / 'pid'}",
        f"--workdir={own}",
    }
    assert expected <= set(command)
    assert f"--volume={own}:{own}:ro" not in command, "podman takes no path twice"
    assert command[-3:] == ["--", "true", "--rm"]
    network = build_command("podman", replace(box, has_network=True), ["true"])
    assert "--network=slirp4netns" in network
