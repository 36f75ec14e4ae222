"""A run of the gate over a real repository, in the real bubblewrap: what it tells, and that it always ends."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from service_samples import GitProject

from patchgen_service.git.command import Remote
from patchgen_service.git.mirror import Mirror
from patchgen_service.isolation.box import MEBIBYTE, Limits
from patchgen_service.isolation.probe import Isolation
from patchgen_service.running.events import Ended, Event, FileArrived, ResultArrived, Started
from patchgen_service.running.order import RunOrder
from patchgen_service.running.run import Workplace, carry_out
from tools.ray_cluster import start_cluster

LIMITS = Limits(seconds=30, memory=1024 * MEBIBYTE, processes=64, disk=16 * MEBIBYTE, output=4 * MEBIBYTE)
CHECKS = ("drift", "contract")


@pytest.fixture
def project(clean_project: GitProject, tmp_path: Path) -> GitProject:
    return clean_project.copy_to(tmp_path / "repository")


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    data = tmp_path / "data"
    return Workplace(
        data / "work", data / "environments", Isolation("bubblewrap"), (data,), LIMITS, index="http://127.0.0.1:9"
    )


def carry(
    project: GitProject,
    place: Workplace,
    should_stop: Callable[[], bool] = lambda: False,
    tell: Callable[[Event], None] = lambda event: None,
    **more: Any,
) -> tuple[Ended, list[Event]]:
    """Carry out a run of the repository's head, and return how it ended and all that it told."""
    events: list[Event] = []

    def note(event: Event) -> None:
        events.append(event)
        tell(event)

    order = RunOrder("1-1-abc", "acme/models", str(project.folder), project.git("rev-parse", "HEAD"), checks=CHECKS)
    mirror = Mirror(place.work.parent / "mirror", Remote(str(project.folder)))
    ended = carry_out(dataclasses.replace(order, **more), mirror, place, note, should_stop)
    assert events[-1] == ended
    assert not list(place.work.glob("*")), "the worktree is gone"
    return ended, events


def results(events: list[Event]) -> dict[str, str]:
    return {event.result["item"]: event.result["status"] for event in events if isinstance(event, ResultArrived)}


def test_clean_commit_is_finished(project: GitProject, place: Workplace) -> None:
    ended, events = carry(project, place)
    assert ended == Ended("1-1-abc", "finished"), ended
    assert isinstance(events[0], Started)
    assert (events[0].items, events[0].project) == (3, ".")
    assert results(events) == {
        "models/toy/toy_patch_gen_config.py::drift": "clean",
        "models/toy/toy_patch_gen_config.py::contract": "clean",
        "pyproject.toml::orphans": "clean",
    }


@pytest.mark.slow
def test_drifted_commit_brings_the_files_that_its_configs_make(project: GitProject, place: Workplace) -> None:
    before = project.commit()
    project.write_config("toy", "return x * 5")
    project.commit()
    _, events = carry(project, place)
    files = {
        event.name: event.content.decode()
        for event in events
        if isinstance(event, FileArrived)
        if event.kind == "generated"
    }
    assert results(events)["models/toy/toy_patch_gen_config.py::drift"] == "drifted"
    project.regenerate()
    path = "models/toy/generated/patched_modeling_toy.py"
    assert files == {path: (project.folder / path).read_text()}
    assert before != project.git("rev-parse", "HEAD")


@pytest.mark.slow
def test_runs_of_trusted_repositories_use_the_cluster_and_others_do_not(
    project: GitProject, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(project.folder))  # nodes have the repository's upstream installed
    checks = ("drift", "contract", "import")
    limits = dataclasses.replace(LIMITS, seconds=300, memory=8192 * MEBIBYTE, processes=512)
    here, events = carry(project, dataclasses.replace(place, limits=limits), checks=checks, is_trusted=True)
    assert here == Ended("1-1-abc", "finished"), here
    with start_cluster(1) as cluster:
        address = f"ray://127.0.0.1:{cluster.port}"
        place = dataclasses.replace(place, limits=limits, cluster=address)
        ended, others = carry(project, place, checks=checks, is_trusted=True)
        assert (ended, results(others)) == (here, results(events)), ended
    ended, _ = carry(project, place, checks=checks, is_trusted=True)
    assert (ended.ending, address in ended.message) == ("infrastructure_error", True), ended
    ended, others = carry(project, place, checks=checks)
    assert (ended, results(others)) == (here, results(events))


def move_below(project: GitProject, folder: str) -> None:
    """Have the project in a folder of its repository."""
    for name in ("pyproject.toml", "acme", "acme-1.0.dist-info", "models"):
        target = project.folder / folder / name
        target.parent.mkdir(exist_ok=True)
        os.rename(project.folder / name, target)


def test_results_arrive_while_the_run_goes_on(project: GitProject, place: Workplace) -> None:
    """The second project loops; meanwhile the results of the first are there. A run that is to stop is cancelled."""
    arrived: list[Event] = []
    move_below(project, "sub")
    project.write("loop/pyproject.toml", '[tool.patchgen]\nsearch_root = "models"\npackage_prefix = "models"\n')
    project.write("loop/models/loop_patch_gen_config.py", "import time\nwhile True: time.sleep(1)\n")
    project.commit()

    def should_stop() -> bool:
        return [event.project for event in arrived if isinstance(event, Started)] == ["sub", "loop"]

    ended, events = carry(project, place, should_stop, arrived.append, projects=("sub", "loop"))
    assert ended == Ended("1-1-abc", "cancelled")
    assert len(results(events)) == 3


@pytest.mark.slow
def test_projects_of_a_repository_are_all_run(project: GitProject, place: Workplace) -> None:
    """Paths start from the repository's root; a folder that is gone is said, and does not keep the others from it."""
    move_below(project, "sub")
    project.commit()
    ended, events = carry(project, place, projects=("gone", "sub"))
    assert ended == Ended("1-1-abc", "infrastructure_error", "The commit has no folder 'gone'.")
    paths = {event.result["path"] for event in events if isinstance(event, ResultArrived)}
    assert paths == {"sub/models/toy/toy_patch_gen_config.py", "sub/pyproject.toml"}
    assert "clean" in results(events).values()


HOSTILE = {
    "loop": ("import time\nwhile True: time.sleep(1)", "timed_out", "It took longer than 3 seconds."),
    "fork": ("import os\nwhile True: os.fork()", "", ""),
    "disk": (
        "import os\nfor n in range(1000): open(f'/tmp/{n}', 'wb').write(bytes(1 << 20))",
        "finished",
        "",
    ),
    "print": (
        "import os\nwhile True: os.write(1, b'x' * 4096)",
        "infrastructure_error",
        "It printed more than 4 MiB.",
    ),
    "sigterm": (
        "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: signal.pause()",
        "timed_out",
        "It took longer than 3 seconds.",
    ),
    "exit": ("import os\nos._exit(7)", "infrastructure_error", "the gate ended with code 7 before it was done"),
    "kill": ("import os\nos.kill(os.getpid(), 9)", "infrastructure_error", "was killed by signal 9"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.mostly_slow(1)
def test_hostile_config_is_ended_and_the_reason_said(project: GitProject, place: Workplace, name: str) -> None:
    code, ending, message = HOSTILE[name]
    project.write("models/bad/bad_patch_gen_config.py", code)
    project.commit()
    limits = dataclasses.replace(LIMITS, seconds=3 if ending == "timed_out" else 60)
    ended, events = carry(project, dataclasses.replace(place, limits=limits), checks=("drift",))
    assert ended.ending == ending if ending else ended.ending in ("finished", "infrastructure_error", "timed_out")
    assert message in ended.message
    if ending == "finished":
        assert "error" in results(events).values()


def test_hostile_config_reaches_nothing_of_the_service(project: GitProject, place: Workplace, tmp_path: Path) -> None:
    """What it tries to read, write and connect to, it tells by its error; all that it tells is that it could not."""
    data = place.work.parent
    (data / "work" / "other-run").mkdir(parents=True)
    (data / "work" / "other-run" / "file").write_text("other's")
    (data / "service.sqlite").write_text("database")
    with socket.create_server(("127.0.0.1", 0)) as server:
        project.write(
            "models/bad/bad_patch_gen_config.py",
            f"""
            import os, socket
            reached = []
            def attempt(what, action):
                try:
                    action()
                    reached.append(what)
                except Exception:
                    pass
            attempt("database", lambda: open({str(data / "service.sqlite")!r}).read())
            attempt("worktree", lambda: open({str(data / "work/other-run/file")!r}).read())
            attempt("mirror", lambda: os.listdir({str(data / "mirror")!r}))
            attempt("outside", lambda: open({str(tmp_path / "written")!r}, "w"))
            attempt("checkout", lambda: open("pyproject.toml", "a"))
            attempt("network", lambda: socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), 2))
            attempt("secret", lambda: os.environ["PATCHGEN_SECRET_KEY"])
            raise RuntimeError(f"reached: {{reached}}")
            """,
        )
        project.commit()
        os.environ["PATCHGEN_SECRET_KEY"] = "secret"
        try:
            _, events = carry_out_beside(project, place)
        finally:
            del os.environ["PATCHGEN_SECRET_KEY"]
    told = str([event.result["errors"] for event in events if isinstance(event, ResultArrived)])
    assert "reached: []" in told
    assert (data / "work" / "other-run" / "file").read_text() == "other's"


def carry_out_beside(project: GitProject, place: Workplace) -> tuple[Ended, list[Event]]:
    """As :func:`carry`, where another run has its worktree."""
    events: list[Event] = []
    order = RunOrder("1-1-abc", "acme", str(project.folder), project.git("rev-parse", "HEAD"), checks=("drift",))
    mirror = Mirror(place.work.parent / "mirror", Remote(str(project.folder)))
    return carry_out(order, mirror, place, events.append), events


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sha": "0" * 40}, "The commit is gone"),
        ({"constraints": "gone.txt"}, "The commit has no constraints file 'gone.txt'."),
        ({"checks": ("drfit",)}, "In the project '.' there is no check 'drfit'"),
        ({"extras": ("no-such-package",)}, "The environment could not be installed: ERROR: "),
        ({"python": "/nowhere/python3"}, "The environment could not be made: "),
    ],
)
@pytest.mark.mostly_slow(2)
def test_what_cannot_be_run_says_why(
    project: GitProject, place: Workplace, more: dict[str, Any], message: str
) -> None:
    ended, _ = carry(project, place, **more)
    assert ended.ending == "infrastructure_error"
    assert message in ended.message
    assert not [path for path in place.environments.glob("*") if path.is_dir()], "what was begun is gone"


@pytest.mark.slow
def test_code_that_is_not_trusted_does_not_run_without_isolation(project: GitProject, place: Workplace) -> None:
    bare = dataclasses.replace(place, isolation=Isolation("none", ("bubblewrap: it is not installed",)))
    ended, events = carry(project, bare)
    assert ended.ending == "infrastructure_error"
    assert "bubblewrap: it is not installed" in ended.message
    assert events == [ended]
    ended, events = carry(project, bare, is_trusted=True)
    assert ended.ending == "finished"
    assert len(results(events)) == 3


@pytest.mark.slow
def test_exception_of_whoever_listens_leaves_nothing(project: GitProject, place: Workplace) -> None:
    def refuse(event: Event) -> None:
        raise ValueError("not wanted")

    with pytest.raises(ValueError, match="not wanted"):
        carry(project, place, tell=refuse)
    assert not list(place.work.glob("*"))
