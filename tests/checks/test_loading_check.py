"""What loads checkpoints into registered classes: the right class for each name, its converter, and what is tied."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from patchgen_core.checkpoint import create_direct_converter, create_per_expert_converter
from patchgen_core.checks.converter.loading import find_loading_problems
from patchgen_core.checks.converter.request import LoadingRequest
from patchgen_core.errors import Location, Problem
from patchgen_core.models.model_heads import find_heads
from patchgen_core.registry import MODELING_REGISTRY
from tests.checkpoint.checkpoints import generated

pytestmark = pytest.mark.torch

FAMILY = "qwen2_moe"
UPSTREAM = "transformers.models.qwen2_moe.modeling_qwen2_moe"
HEAD = "Qwen2MoeForCausalLM"
CONVERTER = "_create_checkpoint_tensor_converter"
Registered = Callable[[str], Any]


@pytest.fixture
def register() -> Iterator[Callable[..., None]]:
    """Registers functions of this module, which stands for a project's package."""
    keys: list[str] = []

    def register(function: Registered, key: str = FAMILY) -> None:
        MODELING_REGISTRY.register(key)(function)
        keys.append(key)

    yield register
    for key in keys:
        MODELING_REGISTRY.unregister(key)


def give(architecture: str) -> Any:
    model_class = getattr(generated(FAMILY), architecture)
    setattr(model_class, CONVERTER, staticmethod(create_per_expert_converter))
    return model_class


def give_bare(architecture: str) -> Any:
    return getattr(generated(FAMILY), architecture)


def give_upstream(architecture: str) -> Any:
    return getattr(importlib.import_module(UPSTREAM), architecture)


def give_base(architecture: str) -> Any:
    return generated(FAMILY).Qwen2MoeModel


def give_on_npu_alone(architecture: str) -> Any:
    from transformers.utils import is_torch_npu_available

    return give(architecture) if is_torch_npu_available() else give_upstream(architecture)


def problems(device: str = "", kinds: tuple[str, ...] = ("causal_lm", "base"), **attributes: Any) -> list[Problem]:
    """What is found of heads, of which the class of the main one has other attributes."""
    module = generated(FAMILY)
    heads = [head for head in find_heads(module, importlib.import_module(UPSTREAM)) if head.kind in kinds]
    declared = Location("config.py", 3)
    request = LoadingRequest(
        "", "", None, UPSTREAM, "", __name__, device, declared, ((HEAD, Location("config.py", 7)),)
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in attributes.items():
            patch.setattr(getattr(module, HEAD), name, value)
        return find_loading_problems(module, heads, request, create_per_expert_converter)


def test_what_is_registered_rightly_is_green(register: Callable[..., None]) -> None:
    register(give)
    assert problems(kinds=("causal_lm", "base", "sequence_classification")) == []


@pytest.mark.parametrize(
    ("function", "device", "message"),
    [
        (give_upstream, "", f"AutoModel gives {UPSTREAM}.Qwen2MoeModel, and not the module's {HEAD}"),
        (give_base, "", f"Qwen2MoeModel for the architecture '{HEAD}'"),
        (give_on_npu_alone, "cuda", f"AutoModel gives {UPSTREAM}.Qwen2MoeModel"),
    ],
)
def test_another_class_is_found(
    register: Callable[..., None], function: Registered, device: str, message: str
) -> None:
    register(function)
    (problem,) = problems(device)
    assert message in problem.message
    assert problem.hint
    assert problem.location is not None
    assert problem.location == Location(__file__, function.__code__.co_firstlineno)


def test_class_for_an_npu_is_asked_for_as_on_one(register: Callable[..., None]) -> None:
    register(give_on_npu_alone)
    assert problems("npu") == []


def test_model_type_that_is_registered_under_another_name(register: Callable[..., None]) -> None:
    register(give, "qwen2_mo")
    message = problems()[0].message
    assert f"no class is registered for the model type '{FAMILY}', which has {HEAD}" in message


@pytest.mark.parametrize(
    ("converter", "message"),
    [
        (None, "registered without the converter that is beside the config: Qwen2MoeForCausalLM"),
        (
            staticmethod(create_direct_converter),
            "a converter of class DirectConverter, not PerExpertConverter",
        ),
    ],
)
def test_class_without_its_converter(register: Callable[..., None], converter: Any, message: str) -> None:
    register(give_bare)
    (problem,) = problems(kinds=("causal_lm",), **{CONVERTER: converter})
    assert message in problem.message


@pytest.mark.parametrize(("is_given", "count"), [(True, 1), (False, 0)])
def test_text_model_that_the_registry_gives_has_the_converter_too(
    register: Callable[..., None], monkeypatch: pytest.MonkeyPatch, is_given: bool, count: int
) -> None:
    module, name = generated(FAMILY), "Qwen2MoeTextModel"
    text_model = type(name, (module.Qwen2MoeModel,), {"__module__": module.__name__, CONVERTER: None})
    monkeypatch.setattr(module, name, text_model, raising=False)
    register(lambda asked: text_model if asked == name and is_given else give(HEAD if asked == name else asked))
    told = [problem.message for problem in problems(kinds=("causal_lm",))]
    assert told == [f"registered without the converter that is beside the config: {name}"] * count


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"_tied_weights_keys": None}, f"{HEAD}, with its head tied: of upstream's checkpoint"),
        (
            {"tie_weights": lambda self, *_, **__: None},
            "and 'model.embed_tokens.weight' are not tied",
        ),
        ({"_keys_to_ignore_on_save": ["model.norm.weight"]}, "upstream's class loads its checkpoint differently"),
        ({"base_model_prefix": "models"}, "of a checkpoint of upstream's Qwen2MoeModel, from_pretrained reports"),
    ],
)
@pytest.mark.mostly_slow(2)
def test_checkpoints_that_do_not_go_over(
    register: Callable[..., None], attributes: dict[str, Any], message: str
) -> None:
    register(give)
    found = problems(kinds=("causal_lm",), **attributes)
    assert message in found[0].message
    assert {problem.target for problem in found} == {HEAD}
