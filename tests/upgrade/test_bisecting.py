"""Finding the release at which something turns."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from patchgen_core.upgrade.matrix.bisecting import Gap, Turn, find_turns

VERSIONS = [f"1.{number}" for number in range(100)]


class Upstream:
    """Knows in which version each thing turns, and keeps what it is asked."""

    def __init__(self, turns: Mapping[str, int], missing: Collection[str] = ()) -> None:
        self.turns, self.missing = turns, missing
        self.rounds: list[set[str]] = []

    @property
    def asked(self) -> int:
        """How many versions were looked at."""
        return sum(map(len, self.rounds))

    def ask(self, wanted: Mapping[str, Collection[str]]) -> dict[str, set[str] | None]:
        """What is as it was in each version."""
        self.rounds.append(set(wanted))
        return {
            version: None
            if version in self.missing
            else {key for key in keys if VERSIONS.index(version) < self.turns[key]}
            for version, keys in wanted.items()
        }


def gaps(upstream: Upstream) -> dict[str, Gap]:
    return {key: Gap("1.0", "1.99") for key in upstream.turns}


def test_every_turn_is_found_with_few_questions() -> None:
    for place in range(1, 100):
        upstream = Upstream({"norm": place})
        assert find_turns(gaps(upstream), VERSIONS, upstream.ask) == {"norm": Turn(f"1.{place - 1}", f"1.{place}")}
        assert upstream.asked <= 7


def test_what_turns_together_shares_the_questions() -> None:
    upstream = Upstream(dict.fromkeys(("norm", "head", "loss"), 40))
    found = find_turns(gaps(upstream), VERSIONS, upstream.ask)
    assert set(found.values()) == {Turn("1.39", "1.40")}
    assert upstream.asked <= 7


def test_what_turns_apart_is_asked_in_the_same_rounds() -> None:
    upstream = Upstream({"norm": 10, "head": 90})
    found = find_turns(gaps(upstream), VERSIONS, upstream.ask)
    assert found == {"norm": Turn("1.9", "1.10"), "head": Turn("1.89", "1.90")}
    assert len(upstream.rounds) <= 7
    assert len(upstream.rounds[0]) == 1
    assert len(upstream.rounds[1]) == 2


def test_neighbours_need_no_question() -> None:
    upstream = Upstream({"norm": 1})
    assert find_turns({"norm": Gap("1.0", "1.1")}, VERSIONS, upstream.ask) == {"norm": Turn("1.0", "1.1")}
    assert upstream.rounds == []


def test_version_that_cannot_be_had_is_passed_over() -> None:
    upstream = Upstream({"norm": 40}, missing=["1.50", "1.51"])
    assert find_turns(gaps(upstream), VERSIONS, upstream.ask) == {"norm": Turn("1.39", "1.40")}


def test_turn_beside_versions_that_cannot_be_had_is_not_exact() -> None:
    upstream = Upstream({"norm": 40}, missing=["1.39", "1.40"])
    assert find_turns(gaps(upstream), VERSIONS, upstream.ask) == {"norm": Turn("1.38", "1.41", is_exact=False)}


def test_nothing_can_be_had() -> None:
    upstream = Upstream({"norm": 40}, missing=VERSIONS)
    assert find_turns(gaps(upstream), VERSIONS, upstream.ask) == {"norm": Turn("1.0", "1.99", is_exact=False)}
