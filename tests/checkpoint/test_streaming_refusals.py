"""Checkpoints that cannot be loaded as streams are refused, and what loading needs of memory."""

from __future__ import annotations

import gc
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from patchgen_core.checkpoint import (
    ConvertedCheckpointTensor,
    PerExpertConverter,
    create_checkpoint_tensor_converter,
    create_direct_converter,
    create_transposed_fused_converter,
    load_state_dict_streaming,
    to_hub_layout,
)
from patchgen_core.checkpoint.headers import read_tensors
from patchgen_core.errors import PatchgenError
from tests.checkpoint.checkpoints import (
    blank,
    generated,
    hub_checkpoint,
    toy,
    unequal,
    write,
)
from tests.checkpoint.streams import INDEX, load, qwen3, qwen3_moe, refused, two_layers


class TestRefusals:
    def test_missing_and_unexpected_tensors(self, hub: Path, tmp_path: Path) -> None:
        tensors = read_tensors(hub)
        tensors["model.layers.0.self_attn.q_prj.weight"] = tensors.pop("model.layers.0.self_attn.q_proj.weight")
        file = write(tensors, tmp_path / "x.safetensors")
        model = two_layers()
        text = refused(model, file, create_checkpoint_tensor_converter(model))
        assert "lacks 1 tensors of Qwen3MoeForCausalLM: 'model.layers.0.self_attn.q_proj.weight'" in text
        assert "Did you mean 'model.layers.0.self_attn.q_prj.weight'?" in text
        assert "has 1 tensors that Qwen3MoeForCausalLM lacks: 'model.layers.0.self_attn.q_prj.weight'" in text
        report = load(model, file, strict=False)
        assert report.missing == ("model.layers.0.self_attn.q_proj.weight",)
        assert report.unexpected == ("model.layers.0.self_attn.q_prj.weight",)
        assert unequal(model, toy(qwen3_moe(), mlp_only_layers=[])) == list(report.missing)

    @pytest.mark.parametrize("strict", [True, False])
    def test_a_missing_expert_is_named_and_the_model_is_as_it_was(
        self, hub: Path, tmp_path: Path, strict: bool
    ) -> None:
        tensors = read_tensors(hub)
        del tensors["model.layers.1.mlp.experts.3.up_proj.weight"]
        model = two_layers()
        converter = create_checkpoint_tensor_converter(model)
        text = refused(model, write(tensors, tmp_path / "x.safetensors"), converter, strict=strict)
        assert "'model.layers.1.mlp.experts.gate_up_proj' is incomplete: 1 of 16 tensors" in text
        assert "of expert 3 (up_proj)" in text

    @pytest.mark.parametrize("strict", [True, False])
    def test_another_shape(self, hub: Path, tmp_path: Path, strict: bool) -> None:
        tensors = read_tensors(hub)
        tensors["model.norm.weight"] = torch.zeros(3)
        model = two_layers()
        converter = create_checkpoint_tensor_converter(model)
        text = refused(model, write(tensors, tmp_path / "x.safetensors"), converter, strict=strict)
        assert "'model.norm.weight' has shape [3], the model's is [96]" in text

    @pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int8, torch.uint8])
    def test_quantized_tensors_are_not_cast(self, hub: Path, tmp_path: Path, dtype: torch.dtype) -> None:
        tensors = read_tensors(hub)
        name = "model.layers.1.mlp.experts.3.up_proj.weight"
        quantized = {n: t.to(dtype) for n, t in tensors.items() if ".experts." in n}
        model = two_layers()
        converter = create_checkpoint_tensor_converter(model)
        text = refused(model, write({**tensors, **quantized}, tmp_path / "x.safetensors"), converter)
        assert f"is float32 in the model and {str(dtype).removeprefix('torch.')} in the checkpoint" in text
        assert "and 1 more tensors" not in text
        mixed = write({**tensors, name: tensors[name].to(dtype)}, tmp_path / "y.safetensors")
        assert name in refused(model, mixed, create_checkpoint_tensor_converter(model))

    def test_a_key_in_two_shards(self, hub: Path, tmp_path: Path) -> None:
        extra = write({"model.norm.weight": torch.zeros(96)}, tmp_path / "extra.safetensors")
        model = two_layers()
        text = refused(model, [*hub.glob("*.safetensors"), extra], create_checkpoint_tensor_converter(model))
        assert "'model.norm.weight' is in two shards, model-0000" in text
        assert "and extra.safetensors" in text

    def test_a_model_on_the_meta_device(self, hub: Path) -> None:
        with torch.device("meta"):
            model = qwen3_moe()(two_layers().config)
        text = refused(model, hub, create_checkpoint_tensor_converter(model))
        assert "tensors of the model are on the meta device" in text
        assert "no_init_weights" in text

    def test_a_converter_for_another_layout(self, hub: Path) -> None:
        model = two_layers()
        for create in (create_transposed_fused_converter, create_direct_converter):
            text = refused(model, hub, create(model))
            assert "but transformers converts 'qwen3_moe' from the layout per_expert" in text

    def test_a_transposed_checkpoint_without_a_converter(self, tmp_path: Path) -> None:
        cls = generated("qwen3_vl_moe").Qwen3VLMoeForConditionalGeneration
        to_hub_layout(toy(cls), tmp_path / "hub")
        text = refused(blank(cls), tmp_path / "hub")
        assert "The experts are stored transposed: pass converter=create_checkpoint_tensor_converter" in text

    @pytest.mark.parametrize(
        ("damage", "told"),
        [
            (
                lambda folder: next(iter(sorted(folder.glob("*.safetensors")))).unlink(),
                "1 of 4 shards that are not there",
            ),
            (lambda folder: cut(next(iter(folder.glob("*.safetensors")))), "is not a complete safetensors file"),
            (
                lambda folder: next(iter(folder.glob("*.safetensors"))).write_bytes(b"PK"),
                "is not a complete safetensors file",
            ),
            (
                lambda folder: next(iter(folder.glob("*.safetensors"))).write_bytes(b"\2" + b"\0" * 7 + b"[]"),
                "header does not follow",
            ),
            (lambda folder: (folder / INDEX).write_text("{"), "is not JSON"),
            (lambda folder: (folder / INDEX).write_text("[]"), "no JSON object"),
            (lambda folder: (folder / INDEX).write_text("{}"), "no 'weight_map'"),
            (lambda folder: (folder / INDEX).write_text('{"weight_map": {}}'), "'weight_map' is empty"),
            (lambda folder: (folder / INDEX).unlink(), "4 safetensors files and no index"),
            (lambda folder: edit_index(folder, drop="model.norm.weight"), "1 keys of the shards are not in the index"),
            (
                lambda folder: edit_index(folder, add="x"),
                "1 keys are not in the shard that the index names, first 'x'",
            ),
            (
                lambda folder: write({"a": torch.zeros(1)}, folder / "model.safetensors"),
                "has both model.safetensors.index",
            ),
        ],
    )
    def test_damaged_checkpoints(self, tmp_path: Path, damage: Callable[[Path], object], told: str) -> None:
        hub_checkpoint(qwen3(), tmp_path, shards=3)
        damage(tmp_path)
        assert told in refused(blank(qwen3()), tmp_path)

    def test_files_that_are_not_there(self, tmp_path: Path) -> None:
        model = nn.Linear(2, 2)
        for files, told in (
            (tmp_path, "no safetensors file"),
            (tmp_path / "x.safetensors", "No such file"),
            (tmp_path / "x.index.json", "No such file"),
            ([], "no checkpoint files were given"),
        ):
            assert told in refused(model, files)

    def test_nothing_in_common_is_refused_even_when_not_strict(self, tmp_path: Path) -> None:
        file = write({"a": torch.zeros(1)}, tmp_path / "x.safetensors")
        assert "nothing for this model" in refused(nn.Sequential(), file, ignore=["a"], strict=False)
        assert "lacks 2 tensors of Linear" in refused(nn.Linear(2, 2), file, strict=False)

    def test_what_transformers_converts_besides_experts_is_told(self, tmp_path: Path) -> None:
        cls = generated("kimi_linear").KimiLinearForCausalLM
        model = blank(cls)
        text = refused(model, hub_checkpoint(cls, tmp_path), create_checkpoint_tensor_converter(model))
        assert "self_attn.conv1d.weight'" in text
        assert "the built-in converters are only for experts" in text

    def test_a_converter_that_fails_is_named_with_the_tensor(self, hub: Path) -> None:
        class Failing(PerExpertConverter):
            def convert(self, name: str, tensor: torch.Tensor) -> ConvertedCheckpointTensor | None:
                raise ValueError("no values" if tensor.is_meta else "values")

        text = refused(two_layers(), hub, Failing(8))
        assert "Failing.convert failed on 'model.layers.0.mlp.experts.0.down_proj.weight' [96, 56]: ValueError" in text
        assert "tried on the meta device first" in text

    def test_a_converter_that_depends_on_values_is_told(self, hub: Path) -> None:
        class Trimming(PerExpertConverter):
            def convert(self, name: str, tensor: torch.Tensor) -> ConvertedCheckpointTensor | None:
                made = super().convert(name, tensor)
                return (
                    made if made is None or tensor.is_meta else ConvertedCheckpointTensor(made.name, made.tensor[:1])
                )

        with pytest.raises(PatchgenError, match=r"the converter made .* \[1, 96, 56\], and \[8, 96, 56\]"):
            load_state_dict_streaming(two_layers(), hub, Trimming(8))

    def test_what_to_ignore_is_checked(self, hub: Path) -> None:
        text = refused(two_layers(), hub, ignore=["("])
        assert "ignore='(' is not a regular expression" in text
        base = blank(qwen3_moe("Qwen3MoeModel"), mlp_only_layers=[])
        assert load(base, hub, ignore=r"^lm_head\.").ignored == ("lm_head.weight",)

    def test_a_converter_that_cannot_be_copied(self, hub: Path) -> None:
        converter = PerExpertConverter(8)
        converter.handle = (one for one in ())  # type: ignore[attr-defined]
        assert "PerExpertConverter cannot be copied" in refused(two_layers(), hub, converter)

    def test_a_converter_may_hold_the_model_which_is_not_copied(
        self, hub: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def copied(*args: object) -> None:
            raise AssertionError("copied")

        model = two_layers()
        converter: Any = create_checkpoint_tensor_converter(model)
        converter.held = [model, model.model.norm, model.lm_head.weight]
        monkeypatch.setattr(nn.Module, "__deepcopy__", copied, raising=False)
        monkeypatch.setattr(nn.Parameter, "__deepcopy__", copied)
        load_state_dict_streaming(model, hub, converter)
        assert unequal(model, toy(qwen3_moe(), mlp_only_layers=[])) == []

    def test_a_converter_may_hand_over_at_the_end(self, hub: Path) -> None:
        class Late(PerExpertConverter):
            def __init__(self, count: int) -> None:
                super().__init__(count)
                self.made: list[ConvertedCheckpointTensor] = []

            def convert(self, name: str, tensor: torch.Tensor) -> ConvertedCheckpointTensor | None:
                made = super().convert(name, tensor)
                self.made += [made] if made is not None else []
                return None

            def finalize(self) -> list[ConvertedCheckpointTensor]:
                return super().finalize() + self.made

        model = two_layers()
        load_state_dict_streaming(model, hub, Late(8))
        assert unequal(model, toy(qwen3_moe(), mlp_only_layers=[])) == []


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def edit_index(folder: Path, drop: str = "", add: str = "") -> None:
    index = json.loads((folder / INDEX).read_text())
    if drop:
        del index["weight_map"][drop]
    if add:
        index["weight_map"][add] = next(iter(index["weight_map"].values()))
    (folder / INDEX).write_text(json.dumps(index))


def test_memory_beyond_the_model_is_one_layers_experts(tmp_path: Path) -> None:
    layers = 6
    model = blank(qwen3_moe(), num_hidden_layers=layers, mlp_only_layers=[])
    tensors = read_tensors(hub_checkpoint(qwen3_moe(), tmp_path / "hub", num_hidden_layers=layers, mlp_only_layers=[]))
    names = sorted(tensors)
    random.Random(0).shuffle(names)
    files = [
        write({name: tensors[name] for name in names[part::7]}, tmp_path / f"{part}.safetensors") for part in range(7)
    ]
    layer = sum(tensor.nbytes for name, tensor in tensors.items() if "layers.2.mlp.experts" in name)
    rest = max(tensor.nbytes for name, tensor in tensors.items() if ".experts." not in name)
    model_own = {tensor.untyped_storage().data_ptr() for tensor in model.state_dict().values()}
    model_own |= {tensor.untyped_storage().data_ptr() for tensor in tensors.values()}
    most = 0

    class Watching(PerExpertConverter):
        def can_handle(self, name: str) -> bool:
            nonlocal most
            most = max(most, live_bytes(model_own))
            return super().can_handle(name)

        def convert(self, name: str, tensor: torch.Tensor) -> ConvertedCheckpointTensor | None:
            nonlocal most
            converted = super().convert(name, tensor)
            most = max(most, live_bytes(model_own))
            return converted

    gc.collect()
    gc.freeze()  # what is there already is not looked at
    try:
        load_state_dict_streaming(model, files, Watching(8))
    finally:
        gc.unfreeze()
    assert unequal(model, toy(qwen3_moe(), num_hidden_layers=layers, mlp_only_layers=[])) == []
    assert layer <= most <= layer + max(rest, layer // 8)


def live_bytes(but: set[int]) -> int:
    """The bytes of every tensor made since gc.freeze that is alive and has values, each storage once."""
    found = {}
    for one in gc.get_objects():
        if type(one) in (torch.Tensor, nn.Parameter) and not one.is_meta:
            storage = one.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return sum(size for place, size in found.items() if place not in but)
