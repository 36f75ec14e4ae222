"""The folder that results are kept in: whatever its state is, and whoever else uses it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from patchgen_core.build import cache
from patchgen_core.build.cache import Cache
from patchgen_core.build.entry_folder import read_signed
from patchgen_core.build.inputs import InputReader
from patchgen_core.build.selection import Selection
from patchgen_core.project.cache_folder import ENVIRONMENT
from tests.build.cached import (
    BASE,
    FAMILY,
    OTHER,
    checked,
    entries,
    preamble,
    rewrite,
    same,
)
from tests.conftest import PATCH, Workspace, generated

# --- a folder in any state -------------------------------------------------------------------------


def test_truncated_entry_counts_as_not_there(family: Workspace) -> None:
    for number, entry in enumerate(entries(family), 1):
        entry.write_bytes(entry.read_bytes()[: -300 * number])
    assert same(family).reused == []
    assert same(family).reused == FAMILY


def test_deleted_folder_is_made_again(family: Workspace) -> None:
    shutil.rmtree(Cache(family.project).folder)
    assert same(family).reused == []
    assert same(family).reused == FAMILY


@pytest.mark.parametrize("blocked", ["kept", "kept/results"])
def test_folder_that_cannot_be_used_is_a_warning(gated: Workspace, blocked: str) -> None:
    gated.write(f"../{blocked}", "a file")
    done = gated.patchgen("--check", **{ENVIRONMENT: str(gated.root.parent / "kept")})
    assert done.returncode == 0
    assert done.stderr.startswith("warning: results cannot be kept: '")
    generated(gated).unlink()
    assert gated.patchgen("--check", **{ENVIRONMENT: str(gated.root.parent / "kept")}).returncode == 1


def test_folder_of_the_users_keeps_what_is_in_it(gated: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = gated.write("../mine/.gitignore", "mine\n").parent
    other = gated.write("../mine/results/other.json", "{}")
    monkeypatch.setenv(ENVIRONMENT, str(folder))
    checked(gated)
    assert Cache(gated.project).info().results == 1
    assert Cache(gated.project).clear() == 1
    assert (folder / ".gitignore").read_text() == "mine\n"
    assert other.exists()
    assert Cache(gated.project).info().results == 0


def test_new_folder_is_ignored_by_git_and_marked_as_a_cache(gated: Workspace) -> None:
    checked(gated)
    folder = Cache(gated.project).folder
    assert (folder / ".gitignore").read_text() == "*\n"
    assert (folder / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")


def test_results_used_least_recently_go_first(family: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LIMIT", 5)
    for number in range(4, 9):
        for age, entry in enumerate(sorted(entries(family), key=os.path.getmtime), 1):
            os.utime(entry, (age * 1000, age * 1000))
        family.config(PATCH.replace("x * 2", f"x * {number}"), OTHER, preamble("other.py"))
        assert checked(family).reused == ["heir", "toy"]  # which are used again and again
        assert len(entries(family)) <= 5
    assert len(entries(family)) >= 4


# --- several processes -----------------------------------------------------------------------------


@pytest.mark.slow
def test_many_processes_use_one_folder(family: Workspace, tmp_path: Path) -> None:
    shared = {ENVIRONMENT: str(tmp_path / "shared")}
    checkouts = [tmp_path / f"checkout{number}" for number in range(3)]
    for number, checkout in enumerate(checkouts):
        shutil.copytree(family.root, checkout)
        rewrite(checkout / "proj/models" / BASE, "x * 2", f"x * {number + 2}")
    env = {**os.environ, **shared, "PYTHONPATH": str(family.site), "COLUMNS": "120"}
    command = [sys.executable, "-m", "patchgen_core", "--check", "--json"]
    places = [*checkouts, *checkouts]
    for _ in range(2):
        running = [subprocess.Popen(command, cwd=at, env=env, stdout=subprocess.PIPE, text=True) for at in places]
        told = [process.communicate()[0] for process in running]
        assert [process.returncode for process in running] == [0, 1, 1, 0, 1, 1]
        assert told[:3] == told[3:]
    fresh = subprocess.run([*command, "--no-cache"], cwd=checkouts[1], env=env, capture_output=True, text=True)
    assert fresh.stdout == told[1]


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_killed_runs_leave_nothing_wrong_behind(family: Workspace) -> None:
    env = {**os.environ, "PYTHONPATH": str(family.site)}
    command = [sys.executable, "-m", "patchgen_core", "--check"]
    shutil.rmtree(Cache(family.project).folder)
    for delay in (0.2, 0.25, 0.3, 0.35):
        process = subprocess.Popen(command, cwd=family.root, env=env, stdout=subprocess.DEVNULL)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert all(read_signed(entry) for entry in entries(family) if entry.suffix == ".json")
    same(family)
    assert same(family).reused == FAMILY


def test_results_that_others_remove_meanwhile_are_no_error(family: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Cache(family.project)
    found = os.listdir(kept.folder / "results")
    kept.clear()
    monkeypatch.setattr(cache.os, "listdir", lambda folder: found)
    monkeypatch.setattr(cache, "LIMIT", 1)
    kept.keep(Selection(family.project), [], InputReader(family.project))
    kept.clear()
    assert (kept.info().results, kept.failure) == (0, "")


# --- the command -----------------------------------------------------------------------------------


def test_cache_info_and_clear(family: Workspace) -> None:
    assert family.patchgen("cache", "info").stdout.startswith("'.patchgen_cache': 3 of at most 4096 results, ")
    told = json.loads(family.patchgen("cache", "info", "--json").stdout)
    assert (told["results"], told["removed"]) == (3, 0)
    assert told["bytes"] == sum(entry.stat().st_size for entry in entries(family))
    assert family.patchgen("cache", "clear").stdout == "3 results removed from '.patchgen_cache'\n"
    assert family.patchgen("cache", "info").stdout == "'.patchgen_cache': 0 of at most 4096 results, empty\n"
    assert entries(family) == []


def test_no_cache_neither_uses_nor_keeps(gated: Workspace) -> None:
    assert gated.patchgen("--check", "--no-cache").returncode == 0
    assert not Cache(gated.project).folder.exists()


def test_verbose_says_why_a_config_is_not_kept(gated: Workspace) -> None:
    gated.config("import os\nconfig.description = os.environ.get('NAME', '')\n" + PATCH)
    done = gated.patchgen("--check", "-v")
    assert "not cached: it uses os.environ while it is loaded" in done.stdout
    assert entries(gated) == []
