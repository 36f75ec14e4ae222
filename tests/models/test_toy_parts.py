"""Models that are parts of others, and files with several of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedConfig

from patchgen_core.errors import PatchgenError
from patchgen_core.models.config_tree import make_default
from patchgen_core.models.shrinking import shrink
from patchgen_core.models.toy_config import (
    describe_toy_config,
    load_toy_config,
    make_toy_config,
    part_of_toy_config,
    toy_config_for,
)
from patchgen_core.models.toy_sizes import FIRST_ORDINARY_TOKEN
from tests.models.families import FAMILIES, build


def test_what_other_parts_give_to_the_language_model_has_its_width() -> None:
    config = toy_config_for("qwen3_omni_moe")
    thinker = config.thinker_config
    width = thinker.text_config.hidden_size
    assert thinker.vision_config.out_hidden_size == thinker.audio_config.output_dim == width
    assert config.talker_config.thinker_hidden_size == width
    assert config.talker_config.text_config.hidden_size != width


def test_pictures_reach_every_parameter_of_the_vision_part() -> None:
    config = toy_config_for("qwen3_vl")
    model = build("qwen3_vl", config)
    ids = torch.randint(FIRST_ORDINARY_TOKEN, config.text_config.vocab_size, (1, 17))
    ids[0, 3:9] = config.image_token_id
    kinds = (ids == config.image_token_id).int()
    pixels = torch.randn(24, 3 * 2 * config.vision_config.patch_size**2)
    grid = torch.tensor([[1, 6, 4]])
    model(input_ids=ids, labels=ids, pixel_values=pixels, image_grid_thw=grid, mm_token_type_ids=kinds).loss.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize("model_type", FAMILIES)
def test_the_printed_config_makes_the_same_one(model_type: str, tmp_path: Path) -> None:
    config = toy_config_for(model_type)
    text = describe_toy_config(config)
    (tmp_path / "config.json").write_text(text)
    again = load_toy_config(type(config), tmp_path, None, model_type)
    assert describe_toy_config(again) == text


@pytest.mark.slow
def test_the_same_in_another_process_with_another_hash_seed() -> None:
    code = (
        "from patchgen_core.models.toy_config import *;"
        "print(describe_toy_config(toy_config_for('qwen3_omni_moe')), describe_toy_config(toy_config_for('llama4')))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    here = [describe_toy_config(toy_config_for(model_type)) for model_type in ("qwen3_omni_moe", "llama4")]
    assert other.stdout.strip() == " ".join(here)


def test_overrides_win_and_the_layers_follow_their_number() -> None:
    config = toy_config_for("gemma3", {"text_config": {"num_hidden_layers": 4, "hidden_size": 84, "head_dim": 10}})
    assert config.text_config.hidden_size == 84
    assert config.text_config.layer_types == ["sliding_attention"] * 3 + ["full_attention"]
    config = toy_config_for("qwen3_vl", {"text_config": {"hidden_size": 90}})
    assert config.vision_config.out_hidden_size == 90
    assert len(toy_config_for("gpt_oss", {"num_hidden_layers": 40}).layer_types) == 40


def test_an_override_may_use_either_name_of_a_field() -> None:
    assert toy_config_for("qwen3_moe", {"num_experts": 5}).num_local_experts == 5
    assert toy_config_for("qwen3_moe", {"num_local_experts": 5}).num_experts == 5
    assert toy_config_for("gpt2", {"hidden_size": 60}).n_embd == 60


class OwnConfig(PreTrainedConfig):
    """A configuration class of a project, with names of its own."""

    model_type = "own"
    attribute_map = {"num_hidden_layers": "n_layer"}
    hidden_size: int = 1024
    n_layer: int = 12
    n_head: int = 8
    layer_types: list[str] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        self.layer_types = self.layer_types or ["linear_attention", "full_attention"] * (self.n_layer // 2)
        super().__post_init__(**kwargs)


def test_a_class_of_a_project_is_shrunk_too() -> None:
    config: Any = make_toy_config(OwnConfig)
    assert (config.n_layer, config.layer_types) == (2, ["linear_attention", "full_attention"])
    assert config.hidden_size < 200
    config = make_toy_config(OwnConfig, {"num_hidden_layers": 3})
    assert (config.n_layer, len(config.layer_types)) == (3, 3)


def test_what_a_model_says_of_its_parts_is_kept() -> None:
    assert transformers.SiglipVisionConfig().vision_use_head
    assert not toy_config_for("paligemma").vision_config.vision_use_head


def test_an_override_of_no_field_is_refused() -> None:
    with pytest.raises(PatchgenError, match="Qwen3MoeConfig has no field 'num_expert'") as caught:
        toy_config_for("qwen3_moe", {"num_expert": 5})
    assert "Did you mean 'num_experts'?" in str(caught.value)
    with pytest.raises(PatchgenError, match="Qwen3VLTextConfig has no field 'hiden_size'"):
        toy_config_for("qwen3_vl", {"text_config": {"hiden_size": 5}})


def test_what_the_class_refuses_is_one_error_that_names_it() -> None:
    with pytest.raises(
        PatchgenError, match=r"no toy config can be made from Qwen3Config: .*num_attention_heads"
    ) as caught:
        toy_config_for("qwen3", {"num_attention_heads": "six"})
    assert "toy_config=" in str(caught.value)


def test_an_unknown_model_type_names_the_nearest() -> None:
    with pytest.raises(PatchgenError, match="no model type 'qwen3moe'") as caught:
        toy_config_for("qwen3moe")
    assert "Did you mean 'qwen3_moe'?" in str(caught.value)


def test_a_patch_config_may_give_its_own_as_a_mapping_or_a_path(tmp_path: Path) -> None:
    config_class = transformers.Qwen3Config
    values = json.loads(describe_toy_config(make_toy_config(config_class))) | {"intermediate_size": 77}
    assert load_toy_config(config_class, values, None, "qwen3").intermediate_size == 77
    (tmp_path / "config.json").write_text(json.dumps(values | {"intermediate_size": 78}))
    assert load_toy_config(config_class, tmp_path, None, "qwen3").intermediate_size == 78
    assert load_toy_config(config_class, str(tmp_path / "config.json"), None, "qwen3").intermediate_size == 78


def test_what_it_says_of_a_part_is_for_heads_of_that_part_alone(tmp_path: Path) -> None:
    whole, part = transformers.Gemma3Config, transformers.Gemma3TextConfig
    values = {"text_config": {"final_logit_softcapping": 3.0}}
    assert part_of_toy_config(part, whole, values) == values["text_config"]
    assert part_of_toy_config(transformers.SiglipVisionConfig, whole, values) is None
    assert part_of_toy_config(part, whole, None) is None
    (tmp_path / "config.json").write_text(describe_toy_config(make_toy_config(whole, values)))
    said = part_of_toy_config(part, whole, str(tmp_path))
    assert load_toy_config(part, said, None, "gemma3_text").final_logit_softcapping == 3.0


def test_the_project_s_folder_is_looked_in_before_one_is_made(tmp_path: Path) -> None:
    config_class = transformers.Qwen3Config
    made = make_toy_config(config_class)
    assert load_toy_config(config_class, None, tmp_path, "qwen3").to_dict() == made.to_dict()
    (tmp_path / "qwen3_toy").mkdir()
    with pytest.raises(PatchgenError, match=r"qwen3_toy/config.json: the toy config cannot be read"):
        load_toy_config(config_class, None, tmp_path, "qwen3")
    values = json.loads(describe_toy_config(made)) | {"hidden_size": 60}
    (tmp_path / "qwen3_toy" / "config.json").write_text(json.dumps(values))
    assert load_toy_config(config_class, None, tmp_path, "qwen3").hidden_size == 60
    assert load_toy_config(config_class, {"hidden_size": 61}, tmp_path, "qwen3").hidden_size == 61


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the toy config is not JSON"),
        ("[]", "the toy config is not a JSON object"),
        ('{"model_type": "llama"}', "the toy config is of model type 'llama', the model of 'qwen3'"),
        ('{"layer_types": ["full_attention"]}', "Qwen3Config refuses the toy config: .*num_hidden_layers"),
        ('{"hiden_size": 5}', "the toy config's 'hiden_size' is not a field of Qwen3Config"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(PatchgenError, match=message) as caught:
        load_toy_config(transformers.Qwen3Config, file, None, "qwen3")
    assert "config.json: " in str(caught.value)


def test_a_relative_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PatchgenError, match=r"the path of a toy config is not absolute: config.json"):
        load_toy_config(transformers.Qwen3Config, "config.json", None, "qwen3")


def test_a_misspelt_field_of_a_part_is_refused() -> None:
    with pytest.raises(PatchgenError, match="Qwen3VLTextConfig has no field 'hiden_size'"):
        load_toy_config(transformers.Qwen3VLConfig, {"text_config": {"hiden_size": 5}}, None, "qwen3_vl")


def test_fields_alone_change_the_toy_config_that_is_made():
    LlamaConfig = transformers.LlamaConfig
    toy = load_toy_config(LlamaConfig, {"mlp_bias": True}, None, "llama")
    assert toy.mlp_bias
    assert toy.hidden_size == make_toy_config(LlamaConfig).hidden_size
    whole = load_toy_config(LlamaConfig, {"model_type": "llama", "mlp_bias": True}, None, "llama")
    assert whole.hidden_size == LlamaConfig().hidden_size


def test_bases_of_rotary_embeddings_do_not_hang_on_the_order_in_which_a_class_lists_its_layers() -> None:
    default = make_default(transformers.Gemma3TextConfig)
    toy = shrink(default, {})
    default.rope_parameters = dict(reversed(default.rope_parameters.items()))
    assert shrink(default, {}).rope_parameters == toy.rope_parameters
