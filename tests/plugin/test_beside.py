"""Beside pytest's own options and the plugins that people have: each does what it does for other tests."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.conftest import Workspace, generated
from tests.plugin.conftest import CONFIG, run
from tests.plugin.support import edit, make_several, section, write_harm

DRIFT, IMPORT, CONTRACT = (f"{CONFIG}::{check}" for check in ("drift", "import", "contract"))
ORPHANS = "pyproject.toml::orphans"
both = pytest.mark.parametrize("workers", ["0", "1"])


@pytest.fixture
def red(gated: Workspace) -> Workspace:
    """The gated project with an edit in its generated module."""
    edit(generated(gated))
    return gated


def ran(result: pytest.RunResult) -> list[str]:
    """The node ids of a verbose run, in their order."""
    return [line.split()[0] for line in result.outlines if re.search(r" (PASSED|FAILED|SKIPPED|RERUN)", line)]


# --- stopping and choosing -------------------------------------------------------------------------


def test_stopping_at_the_first_failure_tells_what_did_not_run(red: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, red, "--patchgen", "-x")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "config * drift",
            "proj.models.toy.toy_gpu_patch_gen_config  drifted: edited by hand",
            "1 config, 1 check: 1 drifted, 3 not run.",
        ]
    )


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.mostly_slow(1)
def test_stopping_after_some_failures_tells_what_did_not_run(
    work: Workspace, pytester: pytest.Pytester, workers: str
) -> None:
    for path in make_several(work):
        edit(path)
    report = work.root / "report.json"
    result = run(pytester, work, "--patchgen", "--maxfail=2", "-n", workers, f"--patchgen-report={report}")
    assert result.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    data = json.loads(report.read_text())
    shown, missing = [result["item"] for result in data["results"]], data["not_run"]
    assert len(missing) > 0
    assert len(set(shown + missing)) == len(shown + missing) == 25
    result.stdout.fnmatch_lines([f"*drifted, {len(missing)} not run."])


@both
@pytest.mark.slow
def test_last_failed_and_failed_first(red: Workspace, pytester: pytest.Pytester, workers: str) -> None:
    path = red.models / "toy/also_gpu_patch_gen_config.py"
    path.write_text((red.models / "toy/toy_gpu_patch_gen_config.py").read_text().replace("_toy_gpu", "_also"))
    red.patchgen("proj.models.toy.also_gpu_patch_gen_config", "--diff")
    run(pytester, red, "--patchgen", "-n", workers).assert_outcomes(failed=1, passed=6)
    result = run(pytester, red, "--patchgen", "--lf", "-n", workers)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["1 config, 1 check: 1 drifted."])
    result.stdout.no_fnmatch_line("not collected*")
    first = run(pytester, red, "--patchgen", "--ff", "-v")
    assert ran(first)[0] == DRIFT
    first.assert_outcomes(failed=1, passed=6)


@pytest.mark.slow
def test_stepwise_goes_on_where_it_stopped(red: Workspace, pytester: pytest.Pytester) -> None:
    run(pytester, red, "--patchgen", "--sw").assert_outcomes(failed=1)
    red.patchgen("--check", "--fix")
    result = run(pytester, red, "--patchgen", "--sw", "-v")
    assert ran(result) == [DRIFT, IMPORT, CONTRACT, ORPHANS]
    assert result.ret == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-k", "toy_gpu and import"], [IMPORT]),
        (["-k", "orphans or drift"], [DRIFT, ORPHANS]),
        (["-m", "patchgen_drift"], [DRIFT, ORPHANS]),
        (["-m", "patchgen and not patchgen_drift"], [IMPORT, CONTRACT]),
        (["-m", "not patchgen"], []),
        (["--deselect", DRIFT], [IMPORT, CONTRACT, ORPHANS]),
    ],
)
@pytest.mark.mostly_slow(3)
def test_choosing(red: Workspace, pytester: pytest.Pytester, arguments: list[str], expected: list[str]) -> None:
    result = run(pytester, red, "--patchgen", "--strict-markers", "-v", *arguments)
    assert ran(result) == expected
    failed = DRIFT in expected
    assert result.ret == (int(failed) if expected else pytest.ExitCode.NO_TESTS_COLLECTED)
    if expected == [IMPORT]:
        result.stdout.fnmatch_lines(["1 config, 1 check: 1 ok."])


@both
def test_collect_only_lists_the_checks_and_does_none(red: Workspace, pytester: pytest.Pytester, workers: str) -> None:
    before = generated(red).read_bytes()
    result = run(pytester, red, "--patchgen-fix", "--co", "-n", workers)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*<ConfigFile toy_gpu_patch_gen_config.py>", "*<DriftItem drift>"])
    result.stdout.no_fnmatch_line("*= patchgen =*")
    assert generated(red).read_bytes() == before


@pytest.mark.slow
def test_columns_are_in_the_order_of_the_checks_whatever_ran_first(work: Workspace, pytester: pytest.Pytester) -> None:
    edit(make_several(work)[0])
    result = run(pytester, work, "--patchgen", "-v", "--deselect", "proj/models/a/m0_gpu_patch_gen_config.py::drift")
    result.stdout.fnmatch_lines(["config * drift * import * contract*"])


# --- output ----------------------------------------------------------------------------------------


@both
@pytest.mark.mostly_slow(1)
def test_a_run_without_a_terminal_is_red_as_well(red: Workspace, pytester: pytest.Pytester, workers: str) -> None:
    report = red.root / "report.json"
    arguments = ["-p", "no:terminal", "-p", "no:cacheprovider", "-n", workers, f"--patchgen-report={report}"]
    result = run(pytester, red, "--patchgen", *arguments)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "INTERNALERROR" not in str(result.stdout) + str(result.stderr)
    assert [entry["status"] for entry in json.loads(report.read_text())["results"]].count("drifted") == 1


@both
@pytest.mark.slow
def test_quiet(red: Workspace, pytester: pytest.Pytester, workers: str) -> None:
    result = run(pytester, red, "--patchgen", "-q", "-n", workers)
    summary, command, other = section(str(result.stdout), "patchgen")
    assert summary == "1 config, 4 checks: 3 ok, 1 drifted."
    assert command.startswith("Run 'pytest --patchgen-fix")
    assert other == "Run 'patchgen absorb' to turn what was edited by hand into patches instead."
    result.stdout.no_fnmatch_line("patchgen: *")
    result.stdout.fnmatch_lines(["edited by hand: rotate changed", "-    return x", "+    return -x"])
    result.stdout.fnmatch_lines([f"FAILED {DRIFT} - edited by hand: rotate changed"])


@pytest.mark.slow
def test_neither_header_nor_summary(red: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, red, "--patchgen", "--no-header", "--no-summary")
    result.stdout.no_fnmatch_line("patchgen: *")
    result.stdout.no_fnmatch_line("*= FAILURES =*")
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@both
@pytest.mark.slow
def test_durations_name_the_checks(gated: Workspace, pytester: pytest.Pytester, workers: str) -> None:
    result = run(pytester, gated, "--patchgen", "--durations=0", "-vv", "-n", workers)
    result.stdout.fnmatch_lines([f"*s call * {IMPORT}"])
    result.stdout.fnmatch_lines([f"*s call * {DRIFT}"])


def test_the_record_of_a_run_has_the_cause_and_the_diff(red: Workspace, pytester: pytest.Pytester) -> None:
    record = red.root / "record.xml"
    run(pytester, red, "--patchgen", f"--junitxml={record}", "-o", "junit_family=xunit1", CONFIG)
    cases = {case.get("name"): case for case in ET.parse(record).iter("testcase")}
    assert list(cases) == ["drift", "import", "contract"]
    assert cases["drift"].get("file") == CONFIG
    failure = cases["drift"].find("failure")
    assert failure is not None
    assert failure.get("message") == "edited by hand: rotate changed"
    assert failure.text is not None
    assert "-    return x\n+    return -x\n" in failure.text
    assert len(cases["import"]) == 0


# --- a check that goes wrong -----------------------------------------------------------------------


@both
def test_an_exception_in_a_check_is_shown_from_the_check_on(
    gated: Workspace, pytester: pytest.Pytester, workers: str
) -> None:
    write_harm(gated, "1 / 0")
    result = run(pytester, gated, "--patchgen", "-n", workers)
    result.assert_outcomes(failed=1, passed=4)
    result.stdout.fnmatch_lines(["* def examine(self):", "E * ZeroDivisionError: division by zero"])
    result.stdout.fnmatch_lines(["proj.models.toy.toy_gpu_patch_gen_config  ok     ok      ok        error"])
    for internal in ("_multicall", "from_call", "self.records = "):
        result.stdout.no_fnmatch_line(f"*{internal}*")


@both
@pytest.mark.mostly_slow(1)
def test_a_check_that_hangs_fails_by_timeout(gated: Workspace, pytester: pytest.Pytester, workers: str) -> None:
    write_harm(gated, "time.sleep(600)", "::harm")
    result = run(pytester, gated, "--patchgen", "--timeout-method=signal", "-n", workers)
    result.assert_outcomes(failed=1, passed=4)
    result.stdout.fnmatch_lines(["1 config, 5 checks: 4 ok, 1 error."])
    result.stdout.fnmatch_lines([f"FAILED {CONFIG}::harm - Failed: Timeout*"])


@pytest.mark.slow
def test_a_check_that_a_worker_is_ended_for_by_timeout_fails(gated: Workspace, pytester: pytest.Pytester) -> None:
    write_harm(gated, "time.sleep(600)", "::harm")
    result = run(pytester, gated, "--patchgen", "--timeout-method=thread", "-n", "1")
    result.assert_outcomes(failed=1, passed=4)
    result.stdout.fnmatch_lines(["*5 checks: 4 ok, 1 error."])
    result.stdout.fnmatch_lines([f"FAILED {CONFIG}::harm - worker 'gw?' crashed while running *"])


def test_an_import_that_hangs_fails_by_timeout_and_the_next_one_works(
    work: Workspace, pytester: pytest.Pytester
) -> None:
    first, *_ = make_several(work)
    first.write_text(first.read_text() + "\nimport time\n\ntime.sleep(600)\n")
    write_harm(work, limited="a/m0_gpu_patch_gen_config.py::import")
    result = run(pytester, work, "--patchgen-checks=import", "--timeout-method=signal")
    result.assert_outcomes(failed=1, passed=7)
    result.stdout.fnmatch_lines(["8 configs, 8 checks: 7 ok, 1 error."])


# --- plugins ---------------------------------------------------------------------------------------


@both
@pytest.mark.slow
def test_coverage_of_something_else(red: Workspace, pytester: pytest.Pytester, workers: str) -> None:
    red.write("tests/test_it.py", "import helper\n\ndef test_it() -> None:\n    assert helper.two() == 2\n")
    red.write("tests/helper.py", "def two():\n    return 2\n\n\ndef three():\n    return 3\n")
    result = run(pytester, red, "--patchgen", "-n", workers, "--cov=helper", "--cov-report=term")
    result.assert_outcomes(failed=1, passed=4)
    result.stdout.fnmatch_lines(["tests/helper.py *4 *1 *75%"])
    result.stdout.fnmatch_lines(["1 config, 4 checks: 3 ok, 1 drifted."])


@pytest.mark.parametrize("seed", ["1", "2", "3"])
@pytest.mark.mostly_slow(1)
def test_the_order_does_not_matter(work: Workspace, pytester: pytest.Pytester, seed: str) -> None:
    modules = make_several(work)
    for path in modules[::2]:
        edit(path)
    result = run(pytester, work, "-p", "randomly", f"--randomly-seed={seed}", "--patchgen-fix", "-v")
    assert ran(result) != sorted(ran(result))
    result.assert_outcomes(passed=25)
    assert all("return -x" in path.read_text() for path in modules)


@both
@pytest.mark.slow
def test_a_check_that_is_run_again_is_one_result(red: Workspace, pytester: pytest.Pytester, workers: str) -> None:
    result = run(pytester, red, "--patchgen", "--reruns", "1", "-n", workers)
    result.stdout.fnmatch_lines(["*1 failed, 3 passed, 1 rerun in *"])
    result.stdout.fnmatch_lines(["1 config, 4 checks: 3 ok, 1 drifted."])


@pytest.mark.slow
def test_a_check_that_passes_when_it_is_run_again_is_green(gated: Workspace, pytester: pytest.Pytester) -> None:
    write_harm(gated, "seen = Path('seen').exists(); Path('seen').touch(); assert seen")
    result = run(pytester, gated, "--patchgen", "--reruns", "1")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*5 passed, 1 rerun in *"])
    result.stdout.no_fnmatch_line("*error*")


@pytest.mark.slow
def test_jobs_that_share_the_checks_make_the_report_of_the_whole(work: Workspace, pytester: pytest.Pytester) -> None:
    for path in make_several(work)[::3]:
        edit(path)
    paths = {name: work.root / f"{name}.json" for name in ("one", "two", "whole")}
    items: list[str] = []
    for group in ("one", "two"):
        split = ["--splits", "2", "--group", "1" if group == "one" else "2"]
        result = run(pytester, work, "--patchgen", "-v", *split, f"--patchgen-report={paths[group]}")
        items += ran(result)
    whole = run(pytester, work, "--patchgen", "-v", f"--patchgen-report={paths['whole']}")
    assert sorted(items) == sorted(ran(whole))
    for ending in (".md", ".json"):
        merged = work.root / f"merged{ending}"
        done = work.patchgen("report", str(paths["one"]), str(paths["two"]), "-o", str(merged))
        assert done.returncode == 1, done.stderr
    run(pytester, work, "--patchgen", f"--patchgen-report={work.root / 'whole.md'}")
    assert (work.root / "merged.md").read_text() == (work.root / "whole.md").read_text()
    assert results(work.root / "merged.json") == results(paths["whole"])


def results(path: Path) -> list[dict[str, object]]:
    """The results of a report, in one order, without how long each took."""
    found: list[dict[str, object]] = json.loads(path.read_text())["results"]
    return sorted(
        ({**result, "seconds": None} for result in found),
        key=lambda result: (str(result["path"]), str(result["check"])),
    )
