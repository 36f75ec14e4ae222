"""Configs, processors and checkpoints that Auto classes give; registrations that are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoProcessor, Qwen3Config
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING

from patchgen_core.auto import AutoRegistration, register_with_auto, unregister_from_auto
from patchgen_core.errors import PatchgenError
from patchgen_core.registry import MODEL_CONFIG_REGISTRY, MODEL_PROCESSOR_REGISTRY, MODELING_REGISTRY
from tests.runtime.auto_project import GENERATED, SIZES, UPSTREAM, home_of


def refusal(**named: Any) -> str:
    with pytest.raises(PatchgenError) as caught:
        register_with_auto(**named)
    return str(caught.value)


# --- configs ---------------------------------------------------------------------------------------


class TunedQwen3Config(Qwen3Config):
    pass


class AcmeConfig(Qwen3Config):
    model_type = "acme_qwen3"


class ForeignConfig(transformers.PreTrainedConfig):
    model_type = "qwen3"


@pytest.mark.usefixtures("acme")
def test_a_config_class_of_the_project_is_given_and_gets_the_generated_model(tmp_path: Path) -> None:
    Qwen3Config(**SIZES).save_pretrained(tmp_path)
    MODEL_CONFIG_REGISTRY.register("qwen3")(lambda: TunedQwen3Config)
    done = register_with_auto("qwen3")
    assert AutoRegistration("AutoConfig", "qwen3", TunedQwen3Config) in done
    config = AutoConfig.from_pretrained(tmp_path)
    assert type(config) is TunedQwen3Config
    assert home_of(AutoModelForCausalLM, config) == GENERATED
    assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == GENERATED
    unregister_from_auto()
    assert type(AutoConfig.from_pretrained(tmp_path)) is Qwen3Config


@pytest.mark.usefixtures("acme")
def test_tokenizers_and_models_left_to_upstream_know_the_projects_config_class() -> None:
    MODEL_CONFIG_REGISTRY.register("qwen3")(lambda: TunedQwen3Config)
    register_with_auto("qwen3")
    assert TOKENIZER_MAPPING[TunedQwen3Config] is TOKENIZER_MAPPING[Qwen3Config]
    assert home_of(transformers.AutoModelForQuestionAnswering, TunedQwen3Config(**SIZES)) == UPSTREAM
    unregister_from_auto()
    assert TunedQwen3Config not in TOKENIZER_MAPPING


@pytest.mark.usefixtures("acme")
def test_a_model_type_of_the_project_is_given_by_the_auto_classes_of_what_it_derives_from() -> None:
    MODEL_CONFIG_REGISTRY.register("acme_qwen3")(lambda: AcmeConfig)
    MODELING_REGISTRY.register("acme_qwen3")(MODELING_REGISTRY.get("qwen3", "cuda"))
    register_with_auto("acme_qwen3")
    assert home_of(AutoModelForCausalLM, AutoConfig.for_model("acme_qwen3", **SIZES)) == GENERATED
    assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == UPSTREAM


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "gives None, which is not a class of configs"),
        (transformers.Qwen2Config, "gives Qwen2Config, whose model_type is 'qwen2'"),
        (ForeignConfig, "does not derive from"),
    ],
)
def test_a_config_class_that_does_not_fit_is_refused(given: Any, said: str) -> None:
    MODEL_CONFIG_REGISTRY.register("qwen3")(lambda: given)
    assert said in refusal(model_type="qwen3")
    assert unregister_from_auto() == ()


@pytest.mark.usefixtures("acme")
def test_a_model_type_without_config_class_is_refused() -> None:
    MODELING_REGISTRY.register("qwen33_moe")(lambda architecture: None)
    message = refusal()
    assert "no config class is known for the model type 'qwen33_moe'" in message
    assert "Did you mean 'qwen3_moe'?" in message
    assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == UPSTREAM


# --- refusals --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("acme")
def test_a_model_type_that_is_not_registered_is_refused() -> None:
    assert "Did you mean 'qwen3'?" in refusal(model_type="qwen4")


@pytest.mark.usefixtures("acme")
def test_a_model_that_is_there_for_another_device_only_is_refused() -> None:
    MODELING_REGISTRY.unregister("qwen3", "cuda")
    assert "only for 'npu'" in refusal(model_type="qwen3", device_type="cuda")


@pytest.mark.usefixtures("acme")
def test_a_function_that_gives_nothing_for_any_auto_class_is_refused() -> None:
    def raises(architecture: str) -> None:
        raise ValueError(f"no {architecture} here")

    MODELING_REGISTRY.register("qwen2")(lambda architecture: None)
    assert "for 'qwen2' gives no class for any auto class" in refusal(model_type="qwen2")
    MODELING_REGISTRY.unregister("qwen2")
    MODELING_REGISTRY.register("qwen2")(raises)
    assert "It raises ValueError: no " in refusal(model_type="qwen2")


@pytest.mark.usefixtures("acme")
def test_a_function_that_cannot_import_its_module_shows_the_error_itself() -> None:
    def broken(architecture: str) -> None:
        raise ModuleNotFoundError("No module named 'patched'")

    MODELING_REGISTRY.register("qwen2")(broken)
    with pytest.raises(ModuleNotFoundError, match="patched"):
        register_with_auto()
    assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == UPSTREAM


def test_registering_when_nothing_is_registered_is_refused() -> None:
    assert "nothing is registered\n  Import the package" in refusal()


# --- processors ------------------------------------------------------------------------------------


class Qwen3VLProcessor(transformers.ProcessorMixin):
    attributes: list[str] = []

    def __init__(self) -> None:
        super().__init__()


class AcmeProcessor(Qwen3VLProcessor):
    pass


def processor_in(folder: Path, name: str) -> Path:
    (folder / "processor_config.json").write_text(json.dumps({"processor_class": name}))
    return folder


@pytest.mark.usefixtures("acme")
def test_a_processor_is_given_by_the_name_in_its_config_and_for_its_models(tmp_path: Path) -> None:
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

    MODEL_PROCESSOR_REGISTRY.register("Qwen3VLProcessor")(lambda: Qwen3VLProcessor)
    done = register_with_auto("qwen3_vl_moe")
    keys = {one.key for one in done if one.auto_class == "AutoProcessor"}
    assert "Qwen3VLProcessor" in keys
    processor = AutoProcessor.from_pretrained(processor_in(tmp_path, "Qwen3VLProcessor"))
    assert type(processor) is Qwen3VLProcessor
    assert PROCESSOR_MAPPING[transformers.Qwen3VLMoeConfig] is Qwen3VLProcessor
    unregister_from_auto()
    upstream: Any = PROCESSOR_MAPPING[transformers.Qwen3VLMoeConfig]
    assert upstream is transformers.models.qwen3_vl.Qwen3VLProcessor


@pytest.mark.usefixtures("acme")
def test_a_processor_that_transformers_does_not_know_is_given_by_its_name(tmp_path: Path) -> None:
    MODEL_PROCESSOR_REGISTRY.register("AcmeProcessor")(lambda: AcmeProcessor)
    register_with_auto()
    assert type(AutoProcessor.from_pretrained(processor_in(tmp_path, "AcmeProcessor"))) is AcmeProcessor


@pytest.mark.usefixtures("acme")
def test_a_processor_of_another_model_type_is_left_alone() -> None:
    MODEL_PROCESSOR_REGISTRY.register("Qwen3VLProcessor")(lambda: Qwen3VLProcessor)
    assert "AutoProcessor" not in {one.auto_class for one in register_with_auto("qwen3")}


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("given", "said"),
    [(Qwen3Config, "not a class of processors"), (AcmeProcessor, "finds it only if 'Qwen3VLProcessor' is its name")],
)
def test_a_processor_that_does_not_fit_is_refused(given: Any, said: str) -> None:
    MODEL_PROCESSOR_REGISTRY.register("Qwen3VLProcessor")(lambda: given)
    assert said in refusal()
    assert unregister_from_auto() == ()


@pytest.mark.usefixtures("acme")
def test_a_transformers_that_does_not_answer_as_it_should_is_told_and_left_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from transformers.models.auto import processing_auto

    monkeypatch.setattr(processing_auto, "processor_class_from_name", lambda name: None)
    MODEL_PROCESSOR_REGISTRY.register("Qwen3VLProcessor")(lambda: Qwen3VLProcessor)
    assert f"transformers {transformers.__version__} gives None for 'Qwen3VLProcessor', not" in refusal()
    assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == UPSTREAM
    assert unregister_from_auto() == ()


# --- checkpoints -----------------------------------------------------------------------------------


LOADING = """
import sys

import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, conversion_mapping

from patchgen_core.auto import register_with_auto, unregister_from_auto
from patchgen_core.checkpoint import detect_layout, to_hub_layout
from patchgen_core.models.toy_config import toy_config_for
from patchgen_core.registry import resolve_model_class

sys.path.insert(0, "examples")
import zoo.qwen3_moe
import zoo.qwen3_vl_moe

way, folder = sys.argv[1:]
for model_type, head in (("qwen3_moe", "ForCausalLM"), ("qwen3_vl_moe", "ForConditionalGeneration")):
    config = toy_config_for(model_type)
    config.architectures = [{"qwen3_moe": "Qwen3Moe", "qwen3_vl_moe": "Qwen3VLMoe"}[model_type] + head]
    if way == "auto":
        register_with_auto(model_type)
        auto = AutoModelForCausalLM if head == "ForCausalLM" else AutoModelForImageTextToText
        model_class = type(auto.from_config(config))
    else:
        auto = model_class = resolve_model_class(config)
    assert model_class.__module__.startswith("zoo."), model_class
    model = model_class(config)
    to_hub_layout(model, f"{folder}/{model_type}")
    model.save_pretrained(f"{folder}/{model_type}_saved")
    for name in (model_type, f"{model_type}_saved"):
        loaded = auto.from_pretrained(f"{folder}/{name}")
        assert type(loaded) is model_class
        for key, tensor in model.state_dict().items():
            assert torch.equal(loaded.state_dict()[key], tensor), (name, key)
    print(model_type, detect_layout(f"{folder}/{model_type}").value)
unregister_from_auto()
print(sorted(conversion_mapping.USER_REGISTERED_MAPPINGS) if way == "auto" else "")
"""


@pytest.mark.parametrize("way", ["auto", "resolved"])
@pytest.mark.slow
def test_experts_of_hub_checkpoints_are_loaded_into_generated_classes(way: str, tmp_path: Path) -> None:
    """transformers converts for its own classes alone, and else initializes what is missing at random."""
    done = subprocess.run(
        [sys.executable, "-c", LOADING, way, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rest = "[]" if way == "auto" else ""
    assert done.stdout.splitlines() == ["qwen3_moe per_expert", "qwen3_vl_moe transposed", rest]
