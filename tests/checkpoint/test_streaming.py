"""Loading checkpoints into models: what comes of it, what is refused, and what it keeps in memory."""

from __future__ import annotations

import gc
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from transformers import AutoModelForCausalLM, Qwen3MoeConfig

from patchgen_core.checkpoint import (
    ConvertedCheckpointTensor,
    LoadReport,
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

INDEX = "model.safetensors.index.json"


def qwen3_moe(name: str = "Qwen3MoeForCausalLM") -> Any:
    return getattr(generated("qwen3_moe"), name)


def qwen3(name: str = "Qwen3ForCausalLM") -> Any:
    return getattr(generated("qwen3"), name)


def load(model: Any, files: Any, **options: Any) -> LoadReport:
    return load_state_dict_streaming(model, files, create_checkpoint_tensor_converter(model), **options)


def refused(model: Any, files: Any, *args: Any, **options: Any) -> str:
    """The text of the error; the model must be as it was."""
    before = {name: tensor.clone() for name, tensor in model.state_dict().items() if not tensor.is_meta}
    with pytest.raises(PatchgenError) as caught:
        load_state_dict_streaming(model, files, *args, **options)
    for name, tensor in before.items():
        assert torch.equal(tensor.nan_to_num(7), model.state_dict()[name].nan_to_num(7)), name
    return str(caught.value)


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A checkpoint of qwen3_moe with two layers of experts, as Hugging Face saves it."""
    return hub_checkpoint(qwen3_moe(), tmp_path / "hub", mlp_only_layers=[])


def two_layers() -> Any:
    return blank(qwen3_moe(), mlp_only_layers=[])


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
        assert "1 tensors that Qwen3MoeModel has not: 'lm_head.weight'" in refused(base, hub, converter)
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


class TestRefusals:
    def test_missing_and_unexpected_tensors(self, hub: Path, tmp_path: Path) -> None:
        tensors = read_tensors(hub)
        tensors["model.layers.0.self_attn.q_prj.weight"] = tensors.pop("model.layers.0.self_attn.q_proj.weight")
        file = write(tensors, tmp_path / "x.safetensors")
        model = two_layers()
        text = refused(model, file, create_checkpoint_tensor_converter(model))
        assert "lacks 1 tensors of Qwen3MoeForCausalLM: 'model.layers.0.self_attn.q_proj.weight'" in text
        assert "Did you mean 'model.layers.0.self_attn.q_prj.weight'?" in text
        assert "has 1 tensors that Qwen3MoeForCausalLM has not: 'model.layers.0.self_attn.q_prj.weight'" in text
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
        assert "'model.norm.weight' stands in two shards, model-0000" in text
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
            (lambda folder: cut(next(iter(folder.glob("*.safetensors")))), "is no whole safetensors file"),
            (
                lambda folder: next(iter(folder.glob("*.safetensors"))).write_bytes(b"PK"),
                "is no whole safetensors file",
            ),
            (
                lambda folder: next(iter(folder.glob("*.safetensors"))).write_bytes(b"\2" + b"\0" * 7 + b"[]"),
                "header is not",
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
        assert "nothing that the model has" in refused(nn.Sequential(), file, ignore=["a"], strict=False)
        assert "lacks 2 tensors of Linear" in refused(nn.Linear(2, 2), file, strict=False)

    def test_what_transformers_converts_besides_experts_is_told(self, tmp_path: Path) -> None:
        cls = generated("kimi_linear").KimiLinearForCausalLM
        model = blank(cls)
        text = refused(model, hub_checkpoint(cls, tmp_path), create_checkpoint_tensor_converter(model))
        assert "self_attn.conv1d.weight'" in text
        assert "the ready converters are for experts alone" in text

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
        assert "ignore='(' is no regular expression" in text
        base = blank(qwen3_moe("Qwen3MoeModel"), mlp_only_layers=[])
        assert load(base, hub, ignore=r"^lm_head\.").ignored == ("lm_head.weight",)

    def test_a_sharded_model(self, tmp_path: Path) -> None:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            mesh = init_device_mesh("cpu", (1,))
            model = nn.Linear(2, 2)
            model.weight = nn.Parameter(distribute_tensor(model.weight.detach(), mesh, [Shard(0)]))
            file = write({"weight": torch.zeros(2, 2), "bias": torch.zeros(2)}, tmp_path / "x.safetensors")
            with pytest.raises(PatchgenError, match="1 tensors of the model are sharded: 'weight'"):
                load_state_dict_streaming(model, file)
            model.config = Qwen3MoeConfig()  # type: ignore[assignment]
            with pytest.raises(PatchgenError, match="'weight' is sharded"):
                to_hub_layout(model, tmp_path / "out")
        finally:
            dist.destroy_process_group()

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
