"""A difference that is little more than allowed says how probable it is that it is noise."""

from __future__ import annotations

import math
import re

import pytest

from patchgen_core.checks.parity.draws import describe_draws, estimate_chance
from patchgen_core.config.declarations import Tolerance
from patchgen_core.errors import Location
from tests.checks.parity_runs import LLAMA, compare, edited
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

SCALED = {
    "return down_proj": "return down_proj * (1 + 4e-6)",
}


@pytest.mark.parametrize(
    ("t", "probability"), [(0.0, 0.5), (1.638, 0.10), (2.353, 0.05), (4.541, 0.01), (10.215, 1e-3)]
)
def test_chances_are_those_of_students_distribution(t: float, probability: float) -> None:
    deviation = 0.3
    mean = t * deviation / math.sqrt(3)
    excesses = [math.exp(mean + sign * deviation) for sign in (1, -1, 1, -1)]
    assert estimate_chance(excesses) == pytest.approx(probability, rel=1e-3)


def test_a_steady_excess_is_no_noise_and_a_wavering_one_may_be() -> None:
    assert describe_draws(2.0, [2.1, 1.9, 2.0]).endswith("the probability that this is noise is under 0.0001.")
    assert describe_draws(1.1, [1.2, 0.7, 1.3]).endswith("the probability that this is noise is 0.4.")
    assert describe_draws(1.1, [1.2]) == "It is 1.1 x what is allowed, and 1.2 x with other random parameters."
    assert describe_draws(1.1, []) == ""


@pytest.mark.slow
def test_a_near_miss_that_stays_with_other_parameters_is_red_and_says_so(work: Workspace) -> None:
    text = edited("LlamaMLP.forward", SCALED, LLAMA)
    wide = compare(work, text, tolerances=(Tolerance(1e4, "", None, None, Location("")),), level="quick")
    largest = 1e4 * max(value for name, value in wide.figures.items() if name.endswith("what is allowed"))
    near = Tolerance(largest / 4, "", None, None, Location(""))
    problem = compare(work, text, tolerances=(near,), level="quick").errors[0]
    told = re.search(
        r"It is [0-9.]+ x what is allowed, and .* with other random parameters: .* noise is (.*)\.", problem.hint
    )
    assert told, problem.hint
    assert told[1] == "under 0.0001" or float(told[1]) < 0.05
