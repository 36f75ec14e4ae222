"""``patchgen check`` runs the contract rules where configs are made, in this process and in forks of it: as in one."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.making import make_together
from patchgen_core.checks.contract.check import ContractCheck
from patchgen_core.checks.contract.onlooker import ContractOnlooker
from patchgen_core.checks.kept.asking import SWITCH
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.workers.processors import count_cpus
from tests.checks.several_configs import NOTES_PROCESS, config_path, make_several, preamble, run_leading
from tests.conftest import PATCH, Workspace

COUNT = 20
DROPS_A_PARAMETER = """
@config.override_method("Norm.forward")
def norm_forward(self):
    return 2
"""
DIES_IN_A_FORK = "import os\nif os.getpid() != os.getsid(0):\n    os.kill(os.getpid(), 9)\n"


@pytest.fixture
def several(work: Workspace) -> Workspace:
    """A project of more configs than one process makes; two break the contract, in batches of different processes."""
    make_several(work, COUNT)
    for number in (1, COUNT - 2):
        work.config(DROPS_A_PARAMETER, config_path(number), preamble(number))
    assert work.patchgen("check", "--fix", "--no-cache").returncode == 1
    return work


def run(work: Workspace, *options: str, alone: bool = False, **environment: str) -> tuple[int, str, str]:
    """How a check ends and what it writes; ``alone`` on one processor."""
    return run_leading(work, "check", *options, alone=alone, **environment)


def contracts_of(work: Workspace, *options: str) -> list[dict[str, Any]]:
    """What the contract check says of each config."""
    return [config["contract"] for config in json.loads(run(work, "--json", *options)[1])["configs"]]


def edit(work: Workspace, number: int, before: str, text: str = PATCH) -> None:
    """Have a config begin with other code."""
    work.config(before + text, config_path(number), preamble(number))


def test_processes_say_what_one_would_say(several: Workspace, tmp_path: Path) -> None:
    place = tmp_path / "processes"
    for number in {*range(COUNT)} - {1, COUNT - 2}:
        edit(several, number, NOTES_PROCESS.format(place=str(place)))
    together = run(several, "--no-cache")
    assert len(set(place.read_text().split())) == min(count_cpus(), COUNT // 4)
    assert together == run(several, "--no-cache", alone=True)
    assert together[0] == 1
    assert together[1].count("PG201 'Norm.forward' drops upstream's parameter 'x'") == 2
    assert "contracts: 2 errors" in together[1]


def test_what_dies_in_a_fork_is_looked_at_again(several: Workspace) -> None:
    expected = run(several, "--no-cache")
    for number in {*range(COUNT)} - {1, COUNT - 2}:
        edit(several, number, DIES_IN_A_FORK)
    edit(several, 1, DIES_IN_A_FORK, DROPS_A_PARAMETER)
    edit(several, COUNT - 2, DIES_IN_A_FORK, DROPS_A_PARAMETER)
    assert run(several, "--no-cache")[0] == 1
    assert [found["status"] for found in contracts_of(several, "--no-cache")].count("failed") == 2
    assert "contracts: 2 errors" in expected[1]


def test_clean_results_of_all_processes_are_kept_and_no_red_ones(
    several: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SWITCH)
    first = run(several, "-v")
    said = {0: "and holds", 1: "it has not been clean yet", COUNT - 2: "it has not been clean yet"}
    for number in (0, 1, 2, COUNT - 2, COUNT - 1):
        why = several.patchgen("cache", "why", f"proj.models.m{number:03}.toy_patch_gen_config::contract")
        assert said.get(number, said[0]) in why.stdout
    assert run(several, "-v") == first


def test_two_that_write_one_file_are_errors_and_neither_is_kept(
    several: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SWITCH)
    last = several.models / f"m{COUNT - 1:03}"
    several.config(PATCH, config_path(COUNT - 1), preamble(0))
    for path in (last / "generated").iterdir():
        path.unlink()
    (last / "generated").rmdir()
    (last / "generated").symlink_to(several.models / "m000/generated")
    for _ in range(2):
        found = contracts_of(several)
        assert [number for number, each in enumerate(found) if each["status"] == "skipped"] == [0, COUNT - 1]
    assert [found["status"] for found in contracts_of(several, "--no-cache")] == [each["status"] for each in found]


def test_setting_that_names_no_module_ends_a_check_as_it_does_in_one_process(several: Workspace) -> None:
    several.write("pyproject.toml", (several.root / "pyproject.toml").read_text() + 'kernels = ["proj.nowhere"]\n')
    together = run(several, "--no-cache")
    assert together == run(several, "--no-cache", alone=True)
    assert together[0] == 2
    assert "proj.nowhere" in together[2]


@pytest.fixture
def session(several: Workspace) -> Session:
    """A session that keeps nothing."""
    return Session(several.project, Settings(caching=False))


@pytest.fixture
def onlooker(several: Workspace, session: Session) -> ContractOnlooker:
    """Looks at all configs of the project."""
    paths = Selection(several.project).find_configs()
    return ContractOnlooker(session, several.project, ContractCheck(session), set(paths))


def test_nothing_of_a_config_stays_that_was_looked_at(
    several: Workspace, session: Session, onlooker: ContractOnlooker
) -> None:
    selection = Selection(several.project)
    gc.disable()  # as where configs are made
    try:
        made = make_together(selection, selection.find_configs()[:2], session.loader(several.project))
        artifacts = [result.outcome.artifact for of_path in made.values() for result in of_path]
        sources = [weakref.ref(each.source) for each in artifacts if each is not None]
        sources += [weakref.ref(each.plan.source) for each in artifacts if each is not None]
        assert len(sources) == 4
        onlooker.hear(onlooker.look(made))
        del made, artifacts
        assert [source() for source in sources] == [None] * 4
    finally:
        gc.enable()


def test_what_a_session_is_asked_for_later_is_made_again(
    several: Workspace, session: Session, onlooker: ContractOnlooker
) -> None:
    selection = Selection(several.project)
    paths = selection.find_configs()
    session.check(selection, needed=set(paths), onlooker=onlooker)
    assert onlooker.looked_at == set(paths)
    assert all(result.outcome.artifact is not None for result in session.results(paths[0]))
