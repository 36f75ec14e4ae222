"""What a run could leave out without a word: it says so, and is red unless that was asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.project.table import load_project
from tests.conftest import PATCH, PREAMBLE, Workspace, generated
from tests.plugin.conftest import CONFIG, run

BUILD = "proj/models/build/toy_gpu_patch_gen_config.py"
SPECIAL = "proj/models/toy/special.py"
NAMES_SPECIAL = f"""
from pathlib import Path

def pytest_patchgen_configs(config):
    return [Path("{SPECIAL}")]
"""
XFAIL = """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "drift":
            item.add_marker(pytest.mark.xfail(reason="known"))
"""


@pytest.fixture
def special(gated: Workspace, pytester: pytest.Pytester) -> Workspace:
    """A config that only a hook names, generated."""
    gated.config(PATCH, "toy/special.py", PREAMBLE.replace("toy_gpu", "special"))
    gated.write("conftest.py", NAMES_SPECIAL)
    assert run(pytester, gated, "--patchgen-fix").ret == pytest.ExitCode.OK
    return gated


@pytest.mark.slow
def test_files_of_configs_that_a_hook_names_are_no_orphans(special: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, special, "--patchgen-prune")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("removed *")
    assert (special.models / "toy/generated/patched_modeling_special.py").exists()


@pytest.mark.parametrize(
    ("returned", "said"), [("['none.py']", "names 'none.py', which is not a file"), ("'proj'", "returned 'proj', *")]
)
def test_hook_that_names_no_files_is_an_error(
    gated: Workspace, pytester: pytest.Pytester, returned: str, said: str
) -> None:
    gated.write("conftest.py", f"def pytest_patchgen_configs(config):\n    return {returned}\n")
    result = run(pytester, gated, "--patchgen")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: patchgen: pytest_patchgen_configs {said}"])


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("ignored", ["", "proj/models/build"])
@pytest.mark.mostly_slow(1)
def test_config_that_settings_leave_out_makes_the_run_red(
    gated: Workspace, pytester: pytest.Pytester, workers: str, ignored: str
) -> None:
    """Whether by pytest's own list of folders that it does not enter, or by a conftest.py."""
    gated.config(PATCH, "build/toy_gpu_patch_gen_config.py")
    fix(gated.check())
    gated.write("conftest.py", f"collect_ignore = [{ignored!r}]\n" if ignored else "")
    settings = "--override-ini=norecursedirs=none" if ignored else "-q"
    result = run(pytester, gated, "--patchgen", "-n", workers, settings)
    result.assert_outcomes(passed=4)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"not collected: {BUILD} *"])
    assert run(pytester, gated, "--patchgen", "--co").ret == pytest.ExitCode.TESTS_FAILED


def test_config_that_is_ignored_on_the_command_line_is_told(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.write("tests/test_own.py", "def test_own() -> None:\n    pass\n")
    for option in (f"--ignore={gated.models}", "--ignore-glob=proj/*/toy"):
        result = run(pytester, gated, "--patchgen", option)
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines([f"not collected: {CONFIG} *"])


def test_pruning_without_looking_for_orphans_says_so(gated: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, gated, "--patchgen-prune", CONFIG)
    result.stdout.fnmatch_lines(["Orphans were not checked: *"])
    result = run(pytester, gated, "--patchgen-prune", "--patchgen-checks=import")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: patchgen: --patchgen-prune needs the check 'drift', *"])


def test_paths_in_addopts_do_not_narrow_the_gate(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.write("tests/test_own.py", "def test_own() -> None:\n    pass\n")
    run(pytester, gated, "--patchgen", "--override-ini=addopts=tests").assert_outcomes(passed=5)


@pytest.mark.slow
def test_project_inside_a_project_is_not_its_part(gated: Workspace, pytester: pytest.Pytester) -> None:
    text = '[tool.patchgen]\nsearch_root = "."\npackage_prefix = "inner"\nruff_isolated = true\n'
    gated.write("proj/models/inner/pyproject.toml", text)
    gated.config(PATCH, "inner/toy_gpu_patch_gen_config.py")
    assert [result.outcome.path.name for result in gated.check().results] == ["toy_gpu_patch_gen_config.py"]
    assert len(check(Selection(load_project(gated.models / "inner"))).results) == 1
    assert run(pytester, gated, "--patchgen-fix", "proj").ret == pytest.ExitCode.OK
    assert gated.check().exit_code == check(Selection(load_project(gated.models / "inner"))).exit_code == 0


@pytest.mark.slow
def test_failure_that_is_expected_is_told_as_that(gated: Workspace, pytester: pytest.Pytester) -> None:
    generated(gated).write_text(generated(gated).read_text().replace("return -x", "return x"))
    gated.write("conftest.py", XFAIL)
    result = run(pytester, gated, "--patchgen", "--patchgen-report=report.json")
    result.assert_outcomes(passed=3, xfailed=1)
    records = json.loads((gated.root / "report.json").read_text())["results"]
    assert ("skipped", "expected to fail: known") in [(record["status"], record["reason"]) for record in records]
    result.stdout.fnmatch_lines(["1 config, 4 checks: 3 ok, 1 skipped."])


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(60)"])
@pytest.mark.mostly_slow(1)
def test_config_that_hangs_fails_by_timeout_alone(gated: Workspace, pytester: pytest.Pytester, code: str) -> None:
    gated.config(code, "slow/slow_gpu_patch_gen_config.py")
    result = run(pytester, gated, "--patchgen-checks=drift", "--timeout=2", "--deselect=pyproject.toml::orphans")
    result.stdout.fnmatch_lines(["proj.models.slow.slow_gpu_patch_gen_config  error*", "*Timeout*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FAILED proj/models/slow/slow_gpu_patch_gen_config.py::drift - *"])


def test_config_that_skips_itself_fails(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.config("import pytest\nif pytest.version_tuple > (1,): pytest.skip('not here', allow_module_level=True)\n")
    result = run(pytester, gated, "--patchgen-checks=drift", CONFIG)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"{CONFIG}: error: the config skips itself: not here"])


def test_renamed_config_is_the_cause_that_is_told(gated: Workspace, pytester: pytest.Pytester) -> None:
    (gated.models / "toy").rename(gated.models / "toy9")
    result = run(pytester, gated, "--patchgen-checks=drift", "proj/models/toy9")
    result.stdout.fnmatch_lines(["config changed: it was called proj.models.toy.toy_gpu_patch_gen_config"])


def test_import_ends_with_the_run_that_asked_for_it(gated: Workspace, tmp_path: Path) -> None:
    """Also when that is ended without being able to say so."""
    mark = tmp_path / "started"
    code = f"import os, pathlib, time\npathlib.Path({str(mark)!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n"
    (gated.site / "acme/slow.py").write_text(code)
    (gated.site / "acme/__init__.py").write_text("")
    gated.config("config.add_post_import_block('from acme import slow\\nSLOW = slow')\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "--patchgen-fix", f"--rootdir={gated.root}"]
    run = subprocess.Popen(command, cwd=gated.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        importing = _wait_for(mark)
    finally:
        run.kill()
        run.wait()
    for _ in range(100):
        if not _is_running(importing):
            return
        time.sleep(0.1)
    os.kill(importing, 9)
    pytest.fail("the import goes on without the run")


def _wait_for(mark: Path) -> int:
    for _ in range(300):
        if mark.exists() and mark.read_text():
            return int(mark.read_text())
        time.sleep(0.1)
    raise AssertionError("the import does not start")


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
