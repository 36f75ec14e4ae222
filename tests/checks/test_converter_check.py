"""The converter check: green for what loads as Hugging Face does, red for each way to get it wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from patchgen_core.checkpoint import (
    ConvertedCheckpointTensor,
    PerExpertConverter,
    create_checkpoint_tensor_converter,
    create_direct_converter,
    create_per_expert_converter,
    create_transposed_fused_converter,
)
from patchgen_core.checks.converter.comparison import check_converter
from patchgen_core.models.toy_config import make_toy_config
from tests.checkpoint.checkpoints import generated, upstream_of
from tests.checks.converters_of_experts import (
    AsTheyCome,
    Collecting,
    Crashing,
    Deaf,
    Forgetful,
    ForgetfulOfDown,
    HandsOverTheRest,
    Interleaved,
    Rounding,
    RoundingBack,
    SortedAsText,
    SwappedAndSortedAsText,
    SwappedHalves,
    Vague,
    WrongName,
)

pytestmark = pytest.mark.torch

STEPS = (
    "layout",
    "hub checkpoint",
    "random order",
    "model's own layout",
    "a missing expert",
    "square experts",
    "way back",
)

IGNORED = "_keys_to_ignore_on_load_unexpected"


def check(cls: Any, factory: Callable[[Any], Any], **kwargs: Any) -> dict[str, str]:
    """What the check says of a converter: the text of each step that failed."""
    verdict = check_converter(cls, factory, **kwargs)
    found = {}
    for problem in verdict.errors:
        step = next(step for step in STEPS if problem.message.startswith(f"{step}: "))
        found[step] = f"{problem.message}\n{problem.hint}"
        assert problem.hint
        assert problem.location is None
    return found


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("qwen3_moe", "Qwen3MoeForCausalLM"),
        ("qwen3_moe", "Qwen3MoeModel"),
        ("deepseek_v3", "DeepseekV3ForCausalLM"),
        ("mixtral", "MixtralForCausalLM"),
        ("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration"),
        ("qwen3_vl_moe", "Qwen3VLMoeModel"),
        ("qwen3_vl_moe", "Qwen3VLMoeTextModel"),
        ("qwen3_omni_moe", "Qwen3OmniMoeThinkerForConditionalGeneration"),
        ("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration"),
        ("gpt_oss", "GptOssForCausalLM"),
        ("qwen3", "Qwen3ForCausalLM"),
    ],
)
@pytest.mark.mostly_slow(2)
def test_the_converter_that_transformers_asks_for_is_green(family: str, name: str) -> None:
    verdict = check_converter(getattr(generated(family), name), create_checkpoint_tensor_converter)
    assert verdict.errors == ()
    assert verdict.figures["tensors"] > 10
    assert verdict.figures["experts"] == (0 if family == "qwen3" else 12)


class TestLeavingOut:
    """A class that has a part of upstream's, and ignores the keys of the rest."""

    @pytest.fixture
    def thinker(self) -> Any:
        whole = generated("qwen3_omni_moe").Qwen3OmniMoeForConditionalGeneration
        namespace = {"enable_talker": lambda self: None, "__module__": whole.__module__}
        return type(whole.__name__, (whole,), namespace)

    def test_what_it_ignores_is_not_missed(self, thinker: Any) -> None:
        verdict = check_converter(thinker, create_per_expert_converter)
        assert verdict.errors == ()
        assert verdict.figures["tensors"] > 10

    @pytest.mark.slow
    def test_experts_of_the_rest_may_be_converted_as_well(self, thinker: Any) -> None:
        assert check(thinker, lambda model: PerExpertConverter(12)) == {}

    @pytest.mark.slow
    def test_a_whole_part_that_it_has_not_is_noted(self, thinker: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(generated("qwen3_omni_moe").Qwen3OmniMoeThinkerModel, IGNORED, [])
            verdict = check_converter(thinker, create_per_expert_converter)
        assert verdict.errors == ()
        assert any("has no talker, code2wav" in note for note in verdict.notes)

    def test_half_a_part_that_it_has_not_is_missed(self, thinker: Any) -> None:
        def shorten(self: Any, config: Any) -> None:
            super(thinker, self).__init__(config)
            self.thinker.model.audio_tower.conv2d1 = torch.nn.Identity()

        thinker.__init__ = shorten
        found = check(thinker, create_per_expert_converter)
        assert "audio_tower.conv2d1" in found["hub checkpoint"]


@pytest.mark.parametrize("name", ["Qwen3MoeForCausalLM", "Qwen3MoeModel"])
def test_a_converter_of_ones_own_is_green(name: str) -> None:
    assert check(getattr(generated("qwen3_moe"), name), Collecting) == {}


def test_what_upstream_chose_for_itself_is_not_asked_of_the_generated_class() -> None:
    """Upstream's class runs experts as one grouped product unless it is told otherwise."""

    class Looped(generated("qwen3_moe").Qwen3MoeForCausalLM):
        def __init__(self, config: Any) -> None:
            if config._experts_implementation == "grouped_mm":
                raise ValueError("there is no grouped_mm for these experts")
            super().__init__(config)

    upstream = upstream_of(generated("qwen3_moe").Qwen3MoeForCausalLM)
    assert upstream(make_toy_config(upstream.config_class)).config._experts_implementation == "grouped_mm"
    assert check(Looped, Collecting, upstream_class=upstream) == {}


@pytest.mark.parametrize(
    ("converter", "steps", "told"),
    [
        (SwappedHalves, ["hub checkpoint", "random order"], "gate_up_proj' has gate and up swapped"),
        (Interleaved, ["hub checkpoint", "random order"], "gate_up_proj' has gate and up interleaved"),
        (SortedAsText, ["hub checkpoint", "random order"], "they were sorted as text, '10' before '2'"),
        (
            SwappedAndSortedAsText,
            ["hub checkpoint", "random order"],
            "has gate and up swapped, and has its experts in",
        ),
        (AsTheyCome, ["random order"], "has its experts in another order: expert"),
        (Forgetful, ["a missing expert"], "finalize does not raise"),
        (ForgetfulOfDown, ["a missing expert"], "experts.11.down_proj.weight', finalize does not raise"),
        (
            HandsOverTheRest,
            ["a missing expert"],
            "finalize does not raise and hands over 'model.layers.1.mlp.experts.",
        ),
        (Vague, ["a missing expert"], "names no layer: RuntimeError: something is missing"),
        (Rounding, ["hub checkpoint", "random order"], "is torch.bfloat16, not torch.float32"),
        (RoundingBack, ["hub checkpoint", "random order"], "of its values"),
        (WrongName, ["hub checkpoint", "random order"], "'model.layers.1.mlp.experts.gate_up_proj' is missing"),
        (Deaf, ["hub checkpoint", "random order"], "'model.layers.1.mlp.experts.down_proj' is missing"),
        (Crashing, ["hub checkpoint", "random order"], "experts.11.down_proj.weight' [96, 56]: KeyError"),
    ],
)
@pytest.mark.mostly_slow(3)
def test_a_broken_converter_is_told_by_its_defect(converter: Any, steps: list[str], told: str) -> None:
    found = check(generated("qwen3_moe").Qwen3MoeForCausalLM, converter)
    assert set(steps) <= set(found), found
    assert told in found[steps[0]]
    assert "way back" not in found, "that step does not use the converter"


class BlindTranspose:
    """Transposes whatever has the name."""

    def __init__(self, model: Any) -> None:
        pass

    def can_handle(self, name: str) -> bool:
        return name.endswith((".experts.gate_up_proj", ".experts.down_proj"))

    def convert(self, name: str, tensor: torch.Tensor) -> ConvertedCheckpointTensor | None:
        return ConvertedCheckpointTensor(name, tensor.transpose(1, 2))

    def finalize(self) -> list[ConvertedCheckpointTensor]:
        return []


def test_a_blind_transpose_is_red_on_checkpoints_of_ones_own() -> None:
    found = check(generated("qwen3_vl_moe").Qwen3VLMoeForConditionalGeneration, BlindTranspose)
    assert list(found) == ["model's own layout"]
    assert "mlp.experts.gate_up_proj' is transposed: [12, " in found["model's own layout"]
    assert "find them by name or shape" in found["model's own layout"]


@pytest.mark.parametrize(
    ("family", "name", "factory", "told"),
    [
        (
            "qwen3_omni_moe",
            "Qwen3OmniMoeThinkerForConditionalGeneration",
            create_transposed_fused_converter,
            "per_expert",
        ),
        ("qwen3_moe", "Qwen3MoeForCausalLM", BlindTranspose, "per_expert"),
        ("qwen3_moe", "Qwen3MoeForCausalLM", create_direct_converter, "per_expert"),
        ("qwen3_moe", "Qwen3MoeForCausalLM", lambda model: None, "no converter is given"),
        ("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", create_per_expert_converter, "transposed"),
        ("gpt_oss", "GptOssForCausalLM", BlindTranspose, "direct"),
    ],
)
def test_a_converter_for_another_layout_is_one_problem(family: str, name: str, factory: Any, told: str) -> None:
    found = check(getattr(generated(family), name), factory)
    assert list(found) == ["layout"]
    assert told in found["layout"]
    assert "create_checkpoint_tensor_converter" in found["layout"]


def test_a_factory_that_fails_or_returns_something_else_is_a_problem() -> None:
    model_class = generated("qwen3_moe").Qwen3MoeForCausalLM
    found = check(model_class, lambda model: model.config.no_such_thing)
    assert list(found) == ["layout"]
    assert "the factory failed on a Qwen3MoeForCausalLM: AttributeError" in found["layout"]
    found = check(model_class, lambda model: {})
    assert "the factory returned a dict, which is not a CheckpointTensorConverter" in found["layout"]


def test_a_model_without_experts_may_be_refused_by_the_factory() -> None:
    def factory(model: Any) -> Any:
        raise ValueError("no experts")

    verdict = check_converter(generated("qwen3").Qwen3ForCausalLM, factory)
    assert verdict.errors == ()
    assert verdict.reason == "the model has no experts, and the factory makes no converter for it"


def test_few_experts_are_noted() -> None:
    cls = generated("qwen3_moe").Qwen3MoeForCausalLM
    verdict = check_converter(cls, SortedAsText, config=make_toy_config(cls.config_class, {"num_experts": 8}))
    assert verdict.errors == ()
    assert "8 experts: an order of their numbers as text would not show" in verdict.notes[0]


def test_a_class_that_transformers_does_not_have_needs_the_upstream_class() -> None:
    module = generated("qwen3_moe")
    own = type("AcmeForCausalLM", (module.Qwen3MoeForCausalLM,), {"__module__": module.__name__})
    [problem] = check_converter(own, Collecting).errors
    assert "there is no AcmeForCausalLM in transformers.models.qwen3_moe.modeling_qwen3_moe" in problem.message
    assert "upstream_class=" in problem.hint


def test_a_model_whose_experts_have_another_shape_is_red() -> None:
    module = generated("qwen3_moe")

    class Turned(module.Qwen3MoeForCausalLM):  # type: ignore[misc, name-defined]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            experts = self.model.layers[1].mlp.experts
            experts.down_proj = torch.nn.Parameter(experts.down_proj.detach().transpose(1, 2).contiguous())

    Turned.__module__ = module.__name__
    upstream = module.Qwen3MoeForCausalLM
    found = check(Turned, create_per_expert_converter, upstream_class=upstream)
    assert {"hub checkpoint", "model's own layout", "way back"} <= set(found)
    assert "size mismatch for model.layers.1.mlp.experts.down_proj" in found["way back"]


class TellingByShape:
    """A converter that transposes what is not of the model's shape."""

    layout = "transposed"

    def __init__(self, model: Any) -> None:
        self.shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}

    def can_handle(self, name: str) -> bool:
        return ".experts." in name

    def convert(self, name: str, tensor: torch.Tensor) -> ConvertedCheckpointTensor:
        is_own = tensor.shape == self.shapes[name]
        return ConvertedCheckpointTensor(name, tensor if is_own else tensor.transpose(1, 2))

    def finalize(self) -> list[ConvertedCheckpointTensor]:
        return []


def test_shapes_do_not_tell_the_layout_of_square_experts() -> None:
    found = check(generated("qwen3_vl_moe").Qwen3VLMoeForConditionalGeneration, TellingByShape)
    assert "down_proj' is transposed" in found.pop("square experts")
    assert found == {}


def test_square_experts_may_be_refused() -> None:
    model_class = generated("qwen3_vl_moe").Qwen3VLMoeForConditionalGeneration
    verdict = check_converter(model_class, create_transposed_fused_converter)
    assert verdict.errors == ()
    assert any("square experts are refused" in note for note in verdict.notes)
