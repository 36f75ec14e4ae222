"""A model whose attention was not written for slices of sequences is refused, whoever's run time it uses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from patchgen_core.errors import PatchgenError
from patchgen_core.runtime.parallel import init_parallel_state, parallelize
from patchgen_core.runtime.parallel.unsplit_attention import check_attention

pytestmark = pytest.mark.torch


class Exchange(torch.autograd.Function):
    """What a project's own run time does, in a few lines."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x)
        return out


class Dispatcher:
    def __call__(self, x: Tensor) -> Tensor:
        return Exchange.apply(x)


def exchange(x: Tensor) -> Tensor:
    return Exchange.apply(x)


def measure(x: Tensor) -> Tensor:
    return x * dist.get_world_size()


TABLE = {"fused": exchange, "eager": measure}
PARTIAL = functools.partial(measure)
DISPATCHER = Dispatcher()


def calls_another(x: Tensor) -> Tensor:
    return exchange(x)


def calls_an_object(x: Tensor) -> Tensor:
    return DISPATCHER(x)


def looks_in_a_table(x: Tensor) -> Tensor:
    return TABLE["fused"](x)


def imports_late(x: Tensor) -> Tensor:
    from patchgen_core.runtime.parallel import gather_seq_scatter_heads

    return gather_seq_scatter_heads(x, 1, 2)


def wraps(x: Tensor) -> Tensor:
    @functools.wraps(exchange)
    def inner(x: Tensor) -> Tensor:
        return functools.partial(exchange, x)()

    return inner(x)


def asks_for_the_world(x: Tensor) -> Tensor:
    return PARTIAL(x)


def does_nothing(x: Tensor) -> Tensor:
    return x


def make_model(attend: Callable[[Tensor], Tensor], implementation: str = "fused", tower: bool = False) -> nn.Module:
    class AcmeAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer_idx = 0
            self.config = SimpleNamespace(_attn_implementation=implementation)

        def forward(self, x: Tensor) -> Tensor:
            return attend(x)

    class AcmeVisionAttention(nn.Module):
        pass

    class AcmeModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Sequential(AcmeAttention(), nn.Linear(2, 2)) for _ in range(2)])
            self.visual = nn.Sequential(AcmeVisionAttention()) if tower else None

    return AcmeModel()


@pytest.mark.parametrize("attend", [calls_another, calls_an_object, looks_in_a_table, imports_late, wraps])
def test_exchanges_of_a_projects_own_run_time_are_seen(attend):
    check_attention(make_model(attend, tower=True))


@pytest.mark.parametrize(
    ("attend", "implementation"), [(asks_for_the_world, ""), (looks_in_a_table, "eager"), (does_nothing, "eager")]
)
def test_attention_that_exchanges_nothing_is_refused_by_the_name_of_its_class(attend, implementation):
    message = r"AcmeModel cannot split sequences: AcmeAttention \('layers.0.0'\) exchanges nothing between ranks"
    with pytest.raises(PatchgenError, match=message) as error:
        check_attention(make_model(attend, implementation))
    assert "Patch AcmeAttention with sequence_parallel_attention as docs/parallel.md describes" in str(error.value)


def test_an_attention_function_that_a_project_registers_is_followed_where_it_is_chosen(monkeypatch):
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "acme", exchange)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "vocab_size": 8}
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=2))
    model.config._attn_implementation = "acme"
    check_attention(model)
    model.config._attn_implementation = "eager"
    with pytest.raises(PatchgenError, match=r"LlamaAttention \('model.layers.0.self_attn'\)"):
        check_attention(model)


def refused() -> None:
    state = init_parallel_state(sp_size=2)
    with pytest.raises(PatchgenError, match="AcmeModel cannot split sequences"):
        parallelize(make_model(does_nothing), state)
    parallelize(make_model(does_nothing), state, splits_sequences=True)
    parallelize(make_model(does_nothing), init_parallel_state())


def test_a_model_is_refused_where_sequences_are_split_unless_its_owner_knows_better(ranks):
    ranks(2, refused)
