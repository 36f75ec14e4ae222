"""A generated model of the zoo with bindings of its own: training, files, and what transformers does with it."""

from __future__ import annotations

import copy
import importlib
import json
import pickle

import pytest
import torch

from patchgen_core.errors import PatchgenError
from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec, OpSlot, bind_ops
from tests.ops.modules import no_warnings

pytestmark = pytest.mark.usefixtures("slot_kernels")


@pytest.fixture
def qwen(zoo_on_path):
    """The zoo's Qwen3-MoE, with kernels that change its numbers; its slots are put back."""
    generated = importlib.import_module("zoo.qwen3_moe.generated.patched_modeling_qwen3_moe_gpu")
    rotary = KERNEL_REGISTRY.resolve("rotary_pos_emb", "eager", "full")
    norm = KERNEL_REGISTRY.resolve("rms_norm", "eager")

    def turned(q, k, cos, sin, unsqueeze_dim=1):
        return rotary(q, k, cos, -2 * sin, unsqueeze_dim)

    KERNEL_REGISTRY.register(KernelSpec("odd", "rms_norm", "standard", lambda: lambda *a: norm(*a) * 1.5))
    KERNEL_REGISTRY.register(KernelSpec("odd", "rotary_pos_emb", "full", lambda: turned))
    yield generated
    for slot in vars(generated).values():
        if type(slot) is OpSlot:
            slot.set(None, None)
            slot.has_kernel = False


def make_qwen(generated, seed=0):
    from transformers.models.qwen3_moe import Qwen3MoeConfig

    config = Qwen3MoeConfig(
        vocab_size=31,
        hidden_size=16,
        intermediate_size=24,
        moe_intermediate_size=12,
        num_hidden_layers=2,
        mlp_only_layers=[1],
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        num_experts=3,
        num_experts_per_tok=2,
        max_position_embeddings=32,
        attn_implementation="eager",
        pad_token_id=0,
        eos_token_id=1,
    )
    torch.manual_seed(seed)
    return generated.Qwen3MoeForCausalLM(config)


def trained(model):
    """Loss, logits and gradients."""
    ids = torch.arange(18).reshape(2, 9) % 31
    model.zero_grad()
    out = model(input_ids=ids, labels=ids, use_cache=False, output_router_logits=True)
    out.loss.backward()
    return [out.loss.detach(), out.logits, *out.router_logits, *(p.grad.clone() for p in model.parameters())]


def same(one, other):
    return len(one) == len(other) and all(map(torch.equal, one, other))


ODD = {
    "rms_norm_implementation": "odd",
    "rotary_pos_emb_implementation": "odd",
    "moe_experts_implementation": "grouped_mm",
}


class TestGenerated:
    @pytest.mark.parametrize("checkpointing", [None, {"use_reentrant": True}, {"use_reentrant": False}])
    @pytest.mark.mostly_slow(1)
    def test_a_bound_model_computes_what_it_would_with_its_module_bound(self, qwen, checkpointing):
        model, follows = make_qwen(qwen), make_qwen(qwen)
        if checkpointing:
            for one in (model, follows):
                one.train()
                with no_warnings():  # that another name of it is coming
                    one.gradient_checkpointing_enable(gradient_checkpointing_kwargs=checkpointing)
        plain = trained(follows)
        assert {binding.implementation for binding in bind_ops(model, ODD)} == {"odd", "grouped_mm", "eager"}
        bound = trained(model)
        assert not same(bound, plain)
        assert same(trained(follows), plain)
        bind_ops(qwen, ODD)
        assert same(trained(follows), bound)
        with pytest.warns(RuntimeWarning, match="shared by Qwen3MoeForCausalLM"):
            bind_ops(qwen, {})
        assert same(trained(follows), plain)
        assert same(trained(model), bound)

    def test_copies_and_files(self, qwen, tmp_path):
        model = make_qwen(qwen)
        plain = trained(copy.deepcopy(model))
        bind_ops(model, ODD)
        again = pickle.loads(pickle.dumps(model))  # transformers' hooks cannot be, once it ran
        bound = trained(model)
        assert not same(bound, plain)
        assert same(trained(again), bound)
        assert same(trained(copy.deepcopy(model)), bound)
        model.save_pretrained(tmp_path)
        assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["Qwen3MoeForCausalLM"]
        for cls in (qwen.Qwen3MoeForCausalLM, type(model)):
            again = cls.from_pretrained(tmp_path, attn_implementation="eager").train()
            assert type(again) is qwen.Qwen3MoeForCausalLM
            assert same(trained(again), plain)
            bind_ops(again, ODD)
            assert same(trained(again), bound)

    def test_what_transformers_captures_and_generates(self, qwen):
        model, follows = make_qwen(qwen).eval(), make_qwen(qwen).eval()
        bind_ops(model, ODD)
        bind_ops(qwen, ODD)
        ids = torch.tensor([[5, 6, 7]])
        asked = {"output_hidden_states": True, "output_attentions": True}
        ours, theirs = model(ids, **asked), follows(ids, **asked)
        assert len(ours.hidden_states) == 3
        assert same(ours.hidden_states, theirs.hidden_states)
        assert same(ours.attentions, theirs.attentions)
        generate = {"max_new_tokens": 4, "do_sample": False}
        assert torch.equal(model.generate(ids, **generate), follows.generate(ids, **generate))

    def test_a_model_that_transformers_makes_of_upstreams_parts_is_refused(self, qwen):
        """``GenericForSequenceClassification`` makes its base model with ``AutoModel``."""
        model = qwen.Qwen3MoeForSequenceClassification(make_qwen(qwen).config)
        assert type(model.model) is not qwen.Qwen3MoeModel
        message = "'model.layers.0.self_attn' of Qwen3MoeForSequenceClassification is upstream's Qwen3MoeAttention"
        with pytest.raises(PatchgenError, match=message) as error:
            bind_ops(model, ODD)
        assert "register_with_auto() before the model is built" in str(error.value)
