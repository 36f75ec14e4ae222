"""PG201 and PG202 where ``generate()`` is the caller, or nobody is."""

from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import weights

UPSTREAM = """
from transformers.generation import GenerationMixin
from transformers.modeling_utils import PreTrainedModel

__all__ = ["HeadForCausalLM"]


class HeadForCausalLM(PreTrainedModel, GenerationMixin):
    def forward(self, x, mask=None, cache_position=None, **kwargs):
        return x

    def prepare_inputs_for_generation(self, x, mask=None, cache_position=None, **kwargs):
        return super().prepare_inputs_for_generation(x, mask=mask, cache_position=cache_position, **kwargs)
"""
FORWARD = '\n@config.override_method("HeadForCausalLM.forward")\ndef forward(self, x, mask=None{}):\n    return x\n'
PREPARE = """
@config.override_method("HeadForCausalLM.prepare_inputs_for_generation")
def prepare({}):
    return {}
"""
DROPPED = "'HeadForCausalLM.forward' drops upstream's parameter 'cache_position'"


def weigh(work: Workspace, config: str, upstream: str = UPSTREAM, code: str = "PG201") -> dict[str, str]:
    work.upstream(upstream)
    work.config(config)
    return weights(work, code)


def test_cache_position_that_keywords_swallow_is_a_warning(work: Workspace) -> None:
    """Only ``generate()`` passes it to a model, and a forward with ``**kwargs`` runs without it."""
    message = f"{DROPPED}, which only **kwargs take now"
    assert weigh(work, FORWARD.format(", **kwargs")) == {message: "warning"}
    caller = "\n    def score(self, x):\n        return self.forward(x, cache_position=0)\n"
    assert weigh(work, FORWARD.format(", **kwargs"), UPSTREAM + caller) == {message: "error"}


@pytest.mark.parametrize(
    ("parameters", "inputs", "weight"),
    [
        pytest.param("self, x, mask=None, **more", '{"x": x, "mask": mask}', "warning", id="left out"),
        pytest.param("self, x, cache_position=None, **more", '{"cache_position": 0}', "error", id="in a dict"),
        pytest.param("self, x, cache_position=None, **more", "dict(cache_position=0)", "error", id="by keyword"),
    ],
)
def test_cache_position_that_a_forward_refuses_matters_where_inputs_are_prepared_with_it(
    work: Workspace, parameters: str, inputs: str, weight: str
) -> None:
    assert weigh(work, FORWARD.format(""))[DROPPED] == "error"
    judged = weigh(work, FORWARD.format("") + PREPARE.format(parameters, inputs))
    assert judged[DROPPED] == weight


def test_what_prepares_inputs_gets_all_by_name(work: Workspace) -> None:
    """``generate()`` names what it passes, so ``**kwargs`` take what is dropped or moved; without them it raises."""
    subject = "'HeadForCausalLM.prepare_inputs_for_generation'"
    dropped = f"{subject} drops upstream's parameters 'mask', 'cache_position'"
    swallowed = f"{dropped}, which only **kwargs take now"
    assert weigh(work, PREPARE.format("self, x, **kwargs", "{}")) == {swallowed: "warning"}
    refused = weigh(work, PREPARE.format("self, x", "{}"))
    assert refused[dropped] == "error"
    moved = weigh(work, PREPARE.format("self, x, cache_position=None, mask=None, **kwargs", "{}"))
    assert moved == {f"{subject} has 'cache_position' in a different position from upstream's": "warning"}


CALLERS = """
__all__ = ["Model"]


class Layer:
    def forward(self, x, mask):
        return x


class Model:
    def __init__(self, config):
        self.layer = Layer()

    def forward(self, x):
        return self.layer(x, None)


class Left:
    def __init__(self, config):
        self.layer = Layer()

    def forward(self, x):
        return self.layer(x, None)
"""
LAYER = '\n@config.override_method("Layer.forward")\ndef forward(self, x):\n    return x\n'
MISFIT = "'{}.forward' calls 'Layer.forward' and passes 2 arguments by position where 1 fit: it takes (x)"


def test_a_call_in_a_class_that_nothing_uses_is_a_warning(work: Workspace) -> None:
    """It would raise, but nothing in the module makes such a model, and ``__all__`` does not offer it."""
    model, left = MISFIT.format("Model"), MISFIT.format("Left")
    assert weigh(work, LAYER, CALLERS, "PG202") == {model: "error", left: "warning"}
    exported = CALLERS.replace('["Model"]', '["Model", "Left"]')
    assert weigh(work, LAYER, exported, "PG202") == {model: "error", left: "error"}
