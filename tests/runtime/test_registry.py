"""Registries of models: what a trainer finds by ``config.json``."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import Qwen3Config

from patchgen_core.errors import PatchgenError
from patchgen_core.registry import MODELING_REGISTRY, Registry, resolve_model_class

CONFIG = {"model_type": "toy", "architectures": ["ToyForCausalLM"]}


class ToyForCausalLM:
    pass


class ToyModel:
    pass


@pytest.fixture
def registry() -> Registry:
    return Registry("TOY_REGISTRY", "model type")


@pytest.fixture(autouse=True)
def _untouched() -> Iterator[None]:
    before = MODELING_REGISTRY.keys()
    yield
    for key in set(MODELING_REGISTRY.keys()) - set(before):
        MODELING_REGISTRY.unregister(key)


def refusal(function: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    with pytest.raises(PatchgenError) as caught:
        function(*arguments, **named)
    return str(caught.value)


# --- registering -----------------------------------------------------------------------------------


def test_a_registered_function_is_found_by_its_key_and_stays_as_it_is(registry: Registry) -> None:
    @registry.register("toy")
    def register_modeling(architecture: str) -> str:
        return architecture.lower()

    assert registry.get("toy") is register_modeling
    assert register_modeling("ABC") == "abc"
    assert "toy" in registry
    assert "toys" not in registry
    assert registry.keys() == ("toy",)


def test_a_duplicate_names_both_places(registry: Registry) -> None:
    @registry.register("toy")
    def first() -> None: ...

    def second() -> None: ...

    message = refusal(registry.register("toy"), second)
    here, line = Path(__file__).name, first.__code__.co_firstlineno
    assert f"{here}:{line} and at" in message
    assert f"{here}:{line + 3}" in message
    assert "'toy' is registered twice" in message
    assert registry.get("toy") is first


def test_reloading_a_module_is_no_duplicate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reloaded_models.py").write_text(
        textwrap.dedent("""
        from patchgen_core.registry import MODELING_REGISTRY

        @MODELING_REGISTRY.register("reloaded")
        def register_modeling(architecture):
            return None
        """)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("reloaded_models")
    before = MODELING_REGISTRY.get("reloaded")
    importlib.reload(module)
    assert MODELING_REGISTRY.get("reloaded") is module.register_modeling
    assert MODELING_REGISTRY.get("reloaded") is not before


def test_the_same_line_under_another_name_of_the_module_is_no_duplicate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "twice_named"
    package.mkdir()
    (package / "twice.py").write_text(
        "from patchgen_core.registry import MODELING_REGISTRY\n"
        "@MODELING_REGISTRY.register('twice')\ndef register_modeling(architecture): ...\n"
    )
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("twice_named.twice")
    again = importlib.import_module("twice")
    assert MODELING_REGISTRY.get("twice") is again.register_modeling


@pytest.mark.parametrize("key", ["", " toy", 3, None])
def test_a_key_that_is_no_name_is_refused(registry: Registry, key: Any) -> None:
    assert f"register({key!r})" in refusal(registry.register, key)


def test_a_decorator_without_its_key_says_so(registry: Registry) -> None:
    assert "Write @TOY_REGISTRY.register('...')" in refusal(registry.register, lambda: None)


def test_a_decorated_class_is_refused(registry: Registry) -> None:
    assert "decorates a function that returns the class" in refusal(registry.register("toy"), ToyModel)


def test_an_unknown_key_names_the_nearest(registry: Registry) -> None:
    registry.register("qwen3_moe")(lambda: None)
    assert "Did you mean 'qwen3_moe'?" in refusal(registry.get, "qwen3-moe")
    assert "Registered: qwen3_moe." in refusal(registry.get, "bert")
    assert "Registered: none." in refusal(Registry("EMPTY", "model type").get, "bert")


def test_unregistering_forgets_a_key_or_one_device(registry: Registry) -> None:
    registry.register("toy", "npu")(lambda: "npu")
    registry.register("toy", "cuda")(lambda: "cuda")
    registry.unregister("toy", "npu")
    assert registry.get("toy", "cuda")() == "cuda"
    registry.unregister("toy")
    assert "toy" not in registry
    assert "no model type 'toy'" in refusal(registry.unregister, "toy")


# --- devices ---------------------------------------------------------------------------------------


def test_each_device_gets_its_own_function(registry: Registry) -> None:
    registry.register("toy", device_type="cuda")(lambda: "cuda")
    registry.register("toy", device_type="npu")(lambda: "npu")
    assert registry.get("toy", "cuda")() == "cuda"
    assert registry.get("toy", "npu")() == "npu"
    assert registry.get("toy", "cpu")() == "cuda"
    assert "say which of 'cuda', 'npu'" in refusal(registry.get, "toy")


def test_a_function_for_all_devices_beside_one_for_npu_is_refused(registry: Registry) -> None:
    registry.register("toy")(lambda: None)
    message = refusal(registry.register("toy", device_type="npu"), lambda: None)
    assert "registered twice" in message
    assert "for 'npu'" in message
    assert "Give both their device_type." in message


def test_a_second_function_for_a_device_is_refused(registry: Registry) -> None:
    registry.register("toy", device_type="npu")(lambda: None)
    message = refusal(registry.register("toy", device_type="npu"), lambda: None)
    assert message.count("for 'npu'") == 2


@pytest.mark.parametrize(("device_type", "hint"), [("gpu", "'cuda'?"), ("npy", "'npu'?"), ("cuda:0", "'cuda'?")])
def test_an_unknown_device_is_refused(registry: Registry, device_type: str, hint: str) -> None:
    message = refusal(registry.register, "toy", device_type=device_type)
    assert f"unknown device_type {device_type!r}; known are 'cuda', 'npu', 'cpu'" in message
    assert f"Did you mean {hint}" in message


# --- resolving -------------------------------------------------------------------------------------


def register_both(device_type: str | None = None) -> None:
    @MODELING_REGISTRY.register("toy", device_type=device_type)
    def register_modeling(architecture: str) -> type:
        return ToyForCausalLM if "ForCausalLM" in architecture else ToyModel


def test_the_class_is_found_by_model_type_and_first_architecture() -> None:
    register_both()
    assert resolve_model_class(CONFIG) is ToyForCausalLM
    assert resolve_model_class({**CONFIG, "architectures": ["ToyModel", "X"]}) is ToyModel


def test_a_config_object_will_do() -> None:
    class Qwen3Model:
        pass

    MODELING_REGISTRY.register("qwen3")(lambda architecture: Qwen3Model)
    config = Qwen3Config(architectures=["Qwen3Model"])
    assert resolve_model_class(config) is Qwen3Model


def test_a_machine_without_an_accelerator_gets_the_gpu_module() -> None:
    register_both("cuda")
    assert resolve_model_class(CONFIG, "cpu") is ToyForCausalLM
    assert resolve_model_class(CONFIG) is ToyForCausalLM


def test_a_model_that_is_there_for_another_device_only_says_where() -> None:
    for there, device in (("npu", "cuda"), ("npu", "cpu"), ("cuda", "npu")):
        register_both(there)
        message = refusal(resolve_model_class, CONFIG, device)
        MODELING_REGISTRY.unregister("toy")
        assert f"'toy' is not registered for '{device}', only for '{there}' at " in message
        assert f"{Path(__file__).name}:" in message


@pytest.mark.parametrize("architectures", [None, [], "ToyForCausalLM"])
def test_a_config_without_architecture_is_refused(architectures: Any) -> None:
    register_both()
    message = refusal(resolve_model_class, {**CONFIG, "architectures": architectures})
    assert f"'toy' has architectures={architectures!r}" in message


@pytest.mark.parametrize("config", [{}, {"architectures": ["X"]}, {"model_type": ""}, object()])
def test_a_config_without_model_type_is_refused(config: Any) -> None:
    assert "has no model_type" in refusal(resolve_model_class, config)


def test_an_unregistered_model_type_is_refused() -> None:
    register_both()
    assert "no model type 'unheard_of' is registered" in refusal(
        resolve_model_class, {**CONFIG, "model_type": "unheard_of"}
    )


def test_a_function_that_gives_none_is_refused() -> None:
    MODELING_REGISTRY.register("toy")(lambda architecture: None)
    message = refusal(resolve_model_class, CONFIG)
    assert "for 'toy' gives None for the architecture 'ToyForCausalLM'" in message
    assert f"{Path(__file__).name}:" in message


def test_a_class_of_another_name_is_never_chosen_in_silence() -> None:
    register_both()
    message = refusal(resolve_model_class, {**CONFIG, "architectures": ["ToyForTokenClassification"]})
    assert f"gives the class {__name__}.ToyModel for the architecture 'ToyForTokenClassification'" in message
    assert "Add 'ToyForTokenClassification' to the generated module" in message


def test_a_class_that_the_function_forgets_is_pointed_out() -> None:
    MODELING_REGISTRY.register("toy")(lambda architecture: ToyModel)
    assert "has a class 'ToyForCausalLM': let the function return it" in refusal(resolve_model_class, CONFIG)


# --- import ----------------------------------------------------------------------------------------


def test_the_registry_and_the_plan_import_without_torch() -> None:
    code = """
    import sys
    import patchgen_core.auto, patchgen_core.parallel_plan.plan, patchgen_core.registry
    print(sorted({"torch", "transformers", "libcst", "patchgen_core.codegen"} & sys.modules.keys()))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
