"""transformers' auto classes give generated classes: from configs, checkpoints and processor files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoProcessor, Qwen3Config
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING

from patchgen_core.auto import AutoRegistration, register_with_auto, unregister_from_auto
from patchgen_core.errors import PatchgenError
from patchgen_core.registry import MODEL_CONFIG_REGISTRY, MODEL_PROCESSOR_REGISTRY, MODELING_REGISTRY

PATCH = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.qwen3.modeling_qwen3", "patched_modeling_qwen3_{device}.py")
config.exclude_from_output("Qwen3ForQuestionAnswering")


@config.override_method("Qwen3MLP.forward")
def qwen3_mlp_forward(self, x):
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""
VISION = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe", "patched_modeling_qwen3_vl_moe_gpu.py")
"""
REGISTERED = """
from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("qwen3", device_type="cuda")
def register_gpu(architecture):
    from .qwen3.generated.patched_modeling_qwen3_gpu import Qwen3ForCausalLM, Qwen3Model

    return Qwen3ForCausalLM if "ForCausalLM" in architecture else Qwen3Model


@MODELING_REGISTRY.register("qwen3", device_type="npu")
def register_npu(architecture):
    from .qwen3.generated import patched_modeling_qwen3_npu

    return getattr(patched_modeling_qwen3_npu, architecture)


@MODELING_REGISTRY.register("qwen3_vl_moe")
def register_vision(architecture):
    from .qwen3_vl_moe.generated.patched_modeling_qwen3_vl_moe_gpu import Qwen3VLMoeModel

    return Qwen3VLMoeModel
"""
GENERATED = "acme.qwen3.generated.patched_modeling_qwen3_gpu"
UPSTREAM = "transformers.models.qwen3.modeling_qwen3"
SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "max_position_embeddings": 64,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with generated modules, importable as ``acme``."""
    root = tmp_path_factory.mktemp("project")
    files = {
        "pyproject.toml": '[tool.patchgen]\nsearch_root = "acme"\npackage_prefix = "acme"\n',
        "acme/__init__.py": REGISTERED,
        "acme/qwen3/qwen3_gpu_patch_gen_config.py": PATCH.format(device="gpu"),
        "acme/qwen3/qwen3_npu_patch_gen_config.py": PATCH.format(device="npu"),
        "acme/qwen3_vl_moe/qwen3_vl_moe_gpu_patch_gen_config.py": VISION,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    command = [sys.executable, "-m", "patchgen_core", "--check", "--fix"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return root


def fresh(project: Path, code: str, *arguments: str) -> str:
    """What a new process prints in which the project can be imported."""
    path = os.pathsep.join([str(project), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-W", "error::UserWarning:patchgen_core", "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def acme(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The project's models, registered here; nothing of them is left afterwards."""
    monkeypatch.syspath_prepend(str(project))
    sys.modules.pop("acme", None)
    __import__("acme")
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unregister_from_auto()
    for registry in (MODELING_REGISTRY, MODEL_CONFIG_REGISTRY, MODEL_PROCESSOR_REGISTRY):
        keys = registry.keys()
        for key in keys:
            registry.unregister(key)
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme"]:
        del sys.modules[name]


def home_of(auto: Any, config: Any) -> str:
    """The module of what an auto class makes of a config."""
    with torch.device("meta"):
        return type(auto.from_config(config)).__module__


def refusal(**named: Any) -> str:
    with pytest.raises(PatchgenError) as caught:
        register_with_auto(**named)
    return str(caught.value)


# --- in a fresh process ----------------------------------------------------------------------------


def test_from_config_and_from_pretrained_give_generated_classes(project: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    upstream = transformers.Qwen3ForCausalLM(Qwen3Config(**SIZES)).eval()
    upstream.save_pretrained(tmp_path)
    with torch.no_grad():
        torch.save(upstream(torch.arange(9)[None]).logits, tmp_path / "logits.pt")
    code = """
    import sys
    import acme
    from patchgen_core.auto import register_with_auto
    register_with_auto("qwen3")
    import torch
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForTokenClassification
    folder = sys.argv[1]
    for auto in (AutoModel, AutoModelForCausalLM, AutoModelForTokenClassification):
        print(type(auto.from_config(AutoConfig.from_pretrained(folder))))
    model = AutoModelForCausalLM.from_pretrained(folder)
    print(type(model))
    print(torch.equal(model(torch.arange(9)[None]).logits, torch.load(folder + "/logits.pt")))
    """
    classes = ("Qwen3Model", "Qwen3ForCausalLM", "Qwen3ForTokenClassification", "Qwen3ForCausalLM")
    expected = [*(f"<class '{GENERATED}.{name}'>" for name in classes), "True"]
    assert fresh(project, code, str(tmp_path)).splitlines() == expected


# --- models ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("acme")
def test_every_auto_class_with_a_place_for_a_generated_class_gives_it() -> None:
    done = register_with_auto("qwen3")
    assert {one.auto_class for one in done} == {
        "AutoModel",
        "AutoModelForCausalLM",
        "AutoModelForSequenceClassification",
        "AutoModelForTokenClassification",
    }
    for one in done:
        assert isinstance(one.given, type)
        assert (one.given.__module__, one.replaced) == (GENERATED, "")
        assert home_of(getattr(transformers, one.auto_class), Qwen3Config(**SIZES)) == GENERATED


@pytest.mark.usefixtures("acme")
def test_a_class_that_the_generated_module_leaves_out_stays_upstreams() -> None:
    register_with_auto("qwen3")
    assert home_of(transformers.AutoModelForQuestionAnswering, Qwen3Config(**SIZES)) == UPSTREAM


@pytest.mark.usefixtures("acme")
def test_other_model_types_stay_upstreams() -> None:
    register_with_auto()
    assert home_of(AutoModelForCausalLM, transformers.Qwen2Config(**SIZES)).startswith("transformers.")


@pytest.mark.usefixtures("acme")
def test_the_npu_module_is_given_where_it_is_asked_for() -> None:
    register_with_auto("qwen3", device_type="npu")
    assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == GENERATED.replace("gpu", "npu")


@pytest.mark.usefixtures("acme")
def test_a_model_that_sees_is_given_by_image_text_to_text() -> None:
    done = {one.auto_class: one.given for one in register_with_auto("qwen3_vl_moe")}
    assert {"AutoModel", "AutoModelForImageTextToText"} <= done.keys()
    config = AutoConfig.for_model("qwen3_vl_moe")
    mapping = transformers.AutoModelForImageTextToText._model_mapping
    given: Any = mapping[type(config)]
    assert given.__module__ == "acme.qwen3_vl_moe.generated.patched_modeling_qwen3_vl_moe_gpu"


@pytest.mark.usefixtures("acme")
def test_a_class_of_upstream_that_the_generated_module_imports_is_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    register_with_auto("qwen3")
    unregister_from_auto()
    upstream = transformers.Qwen3ForQuestionAnswering
    monkeypatch.setattr(sys.modules[GENERATED], "Qwen3ForQuestionAnswering", upstream, raising=False)
    assert upstream not in [one.given for one in register_with_auto("qwen3")]


# --- undoing, replacing ----------------------------------------------------------------------------


@pytest.mark.usefixtures("acme")
def test_undone_upstreams_classes_are_back() -> None:
    done = register_with_auto("qwen3")
    undone = unregister_from_auto()
    assert {(one.auto_class, one.given) for one in undone} == {(one.auto_class, one.given) for one in done}
    assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == UPSTREAM
    assert unregister_from_auto() == ()


@pytest.mark.usefixtures("acme")
def test_registering_twice_changes_nothing_and_says_nothing(recwarn: pytest.WarningsRecorder) -> None:
    assert register_with_auto("qwen3") == register_with_auto("qwen3")
    assert not [one for one in recwarn if "patchgen" in str(one.filename) or "gives" in str(one.message)]
    unregister_from_auto()
    assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == UPSTREAM


class Qwen3ForCausalLM(transformers.Qwen3ForCausalLM):
    pass


@pytest.mark.usefixtures("acme")
def test_replacing_what_somebody_registered_is_said_and_undone() -> None:
    AutoModelForCausalLM.register(Qwen3Config, Qwen3ForCausalLM, exist_ok=True)
    try:
        with pytest.warns(UserWarning, match=f"gives {GENERATED}.Qwen3ForCausalLM for") as caught:
            done = register_with_auto("qwen3")
        mine = f"{__name__}.Qwen3ForCausalLM"
        assert [one.replaced for one in done if one.replaced] == [mine]
        assert str(caught[0].message).endswith(f"and no longer {mine}")
        assert caught[0].filename == __file__
        unregister_from_auto()
        assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == __name__
    finally:
        del AutoModelForCausalLM._model_mapping._extra_content[Qwen3Config]


@pytest.mark.usefixtures("acme")
def test_what_somebody_registers_later_stays_when_this_is_undone() -> None:
    register_with_auto("qwen3")
    AutoModelForCausalLM.register(Qwen3Config, Qwen3ForCausalLM, exist_ok=True)
    try:
        with pytest.warns(UserWarning, match=f"{__name__}.Qwen3ForCausalLM was registered for .* stays"):
            undone = unregister_from_auto()
        assert "AutoModelForCausalLM" not in {one.auto_class for one in undone}
        assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == __name__
        assert home_of(AutoModel, Qwen3Config(**SIZES)) == UPSTREAM
    finally:
        del AutoModelForCausalLM._model_mapping._extra_content[Qwen3Config]


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
        (None, "gives None, which is no class of configs"),
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
    [(Qwen3Config, "no class of processors"), (AcmeProcessor, "finds it only if 'Qwen3VLProcessor' is its name")],
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
