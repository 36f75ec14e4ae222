"""One model and one batch: what is kept of a run, and what a rank of a process group gives."""

from __future__ import annotations

import torch
from torch import distributed
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, LlamaModel

from patchgen_core.models.batches import ToyBatch, ToyModel
from patchgen_core.models.model_run import Run, run_model
from patchgen_core.models.run_comparison import compare_runs
from patchgen_core.models.toy_batches import make_batches
from patchgen_core.models.toy_config import toy_config_for

IDS = torch.tensor([[5, 9, 11, 30]])


def seeing():
    return AutoModelForImageTextToText.from_config(toy_config_for("qwen2_vl")).train()


def test_text_alone_is_run_on_a_rank_where_a_model_takes_more():
    batches = {batch.name: batch for batch in make_batches(ToyModel(seeing(), "conditional_generation")).batches}
    assert batches["rank"].as_rank
    assert "pixel_values" not in batches["rank"].inputs
    assert not any(batch.as_rank for name, batch in batches.items() if name != "rank")
    talking = AutoModelForCausalLM.from_config(toy_config_for("llama"))
    assert "rank" not in [batch.name for batch in make_batches(ToyModel(talking, "causal_lm")).batches]


def test_a_rank_has_a_process_group_while_it_runs():
    model, seen = seeing(), []
    model.register_forward_pre_hook(lambda *_: seen.append(distributed.is_initialized()))
    for as_rank in (True, False):
        run_model(model, ToyBatch("one", {"input_ids": IDS, "labels": IDS}, as_rank=as_rank))
        assert not distributed.is_initialized()
    assert seen == [True, False]


def test_a_gradient_of_zeros_is_none_on_a_rank_alone():
    """A tower without pictures takes part in what ranks exchange; elsewhere an optimizer would decay it."""
    model = seeing()
    weight = model.model.visual.patch_embed.proj.weight
    model.model.language_model.register_forward_pre_hook(
        lambda _, args, kwargs: (args, kwargs | {"inputs_embeds": kwargs["inputs_embeds"] + 0.0 * weight.sum()}),
        with_kwargs=True,
    )
    name = "gradient of model.visual.patch_embed.proj.weight"
    runs = [
        run_model(model, ToyBatch("one", {"input_ids": IDS, "labels": IDS}, as_rank=rank)) for rank in (True, False)
    ]
    assert runs[0].values[name] is None
    assert torch.equal(runs[1].values[name], torch.zeros_like(weight))
    assert runs[0].values["gradient of lm_head.weight"].any()


def test_the_objective_of_a_model_without_a_loss_is_not_compared():
    """Its terms all but cancel, which makes rounding a large part of it; what it is made of is compared."""
    run = run_model(LlamaModel(toy_config_for("llama")).train(), ToyBatch("one", {"input_ids": IDS}))
    assert "loss" not in run.values
    assert run.loss != 0
    assert "last_hidden_state" in run.values


def test_logits_that_a_loss_leaves_out_are_made_on_their_own_or_left_out():
    model = AutoModelForCausalLM.from_config(toy_config_for("llama")).train()
    eager = run_model(model, ToyBatch("one", {"input_ids": IDS, "labels": IDS}))

    def fused(_, __, kwargs, output):
        return type(output)(loss=output.loss) if "labels" in kwargs else output

    model.register_forward_hook(fused, with_kwargs=True)
    batch = ToyBatch("one", {"input_ids": IDS, "labels": IDS})
    assert torch.equal(run_model(model, batch).values["logits"], eager.values["logits"])
    short = run_model(model, batch, logits_alone=False)
    assert "logits" not in short.values
    assert "logits" not in [difference.name for difference in compare_runs(short, eager, None, 0.0)]
    assert [d.name for d in compare_runs(Run(), eager, None, 0.0) if not d.is_right][:2] == ["loss", "logits"]
