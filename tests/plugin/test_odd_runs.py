"""Runs that are set up oddly: what they report is what happened."""

from __future__ import annotations

import json

import pytest

from patchgen_core.checks.checked_in.compare import fix
from tests.conftest import PATCH, Workspace, generated
from tests.plugin.conftest import CONFIG, run

SKIP = """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "import":
            item.add_marker(pytest.mark.skip(reason="not today"))
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_error_with_text_that_is_no_unicode_is_told(gated: Workspace, pytester: pytest.Pytester, workers: str) -> None:
    gated.config('raise ValueError("a \\udcff")\n')
    result = run(pytester, gated, "--patchgen-checks=drift", "-n", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*: error: the config cannot be loaded: ValueError: a *"])


def test_workers_check_no_more_than_a_serial_run(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.config(PATCH, "other/toy_gpu_patch_gen_config.py")
    for workers in ("0", "2"):
        run(pytester, gated, CONFIG, ".", "-n", workers).assert_outcomes(passed=3)


def test_fixing_takes_the_check_that_does_it(gated: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, gated, "--patchgen-fix", "--patchgen-checks=import")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: patchgen: --patchgen-fix needs the check 'drift', *"])


def test_import_is_of_the_file_when_nothing_will_be_written(gated: Workspace, pytester: pytest.Pytester) -> None:
    generated(gated).write_text("raise RuntimeError('as it stands')\n")
    result = run(pytester, gated, "--patchgen-fix", "-k", "import")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*does not import: RuntimeError: as it stands"])


def test_check_that_a_mark_skips_is_skipped(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.write("conftest.py", SKIP)
    result = run(pytester, gated, "--patchgen", "--patchgen-report=report.json")
    result.stdout.fnmatch_lines(["*  ok     skipped  ok", "1 config, 4 checks: 3 ok, 1 skipped."])
    assert json.loads((gated.root / "report.json").read_text())["exit_code"] == 0


def test_run_that_is_no_test_run_has_no_section(gated: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, gated, "--patchgen", "--cache-show")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*= patchgen =*")


def test_paths_of_an_arguments_file_narrow_the_gate(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.write("tests/test_own.py", "def test_own() -> None:\n    pass\n")
    gated.write("arguments.txt", "tests/test_own.py\n")
    run(pytester, gated, "--patchgen", "@arguments.txt").assert_outcomes(passed=1)


def test_report_of_a_run_that_left_a_config_out_is_red(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.config(PATCH, "build/toy_gpu_patch_gen_config.py")
    fix(gated.check())
    for suffix in ("json", "md"):
        run(pytester, gated, f"--patchgen-report=report.{suffix}")
    assert json.loads((gated.root / "report.json").read_text())["exit_code"] == 1
    assert (gated.root / "report.md").read_text().startswith("### patchgen: red\n")


def test_report_of_a_run_of_nothing_is_not_green(gated: Workspace, pytester: pytest.Pytester) -> None:
    run(pytester, gated, "--patchgen-report=report.md", "-k", "nothing")
    assert (gated.root / "report.md").read_text().startswith("### patchgen: nothing ran\n")
