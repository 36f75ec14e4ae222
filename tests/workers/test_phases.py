"""Where time goes: no second counts twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchgen_core.workers.phases import count, phase, take


@pytest.fixture(autouse=True)
def nothing_counted() -> Iterator[None]:
    take()
    yield
    take()


def test_time_in_a_phase_inside_another_is_not_the_outers() -> None:
    with phase("whole"):
        count({"there": 1000.0, "there / deeper": 500.0})
        with phase("part"):
            count({"there": 100.0})
    with phase("whole"):
        pass
    taken = take()
    assert {name: round(seconds, -1) for name, seconds in taken.items()} == {
        "whole": -1500,
        "whole / there": 1000,
        "whole / there / deeper": 500,
        "whole / part": -100,
        "whole / part / there": 100,
    }
    assert 0 <= sum(taken.values()) < 10
    assert take() == {}


def test_a_phase_that_raises_ends() -> None:
    with pytest.raises(ValueError, match="no"), phase("first"):
        raise ValueError("no")
    with phase("second"):
        pass
    assert set(take()) == {"first", "second"}
