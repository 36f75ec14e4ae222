"""``patchgen --check`` makes configs in this process and in forks of it: as it would in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from patchgen_core.build.cache import Cache
from patchgen_core.build.inputs import InputReader
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.making import MOST_TOGETHER, make_in_batches
from patchgen_core.workers.processors import count_cpus
from tests.checks.several_configs import NOTES_PROCESS, config_path, make_several, preamble, run_leading
from tests.conftest import PATCH, Workspace

COUNT = 20
IN_A_FORK = "import os\nif os.getpid() != os.getsid(0):\n    "


@pytest.fixture
def several(work: Workspace) -> Workspace:
    """A project of more configs than one process makes, all of them clean."""
    return make_several(work, COUNT)


def run(work: Workspace, *options: str, alone: bool = False, **environment: str) -> tuple[int, str, str]:
    """How a check ends and what it writes; ``alone`` on one processor."""
    return run_leading(work, "--check", *options, alone=alone, **environment)


def note_processes(work: Workspace, folder: Path) -> Callable[[], set[str]]:
    """Have every config note the process that it is loaded in; returns what gives those."""
    place = folder / "processes"
    for number in range(COUNT):
        work.config(NOTES_PROCESS.format(place=str(place)) + PATCH, config_path(number), preamble(number))
    return lambda: set(place.read_text().split())


def test_processes_say_what_one_would_say(several: Workspace, tmp_path: Path) -> None:
    processes = note_processes(several, tmp_path)
    several.config(PATCH.replace("x * 2", "x * 3"), config_path(1), preamble(1))
    several.config(PATCH.replace("Norm", "Nrom"), config_path(8), preamble(8))
    several.config("print('said aloud')\n" + PATCH, config_path(9), preamble(9))
    several.config("import faulthandler\nfaulthandler.enable()\n" + PATCH, config_path(10), preamble(10))
    several.config("print('said late')\n" + PATCH, config_path(COUNT - 1), preamble(COUNT - 1))
    gone = "# AUTO-GENERATED FILE - DO NOT EDIT DIRECTLY\n"
    several.write("proj/models/m002/generated/patched_modeling_gone.py", gone)
    several_say = run(several, "--json", "--no-cache")
    assert len(processes()) == min(count_cpus(), COUNT // 4)
    several.write("proj/models/m002/generated/patched_modeling_gone.py", gone)
    alone = run(several, "--json", "--no-cache", alone=True)
    assert several_say[:2] == alone[:2]
    assert several_say[0] == 2
    assert sorted(several_say[2].splitlines()) == sorted(alone[2].splitlines()) == ["said aloud", "said late"]
    statuses = [config["status"] for config in json.loads(alone[1])["configs"]]
    assert (statuses.count("drifted"), statuses.count("error")) == (1, 1)


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(0)"])
def test_what_dies_in_a_fork_is_done_again(end: str, several: Workspace) -> None:
    for number in range(COUNT):
        several.config(IN_A_FORK + end + "\n" + PATCH, config_path(number), preamble(number))
    assert run(several, "--no-cache") == (0, f"{COUNT} configs: {COUNT} clean.\n", "")


def test_one_file_written_by_configs_of_two_processes_is_an_error_of_both(several: Workspace) -> None:
    last = several.models / f"m{COUNT - 1:03}"
    several.config(PATCH, config_path(COUNT - 1), preamble(0))
    for path in (last / "generated").iterdir():
        path.unlink()
    (last / "generated").rmdir()
    (last / "generated").symlink_to(several.models / "m000/generated")
    ended, said, _ = run(several, "--json")
    assert (ended, said) == run(several, "--json", alone=True)[:2]
    problems = [config["errors"] for config in json.loads(said)["configs"]]
    assert [number for number, those in enumerate(problems) if those] == [0, COUNT - 1]
    assert "is also written by" in str(problems[0])
    assert "is also written by" in str(problems[-1])


def test_results_of_forks_are_kept(several: Workspace) -> None:
    assert run(several)[0] == 0
    cache, selection, reader = Cache(several.project), Selection(several.project), InputReader(several.project)
    kept = [cache.find(selection, path, reader) for path in selection.find_configs()]
    assert [[result.status for result in of_path] for of_path in kept] == [["clean"]] * COUNT


@pytest.mark.parametrize("kept", [0, COUNT - 1])
def test_result_that_its_process_cannot_keep_is_told(kept: int, several: Workspace) -> None:
    for number in {*range(COUNT)} - {kept}:
        several.config("open('/dev/null').close()\n" + PATCH, config_path(number), preamble(number))  # is not kept
    (several.root / "cache").write_text("not a folder")
    ended, said, warned = run(several, PATCHGEN_CACHE_DIR=str(several.root / "cache"))
    assert (ended, said) == (0, f"{COUNT} configs: {COUNT} clean.\n")
    assert warned.count("cannot be kept") == 1


def test_files_that_drifted_in_any_process_are_written(several: Workspace) -> None:
    for number in (0, COUNT - 1):
        several.config(PATCH.replace("x * 2", "x * 3"), config_path(number), preamble(number))
    ended, said, _ = run(several, "--fix")
    assert (ended, said.count("fixed")) == (0, 3)
    assert run(several, "--no-cache") == (0, f"{COUNT} configs: {COUNT} clean.\n", "")


def test_batches_are_of_one_size_and_progress_goes_on_from_each_to_the_next(several: Workspace) -> None:
    seen: list[tuple[int, int]] = []
    selection = Selection(several.project)
    paths = selection.find_configs()
    assert len(paths) == COUNT > MOST_TOGETHER
    reader = InputReader(several.project)
    results = make_in_batches(selection, paths, None, reader, lambda *told: seen.append(told))
    assert seen == [(number + 1, COUNT) for number in range(COUNT)]
    assert list(results) == list(paths)
    assert all(result.outcome.artifact is None for of_path in results.values() for result in of_path)
