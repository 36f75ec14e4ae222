"""Checks and configs that other plugins add, and how pytest's own options show failures."""

from __future__ import annotations

import pytest

from tests.conftest import PATCH, Workspace, generated
from tests.plugin.conftest import CONFIG, run

DRIFT, IMPORT, CONTRACT, LENGTH, ORPHANS = (
    f"{CONFIG}::drift",
    f"{CONFIG}::import",
    f"{CONFIG}::contract",
    f"{CONFIG}::length",
    "pyproject.toml::orphans",
)
LENGTH_CHECK = '''
from patchgen_core.report.record import Record
from pytest_patchgen.items import CheckItem


class LengthItem(CheckItem):
    """Generated modules stay short.

    Nobody reads long ones.
    """

    check = "length"

    def examine(self):
        for result in self.results():
            outcome = result.outcome
            lines = outcome.artifact.text.count("\\n")
            status = "clean" if "* 2" in outcome.artifact.text else "failed"
            yield Record(outcome.label, str(outcome.path), 0, self.check, status, reason="many lines")


def pytest_patchgen_checks(config):
    return [LengthItem]
'''
EXTRA = "tools/extra.py"
MORE_CONFIGS = f"""
import pathlib

def pytest_patchgen_configs(config):
    return [pathlib.Path("{EXTRA}"), config.rootpath / "tools" / "other.py"]
"""


@pytest.fixture
def checked(gated: Workspace) -> Workspace:
    """The clean project, with a check of its own."""
    gated.write("conftest.py", LENGTH_CHECK)
    return gated


@pytest.fixture
def extended(gated: Workspace) -> Workspace:
    """A project with a clean config, and two that lie outside of the search root."""
    gated.write("conftest.py", MORE_CONFIGS)
    for name in ("extra", "other"):
        gated.config(PATCH, f"../../tools/{name}.py")
    return gated


def items(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "::" in line]


# --- checks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["-n1"]], ids=["serially", "-n1"])
def test_added_check_is_one_of_all(checked: Workspace, pytester: pytest.Pytester, arguments: list[str]) -> None:
    checked.config(PATCH.replace("* 2", "* 3"), "other/other_gpu_patch_gen_config.py")
    result = run(pytester, checked, "--patchgen-fix", "--strict-markers", *arguments)
    result.assert_outcomes(failed=1, passed=8)
    result.stdout.fnmatch_lines(
        [
            "patchgen: *, checks: drift, import, contract, parity, sharded, converter, plan, kernel, length (fixing)",
            "config  *  drift  *  import  contract  length",
            "proj.models.other.other_gpu_patch_gen_config  *  ok      ok        failed",
            "FAILED proj/models/other/other_gpu_patch_gen_config.py::length - many lines",
        ]
    )


def test_added_check_runs_after_the_others_and_can_be_chosen(checked: Workspace, pytester: pytest.Pytester) -> None:
    listed = [DRIFT, IMPORT, CONTRACT, LENGTH, ORPHANS]
    choices: dict[str, list[str]] = {
        "--patchgen": listed,
        "--patchgen-checks=length": [LENGTH],
        "--patchgen-checks=length,drift": [DRIFT, LENGTH, ORPHANS],
        "-mpatchgen_length": [LENGTH],
        "-mnot patchgen_length": [DRIFT, IMPORT, CONTRACT, ORPHANS],
    }
    for choice, expected in choices.items():
        assert items(run(pytester, checked, "--patchgen", "--co", "-q", choice)) == expected, choice
    result = run(pytester, checked, "--patchgen-checks=lenght")
    result.stderr.fnmatch_lines(["ERROR: patchgen: there is no check 'lenght'", "  Did you mean 'length'?"])
    result = run(pytester, checked, "--patchgen", "--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.patchgen_length: Generated modules stay short."])


def test_reason_of_an_added_check_is_shown(checked: Workspace, pytester: pytest.Pytester) -> None:
    checked.config(PATCH.replace("* 2", "* 3"))
    result = run(pytester, checked, LENGTH)
    result.stdout.fnmatch_lines(["*_ toy_gpu_patch_gen_config::length _*", "many lines", "*= patchgen =*"])


@pytest.mark.parametrize("name", ["drift", "length"])
def test_two_checks_of_one_name(checked: Workspace, pytester: pytest.Pytester, name: str) -> None:
    text = LENGTH_CHECK.replace('check = "length"', f'check = "{name}"')
    checked.write("conftest.py", text.replace("[LengthItem]", "[LengthItem, LengthItem]"))
    result = run(pytester, checked, "--patchgen")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: patchgen: two checks are called '{name}'", "  Rename the one of *"])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_check_may_make_several_items(checked: Workspace, pytester: pytest.Pytester) -> None:
    make = """
    @classmethod
    def make(cls, parent):
        for name in ("short", "shorter"):
            yield cls.from_parent(parent, name=name)

    check = "length"
    """
    checked.write("conftest.py", LENGTH_CHECK.replace('    check = "length"', make))
    result = run(pytester, checked, "--patchgen-checks=length", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"{CONFIG}::short PASSED*", f"{CONFIG}::shorter PASSED*"])


def test_hooks_are_not_called_without_the_gate(checked: Workspace, pytester: pytest.Pytester) -> None:
    checked.write("conftest.py", "def pytest_patchgen_checks(config):\n    raise RuntimeError\n")
    checked.write("tests/test_own.py", "def test_own(): pass\n")
    run(pytester, checked, "tests").assert_outcomes(passed=1)


# --- configs ---------------------------------------------------------------------------------------


def test_added_configs_are_collected_wherever_they_lie(extended: Workspace, pytester: pytest.Pytester) -> None:
    named = [f"tools/{name}.py::{check}" for name in ("extra", "other") for check in ("drift", "import", "contract")]
    choices: dict[tuple[str, ...], list[str]] = {
        (): [DRIFT, IMPORT, CONTRACT, ORPHANS, *named],
        ("tools",): named,
        (EXTRA,): named[:3],
        (f"{EXTRA}::import", "proj/models/toy"): [named[1], DRIFT, IMPORT, CONTRACT],
    }
    for paths, expected in choices.items():
        assert sorted(items(run(pytester, extended, "--patchgen", "--co", "-q", *paths))) == sorted(expected), paths


@pytest.mark.parametrize("arguments", [[], ["-n1"]], ids=["serially", "-n1"])
def test_added_configs_are_checked_and_mended(
    extended: Workspace, pytester: pytest.Pytester, arguments: list[str]
) -> None:
    (extended.root / "tools/other.py").write_text("config = 1\n")
    result = run(pytester, extended, "--patchgen-fix", *arguments)
    result.assert_outcomes(failed=1, skipped=2, passed=7)
    result.stdout.fnmatch_lines(["tools/other.py: error: 'config' is of type int, not a PatchConfig of patchgen"])
    result.stdout.fnmatch_lines(["rewrote  tools/generated/patched_modeling_toy_gpu.py"])
    assert "x * 2" in (extended.root / "tools/generated/patched_modeling_toy_gpu.py").read_text()


def test_added_configs_outside_of_the_rootdir(extended: Workspace, pytester: pytest.Pytester) -> None:
    folder = extended.write("tests/pytest.ini", "[pytest]\n").parent
    (extended.root / "tools/other.py").write_text("config = 1\n")
    names = '["../tools/extra.py", config.rootpath.parent / "tools/other.py"]'
    extended.write("tests/conftest.py", f"def pytest_patchgen_configs(config):\n    return {names}\n")
    here = [f"--rootdir={folder}", "-c", f"{folder}/pytest.ini"]
    result = run(pytester, extended, "--patchgen-checks=drift", *here, cwd=folder)
    result.assert_outcomes(failed=2, passed=2)
    result.stdout.fnmatch_lines(["tools.extra  drifted: missing", "tools.other  error", "3 configs, 4 checks: *"])


def test_added_config_that_is_ignored_is_told(extended: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, extended, "--patchgen-checks=drift", f"--ignore={EXTRA}")
    result.stdout.fnmatch_lines([f"not collected: {EXTRA} (*"])


def test_added_config_is_never_a_test_module(extended: Workspace, pytester: pytest.Pytester) -> None:
    (extended.root / EXTRA).write_text("raise RuntimeError\ndef test_it(): pass\n")
    result = run(pytester, extended, "--patchgen", "--co", "-q", "-o", "python_files=*.py", EXTRA)
    assert items(result) == [f"{EXTRA}::drift", f"{EXTRA}::import", f"{EXTRA}::contract"]


def test_added_configs_count_among_what_did_not_run(extended: Workspace, pytester: pytest.Pytester) -> None:
    (extended.root / "tools/extra.py").write_text("config = 1\n")
    result = run(pytester, extended, "--patchgen", "-x", "tools")
    result.stdout.fnmatch_lines(["1 config, 1 check: 1 error, 5 not run."])


def test_crash_of_a_check_of_an_added_config_is_an_error_of_it(extended: Workspace, pytester: pytest.Pytester) -> None:
    crashing = LENGTH_CHECK.replace("for result in self.results():", "for result in [1 / 0]:")
    extended.write("conftest.py", MORE_CONFIGS + crashing)
    result = run(pytester, extended, "--patchgen-checks=length", EXTRA)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["tools.extra  error", "1 config, 1 check: 1 error."])


def test_project_may_have_added_configs_alone(extended: Workspace, pytester: pytest.Pytester) -> None:
    (extended.root / CONFIG).unlink()
    result = run(pytester, extended, "--patchgen", "-m", "patchgen_drift", "--co", "-q")
    assert items(result) == [ORPHANS, "tools/extra.py::drift", "tools/other.py::drift"]


# --- how failures are shown ------------------------------------------------------------------------


@pytest.fixture
def red(gated: Workspace) -> Workspace:
    """A project with a module that was edited by hand."""
    path = generated(gated)
    path.write_text(path.read_text().replace("x * 2", "x * 3"))
    return gated


TRACES = ["*self = <DriftItem drift>*", "*raise CheckFailed*", "*CheckFailed: *", "*Traceback*", "*items.py:*"]
VERDICT = ["edited by hand: Norm.forward changed", "@@ *", "-        return x [*] 3", "+        return x [*] 2"]
SUMMARY = f"FAILED {DRIFT} - edited by hand: Norm.forward changed"


@pytest.mark.parametrize("option", ["--tb=auto", "--tb=short", "--tb=long", "-q", "-v"])
@pytest.mark.mostly_slow(2)
def test_verdict_has_no_traceback(red: Workspace, pytester: pytest.Pytester, option: str) -> None:
    result = run(pytester, red, "--patchgen", option)
    result.stdout.fnmatch_lines(["*_ toy_gpu_patch_gen_config::drift _*", *VERDICT, "*= patchgen =*", SUMMARY])
    for trace in TRACES:
        result.stdout.no_fnmatch_line(trace)


@pytest.mark.parametrize(("option", "trace"), [("-vv", "*raise CheckFailed(*"), ("--tb=native", "Traceback (most *")])
def test_traceback_can_be_asked_for(red: Workspace, pytester: pytest.Pytester, option: str, trace: str) -> None:
    result = run(pytester, red, "--patchgen", option)
    result.stdout.fnmatch_lines([trace, "*CheckFailed: edited by hand: Norm.forward changed", *VERDICT])


def test_traceback_begins_at_the_check(red: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, red, "--patchgen", "-vv")
    result.stdout.no_fnmatch_line("*_multicall*")


def test_line_for_each_failure(red: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, red, "--patchgen", "--tb=line")
    result.stdout.fnmatch_lines([f"{CONFIG}:4: edited by hand: Norm.forward changed", "*= patchgen =*", SUMMARY])
    result.stdout.no_fnmatch_line("@@ *")


def test_no_failures_shown(red: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, red, "--patchgen", "--tb=no")
    result.stdout.fnmatch_lines(["*= patchgen =*", "*drifted: edited by hand*", SUMMARY])
    result.stdout.no_fnmatch_line("@@ *")


def test_quiet_run_has_no_table_and_a_verbose_one_has_all_configs(red: Workspace, pytester: pytest.Pytester) -> None:
    quiet, plain, verbose = (run(pytester, red, "--patchgen", *option) for option in (["-q"], [], ["-v"]))
    for result in (quiet, plain, verbose):
        result.stdout.fnmatch_lines(["1 config, 4 checks: 3 ok, 1 drifted."])
    header, table, project = "patchgen: 1 config*", "config  *drift  *import  contract", "pyproject.toml  *ok  *-"
    for line in (header, table, project):
        quiet.stdout.no_fnmatch_line(line)
    plain.stdout.fnmatch_lines([header, table])
    plain.stdout.no_fnmatch_line(project)
    verbose.stdout.fnmatch_lines([header, table, project])
