"""Toy batches: what upstream's models are run on, and how a project gives its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers

from patchgen_core.models.batch_validation import why_unseen
from patchgen_core.models.batches import ToyModel, WantedBatches
from patchgen_core.models.batches_text import random_ids
from patchgen_core.models.toy_batches import make_batches, make_further_batches
from patchgen_core.models.toy_config import toy_config_for
from patchgen_core.models.toy_models import build_model, forget_positions
from patchgen_core.models.toy_sizes import FIRST_ORDINARY_TOKEN
from tests.models.toys import NAMES, PICTURES, TEXT, batches_of, toy_of

BY_FAMILY = {
    "Emu3ForConditionalGeneration": ["pictures"],
    "Gemma4UnifiedForConditionalGeneration": ["pictures", "video", "sounds"],
    "Granite4VisionForConditionalGeneration": ["pictures"],
    "GraniteDoclingForConditionalGeneration": ["pictures"],
    "GraniteSpeechForConditionalGeneration": ["sounds"],
    "Kimi_K25ForConditionalGeneration": ["pictures"],
    "MiniCPMV4_6ForConditionalGeneration": ["pictures", "video"],
    "MllamaForConditionalGeneration": ["pictures"],
    "Molmo2ForConditionalGeneration": ["pictures", "video"],
    "Qwen3ASRForConditionalGeneration": ["sounds"],
    "VoxtralForConditionalGeneration": ["sounds"],
}
"""Families whose sizes or inputs follow rules of their own."""
IDLE = re.compile(r"vqmodel|vision_tower\.post_layernorm|connector\.fine")
"""Parameters that upstream does not train: what makes codes, the end of a tower that is tapped before it, and a finer
route that no toy batch takes."""
MEDIA = [
    *((model_type, "pictures", "pixel_values") for model_type in PICTURES),
    ("qwen2_5_vl", "video", "pixel_values"),
    ("qwen2_5_vl", "video", "pixel_values_videos"),
    ("qwen3_vl_moe", "video", "pixel_values_videos"),
    ("qwen3_omni_moe_thinker", "video", "pixel_values_videos"),
    ("qwen3_omni_moe_thinker", "sounds", "input_features"),
]
PACKED = ["llama", "llama4_text", "gemma3_text", "qwen3_moe", "qwen2_5_vl", "qwen3_vl_moe"]


def batch_of(model_type: str, name: str) -> dict[str, Any]:
    return next(dict(batch.inputs) for batch in batches_of(model_type).batches if batch.name == name)


def run(toy: ToyModel, inputs: dict[str, Any]) -> Any:
    forget_positions(toy.model)
    with torch.no_grad():
        return toy.model(**inputs)


@pytest.mark.parametrize("model_type", TEXT)
@pytest.mark.mostly_slow(3)
def test_text_models_run_padded_rows_first_and_whole_ones(model_type: str) -> None:
    names = [batch.name for batch in batches_of(model_type).batches]
    assert names[:2] == ["padded", "rows"]
    config = toy_of(model_type).config
    rows, length = batch_of(model_type, "rows")["input_ids"].shape
    assert rows * length <= 26
    for name in ("sliding_window", "attention_chunk_size", "mamba_chunk_size"):
        assert length > (getattr(config, name, None) or 0)


@pytest.mark.parametrize("model_type", PICTURES)
@pytest.mark.mostly_slow(3)
def test_pictures_come_first_and_text_alone_after_them(model_type: str) -> None:
    names = [batch.name for batch in batches_of(model_type).batches]
    assert names[0] == "pictures"
    assert {"rows", "padded"} <= set(names)
    assert "pixel_values" not in batch_of(model_type, "rows")


@pytest.mark.parametrize("model_type", [*TEXT, *PICTURES])
@pytest.mark.mostly_slow(5)
def test_every_batch_trains_without_a_cache(model_type: str) -> None:
    toy = toy_of(model_type)
    for batch in batches_of(model_type).batches:
        forget_positions(toy.model)
        output = toy.model(**batch.to(torch.float32, "cpu"))
        loss = output.logits.mean() if output.loss is None else output.loss
        loss.backward()
        assert torch.isfinite(loss)
        assert output.past_key_values is None
    toy.model.zero_grad(set_to_none=True)


@pytest.mark.parametrize(("class_name", "media"), BY_FAMILY.items())
@pytest.mark.mostly_slow(2)
def test_a_family_with_rules_of_its_own_runs_on_its_media(class_name: str, media: list[str]) -> None:
    model_type = getattr(transformers, class_name).config_class.model_type
    toy, made = toy_of(model_type, class_name), batches_of(model_type, class_name)
    assert [batch.name for batch in made.batches][: len(media)] == media
    for batch in made.batches:
        output = toy.model(**batch.to(torch.float32, "cpu"))
        (output.logits.mean() if output.loss is None else output.loss).backward()
    parameters = [item for item in toy.model.named_parameters() if item[1].requires_grad]
    unused = [name for name, parameter in parameters if parameter.grad is None and not IDLE.search(name)]
    toy.model.zero_grad(set_to_none=True)
    assert unused == []


def test_a_long_sound_is_heard_in_chunks_and_a_short_one_beside_it() -> None:
    inputs = batch_of("qwen3_omni_moe_thinker", "sounds")
    chunk = 2 * toy_of("qwen3_omni_moe_thinker").config.audio_config.n_window
    long, short = inputs["feature_attention_mask"].sum(-1).tolist()
    assert short < chunk < long


def test_what_balances_experts_is_part_of_the_loss() -> None:
    toy, inputs = toy_of("qwen3_moe"), batch_of("qwen3_moe", "rows")
    assert run(toy, inputs).aux_loss > 0
    assert run(toy, inputs).loss > run(toy, inputs | {"output_router_logits": False}).loss


@pytest.mark.parametrize(("model_type", "batch", "medium"), MEDIA)
@pytest.mark.mostly_slow(5)
def test_a_changed_pixel_or_sound_changes_the_loss(model_type: str, batch: str, medium: str) -> None:
    toy, inputs = toy_of(model_type), batch_of(model_type, batch)
    changed = inputs[medium].clone()
    changed.view(-1)[:3] += 1.5
    assert run(toy, inputs | {medium: changed}).loss != run(toy, inputs).loss


@pytest.mark.parametrize(("model_type", "batch", "medium"), [case for case in MEDIA if case[1] != "sounds"])
@pytest.mark.mostly_slow(5)
def test_there_are_as_many_placeholders_as_features(model_type: str, batch: str, medium: str) -> None:
    toy, inputs = toy_of(model_type), batch_of(model_type, batch)
    ids = inputs["input_ids"].clone()
    placeholders = (ids < FIRST_ORDINARY_TOKEN) & (inputs["attention_mask"] == 1)
    assert placeholders.any()
    assert (inputs["labels"][placeholders] == -100).all()
    tokens, counts = ids[placeholders].unique(return_counts=True)
    row, place = (ids == tokens[counts.argmax()]).nonzero()[0]
    ids[row, place] = FIRST_ORDINARY_TOKEN
    with pytest.raises((ValueError, RuntimeError, IndexError, StopIteration)):
        run(toy, inputs | {"input_ids": ids})


@pytest.mark.parametrize("model_type", ["qwen3_omni_moe_thinker", "qwen2_5_omni_thinker"])
def test_a_sound_has_as_many_placeholders_as_features(model_type: str) -> None:
    toy, inputs = toy_of(model_type), batch_of(model_type, "sounds")
    mask = inputs["feature_attention_mask"]
    features = toy.model.get_audio_features(inputs["input_features"], mask).last_hidden_state
    assert (inputs["input_ids"] == toy.config.audio_token_id).sum() == len(features)
    assert len(set(mask.sum(-1).tolist())) == 2


@pytest.mark.parametrize("model_type", ["qwen2_5_vl", "qwen3_vl_moe", "qwen3_omni_moe_thinker"])
def test_pictures_differ_in_size_and_a_video_stands_beside_a_picture(model_type: str) -> None:
    sizes = batch_of(model_type, "pictures")["image_grid_thw"].tolist()
    assert len(sizes) == 2
    assert sizes[0] != sizes[1]
    video = batch_of(model_type, "video")
    assert video["video_grid_thw"][0, 0] == 2
    assert len(video["image_grid_thw"]) == 1


@pytest.mark.parametrize("model_type", [*TEXT, *PICTURES])
@pytest.mark.mostly_slow(6)
def test_padding_is_on_both_sides_and_nobody_sees_it(model_type: str) -> None:
    toy, inputs = toy_of(model_type), batch_of(model_type, "padded")
    shown = inputs["attention_mask"] == 1
    assert not shown[0, 0]
    assert not shown[1, -1]
    assert (inputs["labels"][~shown] == -100).all()
    other = inputs["input_ids"].masked_fill(~shown, FIRST_ORDINARY_TOKEN + 7)
    before, after = run(toy, inputs), run(toy, inputs | {"input_ids": other})
    assert torch.allclose(before.logits[shown], after.logits[shown], atol=1e-4)
    if model_type != "bamba":  # a part of its loss, which keeps logits small, counts padding as well
        assert torch.allclose(before.loss, after.loss, atol=1e-4)


@pytest.mark.parametrize("model_type", PACKED)
def test_packed_sequences_do_not_see_each_other(model_type: str) -> None:
    toy, inputs = toy_of(model_type), batch_of(model_type, "packed")
    positions = inputs["position_ids"].reshape(-1, inputs["input_ids"].shape[1])[0]
    start = int((positions == 0).nonzero()[1])
    assert positions.tolist() == [*range(start), *range(len(positions) - start)]
    assert inputs["labels"][0, start] == -100
    ids = inputs["input_ids"].clone()
    ids[0, :start] = ids[0, :start].flip(0)
    before, after = run(toy, inputs), run(toy, inputs | {"input_ids": ids})
    assert torch.allclose(before.logits[:, start:], after.logits[:, start:], atol=1e-4)
    assert not torch.allclose(before.logits[:, :start], after.logits[:, :start], atol=1e-1)


@pytest.mark.parametrize("model_type", ["llama", "gemma3_text", "qwen2_5_vl", "qwen3_vl_moe"])
def test_a_packed_sequence_is_what_it_is_alone(model_type: str) -> None:
    toy, inputs = toy_of(model_type), batch_of(model_type, "packed")
    start = int((inputs["labels"][0, 3:] == -100).nonzero()[0]) + 3
    alone = {"input_ids": inputs["input_ids"][:, start:], "use_cache": False}
    assert torch.allclose(run(toy, alone).logits, run(toy, inputs).logits[:, start:], atol=1e-3)


def test_models_with_several_position_axes_get_packed_positions_for_each() -> None:
    assert batch_of("qwen3_vl_moe", "packed")["position_ids"].shape == (4, 1, 9)
    assert batch_of("qwen3_moe", "packed")["position_ids"].shape == (1, 9)


@pytest.mark.parametrize("model_type", ["gpt_oss", "qwen3_next", "bamba"])
def test_sequences_that_transformers_does_not_keep_apart_are_not_packed(model_type: str) -> None:
    made = batches_of(model_type)
    assert "packed" not in [batch.name for batch in made.batches]
    assert any("packed: transformers does not keep packed sequences apart" in line for line in made.refused)


@pytest.mark.parametrize("model_type", [*TEXT, *PICTURES])
@pytest.mark.mostly_slow(2)
def test_special_tokens_do_not_occur_by_chance(model_type: str) -> None:
    for batch in batches_of(model_type).batches:
        if "input_ids" not in batch.inputs:
            continue
        ids = batch.inputs["input_ids"]
        kinds = batch.inputs.get("attention_mask", torch.ones_like(ids)) == 1
        if batch.name in ("rows", "padded", "packed"):
            assert (ids[kinds] >= FIRST_ORDINARY_TOKEN).all()
        else:
            assert (ids[:, :3] >= FIRST_ORDINARY_TOKEN).all()
            assert (ids[:, -1][kinds[:, -1]] >= FIRST_ORDINARY_TOKEN).all()


def test_special_tokens_of_a_projects_own_config_do_not_occur_by_chance() -> None:
    config = toy_config_for("llama", {"vocab_size": 40, "eos_token_id": [22, 25], "pad_token_id": 30})
    config.image_token_id = 35
    toy = ToyModel(build_model(transformers.LlamaForCausalLM, config, torch.float32), "causal_lm")
    assert [batch.name for batch in make_batches(toy).batches] == NAMES
    assert set(random_ids(toy, 5, 200).flatten().tolist()) == set(range(20, 40)) - {22, 25, 30, 35}


@pytest.mark.parametrize("model_type", ["qwen3_moe", "qwen3_vl_moe"])
def test_the_same_batches_every_time_and_nothing_else_moves(model_type: str) -> None:
    toy = toy_of(model_type)
    first = make_batches(toy)
    torch.manual_seed(1234)
    before = torch.random.get_rng_state()
    state = {name: value.clone() for name, value in (*toy.model.named_buffers(), *toy.model.named_parameters())}
    second = make_batches(toy)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(value, state[name]) for name, value in toy.model.named_buffers())
    assert toy.model.training
    assert [batch.name for batch in first.batches] == [batch.name for batch in second.batches]
    for one, other in zip(first.batches, second.batches):
        assert one.inputs.keys() == other.inputs.keys()
        assert all(torch.equal(torch.as_tensor(v), torch.as_tensor(other.inputs[k])) for k, v in one.inputs.items())


def test_what_a_model_counts_in_buffers_is_put_back() -> None:
    toy = ToyModel(build_model(transformers.LlamaForCausalLM, toy_config_for("llama"), torch.float32), "causal_lm")
    toy.model.register_buffer("steps", torch.zeros(()))
    toy.model.register_forward_hook(lambda module, inputs, output: module.steps.add_(1))
    assert make_batches(toy).batches
    assert toy.model.steps == 0


def test_a_medium_that_a_model_does_not_look_at_is_told() -> None:
    toy, inputs = toy_of("llama"), batch_of("llama", "rows")
    ignored = inputs | {"pixel_values": torch.ones(2, 3)}  # llama takes any name, and says nothing of it
    assert why_unseen(toy, ignored, ["pixel_values"]) == "the model ignores pixel_values"
    assert why_unseen(toy_of("llava"), batch_of("llava", "pictures"), ["pixel_values"]) == ""


def test_floating_inputs_are_the_same_in_bfloat16() -> None:
    values = batch_of("qwen3_vl_moe", "pictures")["pixel_values"]
    assert torch.equal(values.bfloat16().float(), values)
    assert values.std() > 0.5


@pytest.mark.parametrize(
    ("class_name", "labels"),
    [
        ("Qwen3ForSequenceClassification", (2,)),
        ("Qwen3ForTokenClassification", (2, 9)),
        ("Qwen3ForCausalLM", (2, 9)),
        ("Qwen3Model", None),
    ],
)
def test_every_head_gets_labels_of_its_kind(class_name: str, labels: tuple[int, ...] | None) -> None:
    padded, rows = batches_of("qwen3", class_name).batches[:2]
    assert (None if labels is None else rows.inputs["labels"].shape) == labels
    assert run(toy_of("qwen3", class_name), dict(padded.inputs)) is not None


@pytest.mark.parametrize("class_name", ["Qwen3_5ForSequenceClassification", "Qwen3_5TextForSequenceClassification"])
def test_classifiers_of_sequences_get_embeddings_also_where_labels_go_by_keyword(class_name: str) -> None:
    model_type = "qwen3_5_text" if "Text" in class_name else "qwen3_5"
    assert "embedded" in [batch.name for batch in batches_of(model_type, class_name).batches]


def test_a_model_that_no_builder_knows_is_told_of() -> None:
    made = batches_of("qwen3_vl_vision", "Qwen3VLVisionModel")
    assert made.batches == ()
    assert made.refused == ("there are no built-in batches for Qwen3VLVisionModel",)


def test_a_batch_without_a_form_for_a_model_is_told_of() -> None:
    def build(_: ToyModel) -> Iterator[WantedBatches]:
        yield WantedBatches("pictures in a row", ())
        raise AttributeError("patch_size")

    batches = make_further_batches(toy_of("llama"), build)
    assert batches.batches == ()
    told = dict(line.split(": ", 1) for line in batches.refused)
    assert told["pictures in a row"] == "the form in which the model takes it is not known"
    assert told["build"].startswith("AttributeError: patch_size")


def test_options_that_upstreams_loss_does_not_heed_are_not_given() -> None:
    toy = toy_of("qwen3", "Qwen3ForCausalLM")
    options = {"trainer": {"shift_labels", "num_items_in_batch"}, "embedded": {"ignore_index"}}

    def given() -> dict[str, set[str]]:
        made = {batch.name: set(batch.inputs) for batch in make_batches(toy).batches}
        return {name: made[name] & known for name, known in options.items()}

    assert given() == options
    loss = toy.model.loss_function
    toy.model.loss_function = lambda logits, labels, vocab_size, **_: loss(logits, labels, vocab_size)
    try:
        assert given() == {"trainer": set(), "embedded": set()}
        assert "embedded: its loss ignores ignore_index" in make_batches(toy).refused
    finally:
        toy.model.loss_function = loss
