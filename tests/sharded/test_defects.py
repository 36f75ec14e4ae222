"""Mistakes in code for several ranks make the item red, and it tells where they lie."""

from __future__ import annotations

import pytest

from tests.sharded.defects import EXPERTS, MOE_SEQUENCES, OWN_EXCHANGES, PARAMETERS, SEQUENCES, Defect
from tests.sharded.sharded_runs import compare, problem_of

pytestmark = [pytest.mark.torch, pytest.mark.slow]
DEFECTS = SEQUENCES | EXPERTS | PARAMETERS


@pytest.mark.parametrize("defect", DEFECTS.values(), ids=DEFECTS)
def test_a_defect_is_red_and_its_place_is_told(defect: Defect) -> None:
    problem = problem_of(compare(defect.model, defect.mesh, *defect.changes, time_limit=defect.time_limit))
    assert [part for part in defect.told if part not in problem] == [], problem


def test_exchanges_of_ones_own_are_green() -> None:
    defect = OWN_EXCHANGES
    assert compare(defect.model, defect.mesh, *defect.changes).status == "clean"


def test_experts_and_sequences_are_split_over_the_same_ranks() -> None:
    """Without the loss that balances experts, which is one of all tokens of a batch."""
    assert compare("qwen3_moe", "ep2xsp2", *MOE_SEQUENCES, router_aux_loss_coef=0.0).status == "clean"
