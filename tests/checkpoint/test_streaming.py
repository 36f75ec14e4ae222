"""Loading checkpoints into models: what comes of it, what is refused, and what it keeps in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

from patchgen_core.checkpoint import (
    create_checkpoint_tensor_converter,
    load_state_dict_streaming,
)
from patchgen_core.checkpoint.headers import read_tensors
from tests.checkpoint.checkpoints import (
    blank,
    generated,
    hub_checkpoint,
    toy,
    unequal,
    write,
)
from tests.checkpoint.streams import INDEX, load, qwen3, qwen3_moe, refused, two_layers


class TestLoading:
    def test_a_folder_an_index_files_in_any_order_or_one_file(self, hub: Path, tmp_path: Path) -> None:
        expected = toy(qwen3_moe(), mlp_only_layers=[])
        shards = sorted(hub.glob("*.safetensors"))
        assert len(shards) > 3
        backwards = [str(shard) for shard in reversed(shards)]
        single = write(read_tensors(hub), tmp_path / "one" / "whatever.safetensors")
        for files in (hub, str(hub), hub / INDEX, backwards, shards[::2] + shards[1::2], single, single.parent):
            model = two_layers()
            report = load(model, files)
            assert unequal(model, expected) == []
            assert set(report.loaded) == set(expected.state_dict())
            assert (report.missing, report.unexpected, report.ignored, report.cast) == ((), (), (), {})

    def test_the_result_computes_what_upstream_computes(self, hub: Path) -> None:
        model = two_layers().eval()
        load(model, hub)
        upstream = AutoModelForCausalLM.from_pretrained(hub, dtype=torch.float32).eval()
        tokens = torch.arange(5, 17).unsqueeze(0)
        with torch.no_grad():
            assert torch.equal(model(tokens).logits, upstream(tokens).logits)

    def test_the_converter_of_the_class_is_used(self, hub: Path) -> None:
        class Registered(qwen3_moe()):  # type: ignore[misc]
            pass

        Registered.__module__ = qwen3_moe().__module__
        Registered._create_checkpoint_tensor_converter = staticmethod(create_checkpoint_tensor_converter)
        model = Registered(two_layers().config)
        load_state_dict_streaming(model, hub)
        assert unequal(model, toy(qwen3_moe(), mlp_only_layers=[])) == []

    def test_without_a_converter_the_error_says_which(self, hub: Path) -> None:
        text = refused(two_layers(), hub)
        assert "the checkpoint lacks 4 tensors of Qwen3MoeForCausalLM: 'model.layers.0.mlp.experts.gate_up" in text
        assert "pass converter=create_checkpoint_tensor_converter(model)" in text

    def test_a_checkpoint_in_the_models_own_layout_loads_unchanged(self, tmp_path: Path) -> None:
        expected = toy(qwen3_moe())
        file = write(expected.state_dict(), tmp_path / "own.safetensors")
        model = blank(qwen3_moe())
        load(model, file)
        assert unequal(model, expected) == []

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
    def test_floating_point_is_cast_to_the_models_dtype_and_reported(self, hub: Path, dtype: torch.dtype) -> None:
        model = two_layers().to(dtype)
        report = load(model, hub)
        expected = toy(qwen3_moe(), mlp_only_layers=[])
        for name, tensor in model.state_dict().items():
            assert tensor.dtype == dtype
            assert torch.equal(tensor, expected.state_dict()[name].to(dtype))
        assert set(report.cast) == set(model.state_dict())
        assert set(report.cast.values()) == {torch.float32}

    def test_buffers_are_loaded(self, tmp_path: Path) -> None:
        cls = generated("deepseek_v3").DeepseekV3ForCausalLM
        model = blank(cls)
        load(model, hub_checkpoint(cls, tmp_path))
        buffers = [name for name, _ in model.named_buffers() if name.endswith("e_score_correction_bias")]
        assert buffers
        assert unequal(model, toy(cls)) == []

    def test_layers_for_speculative_decoding_are_ignored_as_the_class_says(self, tmp_path: Path) -> None:
        cls = generated("deepseek_v3").DeepseekV3ForCausalLM
        tensors = read_tensors(hub_checkpoint(cls, tmp_path / "hub"))
        extra = {
            name.replace("layers.1.", "layers.61."): tensor for name, tensor in tensors.items() if "layers.1." in name
        }
        model = blank(cls)
        report = load(model, write({**tensors, **extra}, tmp_path / "all.safetensors"))
        assert unequal(model, toy(cls)) == []
        assert set(report.ignored) == set(extra)

    def test_inverse_frequencies_of_old_checkpoints_are_ignored(self, hub: Path, tmp_path: Path) -> None:
        name = "model.layers.0.self_attn.rotary_emb.inv_freq"
        file = write({**read_tensors(hub), name: torch.zeros(4)}, tmp_path / "old.safetensors")
        assert load(two_layers(), file).ignored == (name,)

    def test_a_plain_module(self, tmp_path: Path) -> None:
        file = write({"weight": torch.ones(2, 3), "bias": torch.ones(2)}, tmp_path / "plain.safetensors")
        model = nn.Linear(3, 2)
        load_state_dict_streaming(model, file)
        assert torch.equal(model.weight, torch.ones(2, 3))
        assert model.weight.requires_grad


class TestNames:
    @pytest.mark.parametrize("family", ["mixtral", "qwen3_omni_moe"])
    @pytest.mark.slow
    def test_the_hubs_names_become_the_models(self, family: str, tmp_path: Path) -> None:
        name = {"mixtral": "MixtralForCausalLM", "qwen3_omni_moe": "Qwen3OmniMoeThinkerForConditionalGeneration"}
        cls = getattr(generated(family), name[family])
        hub = hub_checkpoint(cls, tmp_path)
        model = blank(cls)
        assert set(read_tensors(hub)) - set(model.state_dict()), "there is something to rename"
        load(model, hub)
        assert unequal(model, toy(cls)) == []

    def test_a_thinker_out_of_the_whole_checkpoint(self, tmp_path: Path) -> None:
        cls = generated("qwen3_omni_moe").Qwen3OmniMoeThinkerForConditionalGeneration
        whole = {f"thinker.{name}": tensor for name, tensor in read_tensors(hub_checkpoint(cls, tmp_path)).items()}
        whole["talker.model.norm.weight"] = torch.zeros(3)
        file = write(whole, tmp_path / "whole.safetensors")
        model = blank(cls)
        report = load(model, file)
        assert report.ignored == ("talker.model.norm.weight",), "the class says that it has no talker"
        assert unequal(model, toy(cls)) == []

    def test_a_base_model_out_of_a_causal_model_and_back(self, hub: Path, tmp_path: Path) -> None:
        base = blank(qwen3_moe("Qwen3MoeModel"), mlp_only_layers=[])
        converter = create_checkpoint_tensor_converter(base)
        assert "1 tensors that Qwen3MoeModel lacks: 'lm_head.weight'" in refused(base, hub, converter)
        load(base, hub, ignore=[r"^lm_head\."])
        assert unequal(base, toy(qwen3_moe(), mlp_only_layers=[]).model) == []
        without = {
            name.removeprefix("model."): tensor for name, tensor in read_tensors(hub).items() if "lm_h" not in name
        }
        file = write(without, tmp_path / "base.safetensors")
        model = two_layers()
        assert "lacks 1 tensors of Qwen3MoeForCausalLM: 'lm_head.weight'" in refused(
            model, file, create_checkpoint_tensor_converter(model)
        )
        report = load(model, file, strict=False)
        assert report.missing == ("lm_head.weight",)
        assert unequal(model.model, base) == []

    def test_two_names_for_one_tensor_are_refused(self, hub: Path, tmp_path: Path) -> None:
        tensors = read_tensors(hub)
        tensors["norm.weight"] = tensors["model.norm.weight"]
        model = two_layers()
        text = refused(model, write(tensors, tmp_path / "x.safetensors"), create_checkpoint_tensor_converter(model))
        assert "'model.norm.weight' and 'norm.weight' of the checkpoint both become 'model.norm.weight'" in text


class TestTies:
    def test_either_name_of_tied_weights_is_enough(self, tmp_path: Path) -> None:
        expected = toy(qwen3(), tie_word_embeddings=True)
        tensors = {name: tensor.clone() for name, tensor in expected.state_dict().items()}
        for left_out in ("lm_head.weight", "model.embed_tokens.weight", None):
            file = write({n: t for n, t in tensors.items() if n != left_out}, tmp_path / f"{left_out}.safetensors")
            model = blank(qwen3(), tie_word_embeddings=True)
            report = load_state_dict_streaming(model, file)
            assert unequal(model, expected) == []
            assert model.lm_head.weight is model.model.embed_tokens.weight
            assert report.missing == ()

    def test_tied_weights_that_differ_in_the_checkpoint_are_refused(self, tmp_path: Path) -> None:
        tensors = toy(qwen3(), tie_word_embeddings=False).state_dict()
        file = write(tensors, tmp_path / "x.safetensors")
        text = refused(blank(qwen3(), tie_word_embeddings=True), file)
        assert "the model ties 'model.embed_tokens.weight' and 'lm_head.weight'" in text

    def test_a_tied_checkpoint_into_a_model_that_is_not(self, tmp_path: Path) -> None:
        hub = hub_checkpoint(qwen3(), tmp_path, tie_word_embeddings=True)
        text = refused(blank(qwen3(), tie_word_embeddings=False), hub)
        assert "lacks 1 tensors of Qwen3ForCausalLM: 'lm_head.weight'" in text
        assert "set tie_word_embeddings" in text
