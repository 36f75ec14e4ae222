"""Beside pytest-xdist: workers of this machine, and workers that have copies of the project."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from patchgen_core.workers.fork_request import ENVIRONMENT as FORK_SERVER
from tests.conftest import UPSTREAM_TEXT, Workspace, generated
from tests.plugin.conftest import CONFIG, environment, run
from tests.plugin.support import FOLDERS, edit, make_several, section, write_harm
from tests.python_server import run_python

LONG = " + ".join(f"x.part_{number}(number={number})" for number in range(4))


@pytest.mark.parametrize("dist", ["load", "loadfile", "loadscope", "loadgroup", "worksteal"])
@pytest.mark.mostly_slow(2)
def test_every_check_runs_once_however_workers_share_them(
    gated: Workspace, pytester: pytest.Pytester, dist: str
) -> None:
    edit(generated(gated))
    result = run(pytester, gated, "--patchgen", "-n", "2", "--dist", dist)
    result.assert_outcomes(failed=1, passed=3)
    result.stdout.fnmatch_lines(
        ["edited by hand: rotate changed", "-    return x", "+    return -x", "1 config, 4 checks: 3 ok, 1 drifted."]
    )


def test_as_many_workers_as_there_are_cores(gated: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, gated, "--patchgen", "-n", "auto")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["1 config, 4 checks: 4 ok."])


def test_a_check_that_each_worker_runs_is_one_result(gated: Workspace, pytester: pytest.Pytester) -> None:
    edit(generated(gated))
    result = run(pytester, gated, "--patchgen", "-n", "2", "--dist", "each")
    result.assert_outcomes(failed=2, passed=6)
    result.stdout.fnmatch_lines(["1 config, 4 checks: 3 ok, 1 drifted."])


@pytest.mark.slow
def test_failures_have_the_colours_and_the_width_of_the_controllers_terminal(
    gated: Workspace, pytester: pytest.Pytester
) -> None:
    gated.upstream(UPSTREAM_TEXT.replace("return -x", f"return {LONG}"))
    shown = {}
    for workers in ("0", "2"):
        result = run(pytester, gated, "--patchgen", "--color=yes", "-n", workers, CONFIG, COLUMNS="70")
        shown[workers] = [line for line in section(str(result.stdout), "FAILURES") if not line.startswith("[gw")]
    assert shown["0"] == shown["2"]
    texts = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in shown["2"]]
    assert sum("\x1b[" in line for line in shown["2"]) > 5
    assert max(map(len, texts)) == 70
    assert any("part_3(number=3)" in text for text in texts)


def test_collect_only_lists_what_a_serial_run_lists(gated: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, gated, "--patchgen", "--co", "-q", "-n", "2")
    checks = [f"{CONFIG}::{check}" for check in ("drift", "import", "contract")]
    result.stdout.fnmatch_lines([*checks, "pyproject.toml::orphans"])
    result.stdout.no_fnmatch_line("*= patchgen =*")
    assert result.ret == 0


def test_nothing_selected_is_no_green_run(gated: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, gated, "--patchgen", "-n", "2", "-k", "nothing")
    result.stdout.fnmatch_lines(["No check of a patch config was selected."])
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


# --- fixing ----------------------------------------------------------------------------------------


def test_fixing_rewrites_every_drifted_file_once(work: Workspace, pytester: pytest.Pytester) -> None:
    modules = make_several(work)
    before = {path: (path.read_bytes(), path.stat().st_ino) for path in work.models.glob("*/generated/*.*")}
    kept, *drifted = modules
    for path in drifted[:-1]:
        edit(path)
    drifted[-1].unlink()
    result = run(pytester, work, "--patchgen-fix", "-n", "2")
    total = sum(FOLDERS.values())
    result.assert_outcomes(passed=3 * total + 1)
    rewrote = [line.partition("  ")[2] for line in result.outlines if line.startswith("rewrote ")]
    assert sorted(rewrote) == [path.relative_to(work.root).as_posix() for path in drifted]
    assert {path: path.read_bytes() for path in work.models.glob("*/generated/*.*")} == {
        path: text for path, (text, _) in before.items()
    }
    assert kept.stat().st_ino == before[kept][1]
    result.stdout.fnmatch_lines([f"{total} configs, {3 * total + 1} checks: {2 * total + 2} ok, {total - 1} fixed."])


def test_fixing_leaves_a_config_with_errors_alone(work: Workspace, pytester: pytest.Pytester) -> None:
    modules = make_several(work)
    for path in modules:
        edit(path)
    broken = work.models / "b/m1_gpu_patch_gen_config.py"
    broken.write_text(broken.read_text().replace("Norm.forward", "Norn.forward"))
    result = run(pytester, work, "--patchgen-fix", "-n", "2")
    result.assert_outcomes(failed=1, skipped=2, passed=3 * len(modules) - 2)
    mended = [path for path in modules if "return -x" in path.read_text()]
    assert mended == [path for path in modules if path != work.models / "b/generated/patched_m1.py"]
    result.stdout.fnmatch_lines(["*upstream *has no class 'Norn'", "proj.models.b.m1_gpu_patch_gen_config  error *"])


# --- when a worker goes ----------------------------------------------------------------------------


def test_a_check_that_takes_its_worker_with_it_is_an_error_of_its_config(
    gated: Workspace, pytester: pytest.Pytester
) -> None:
    write_harm(gated, "os._exit(3)")
    result = run(pytester, gated, "--patchgen", "-n", "2")
    result.assert_outcomes(failed=1, passed=4)
    result.stdout.fnmatch_lines(
        [
            "config * drift  import  contract  harm",
            "proj.models.toy.toy_gpu_patch_gen_config  ok     ok      ok        error",
            "1 config, 5 checks: 4 ok, 1 error.",
        ]
    )


# --- workers with copies ---------------------------------------------------------------------------


def remote(work: Workspace, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run pytest with two workers, each in a folder of its own that the project is copied into."""
    workers = []
    for name in ("one", "two"):
        folder = work.root.parent / name
        folder.mkdir(exist_ok=True)
        workers += ["--tx", f"popen//chdir={folder}"]
    without = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:anyio")
    command = [sys.executable, "-m", "pytest", *without, "--dist=load"]
    command += [*workers, f"--rsyncdir={work.root}", *arguments]
    return run_python(command, cwd or work.root, environment(work))


@pytest.fixture(params=["path", "no path"])
def arguments(request: pytest.FixtureRequest, work: Workspace) -> list[str]:
    """With a path argument and with none; xdist wants paths to be absolute."""
    return [str(work.models)] if request.param == "path" else []


@pytest.mark.slow
def test_copies_of_a_clean_project_are_green(gated: Workspace, arguments: list[str]) -> None:
    done = remote(gated, "--patchgen", *arguments)
    assert done.returncode == 0, done.stdout
    assert "\n1 config, 4 checks: 4 ok.\n" in done.stdout
    assert "not collected" not in done.stdout


@pytest.mark.mostly_slow(1)
def test_copies_of_a_drifted_project_are_red_with_paths_of_the_project(gated: Workspace, arguments: list[str]) -> None:
    edit(generated(gated))
    report = gated.root.parent / "report.json"
    done = remote(gated, "--patchgen", f"--patchgen-report={report}", *arguments)
    assert done.returncode == 1, done.stdout
    shown = "proj/models/toy/generated/patched_modeling_toy_gpu.py"
    assert f"\nedited by hand: rotate changed\n--- {shown} (checked in)\n+++ {shown} (generated now)\n" in done.stdout
    assert "not collected" not in done.stdout
    results = json.loads(report.read_text())["results"]
    assert {result["path"] for result in results} == {CONFIG, "pyproject.toml"}


@pytest.mark.slow
def test_copies_are_checked_when_only_the_projects_settings_ask_for_it(gated: Workspace) -> None:
    edit(generated(gated))
    gated.write("tests/test_it.py", "def test_it() -> None:\n    pass\n")
    settings = (gated.root / "pyproject.toml").read_text()
    gated.write("pyproject.toml", f"{settings}\n[tool.pytest.ini_options]\npatchgen = true\n")
    done = remote(gated)
    assert done.returncode == 1, done.stdout
    assert "\n1 config, 4 checks: 3 ok, 1 drifted.\n" in done.stdout


@pytest.mark.mostly_slow(1)
def test_an_error_of_a_copy_is_told_at_the_projects_file(gated: Workspace, arguments: list[str]) -> None:
    gated.config("config.exclude_from_output('Nrom')\n")
    done = remote(gated, "--patchgen", *arguments)
    assert done.returncode == 1, done.stdout
    assert f"\n{CONFIG}:5: error: exclude_from_output: upstream defines no 'Nrom'\n" in done.stdout


@pytest.mark.mostly_slow(1)
def test_a_finding_in_a_copy_is_told_at_the_projects_files(gated: Workspace, arguments: list[str]) -> None:
    gated.config("\n@config.override_method('Head.forward')\ndef forward(self, x):\n    return rotate() + x\n")
    report = gated.root.parent / "report.json"
    done = remote(gated, "--patchgen-checks=contract", f"--patchgen-report={report}", *arguments)
    assert done.returncode == 1, done.stdout
    shown = "proj/models/toy/generated/patched_modeling_toy_gpu.py"
    assert f"\n{CONFIG}:8: error: PG202 'Head.forward' calls 'rotate' and does not pass 'x'" in done.stdout
    assert f"\n  {shown}:26:\n" in done.stdout
    (result,) = json.loads(report.read_text())["results"]
    (error,) = result["errors"]
    assert (error["location"]["file"], error["generated"]["location"]["file"]) == (CONFIG, shown)


@pytest.mark.parametrize("option", ["--patchgen-fix", "--patchgen-prune"])
@pytest.mark.slow
def test_copies_are_not_mended(gated: Workspace, option: str) -> None:
    edit(generated(gated))
    before = generated(gated).read_bytes()
    done = remote(gated, option)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
    assert len(complaints) == 1
    assert re.fullmatch(r"ERROR: patchgen: worker '.*' has a copy of the files, .*", complaints[0])
    assert option in complaints[0]
    assert generated(gated).read_bytes() == before


@pytest.mark.slow
def test_the_record_of_a_workers_failure_has_its_cause_and_the_whole_diff(
    gated: Workspace, pytester: pytest.Pytester
) -> None:
    lines = [f"    x = x + {number}\n" for number in range(80)]
    gated.upstream(UPSTREAM_TEXT.replace("    return -x", "".join(lines) + "    return -x"))
    texts = []
    for workers in ("0", "2"):
        record = gated.root / f"record_{workers}.xml"
        run(pytester, gated, "--patchgen-checks=drift", "-n", workers, f"--junitxml={record}", CONFIG)
        failure = next(ET.parse(record).iter("failure"))
        texts.append((failure.get("message"), failure.text))
    message, text = texts[0]
    assert message == "upstream moved: acme 1.0; rotate changed"
    assert text is not None
    assert text.startswith(f"{message}\n--- proj/models/toy/generated/patched_modeling_toy_gpu.py (checked in)\n")
    assert "".join(f"+{line}" for line in lines) in text
    assert texts[1] == texts[0]


# --- one process that imports torch ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "checks", "is_there"), [("2", "import", True), ("1", "import", True), ("2", "drift", False)]
)
@pytest.mark.mostly_slow(1)
def test_workers_that_may_check_models_share_a_fork_server(
    gated: Workspace,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    workers: str,
    checks: str,
    is_there: bool,
) -> None:
    monkeypatch.delenv(FORK_SERVER, raising=False)
    note = gated.root.parent / "folder"
    write_harm(gated, f"open({str(note)!r}, 'w').write(os.environ.get({FORK_SERVER!r}, ''))")
    result = run(pytester, gated, f"--patchgen-checks={checks},harm", "-n", workers)
    assert result.ret == 0
    folder = note.read_text()
    assert bool(folder) == is_there
    assert not folder or not Path(folder).exists()
