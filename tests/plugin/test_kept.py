"""Sessions of pytest, with workers and without, and the command share what is kept of checks, and tell why."""

from __future__ import annotations

import json
import re

import pytest

from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.kept.asking import SWITCH
from tests.conftest import CONFIG as CONFIG_FILE
from tests.conftest import DEFECTS, PATCH, PREAMBLE, Workspace
from tests.plugin.conftest import CONFIG, run

STATIC = ("--patchgen", "--patchgen-checks=drift,contract", "-p", "no:cacheprovider")
NOTE = re.compile(r"proj\.models\.toy\.toy_gpu_patch_gen_config: contract: kept from \d+ (s|min) ago")


@pytest.fixture
def kept(gated: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv(SWITCH, "1")
    return gated


@pytest.mark.slow
def test_sessions_with_and_without_workers_use_what_is_kept(kept: Workspace, pytester: pytest.Pytester) -> None:
    serial = [run(pytester, kept, *STATIC, "-v", apart=True) for _ in range(2)]
    assert [bool(NOTE.search(session.stdout.str())) for session in serial] == [False, True]
    spread = [run(pytester, kept, *STATIC, "-v", "-n", "2") for _ in range(2)]
    assert NOTE.search(spread[-1].stdout.str())
    for session in (*serial, *spread):
        session.assert_outcomes(passed=3)
    assert not NOTE.search(run(pytester, kept, *STATIC, "-v", "--patchgen-no-cache", apart=True).stdout.str())


def test_the_command_tells_what_is_kept_and_why_it_holds_no_more(kept: Workspace) -> None:
    checks = ("--checks=drift,contract", "-v")
    item = f"{CONFIG}::contract"
    assert kept.patchgen("cache", "why", item).stdout == f"{item}: not kept: it has not been clean yet\n"
    assert not NOTE.search(kept.patchgen("gate", *checks).stdout)
    again = kept.patchgen("gate", *checks).stdout
    assert NOTE.search(again)
    assert "1 config, 3 checks: 3 ok, 1 of them from earlier runs.\n" in again
    assert re.fullmatch(
        rf"{re.escape(item)}: kept from \d+ s ago, and holds\n", kept.patchgen("cache", "why", item).stdout
    )
    kept.config(PATCH + "\n# a remark\n", CONFIG_FILE)
    kept.write("proj/models/toy/parallel_plan.py", "")
    told = kept.patchgen("cache", "why", item, ACME_MODE="fast").stdout.splitlines()
    assert re.fullmatch(rf"{re.escape(item)}: since it was kept \d+ s ago:", told[0])
    assert told[1:] == [
        "  new: variable ACME_MODE",
        f"  changed: {CONFIG}",
        "  new: proj/models/toy/parallel_plan.py",
    ]
    assert not NOTE.search(kept.patchgen("gate", *checks).stdout)
    assert not NOTE.search(kept.patchgen("gate", *checks, "--no-cache").stdout)
    assert re.search(r"^\d+ files of checks, \d+ KiB$", kept.patchgen("cache", "info").stdout, re.MULTILINE)
    assert " of checks removed from " in kept.patchgen("cache", "clear").stdout
    assert not NOTE.search(kept.patchgen("gate", *checks).stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["why"], "patchgen cache why takes a config and a check"),
        (["info", "a.py"], "patchgen cache info takes no 'a.py'"),
        (["why", f"{CONFIG}::contrakt"], f"there is no item 'contrakt' in '{CONFIG}'"),
        (["why", "nowhere/a_patch_gen_config.py"], "there is no config file 'nowhere/a_patch_gen_config.py'"),
    ],
)
def test_wrong_questions_are_told_so(kept: Workspace, arguments: list[str], message: str) -> None:
    done = kept.patchgen("cache", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


ROW = re.compile(r"(\w)_gpu_patch_gen_config\.py::(\w+) (?:PASSED|FAILED)")


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
@pytest.mark.slow
def test_what_was_red_runs_first_and_is_reported_in_its_place(
    kept: Workspace, pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    for name in ("a", "z"):
        kept.config(
            DEFECTS if name == "z" else PATCH, f"toy/{name}_gpu_patch_gen_config.py", PREAMBLE.replace("toy_gpu", name)
        )
    fix(kept.check())
    for number in (1, 2):
        done = run(pytester, kept, *STATIC, *workers, "-v", f"--patchgen-report={number}.json", apart=True)
        done.assert_outcomes(passed=6, failed=1)
    first, second = (json.loads((kept.root / f"{number}.json").read_text())["results"] for number in (1, 2))
    assert [result["item"] for result in first] == [result["item"] for result in second]
    if not workers:
        assert ROW.findall(done.stdout.str())[0] == ("z", "contract")
        stopped = run(pytester, kept, *STATIC, "-x", apart=True)
        stopped.assert_outcomes(passed=0, failed=1)
