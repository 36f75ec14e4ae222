"""Mistakes in code for several ranks make the item red, and it tells where they lie."""

from __future__ import annotations

import pytest

from tests.sharded.defects import OWN_EXCHANGES, PARAMETERS, SEQUENCES, Defect
from tests.sharded.defects_of_attention import AT_ONCE, ATTENTION, OWN_ATTENTION
from tests.sharded.defects_of_experts import BALANCE, EXPERTS
from tests.sharded.defects_of_towers import TOWERS
from tests.sharded.sharded_runs import SOUNDS, VIDEO, compare, places_of, problem_of

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("zoo_on_path")]
DEFECTS = SEQUENCES | EXPERTS | BALANCE | PARAMETERS | TOWERS | ATTENTION
RIGHT = {"sequences": OWN_EXCHANGES} | OWN_ATTENTION


def check_that_it_is_told(defect: Defect) -> None:
    options = {"time_limit": defect.time_limit, "batches": defect.batches}
    problem = problem_of(compare(defect.model, defect.mesh, *defect.changes, **options))
    names = [defect.patch] if defect.patch else []
    assert [part for part in (*defect.told, *names) if part not in problem] == [], problem
    if defect.patch:
        assert any(str(place) in problem for place in places_of(defect.model, defect.patch)), problem


@pytest.mark.parametrize("defect", AT_ONCE.values(), ids=AT_ONCE)
@pytest.mark.slow
def test_a_defect_of_each_kind_of_attention_is_red_at_once(defect: Defect) -> None:
    check_that_it_is_told(defect)


@pytest.mark.slow
@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS)
def test_a_defect_is_red_and_its_place_is_told(defect: Defect) -> None:
    check_that_it_is_told(defect)


@pytest.mark.slow
@pytest.mark.parametrize("right", RIGHT.values(), ids=RIGHT)
def test_exchanges_of_ones_own_are_green(right: Defect) -> None:
    assert compare(right.model, right.mesh, *right.changes).status == "clean"


@pytest.mark.slow
@pytest.mark.parametrize(("model", "batch"), [("qwen2_5_omni", SOUNDS), ("qwen3_omni_moe", VIDEO)])
def test_ranks_share_what_is_heard_and_seen(model: str, batch: str) -> None:
    result = compare(model, "fsdp2xsp2", batches=(batch,))
    assert (result.status, result.errors) == ("clean", ())
