"""A session takes what earlier ones, or the command, found out; and what it says is the same."""

from __future__ import annotations

import re

import pytest

from patchgen_core.build.cache import Cache
from tests.conftest import PATCH, Workspace, generated
from tests.plugin.conftest import CONFIG, run
from tests.plugin.support import edit, make_several

DRIFT = ("--patchgen", "--patchgen-checks=drift", "-v", "-p", "no:cacheprovider")
LOADED = """
import sys

def pytest_sessionfinish():
    print("generator" if "patchgen_core.config.loading" in sys.modules else "cache")
"""


def told(result: pytest.RunResult) -> list[str]:
    """What a session said, without its times."""
    return [re.sub(r" in \d+\.\d+s", "", line) for line in result.outlines if "rootdir" not in line]


def results(work: Workspace) -> int:
    return Cache(work.project).info().results


def test_unchanged_project_is_passed_without_loading_a_config(pytester: pytest.Pytester, gated: Workspace) -> None:
    gated.write("conftest.py", LOADED)
    first = run(pytester, gated, *DRIFT, "-s", apart=True)
    second = run(pytester, gated, *DRIFT, "-s", apart=True)
    assert (first.ret, second.ret) == (0, 0)
    assert "generator" in first.stdout.str()
    assert "generator" not in second.stdout.str()
    assert "cache" in second.stdout.str()


def test_command_and_sessions_share_results(pytester: pytest.Pytester, gated: Workspace) -> None:
    gated.write("conftest.py", LOADED)
    assert gated.patchgen("--check").returncode == 0
    assert "generator" not in run(pytester, gated, *DRIFT, "-s", apart=True).stdout.str()


@pytest.mark.parametrize("changed", ["nothing", "config", "module", "diff", "broken"])
@pytest.mark.mostly_slow(1)
def test_session_says_what_one_without_the_cache_says(
    pytester: pytest.Pytester, gated: Workspace, changed: str
) -> None:
    run(pytester, gated, *DRIFT)
    assert results(gated) == 1
    if changed in ("config", "broken"):
        gated.config(PATCH.replace("x * 2", "x * 3" if changed == "config" else "x *"))
    elif changed != "nothing":
        generated(gated, ".py" if changed == "module" else ".diff").write_text("changed\n")
    cached = run(pytester, gated, *DRIFT)
    assert told(cached) == told(run(pytester, gated, *DRIFT, "--patchgen-no-cache"))
    assert cached.ret == (0 if changed == "nothing" else 1)


def test_all_checks_say_the_same_after_a_drift_check(pytester: pytest.Pytester, gated: Workspace) -> None:
    checks = ("--patchgen", "--patchgen-checks=drift,import,contract", "-v", "-p", "no:cacheprovider")
    fresh = run(pytester, gated, *checks, "--patchgen-no-cache")
    run(pytester, gated, *DRIFT)
    assert told(run(pytester, gated, *checks)) == told(fresh)


def test_without_the_cache_nothing_is_kept(pytester: pytest.Pytester, gated: Workspace) -> None:
    assert run(pytester, gated, *DRIFT, "--patchgen-no-cache").ret == 0
    assert not Cache(gated.project).folder.exists()


@pytest.mark.slow
def test_fix_is_kept_for_the_next_session(pytester: pytest.Pytester, gated: Workspace) -> None:
    edit(generated(gated))
    run(pytester, gated, *DRIFT, "--patchgen-fix")
    gated.write("conftest.py", LOADED)
    done = run(pytester, gated, *DRIFT, "-s", apart=True)
    assert done.ret == 0
    assert "generator" not in done.stdout.str()


@pytest.mark.slow
def test_workers_share_one_folder(pytester: pytest.Pytester, work: Workspace) -> None:
    modules = make_several(work)
    for _ in range(2):
        assert run(pytester, work, *DRIFT, "-n", "3").ret == 0
    assert results(work) == 8
    edit(modules[3])
    assert run(pytester, work, *DRIFT, "-n", "3").parseoutcomes()["failed"] == 1


def test_folder_that_cannot_be_used_is_a_warning(pytester: pytest.Pytester, gated: Workspace) -> None:
    gated.write(".patchgen_cache", "a file")
    done = run(pytester, gated, *DRIFT)
    assert (done.ret, done.parseoutcomes()["warnings"]) == (0, 1)
    done.stdout.fnmatch_lines(["*patchgen: results cannot be kept: '*"])


def test_selected_item_is_passed_from_the_cache(pytester: pytest.Pytester, gated: Workspace) -> None:
    gated.write("conftest.py", LOADED)
    run(pytester, gated, *DRIFT)
    done = run(pytester, gated, *DRIFT, f"{CONFIG}::drift", "-s", apart=True)
    assert done.ret == 0
    assert "generator" not in done.stdout.str()
