from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard

from patchgen_core.parallel_plan import ParallelPlan
from patchgen_core.runtime.parallel import (
    get_parallel_state,
    init_parallel_state,
    parallelize,
    reduce_loss,
    sequence_parallel_attention,
    slice_batch,
    slice_position_embeddings,
    use_parallel_state,
)

LENGTH = 8
EXPERTS = "model.layers.*.mlp.experts."
PLAN = ParallelPlan({"ep": {f"{EXPERTS}gate_up_proj": Shard(0), f"{EXPERTS}down_proj": Shard(0)}})
GPT_OSS_PLAN = ParallelPlan(
    {
        "ep": {
            f"{EXPERTS}{name}": Shard(0)
            for name in ("gate_up_proj", "down_proj", "gate_up_proj_bias", "down_proj_bias")
        }
    }
)


def make_model(kind: str, implementation: str = "eager") -> nn.Module:
    """A small model of transformers with the same weights on every rank, in float64 where its experts can."""
    import transformers

    sizes: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "vocab_size": 32,
        "attn_implementation": "sdpa",
        "pad_token_id": 0,
        "experts_implementation": implementation,
    }
    experts = {"moe_intermediate_size": 12, "num_experts": 4, "num_experts_per_tok": 2}
    torch.manual_seed(0)
    if kind == "qwen3_moe":
        model = transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**sizes, **experts))
    elif kind == "gpt_oss":
        config = transformers.GptOssConfig(**sizes | {"attn_implementation": "eager"}, num_local_experts=4)
        config.num_experts_per_tok = 2
        model = transformers.GptOssForCausalLM(config)
    else:
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.config.use_cache = False
    return model.double() if implementation == "eager" else model


def split_sequences(model: Any) -> None:
    """What a patched model does: attention and position embeddings of transformers, for slices."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    def attend(*args: Any, **kwargs: Any) -> Any:
        return sequence_parallel_attention(sdpa_attention_forward)(*args, **kwargs)

    ALL_ATTENTION_FUNCTIONS.register("sdpa", attend)
    model.model.rotary_emb.register_forward_hook(lambda module, args, output: slice_position_embeddings(output))


def batches(count: int) -> list[dict[str, Tensor]]:
    """Batches of one sequence each, with labels in unlike numbers."""
    torch.manual_seed(1)
    result = []
    for number in range(count):
        ids = torch.randint(1, 32, (1, LENGTH))
        labels = ids.clone()
        labels[:, : number + 2] = -100
        result.append({"input_ids": ids, "labels": labels})
    return result


def whole_loss(model: Any, every: list[dict[str, Tensor]]) -> Tensor:
    """The mean over all labels of all batches, on one process."""
    with use_parallel_state(None):
        return _whole_loss(model, every)


def _whole_loss(model: Any, every: list[dict[str, Tensor]]) -> Tensor:
    ids = torch.cat([batch["input_ids"] for batch in every])
    labels = torch.cat([batch["labels"] for batch in every])
    return model(input_ids=ids, labels=labels, use_cache=False).loss


def own_loss(model: Any, batch: dict[str, Tensor]) -> Tensor:
    """The same of a rank's slice of its batch, over the labels of all ranks."""
    state = get_parallel_state()
    sliced = slice_batch(batch)
    labels = sliced.get("shift_labels")
    if labels is None:
        labels = torch.nn.functional.pad(batch["labels"], (0, 1), value=-100)[:, 1:]
    return reduce_loss(model(**sliced, use_cache=False).loss, labels, group=state.fsdp_group)


def full(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def compare_training(
    kind: str, sizes: dict[str, int], plan: ParallelPlan | None = None, implementation: str = "eager"
) -> None:
    reference = make_model(kind, implementation)
    model = copy.deepcopy(reference)
    state = init_parallel_state(**sizes)
    if state.sp_enabled:
        split_sequences(model)
    parallelize(model, state, plan)
    every = batches(state.dp_size)
    optimizers = [torch.optim.AdamW(one.parameters(), lr=1e-2) for one in (reference, model)]
    for _ in range(2):
        expected, loss = whole_loss(reference, every), own_loss(model, every[state.dp_rank])
        torch.testing.assert_close(loss, expected)
        expected.backward()
        loss.backward()
        for (name, one), other in zip(reference.named_parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(full(other.grad), one.grad, msg=lambda text, name=name: f"{name}: {text}")
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for (name, one), other in zip(reference.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(full(other), one, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize(
    "sizes", [{"dp_size": 2}, {"sp_size": 2}, {"dp_size": 2, "sp_size": 2}, {"sp_size": 4}], ids=str
)
def test_a_dense_model_trains_as_on_one_process(ranks, sizes):
    count = sizes.get("dp_size", 1) * sizes.get("sp_size", 1)
    ranks(count, compare_training, "llama", sizes)


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(2, {"ep_size": 2}), (2, {"sp_size": 2, "ep_size": 2}), (4, {"ep_size": 2}), (4, {"sp_size": 2, "ep_size": 4})],
    ids=str,
)
def test_a_mixture_trains_as_on_one_process(ranks, count, sizes):
    ranks(count, compare_training, "qwen3_moe", sizes, PLAN)


def test_experts_with_biases_and_no_room_for_other_ranks_experts_train_as_on_one_process(ranks):
    ranks(2, compare_training, "gpt_oss", {"ep_size": 2}, GPT_OSS_PLAN)


def test_grouped_experts_work_on_a_ranks_own_weights(ranks):
    ranks(2, compare_training, "qwen3_moe", {"ep_size": 2}, PLAN, "grouped_mm")
