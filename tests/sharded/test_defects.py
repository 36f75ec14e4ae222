"""Mistakes in code for several ranks make the item red, and it tells where they lie."""

from __future__ import annotations

import pytest

from tests.sharded.defects import BALANCE, EXPERTS, OWN_EXCHANGES, PARAMETERS, SEQUENCES, Defect
from tests.sharded.defects_of_towers import TOWERS
from tests.sharded.sharded_runs import compare, place_of, problem_of

pytestmark = [pytest.mark.torch, pytest.mark.slow]
DEFECTS = SEQUENCES | EXPERTS | BALANCE | PARAMETERS | TOWERS


@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS)
def test_a_defect_is_red_and_its_place_is_told(defect: Defect) -> None:
    options = {"time_limit": defect.time_limit, "batches": defect.batches}
    problem = problem_of(compare(defect.model, defect.mesh, *defect.changes, **options))
    places = [f"{place_of(defect.model, defect.patch)}", defect.patch] if defect.patch else []
    assert [part for part in (*defect.told, *places) if part not in problem] == [], problem


def test_exchanges_of_ones_own_are_green() -> None:
    defect = OWN_EXCHANGES
    assert compare(defect.model, defect.mesh, *defect.changes).status == "clean"
