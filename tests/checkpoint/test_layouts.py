"""Layouts: told of checkpoints and model types, demanded of converters, and written for the hub."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import nn
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, Qwen3MoeConfig

from patchgen_core.checkpoint import (
    DirectConverter,
    Layout,
    PerExpertConverter,
    TransposedFusedConverter,
    check_converter_layout,
    create_checkpoint_tensor_converter,
    detect_layout,
    detect_layout_for,
    load_state_dict_streaming,
    to_hub_layout,
)
from patchgen_core.checkpoint.headers import read_tensors
from patchgen_core.checkpoint.sizes import ExpertSizes
from patchgen_core.errors import PatchgenError
from tests.checkpoint.checkpoints import (
    blank,
    generated,
    hub_checkpoint,
    toy,
    unequal,
    upstream_of,
    write,
)

INDEX = "model.safetensors.index.json"
CONFIG = {
    "model_type": "qwen3_vl_moe",
    "text_config": {"hidden_size": 8, "moe_intermediate_size": 6, "num_experts": 3},
}
MODULE = "model.language_model.layers.0.mlp.experts"


def cls_of(family: str) -> Any:
    names = {
        "qwen3_moe": "Qwen3MoeForCausalLM",
        "qwen3": "Qwen3ForCausalLM",
        "deepseek_v3": "DeepseekV3ForCausalLM",
        "mixtral": "MixtralForCausalLM",
        "qwen3_vl_moe": "Qwen3VLMoeForConditionalGeneration",
        "qwen3_omni_moe": "Qwen3OmniMoeThinkerForConditionalGeneration",
        "qwen3_5_moe": "Qwen3_5MoeForConditionalGeneration",
        "gpt_oss": "GptOssForCausalLM",
    }
    return getattr(generated(family), names[family])


def refused(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(PatchgenError) as caught:
        args[0](*args[1:], **kwargs)
    return str(caught.value)


class TestOfTypes:
    @pytest.mark.parametrize(
        ("model_type", "layout"),
        [
            ("qwen2_moe", "per_expert"),
            ("qwen3_moe", "per_expert"),
            ("deepseek_v3", "per_expert"),
            ("mixtral", "per_expert"),
            ("qwen3_omni_moe", "per_expert"),
            ("qwen3_omni_moe_thinker", "per_expert"),
            ("qwen3_omni_moe_talker_text", "per_expert"),
            ("qwen3_5_moe", "per_expert"),
            ("unlimited_ocr_text", "per_expert"),
            ("qwen3_vl_moe", "transposed"),
            ("qwen3_vl_moe_text", "transposed"),
            ("qwen3_vl_moe_vision", "none"),
            ("gpt_oss", "direct"),
            ("llama4", "direct"),
            ("granitemoe", "direct"),
            ("qwen3", "none"),
            ("llama", "none"),
            ("clip", "none"),
        ],
    )
    def test_as_transformers_maps_them(self, model_type: str, layout: str) -> None:
        assert detect_layout_for(model_type) is Layout(layout)
        assert str(detect_layout_for(model_type)) == layout

    def test_an_unknown_type_names_the_nearest(self) -> None:
        text = refused(detect_layout_for, "qwen3moe")
        assert "transformers knows no model type 'qwen3moe'" in text
        assert "Did you mean 'qwen3_moe'?" in text

    def test_a_layout_without_a_name_says_what_transformers_does(self) -> None:
        assert "transformers converts the experts of 'step3p7' by Concatenate" in refused(detect_layout_for, "step3p7")

    @pytest.mark.slow
    def test_every_type_of_transformers_has_an_answer(self) -> None:
        unnamed = []
        for model_type in CONFIG_MAPPING:
            try:
                detect_layout_for(model_type)
            except PatchgenError:
                unnamed.append(model_type)
        assert len(unnamed) < 8, unnamed


class TestOfCheckpoints:
    @pytest.mark.parametrize(
        ("family", "layout"),
        [("qwen3_moe", "per_expert"), ("mixtral", "per_expert"), ("qwen3", "none"), ("gpt_oss", "direct")],
    )
    def test_what_hugging_face_saves(self, family: str, layout: str, tmp_path: Path) -> None:
        folder = hub_checkpoint(cls_of(family), tmp_path)
        for files in (folder, folder / INDEX, list(folder.glob("*.safetensors"))):
            assert detect_layout(files) is Layout(layout)

    @pytest.mark.parametrize("layout", ["per_expert", "transposed", "direct"])
    @pytest.mark.parametrize("family", ["qwen3_moe", "qwen3_vl_moe", "deepseek_v3"])
    def test_what_is_written_is_told(self, family: str, layout: str, tmp_path: Path) -> None:
        model = toy(cls_of(family))
        index = to_hub_layout(model, tmp_path / "out", layout)
        assert detect_layout(index) is Layout(layout)
        (tmp_path / "out" / "config.json").unlink()
        assert detect_layout(index, model.config) is Layout(layout)
        assert detect_layout(index, model.config.to_dict()) is Layout(layout)

    def test_no_tensor_is_read(self, tmp_path: Path) -> None:
        folder = hub_checkpoint(cls_of("qwen3_moe"), tmp_path)
        for shard in folder.glob("*.safetensors"):
            header = 8 + int.from_bytes(shard.read_bytes()[:8], "little")
            size = shard.stat().st_size
            with shard.open("r+b") as file:
                file.truncate(header)
                file.truncate(size)  # a hole where the tensors were
        assert detect_layout(folder) is Layout.PER_EXPERT

    def test_fused_experts_need_the_sizes(self, tmp_path: Path) -> None:
        file = write({f"{MODULE}.down_proj": torch.zeros(3, 6, 8)}, tmp_path / "x.safetensors")
        text = refused(detect_layout, file)
        assert f"'{MODULE}.down_proj' [3, 6, 8] does not show the layout without the model's sizes" in text
        assert "config.json beside" in text
        assert detect_layout(file, CONFIG) is Layout.TRANSPOSED
        (tmp_path / "config.json").write_text(json.dumps(CONFIG))
        assert detect_layout(file) is Layout.TRANSPOSED

    def test_one_ambiguous_tensor_is_settled_by_another(self, tmp_path: Path) -> None:
        config = {"hidden_size": 12, "moe_intermediate_size": 6}
        tensors = {f"{MODULE}.gate_up_proj": torch.zeros(3, 12, 12)}
        file = write(tensors, tmp_path / "one.safetensors")
        text = refused(detect_layout, file, config)
        assert "does not show the layout: the model has hidden size 12 and expert intermediate size 6" in text
        tensors[f"{MODULE}.down_proj"] = torch.zeros(3, 12, 6)
        assert detect_layout(write(tensors, tmp_path / "two.safetensors"), config) is Layout.DIRECT

    def test_a_configuration_without_sizes_is_not_enough(self, tmp_path: Path) -> None:
        file = write({f"{MODULE}.down_proj": torch.zeros(3, 6, 8)}, tmp_path / "x.safetensors")
        assert "the model has hidden size unknown and expert" in refused(detect_layout, file, {"model_type": "x"})

    def test_sizes_of_another_model_are_refused(self, tmp_path: Path) -> None:
        file = write({f"{MODULE}.down_proj": torch.zeros(3, 6, 9)}, tmp_path / "x.safetensors")
        assert "[3, 6, 9], which is not a layout of hidden size 8 and expert" in refused(detect_layout, file, CONFIG)

    def test_mixed_layouts_name_both_keys(self, tmp_path: Path) -> None:
        apart = {f"{MODULE}.0.up_proj.weight": torch.zeros(6, 8)}
        direct = {f"{MODULE}.down_proj": torch.zeros(3, 8, 6)}
        turned = {MODULE.replace("0", "1") + ".down_proj": torch.zeros(3, 6, 8)}
        text = refused(detect_layout, write(apart | direct, tmp_path / "x.safetensors"), CONFIG)
        assert f"'{MODULE}.0.up_proj.weight' is per_expert, '{MODULE}.down_proj' is fused" in text
        text = refused(detect_layout, write(direct | turned, tmp_path / "x.safetensors"), CONFIG)
        assert f"'{MODULE}.down_proj' is direct, '{MODULE.replace('0', '1')}.down_proj' is transposed" in text

    def test_experts_stored_in_another_way_are_refused(self, tmp_path: Path) -> None:
        file = write({f"{MODULE}.gate_up_proj_blocks": torch.zeros(3, 2, 2, 2)}, tmp_path / "x.safetensors")
        text = refused(detect_layout, file, CONFIG)
        assert "gate_up_proj_blocks' is stored in none of the layouts" in text

    def test_models_that_keep_inputs_first_themselves_are_direct(self, tmp_path: Path) -> None:
        model = toy(cls_of("gpt_oss"))
        name, down = next((n, p) for n, p in model.named_parameters() if n.endswith("experts.down_proj"))
        assert down.shape[1:] == (model.config.intermediate_size, model.config.hidden_size)
        file = write({name: down.detach()}, tmp_path / "x.safetensors")
        assert detect_layout(file, model.config) is Layout.DIRECT


class TestOfConverters:
    sizes = ExpertSizes(3, 8, 6)

    @pytest.mark.parametrize(
        ("converter", "good", "bad"),
        [
            (PerExpertConverter(3), "qwen3_moe", "qwen3_vl_moe"),
            (TransposedFusedConverter(sizes), "qwen3_vl_moe", "qwen3_omni_moe"),
            (DirectConverter(), "gpt_oss", "deepseek_v3"),
            (DirectConverter(), "qwen3", "qwen3_vl_moe_text"),
            (None, "llama4", "mixtral"),
        ],
    )
    def test_a_contradiction_is_an_error(self, converter: Any, good: str, bad: str) -> None:
        check_converter_layout(converter, good)
        text = refused(check_converter_layout, converter, bad)
        assert f"transformers converts '{bad}' from the layout {detect_layout_for(bad)}" in text
        assert "create_" in text

    def test_a_converter_without_a_layout_is_told_by_the_names_it_handles(self) -> None:
        class Own:
            def __init__(self, end: str) -> None:
                self.end = end

            def can_handle(self, name: str) -> bool:
                return name.startswith("model.layers.") and name.endswith(self.end)

            convert = finalize = None

        one: Any = Own("down_proj.weight")
        check_converter_layout(one, "qwen3_moe")
        assert "is for per_expert checkpoints" in refused(check_converter_layout, one, "qwen3_vl_moe")
        fused: Any = Own(".gate_up_proj")
        check_converter_layout(fused, "qwen3_vl_moe")
        assert "Own is for transposed checkpoints" in refused(check_converter_layout, fused, "qwen3_moe")
        check_converter_layout(one, "step3p7")  # no layout that has a name: nothing to hold against it
        assert "from the layout of its own" in refused(check_converter_layout, PerExpertConverter(3), "step3p7")


class TestToHub:
    @pytest.mark.parametrize(
        "family", ["qwen3_moe", "deepseek_v3", "mixtral", "qwen3_omni_moe", "qwen3_5_moe", "qwen3"]
    )
    @pytest.mark.mostly_slow(3)
    def test_it_writes_what_hugging_face_writes(self, family: str, tmp_path: Path) -> None:
        cls = cls_of(family)
        hub = read_tensors(hub_checkpoint(cls, tmp_path / "hub"))
        written = read_tensors(to_hub_layout(toy(cls), tmp_path / "out", max_shard_size="100KB").parent)
        assert written.keys() == hub.keys()
        assert all(torch.equal(written[name], hub[name]) for name in hub)

    @pytest.mark.parametrize("family", ["qwen3_moe", "qwen3_vl_moe", "qwen3_omni_moe", "gpt_oss"])
    @pytest.mark.slow
    def test_plain_from_pretrained_loads_it(self, family: str, tmp_path: Path) -> None:
        model = toy(cls_of(family))
        to_hub_layout(model, tmp_path / "out", max_shard_size="50KB")
        upstream: Any = upstream_of(type(model))
        loaded, info = upstream.from_pretrained(tmp_path / "out", output_loading_info=True)
        assert not any(info.values())
        assert unequal(loaded, model) == []

    @pytest.mark.parametrize("layout", ["per_expert", "direct", Layout.PER_EXPERT])
    def test_another_layout_can_be_asked_for(self, layout: Any, tmp_path: Path) -> None:
        model = toy(cls_of("qwen3_moe"))
        to_hub_layout(model, tmp_path / "out", layout)
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
        assert unequal(loaded, model) == []
        names = read_tensors(tmp_path / "out")
        assert ("model.layers.1.mlp.experts.gate_up_proj" in names) is (layout == "direct")

    def test_our_own_loader_takes_it_back(self, tmp_path: Path) -> None:
        for family in ("qwen3_moe", "qwen3_vl_moe", "mixtral"):
            model = toy(cls_of(family))
            to_hub_layout(model, tmp_path / family)
            other = blank(cls_of(family))
            load_state_dict_streaming(other, tmp_path / family, create_checkpoint_tensor_converter(other))
            assert unequal(other, model) == []

    def test_the_index_is_right(self, tmp_path: Path) -> None:
        model = toy(cls_of("qwen3_moe")).to(torch.bfloat16)
        index = json.loads(to_hub_layout(model, tmp_path / "out", max_shard_size="30KB").read_text())
        shards = sorted((tmp_path / "out").glob("*.safetensors"))
        assert [shard.name for shard in shards] == [
            f"model-{number:05d}-of-{len(shards):05d}.safetensors" for number in range(1, len(shards) + 1)
        ]
        assert len(shards) > 3
        sizes: dict[str, int] = {}
        for shard in shards:
            before = len(sizes), sum(sizes.values())
            with safe_open(shard, framework="pt") as file:
                assert file.metadata() == {"format": "pt"}
                for name in file.keys():  # noqa: SIM118 - not a dict
                    assert index["weight_map"].pop(name) == shard.name
                    sizes[name] = file.get_tensor(name).nbytes
            assert sum(sizes.values()) - before[1] <= 30_000 or len(sizes) - before[0] == 1
        assert index["weight_map"] == {}
        assert index["metadata"]["total_size"] == sum(sizes.values())
        assert index["metadata"]["total_parameters"] == sum(parameter.numel() for parameter in model.parameters())

    def test_the_configuration_goes_with_it_and_the_models_own_is_untouched(self, tmp_path: Path) -> None:
        model = toy(cls_of("qwen3_moe")).to(torch.bfloat16)
        before = model.config.to_dict()
        to_hub_layout(model, tmp_path / "out")
        assert model.config.to_dict() == before
        written = json.loads((tmp_path / "out" / "config.json").read_text())
        assert written["architectures"] == ["Qwen3MoeForCausalLM"]
        assert written["dtype"] == "bfloat16"
        assert (tmp_path / "out" / "generation_config.json").exists()
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
        assert loaded.dtype == torch.bfloat16
        assert unequal(loaded, model) == []

    def test_tied_weights_are_written_once(self, tmp_path: Path) -> None:
        model = toy(cls_of("qwen3"), tie_word_embeddings=True)
        names = read_tensors(to_hub_layout(model, tmp_path / "out").parent)
        assert "lm_head.weight" not in names
        assert "model.embed_tokens.weight" in names
        assert unequal(AutoModelForCausalLM.from_pretrained(tmp_path / "out"), model) == []

    def test_a_state_dict_needs_the_configuration(self, tmp_path: Path) -> None:
        model = toy(cls_of("qwen3_moe"))
        state = {name: tensor.requires_grad_() for name, tensor in model.state_dict().items()}
        assert "Pass the model's configuration" in refused(to_hub_layout, state, tmp_path / "out")
        to_hub_layout(state, tmp_path / "out", config=model.config)
        assert detect_layout(tmp_path / "out") is Layout.PER_EXPERT
        assert unequal(AutoModelForCausalLM.from_pretrained(tmp_path / "out"), model) == []
        assert isinstance(model.config, Qwen3MoeConfig)

    @pytest.mark.parametrize("size", [0, -1, "", "5 apples", "GB", "0GB", "-5GB", "1e3"])
    def test_a_size_that_is_none(self, size: Any, tmp_path: Path) -> None:
        text = refused(to_hub_layout, toy(cls_of("qwen3")), tmp_path / "out", max_shard_size=size)
        assert f"max_shard_size={size!r} is not a size" in text

    @pytest.mark.parametrize(
        ("size", "shards"), [("1TB", None), ("1GiB", 1), ("1 gb", 1), (10**9, 1), ("0.0001GB", 4)]
    )
    def test_sizes(self, size: Any, shards: int | None, tmp_path: Path) -> None:
        model = toy(cls_of("qwen3"))
        if shards is None:
            assert "is not a size" in refused(to_hub_layout, model, tmp_path / "out", max_shard_size=size)
            return
        to_hub_layout(model, tmp_path / "out", max_shard_size=size)
        found = len(list((tmp_path / "out").glob("*.safetensors")))
        assert found == shards if shards == 1 else found >= shards

    def test_a_layout_that_is_none(self, tmp_path: Path) -> None:
        text = refused(to_hub_layout, toy(cls_of("qwen3_moe")), tmp_path / "out", "per-expert")
        assert "there is no layout 'per-expert'" in text
        assert "Did you mean 'per_expert'?" in text
        assert "there is no layout 'none'" in refused(to_hub_layout, toy(cls_of("qwen3")), tmp_path / "out", "none")

    def test_a_folder_that_is_taken(self, tmp_path: Path) -> None:
        model = toy(cls_of("qwen3"))
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "notes.txt").write_text("mine")
        assert "the folder is not empty" in refused(to_hub_layout, model, tmp_path / "full")
        assert "is a file" in refused(to_hub_layout, model, tmp_path / "full" / "notes.txt")
        assert os.listdir(tmp_path) == ["full"]
        (tmp_path / "empty").mkdir()
        assert to_hub_layout(model, tmp_path / "empty").exists()
        assert to_hub_layout(model, tmp_path / "deep" / "er").exists()

    def test_permissions_are_those_of_other_folders(self, tmp_path: Path) -> None:
        to_hub_layout(toy(cls_of("qwen3")), tmp_path / "out")
        (tmp_path / "usual").mkdir()
        modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("out", "usual")]
        assert modes[0] == modes[1]

    def test_a_failure_on_the_way_leaves_nothing(self, tmp_path: Path) -> None:
        class Unwritable(Qwen3MoeConfig):
            def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
                raise OSError(28, "No space left on device")

        model = toy(cls_of("qwen3_moe"))
        config = Unwritable(**model.config.to_dict())
        text = refused(to_hub_layout, model, tmp_path / "out", config=config)
        assert "cannot be written: No space left on device" in text
        assert os.listdir(tmp_path) == []

    def test_a_model_on_the_meta_device(self, tmp_path: Path) -> None:
        with torch.device("meta"):
            model: Any = nn.Linear(2, 2)
        model.config = Qwen3MoeConfig()
        assert "'weight' has no values: it is on the meta device" in refused(to_hub_layout, model, tmp_path / "out")
        assert os.listdir(tmp_path) == []
