"""The history of a config: its worst status by check in each run, and where its items turned red or green."""

from __future__ import annotations

from service_samples import make_result
from service_team import Team

from patchgen_service.views.branch import ConfigKey
from patchgen_service.views.config import ConfigHistory, read_config

KEY = ConfigKey(".", "models/toy_patch_gen_config.py", "models.toy")


def run(team: Team, sha: str, statuses: dict[str, str], **cause: str) -> str:
    """A run in which the config's items have these statuses, beside another config that is always red."""
    begun = team.begin(sha * 40, **cause)
    team.start(begun)
    other = make_result("models.other", status="drifted")
    team.add(begun, other, *(make_result(item=item, status=status) for item, status in statuses.items()))
    team.end(begun)
    return begun.id


def read(team: Team, branch: str = "main", key: ConfigKey = KEY) -> ConfigHistory | None:
    with team.transactions() as session:
        return read_config(session, 1, branch, key)


def test_each_turn_of_an_item_is_told_once(team: Team) -> None:
    a = run(team, "a", {"drift": "clean", "parity[eager]": "failed"})
    b = run(team, "b", {"drift": "drifted", "parity[eager]": "skipped", "parity[slow]": "clean"})
    run(team, "c", {"drift": "error"}, branch="other")
    run(team, "c", {"drift": "clean"}, transformers="9.9.9", kind="release")
    c = run(team, "c", {"drift": "failed", "parity[eager]": "failed", "parity[slow]": "clean"})
    d = run(team, "d", {"drift": "clean", "parity[eager]": "clean"})
    history = read(team)
    assert history is not None
    assert [(turn.run.id, turn.item, turn.is_bad) for turn in history.turns] == [
        (d, "parity[eager]", False),
        (d, "drift", False),
        (b, "drift", True),
        (a, "parity[eager]", True),
    ]
    assert history.checks == ("drift", "parity")
    assert [(own.id, dict(own.statuses)) for own in history.runs] == [
        (a, {"drift": "clean", "parity": "failed"}),
        (b, {"drift": "drifted", "parity": "skipped"}),
        (c, {"drift": "failed", "parity": "failed"}),
        (d, {"drift": "clean", "parity": "clean"}),
    ]


def test_a_config_that_no_run_of_the_branch_has_has_no_history(team: Team) -> None:
    run(team, "a", {"drift": "clean"})
    assert read(team, "other") is None
    assert read(team, key=ConfigKey("elsewhere", KEY.path, KEY.config)) is None
