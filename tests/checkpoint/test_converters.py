"""The ready converters, fed by hand."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from transformers import Qwen3VLMoeConfig, Qwen3VLMoeTextConfig

from patchgen_core.checkpoint import (
    CheckpointTensorConverter,
    ConvertedCheckpointTensor,
    DirectConverter,
    PerExpertConverter,
    TransposedFusedConverter,
    create_checkpoint_tensor_converter,
    create_direct_converter,
    create_per_expert_converter,
    create_transposed_fused_converter,
    maybe_convert_checkpoint_tensor,
)
from patchgen_core.checkpoint.headers import read_tensors
from patchgen_core.checkpoint.sizes import ExpertSizes
from patchgen_core.errors import PatchgenError
from tests.checkpoint.checkpoints import generated, hub_checkpoint, toy

E, H, I = 3, 8, 6  # noqa: E741 - experts, hidden size, intermediate size, as in the docs
MODULE = "model.layers.0.mlp.experts"


def experts(module: str = MODULE, count: int = E) -> dict[str, torch.Tensor]:
    """One layer's tensors as the hub has them."""
    shapes = {"gate_proj": (I, H), "up_proj": (I, H), "down_proj": (H, I)}
    return {
        f"{module}.{expert}.{name}.weight": torch.randn(shape)
        for expert in range(count)
        for name, shape in shapes.items()
    }


def feed(converter: CheckpointTensorConverter, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    made = [maybe_convert_checkpoint_tensor(name, tensor, converter) for name, tensor in tensors.items()]
    return {one.name: one.tensor for one in [*made, *converter.finalize()] if one is not None}


@pytest.mark.slow
def test_the_room_is_light_until_it_is_used() -> None:
    code = "import sys, patchgen_core.checkpoint; print([n for n in ('torch', 'transformers') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    code = "import sys, patchgen_core.checkpoint.hub, patchgen_core.checkpoint.streaming;" + (
        "print([n for n in ('libcst', 'ruff', 'patchgen_core.codegen', 'patchgen_core.api') if n in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_unknown_name_of_the_room_is_an_attribute_error() -> None:
    import patchgen_core.checkpoint as room

    with pytest.raises(AttributeError, match="no_such_name"):
        room.no_such_name  # noqa: B018
    assert all(getattr(room, name) for name in room.__all__)


@pytest.mark.parametrize("converter", [DirectConverter(), PerExpertConverter(E)])
def test_the_ready_converters_keep_the_protocol(converter: object) -> None:
    assert isinstance(converter, CheckpointTensorConverter)


def test_without_a_converter_the_tensor_is_handed_on() -> None:
    tensor = torch.randn(2)
    assert maybe_convert_checkpoint_tensor("a", tensor, None) == ConvertedCheckpointTensor("a", tensor)
    for converter in (DirectConverter(), PerExpertConverter(E)):
        handed = maybe_convert_checkpoint_tensor("model.norm.weight", tensor, converter)
        assert handed is not None
        assert handed.tensor is tensor


class TestPerExpert:
    def test_experts_are_stacked_with_the_gate_before_up(self) -> None:
        tensors = experts()
        fused = feed(PerExpertConverter(E), tensors)
        assert list(fused) == [f"{MODULE}.gate_up_proj", f"{MODULE}.down_proj"]
        gate_up, down = fused.values()
        assert gate_up.shape == (E, 2 * I, H)
        assert down.shape == (E, H, I)
        for expert in range(E):
            assert torch.equal(gate_up[expert, :I], tensors[f"{MODULE}.{expert}.gate_proj.weight"])
            assert torch.equal(gate_up[expert, I:], tensors[f"{MODULE}.{expert}.up_proj.weight"])
            assert torch.equal(down[expert], tensors[f"{MODULE}.{expert}.down_proj.weight"])

    @pytest.mark.parametrize("seed", range(3))
    def test_the_order_of_tensors_does_not_matter(self, seed: int) -> None:
        tensors = experts(count=12) | experts("model.layers.10.mlp.experts", count=12)
        names = list(tensors)
        random.Random(seed).shuffle(names)
        straight = feed(PerExpertConverter(12), tensors)
        shuffled = feed(PerExpertConverter(12), {name: tensors[name] for name in names})
        assert straight.keys() == shuffled.keys()
        assert all(torch.equal(straight[name], shuffled[name]) for name in straight)

    def test_only_what_is_being_filled_is_kept(self) -> None:
        converter = PerExpertConverter(E)
        layer = sum(tensor.nbytes for tensor in experts().values())
        most = 0
        for number in range(4):
            for name, tensor in experts(f"model.layers.{number}.mlp.experts").items():
                converter.convert(name, tensor)
                most = max(most, converter.buffered_bytes)
            assert converter.buffered_bytes == 0
        assert 0 < most <= layer

    def test_experts_of_what_the_model_leaves_out_are_not_touched(self) -> None:
        own = frozenset({f"{MODULE}.gate_up_proj", f"{MODULE}.down_proj"})
        converter = PerExpertConverter(E, own_names=own, ignored=["^talker", "^model"])
        assert not converter.can_handle(f"talker.{MODULE}.0.up_proj.weight")
        assert converter.can_handle(f"{MODULE}.0.up_proj.weight")
        assert converter.can_handle("thinker.mlp.experts.0.up_proj.weight")

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
    def test_dtypes_are_kept(self, dtype: torch.dtype) -> None:
        tensors = {name: tensor.to(dtype) for name, tensor in experts().items()}
        assert {tensor.dtype for tensor in feed(PerExpertConverter(E), tensors).values()} == {dtype}

    def test_parameters_with_gradients_leave_no_graph(self) -> None:
        tensors: dict[str, torch.Tensor] = {name: nn.Parameter(tensor) for name, tensor in experts().items()}
        assert not any(tensor.requires_grad for tensor in feed(PerExpertConverter(E), tensors).values())

    @pytest.mark.parametrize(
        "name",
        [
            f"{MODULE}.gate_up_proj",
            f"{MODULE}.down_proj",
            "model.layers.0.mlp.shared_experts.gate_proj.weight",
            f"{MODULE}.0.gate_proj.weight_scale_inv",
            f"{MODULE}.0.gate_proj.bias",
            f"{MODULE}.x.gate_proj.weight",
            "model.layers.0.mlp.gate.weight",
            "model.layers.0.mlp.myexperts.0.gate_proj.weight",
        ],
    )
    def test_other_names_are_none_of_its_business(self, name: str) -> None:
        converter = PerExpertConverter(E)
        assert not converter.can_handle(name)
        with pytest.raises(PatchgenError, match="not a projection of an expert"):
            converter.convert(name, torch.zeros(I, H))

    def test_finalize_names_what_is_missing_layer_by_layer(self) -> None:
        tensors = experts() | experts("model.layers.1.mlp.experts") | experts("model.layers.2.mlp.experts")
        for name in (f"{MODULE}.1.up_proj", f"{MODULE}.2.gate_proj", f"{MODULE}.2.up_proj"):
            del tensors[f"{name}.weight"]
        del tensors["model.layers.2.mlp.experts.0.down_proj.weight"]
        converter = PerExpertConverter(E)
        with pytest.raises(PatchgenError) as caught:
            feed(converter, tensors)
        assert [problem.message for problem in caught.value.problems] == [
            "'model.layers.0.mlp.experts.gate_up_proj' is incomplete: 3 of 6 tensors of experts are missing,"
            " of expert 1 (up_proj), 2 (gate_proj, up_proj)",
            "'model.layers.2.mlp.experts.down_proj' is incomplete: 1 of 3 tensors of experts are missing,"
            " of expert 0 (down_proj)",
        ]

    def test_many_missing_experts_are_counted(self) -> None:
        converter = PerExpertConverter(64)
        converter.convert(f"{MODULE}.5.down_proj.weight", torch.zeros(H, I))
        with pytest.raises(PatchgenError, match=r"63 of 64 .* 3 \(down_proj\) and 59 more"):
            converter.finalize()

    @pytest.mark.parametrize(
        ("name", "shape", "told"),
        [
            (f"{MODULE}.3.gate_proj.weight", (I, H), "the model has 3 experts there, 0 to 2"),
            (f"{MODULE}.0.gate_proj.weight", (I, H), "was given before"),
            (f"{MODULE}.1.gate_proj.weight", (H, I), r"is \[8, 6\] float32; the projections before it were \[6, 8\]"),
            (f"{MODULE}.1.up_proj.weight", (I + 1, H), r"is \[7, 8\]"),
            (f"{MODULE}.1.gate_proj.weight", (I,), r"has shape \[6\]; the weight of an expert has two dimensions"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, name: str, shape: tuple[int, ...], told: str) -> None:
        converter = PerExpertConverter(E)
        converter.convert(f"{MODULE}.0.gate_proj.weight", torch.zeros(I, H))
        with pytest.raises(PatchgenError, match=told):
            converter.convert(name, torch.zeros(shape))

    def test_experts_of_mixed_dtypes_are_refused(self) -> None:
        converter = PerExpertConverter(E)
        converter.convert(f"{MODULE}.0.gate_proj.weight", torch.zeros(I, H))
        with pytest.raises(PatchgenError, match=r"is .* bfloat16; the projections before it were .* float32"):
            converter.convert(f"{MODULE}.1.gate_proj.weight", torch.zeros(I, H, dtype=torch.bfloat16))

    def test_other_recipes(self) -> None:
        converter = PerExpertConverter(2, {"up_proj": ("up_proj",), "down_proj": ("down_proj",)})
        assert not converter.can_handle("m.experts.0.gate_proj.weight")
        one, two = torch.randn(I, H), torch.randn(I, H)
        converter.convert("m.experts.1.up_proj.weight", two)
        made = converter.convert("m.experts.0.up_proj.weight", one)
        assert made is not None
        assert made.name == "m.experts.up_proj"
        assert torch.equal(made.tensor, torch.stack((one, two)))

    def test_names_of_mixtral_come_from_transformers(self, tmp_path: Path) -> None:
        model = toy(generated("mixtral").MixtralForCausalLM)
        hub = read_tensors(hub_checkpoint(type(model), tmp_path))
        assert any(".block_sparse_moe.experts.0.w1.weight" in name for name in hub)
        converter = create_per_expert_converter(model)
        fused = feed(converter, {name: tensor for name, tensor in hub.items() if converter.can_handle(name)})
        assert "model.layers.0.mlp.experts.gate_up_proj" in fused
        assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in fused.items())

    def test_experts_that_the_model_keeps_apart_are_not_touched(self) -> None:
        class Apart(nn.Module):
            config = SimpleNamespace(num_experts=2)

            def __init__(self) -> None:
                super().__init__()
                self.experts = nn.ModuleList(nn.ModuleDict({"gate_proj": nn.Linear(H, I)}) for _ in range(2))

        converter = create_per_expert_converter(Apart())
        assert not converter.can_handle("experts.0.gate_proj.weight")
        assert converter.can_handle("other.experts.0.gate_proj.weight")

    def test_modules_of_different_sizes(self) -> None:
        thinker, talker = fused_experts(2, H, I), fused_experts(4, H, I)
        model = nn.ModuleDict({"thinker": nn.ModuleDict({"mlp": thinker}), "talker": nn.ModuleDict({"mlp": talker})})
        converter = create_per_expert_converter(model)
        fused = feed(converter, experts("thinker.mlp.experts", count=2) | experts("root.talker.mlp.experts", count=4))
        assert fused["thinker.mlp.experts.gate_up_proj"].shape[0] == 2
        assert fused["root.talker.mlp.experts.gate_up_proj"].shape[0] == 4
        with pytest.raises(PatchgenError, match=r"the model has no experts 'x\.mlp\.experts\.gate_up_proj'"):
            converter.convert("x.mlp.experts.0.up_proj.weight", torch.zeros(I, H))


def fused_experts(count: int, hidden: int, intermediate: int) -> nn.ModuleDict:
    module: Any = nn.Module()
    module.gate_up_proj = nn.Parameter(torch.zeros(count, 2 * intermediate, hidden))
    module.down_proj = nn.Parameter(torch.zeros(count, hidden, intermediate))
    return nn.ModuleDict({"experts": module})


class TestTransposed:
    sizes = ExpertSizes(E, H, I)

    @pytest.mark.parametrize(("name", "own"), [("gate_up_proj", (E, 2 * I, H)), ("down_proj", (E, H, I))])
    def test_the_hubs_shape_is_transposed_and_the_models_passes_untouched(
        self, name: str, own: tuple[int, int, int]
    ) -> None:
        converter = TransposedFusedConverter(self.sizes)
        hub = torch.randn(own[0], own[2], own[1])
        made = converter.convert(f"{MODULE}.{name}", hub)
        assert made is not None
        assert torch.equal(made.tensor, hub.transpose(1, 2))
        tensor = torch.randn(own)
        made = converter.convert(f"{MODULE}.{name}", tensor)
        assert made is not None
        assert made.tensor is tensor
        assert converter.finalize() == []

    @pytest.mark.parametrize("shape", [(E, H, 2 * I + 1), (E + 1, H, 2 * I), (E, H, I), (H, 2 * I), (E, 2 * I, 2 * I)])
    def test_an_unknown_shape_is_refused(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(PatchgenError, match=r"expected \[3, 8, 12\], as the hub stores it, or \[3, 12, 8\]"):
            TransposedFusedConverter(self.sizes).convert(f"{MODULE}.gate_up_proj", torch.zeros(shape))

    @pytest.mark.parametrize(("hidden", "told"), [(I, "down_proj"), (2 * I, "gate_up_proj")])
    def test_ambiguous_sizes_are_refused_at_construction(self, hidden: int, told: str) -> None:
        with pytest.raises(PatchgenError, match=f"experts.{told}' does not show whether it is transposed"):
            TransposedFusedConverter(ExpertSizes(E, hidden, I))

    def test_unknown_sizes_are_refused_at_construction(self) -> None:
        with pytest.raises(PatchgenError, match="3 experts, hidden size 0, intermediate size 0"):
            TransposedFusedConverter(ExpertSizes(E))

    @pytest.mark.parametrize(
        "name", [f"{MODULE}.0.gate_proj.weight", "model.layers.0.mlp.gate_up_proj", "x.experts.bias"]
    )
    def test_other_names_are_none_of_its_business(self, name: str) -> None:
        assert not TransposedFusedConverter(self.sizes).can_handle(name)
        with pytest.raises(PatchgenError, match="not a fused tensor"):
            TransposedFusedConverter(self.sizes).convert(name, torch.zeros(E, H, I))


class TestFactories:
    @pytest.mark.parametrize("wrap", ["text_config", "thinker_config", "both", "flat"])
    def test_sizes_come_from_flat_and_nested_configurations(self, wrap: str) -> None:
        text = SimpleNamespace(num_experts=E, hidden_size=H, moe_intermediate_size=I, intermediate_size=99)
        config: Any = text
        if wrap in ("text_config", "both"):
            config = SimpleNamespace(text_config=config, hidden_size=77)
        if wrap in ("thinker_config", "both"):
            config = SimpleNamespace(thinker_config=config)
        model: Any = nn.Module()
        model.config = config
        converter = create_transposed_fused_converter(model)
        made = converter.convert(f"{MODULE}.gate_up_proj", torch.zeros(E, H, 2 * I))
        assert made is not None
        assert made.tensor.shape == (E, 2 * I, H)
        assert feed(create_per_expert_converter(model), experts()).keys() == {
            f"{MODULE}.gate_up_proj",
            f"{MODULE}.down_proj",
        }

    def test_a_text_model_on_its_own_and_the_whole_model(self) -> None:
        module = generated("qwen3_vl_moe")
        whole = toy(module.Qwen3VLMoeForConditionalGeneration)
        text = toy(module.Qwen3VLMoeTextModel)
        assert isinstance(whole.config, Qwen3VLMoeConfig)
        assert isinstance(text.config, Qwen3VLMoeTextConfig)
        for model in (whole, text, whole.model.language_model):
            converter = create_checkpoint_tensor_converter(model)
            assert isinstance(converter, TransposedFusedConverter)
            name, own = next((n, p) for n, p in model.named_parameters() if n.endswith("experts.down_proj"))
            made = converter.convert(name, own.detach().transpose(1, 2))
            assert made is not None
            assert torch.equal(made.tensor, own)

    @pytest.mark.parametrize(
        ("family", "name", "kind"),
        [
            ("qwen3_moe", "Qwen3MoeForCausalLM", PerExpertConverter),
            ("deepseek_v3", "DeepseekV3Model", PerExpertConverter),
            ("qwen3_omni_moe", "Qwen3OmniMoeThinkerForConditionalGeneration", PerExpertConverter),
            ("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", PerExpertConverter),
            ("qwen3", "Qwen3ForCausalLM", DirectConverter),
            ("gpt_oss", "GptOssForCausalLM", DirectConverter),
        ],
    )
    @pytest.mark.mostly_slow(2)
    def test_the_converter_is_chosen_by_transformers_mapping(self, family: str, name: str, kind: type) -> None:
        assert type(create_checkpoint_tensor_converter(toy(getattr(generated(family), name)))) is kind

    def test_a_model_that_tells_no_sizes_is_refused(self) -> None:
        for factory in (create_per_expert_converter, create_transposed_fused_converter):
            with pytest.raises(
                PatchgenError, match="Linear has no fused experts, and its configuration has no number"
            ):
                factory(nn.Linear(2, 2))
        assert isinstance(create_direct_converter(nn.Linear(2, 2)), DirectConverter)
