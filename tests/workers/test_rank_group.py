"""Ranks answer together and stay; one that fails takes the others with it, and tells what it was doing."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.workers.fork_server import CAN_FORK
from patchgen_core.workers.rank_group import RankGroup, RanksFailed
from patchgen_core.workers.rank_loop import Rank
from patchgen_core.workers.stacks import Frame, find_collective, find_own_frame
from tests.conftest import ROOT
from tests.workers.forking import is_running

LIMIT = 60.0


def do(rank: Rank, request: tuple[str, Any]) -> Any:
    """The handler of these tests."""
    name, argument = request
    return HANDLERS[name](rank, argument)


def name_process(rank: Rank, _: Any) -> tuple[int, int, int]:
    return rank.number, rank.size, os.getpid()


def fail_on(rank: Rank, number: int) -> str:
    print(f"rank {rank.number} is here")
    if rank.number == number:
        raise ValueError("enough\nof this")
    time.sleep(LIMIT)
    return "late"


def wait_on(rank: Rank, number: int) -> str:
    if rank.number == number:
        stand_here()
    return "done"


def stand_here() -> None:
    time.sleep(LIMIT)


def die_on(rank: Rank, number: int) -> str:
    if rank.number == number:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(LIMIT)
    return "late"


def abort_beside_python(rank: Rank, number: int) -> str:
    """Aborts in a thread that runs no Python, as gloo does."""
    if rank.number == number:
        library = ctypes.CDLL(None)
        library.pthread_create(ctypes.byref(ctypes.c_ulong()), None, library.abort, None)
        stand_here()
    time.sleep(LIMIT)
    return "late"


def give_unpicklable(_: Rank, __: Any) -> Any:
    return lambda: None


FUNCTIONS = (name_process, fail_on, wait_on, die_on, abort_beside_python, give_unpicklable)
HANDLERS = {function.__name__: function for function in FUNCTIONS}


@pytest.fixture(scope="module")
def group() -> Iterator[RankGroup]:
    with RankGroup(f"{__name__}:do", 3) as group:
        yield group
        pids = pids_of(group)
    assert not any(map(is_running, pids))


def pids_of(group: RankGroup) -> set[int]:
    return {pid for *_, pid in group.ask(("name_process", None), LIMIT)}


def failure_of(group: RankGroup, request: tuple[str, Any], time_limit: float = LIMIT) -> RanksFailed:
    pids, start = pids_of(group), time.monotonic()
    assert all(map(is_running, pids))
    with pytest.raises(RanksFailed) as caught:
        group.ask(request, time_limit)
    assert time.monotonic() - start < LIMIT / 2
    assert not any(map(is_running, pids))
    return caught.value


def test_ranks_answer_in_their_order_and_stay(group: RankGroup) -> None:
    first, second = (group.ask(("name_process", None), LIMIT) for _ in range(2))
    assert [answer[:2] for answer in first] == [(0, 3), (1, 3), (2, 3)]
    assert first == second
    assert os.getpid() not in {pid for _, _, pid in first}


def test_a_rank_that_raises_ends_all_of_them_and_the_next_request_begins_anew(group: RankGroup) -> None:
    before = group.ask(("name_process", None), LIMIT)
    failure = failure_of(group, ("fail_on", 1))
    assert (failure.rank, failure.how) == (1, "fails: ValueError: enough")
    assert failure.states[1].output.startswith("rank 1 is here")
    assert "of this" in failure.states[1].output
    after = group.ask(("name_process", None), LIMIT)
    assert not {pid for *_, pid in before} & {pid for *_, pid in after}


def test_a_rank_that_is_killed_is_told(group: RankGroup) -> None:
    failure = failure_of(group, ("die_on", 2))
    assert (failure.rank, failure.how) == (2, "is killed by SIGKILL")


def test_a_rank_that_a_library_ends_tells_where_it_stood(group: RankGroup) -> None:
    failure = failure_of(group, ("abort_beside_python", 1))
    assert (failure.rank, failure.how) == (1, "is killed by SIGABRT")
    frame = find_own_frame(failure.states[1].frames)
    assert frame is not None
    assert (Path(frame.file), frame.function) == (Path(__file__), "stand_here")


def test_an_answer_that_cannot_be_sent_is_told(group: RankGroup) -> None:
    failure = failure_of(group, ("give_unpicklable", None))
    assert failure.how.startswith("fails: TypeError: the answer cannot be pickled: ")


def test_ranks_that_hang_tell_where_each_of_them_stands(group: RankGroup) -> None:
    group.ask(("name_process", None), LIMIT)
    failure = failure_of(group, ("wait_on", 1), time_limit=1)
    assert (failure.rank, failure.how) == (None, "takes over 1 s")
    assert [state.has_answered for state in failure.states] == [True, False, True]
    frame = find_own_frame(failure.states[1].frames)
    assert frame is not None
    assert (Path(frame.file), frame.function) == (Path(__file__), "stand_here")
    assert frame.line == stand_here.__code__.co_firstlineno + 1


LOOKING = """
import sys
from patchgen_core.workers.rank_group import RankGroup

def prepare():
    import acme

def look(rank, request):
    is_prepared = "acme" in sys.modules
    import acme
    return acme.__file__, is_prepared

if __name__ == "__main__":
    for folder in sys.argv[1:]:
        sys.path.insert(0, folder)
        for _ in range(2):
            with RankGroup("looking:look", 2, "looking:prepare") as group:
                print(*group.ask(None, 60), sep="; ")
"""


def test_ranks_import_what_this_process_would_whatever_their_server_imported(tmp_path: Path) -> None:
    """A release may be on the search path of this process alone, and another one later; ranks that a server can fork
    do not import it themselves."""
    for name in ("installed", "first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "acme.py").touch()
    (tmp_path / "looking.py").write_text(LOOKING)
    command = [sys.executable, "looking.py", str(tmp_path / "first"), str(tmp_path / "second")]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    first, second = (
        "; ".join([str((str(tmp_path / name / "acme.py"), is_prepared))] * 2)
        for name, is_prepared in (("first", CAN_FORK), ("second", False))
    )
    assert done.stdout.splitlines() == [first, first, second, second], done.stderr


OPENING = """
import sys
from pathlib import Path

def read(rank, path):
    return Path(path).read_text()
"""


def test_what_ranks_read_counts_as_read_here(tmp_path: Path) -> None:
    """A kept result of a check that ranks make depends on it."""
    (tmp_path / "opening.py").write_text(OPENING)
    (tmp_path / "table.txt").write_text("4")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from patchgen_core.workers.opened_files import list_opened_files
from patchgen_core.workers.rank_group import RankGroup

with RankGroup("opening:read", 2) as group:
    group.ask({str(tmp_path / "table.txt")!r}, 60)
print(list_opened_files())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert str(tmp_path / "table.txt") in done.stdout, done.stderr


C10D, MODEL = "/x/site-packages/torch/distributed/distributed_c10d.py", "/home/acme/modeling.py"
LOGGER, FSDP = "/x/site-packages/torch/distributed/c10d_logger.py", "/x/site-packages/torch/distributed/fsdp/state.py"


@pytest.mark.parametrize(
    ("frames", "collective"),
    [
        ([(C10D, "wait"), (C10D, "all_to_all_single"), (LOGGER, "wrapper"), (MODEL, "forward")], "all_to_all_single"),
        ([(C10D, "all_gather_into_tensor"), (LOGGER, "wrapper"), (FSDP, "unshard")], "all_gather_into_tensor"),
        ([(FSDP, "wait_for_unshard"), ("/x/site-packages/torch/nn/modules/module.py", "f")], "wait_for_unshard"),
        ([(MODEL, "forward"), (C10D, "all_reduce")], ""),
    ],
)
def test_the_collective_of_a_stack_is_the_function_that_one_calls(
    frames: list[tuple[str, str]], collective: str
) -> None:
    assert find_collective([Frame(file, 1, function) for file, function in frames]) == collective
