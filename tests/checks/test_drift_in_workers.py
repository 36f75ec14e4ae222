"""More configs than one process checks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from patchgen_core.build.cache import Cache
from patchgen_core.build.results import DriftReport
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import MANY, check
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.checked_in.parallel import CHUNK_SIZE
from tests.checks.several_configs import config_path, make_several, preamble
from tests.conftest import PATCH, PREAMBLE, UPSTREAM_TEXT, Workspace

COUNT = MANY + CHUNK_SIZE
"""So that there are as many chunks as need two processes, and one more."""


@pytest.fixture
def many(work: Workspace) -> Workspace:
    """A project of so many configs that they are shared out, all of them clean."""
    return make_several(work, COUNT)


def told(report: DriftReport, work: Workspace) -> list[object]:
    """What a report says, without what it was made from."""
    return [
        *(
            (r.outcome.label, r.outcome.line, r.status, r.causes, r.files, [str(p) for p in r.outcome.problems])
            for r in report.results
        ),
        *report.orphans,
        report.exit_code,
    ]


def test_processes_say_what_one_would_say(many: Workspace, capfd: pytest.CaptureFixture[str]) -> None:
    many.config(PATCH.replace("x * 2", "x * 3"), config_path(1), preamble(1))
    many.config(PATCH.replace("Norm", "Nrom"), config_path(CHUNK_SIZE), preamble(CHUNK_SIZE))
    many.config("import sys\nprint('said aloud')\n", config_path(COUNT - 1), preamble(COUNT - 1))
    many.config("import faulthandler\nfaulthandler.enable()\n" + PATCH, config_path(2), preamble(2))
    many.write("proj/models/m002/generated/patched_modeling_gone.py", "# AUTO-GENERATED FILE - DO NOT EDIT DIRECTLY\n")
    apart = check(Selection(many.project))
    assert capfd.readouterr().err.count("said aloud\n") == 1
    assert all(result.outcome.artifact is None for result in apart.results), "they were not shared out"
    assert told(apart, many) == told(check(Selection(many.project), artifacts=True), many)
    assert [result.status for result in apart.results].count("drifted") == 2
    assert apart.exit_code == 2


@pytest.mark.slow
def test_drift_that_a_process_found_is_mended(many: Workspace) -> None:
    many.config(PATCH.replace("x * 2", "x * 3"), config_path(70), preamble(70))
    report = fix(check(Selection(many.project)))
    assert [result.outcome.label for result in report.results if result.status == "fixed"] == [
        "proj.models.m070.toy_patch_gen_config"
    ]
    assert check(Selection(many.project)).exit_code == 0


@pytest.mark.slow
def test_one_file_written_by_configs_of_two_processes_is_an_error_of_both(many: Workspace) -> None:
    for number in (0, COUNT - 1):
        many.config(PATCH, config_path(number).replace("toy_", f"toy{number}_"), PREAMBLE)
    (many.models / config_path(0)).rename(many.models / "m000/first_patch_gen_config.py")
    os.symlink(many.models / "m000/generated", many.models / f"m{COUNT - 1:03}/generated_link")
    last = many.models / f"m{COUNT - 1:03}"
    for path in (last / "generated").iterdir():
        path.unlink()
    (last / "generated").rmdir()
    (last / "generated_link").rename(last / "generated")
    report = check(Selection(many.project))
    assert told(report, many) == told(check(Selection(many.project), artifacts=True), many)
    errors = [str(p.message) for result in report.results for p in result.outcome.problems]
    assert len(errors) == 2
    assert all("is also written by" in error for error in errors)


@pytest.mark.slow
def test_results_of_processes_are_kept(many: Workspace) -> None:
    cache = Cache(many.project)
    check(Selection(many.project), cache=cache)
    assert cache.info().results == COUNT
    many.upstream("this is not Python")
    (many.site / "acme/models/toy/modeling_toy.py").write_text(UPSTREAM_TEXT)
    assert check(Selection(many.project), cache=cache).exit_code == 0


@pytest.mark.slow
def test_progress_reaches_the_end(many: Workspace) -> None:
    seen: list[tuple[int, int]] = []
    check(Selection(many.project), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (COUNT, COUNT)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.slow
def test_config_that_ends_its_process_is_told(many: Workspace) -> None:
    many.config("import os\nos._exit(3)\n", config_path(5), preamble(5))
    done = many.patchgen("--check", "--json")
    assert done.returncode == 3, "it ends a check without other processes as well"


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="there are no process groups")
def test_interrupted_check_leaves_no_process(many: Workspace, tmp_path: Path) -> None:
    started = tmp_path / "started"
    hanging = f"import os\nimport time\nwith open({str(started)!r}, 'w') as file:\n    file.write(str(os.getpid()))\n"
    for number in (5, 5 + CHUNK_SIZE, 5 + 2 * CHUNK_SIZE):  # in each chunk
        many.config(f"{hanging}time.sleep(600)\n", config_path(number))
    env = {**os.environ, "PYTHONPATH": str(many.site)}
    command = [sys.executable, "-m", "patchgen_core", "--check"]
    process = subprocess.Popen(command, cwd=many.root, env=env, stderr=subprocess.PIPE, text=True)
    while not (started.exists() and started.read_text()):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, "interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


@pytest.mark.slow
def test_answer_on_the_command_line_is_the_same(many: Workspace) -> None:
    many.config(PATCH.replace("x * 2", "x * 3"), config_path(9), preamble(9))
    whole = json.loads(many.patchgen("--check", "--json", "--no-cache").stdout)
    few = json.loads(many.patchgen("--check", "--json", "proj.models.m009.toy_patch_gen_config").stdout)
    assert [c for c in whole["configs"] if c["status"] != "clean"] == few["configs"]
