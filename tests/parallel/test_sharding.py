from __future__ import annotations

import copy
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor, Replicate, Shard

from patchgen_core.errors import PatchgenError
from patchgen_core.parallel_plan import ParallelPlan
from patchgen_core.runtime.parallel import (
    add_parallel_state_hook,
    add_unused,
    clip_gradients,
    get_parallel_state,
    init_parallel_state,
    parallelize,
    reduce_loss,
    sequence_parallel_attention,
    slice_batch,
    slice_position_embeddings,
    use_parallel_state,
    whole_sequence_like,
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
    """What a patched model does: attention, masks and position embeddings of transformers, for slices."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import create_causal_mask
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    def attend(*args: Any, **kwargs: Any) -> Any:
        return sequence_parallel_attention(sdpa_attention_forward)(*args, **kwargs)

    def make_mask(*args: Any, inputs_embeds: Tensor, **kwargs: Any) -> Any:
        return create_causal_mask(*args, inputs_embeds=whole_sequence_like(inputs_embeds), **kwargs)

    modeling = sys.modules[type(model).__module__]
    modeling.create_causal_mask = make_mask  # type: ignore[attr-defined]
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
    labels = sliced.get("shift_labels", batch["labels"][:, 1:])
    return reduce_loss(model(**sliced, use_cache=False).loss, labels, group=state.fsdp_group)


def full(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def compare_training(
    kind: str,
    sizes: dict[str, int],
    plan: ParallelPlan | None = None,
    implementation: str = "eager",
    recomputes: bool = False,
) -> None:
    reference = make_model(kind, implementation)
    model: Any = copy.deepcopy(reference)
    if recomputes:
        model.train().gradient_checkpointing_enable()
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
        norms = [torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.5), clip_gradients(model.parameters(), 0.5)]
        torch.testing.assert_close(norms[1], norms[0])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for (name, one), other in zip(reference.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(full(other), one, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize(
    "sizes", [{"dp_size": 2}, {"sp_size": 2}, {"dp_size": 2, "sp_size": 2}, {"sp_size": 4}], ids=str
)
@pytest.mark.mostly_slow(2)
def test_a_dense_model_trains_as_on_one_process(ranks, sizes):
    count = sizes.get("dp_size", 1) * sizes.get("sp_size", 1)
    ranks(count, compare_training, "llama", sizes)


def packed() -> None:
    reference = make_model("llama")
    model = copy.deepcopy(reference)
    ids = torch.randint(1, 32, (1, 7))
    batch = {"input_ids": ids, "labels": ids, "position_ids": torch.tensor([[0, 1, 2, 3, 0, 1, 2]])}
    expected = reference(**batch, use_cache=False).loss
    apart = reference(input_ids=ids[:, 4:], use_cache=False).logits
    state = init_parallel_state(sp_size=2)
    split_sequences(model)
    parallelize(model, state)
    sliced = slice_batch(batch)
    output = model(**sliced, use_cache=False)
    if state.sp_rank == 1:
        torch.testing.assert_close(output.logits[:, :3], apart)
    loss = reduce_loss(output.loss, sliced["shift_labels"])
    torch.testing.assert_close(loss, expected)
    expected.backward()
    loss.backward()
    for one, other in zip(reference.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(full(other.grad), one.grad)


def test_packed_sequences_of_a_length_that_does_not_divide_train_as_on_one_process(ranks):
    ranks(2, packed)


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(2, {"ep_size": 2}), (2, {"sp_size": 2, "ep_size": 2}), (4, {"ep_size": 2}), (4, {"sp_size": 2, "ep_size": 4})],
    ids=str,
)
@pytest.mark.mostly_slow(2)
def test_a_mixture_trains_as_on_one_process(ranks, count, sizes):
    ranks(count, compare_training, "qwen3_moe", sizes, PLAN)


@pytest.mark.slow
def test_experts_with_biases_and_no_room_for_other_ranks_experts_train_as_on_one_process(ranks):
    ranks(2, compare_training, "gpt_oss", {"ep_size": 2}, GPT_OSS_PLAN)


def test_activations_may_be_computed_again_in_the_backward(ranks):
    ranks(2, compare_training, "qwen3_moe", {"sp_size": 2, "ep_size": 2}, PLAN, "eager", True)


def test_grouped_experts_work_on_a_ranks_own_weights(ranks):
    ranks(2, compare_training, "qwen3_moe", {"ep_size": 2}, PLAN, "grouped_mm")


# --- experts without tokens, towers without pictures ---------------------------------------------------


class Experts(nn.Module):
    """Experts as transformers has them."""

    def __init__(self) -> None:
        super().__init__()
        self.num_experts = 4
        self.gate_up_proj = nn.Parameter(torch.randn(4, 6, 5))
        self.down_proj = nn.Parameter(torch.randn(4, 5, 3))

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        from patchgen_core.ops.kernels.moe import eager_experts

        weights = self.gate_up_proj, self.down_proj
        assert type(weights[0]) is not DTensor
        return eager_experts(hidden_states, top_k_index, top_k_weights, *weights, torch.nn.functional.silu)


class Router(nn.Module):
    """Sends every token to the same experts."""

    def __init__(self, chosen: list[int]) -> None:
        super().__init__()
        self.chosen, self.experts = chosen, Experts()

    def forward(self, hidden_states: Tensor) -> Tensor:
        index = torch.tensor(self.chosen).expand(hidden_states.shape[0], -1)
        return self.experts(hidden_states, index, torch.tensor([0.3, 0.7]).expand(hidden_states.shape[0], -1))


def uneven_experts(chosen: list[int], ep_size: int) -> None:
    reference = Router(chosen)
    model = copy.deepcopy(reference)
    state = init_parallel_state(ep_size=ep_size)
    parallelize(model, state, ParallelPlan({"ep": {"experts.*": Shard(0)}}))
    rows = torch.randn(3 * state.world_size, 5)
    expected = reference(rows)
    expected.square().sum().backward()
    output = model(rows[3 * state.dp_rank : 3 * state.dp_rank + 3])
    torch.testing.assert_close(output, expected[3 * state.dp_rank : 3 * state.dp_rank + 3])
    (output.square().sum() * state.world_size).backward()
    for one, other in zip(reference.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(full(other.grad), one.grad)
    assert model.experts.num_experts == 4
    assert isinstance(model.experts.down_proj, DTensor)


@pytest.mark.parametrize(("count", "chosen", "ep_size"), [(2, [0, 1], 2), (2, [3, 0], 2), (4, [2, 3], 2)])
def test_a_rank_whose_experts_get_no_token_takes_part(ranks, count, chosen, ep_size):
    ranks(count, uneven_experts, chosen, ep_size)


class Pictures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
        self.text = nn.Linear(4, 4)

    def forward(self, text: Tensor, picture: Tensor | None) -> Tensor:
        if picture is not None:
            text = text + self.tower(picture)
        elif get_parallel_state().fsdp_enabled:
            text = add_unused(text, {"features": self.tower(torch.zeros(1, 4))})
        return self.text(text)


def one_picture() -> None:
    reference = Pictures()
    model = copy.deepcopy(reference)
    texts, picture = torch.randn(2, 3, 4), torch.randn(3, 4)
    (reference(texts[0], picture).sum() + reference(texts[1], None).sum()).backward()
    state = init_parallel_state()
    parallelize(model, state, blocks=["Linear"])
    (model(texts[state.dp_rank], picture if state.dp_rank == 0 else None).sum() * 2).backward()
    for one, other in zip(reference.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(full(other.grad), one.grad)


def test_a_rank_without_pictures_runs_the_tower_to_no_effect(ranks):
    ranks(2, one_picture)


# --- precision and errors ------------------------------------------------------------------------------


def mixed() -> None:
    model = make_model("llama").float()
    state = init_parallel_state()
    parallelize(model, state, mixed_precision=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    logits = model(batches(2)[state.dp_rank]["input_ids"]).logits
    assert logits.dtype == torch.bfloat16
    logits.sum().backward()
    assert {parameter.grad.dtype for parameter in model.parameters()} == {torch.float32}
    assert {parameter.placements for parameter in model.parameters()} == {(Shard(0),)}


def test_a_model_computes_in_another_dtype_than_its_parameters(ranks):
    ranks(2, mixed)


def refused() -> None:
    state = init_parallel_state(ep_size=2)
    model = make_model("qwen3_moe")
    with pytest.raises(PatchgenError, match="Qwen3MoeForCausalLM has no get_parallel_plan"):
        parallelize(model, state)
    with pytest.raises(PatchgenError, match=r"Shard\(dim=1\): experts are split by Shard\(0\)"):
        parallelize(model, state, ParallelPlan({"ep": {f"{EXPERTS}*": Shard(1)}}))
    with pytest.raises(PatchgenError, match="splits nothing over 'ep'"):
        parallelize(model, state, ParallelPlan({"ep": {f"{EXPERTS}*": Replicate()}}))
    with pytest.raises(PatchgenError, match="no module of the class 'Qwen3MoeDecoderLayers'") as error:
        parallelize(model, state, PLAN, blocks=["Qwen3MoeDecoderLayers"])
    assert "Did you mean 'Qwen3MoeDecoderLayer'?" in str(error.value)
    assert not any(isinstance(parameter, DTensor) for parameter in model.parameters())


def test_what_cannot_be_split_is_refused_and_left_whole(ranks):
    ranks(2, refused)


def hooked() -> None:
    states = []
    remove = add_parallel_state_hook(states.append)
    try:
        state = init_parallel_state(sp_size=2)
        assert states == [state]
        with use_parallel_state(None):
            assert not states[-1].sp_enabled
        assert states[-1] is state
    finally:
        remove()
    init_parallel_state()
    assert states[-1] is state


def test_a_projects_own_parallel_state_follows(ranks):
    ranks(2, hooked)
