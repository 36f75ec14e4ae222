"""A package's own processors and configuration classes, beside those of transformers that they derive from."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from transformers.models.qwen2_5_omni.configuration_qwen2_5_omni import Qwen2_5OmniConfig
from transformers.models.qwen2_5_omni.processing_qwen2_5_omni import Qwen2_5OmniProcessor

from patchgen_core.checks.converter.own_classes import find_problems_of_own_classes
from patchgen_core.models.model_heads import Head, find_heads
from patchgen_core.registry import MODEL_CONFIG_REGISTRY, MODEL_PROCESSOR_REGISTRY, Registry

pytestmark = pytest.mark.torch


class Attentive(Qwen2_5OmniProcessor):
    def __call__(self, text: Any = None, audio: Any = None, audios: Any = None, **kwargs: Any) -> Any:
        return super().__call__(text=text, audio=audios if audio is None else audio, **kwargs)


class AsksForTruth(Qwen2_5OmniProcessor):
    def __call__(self, text: Any = None, audio: Any = None, audios: Any = None, **kwargs: Any) -> Any:
        return super().__call__(text=text, audio=audio or audios, **kwargs)


class DropsVideos(Qwen2_5OmniProcessor):
    def __call__(self, text: Any = None, images: Any = None, videos: Any = None, **kwargs: Any) -> Any:
        return super().__call__(text=text, images=images, **kwargs)


class NeedsItsParts(Qwen2_5OmniProcessor):
    def __call__(self, text: Any = None, **kwargs: Any) -> Any:
        return super().__call__(text=[f"{one}{self.tokenizer.eos_token}" for one in text], **kwargs)


class Untied(Qwen2_5OmniConfig):
    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        self.tie_word_embeddings = self.thinker_config.tie_word_embeddings = False


class HalfUntied(Qwen2_5OmniConfig):
    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        self.tie_word_embeddings = False


@pytest.fixture(scope="module")
def heads() -> tuple[Head, ...]:
    module = importlib.import_module("transformers.models.qwen2_5_omni.modeling_qwen2_5_omni")
    return tuple(head for head in find_heads(module, module) if "Thinker" in head.name)  # as one that makes no speech


@pytest.fixture
def registered(request: pytest.FixtureRequest) -> Iterator[type]:
    """A class that a function of this module, which stands for a project's package, is registered to give."""
    own: type = request.param
    registry: Registry = MODEL_CONFIG_REGISTRY if issubclass(own, Qwen2_5OmniConfig) else MODEL_PROCESSOR_REGISTRY
    registry.register("an_omni")(lambda: own)
    yield own
    registry.unregister("an_omni")


@pytest.mark.parametrize("registered", [Attentive, NeedsItsParts, Untied], indirect=True)
def test_classes_that_do_what_transformers_do_are_green(registered: type, heads: tuple[Head, ...]) -> None:
    assert list(find_problems_of_own_classes(__name__, heads)) == []


@pytest.mark.parametrize(
    ("registered", "told"),
    [
        (AsksForTruth, "raises ValueError: The truth value of an array"),
        (DropsVideos, "passes nothing on for 'videos' as an array"),
        (HalfUntied, "sets tie_word_embeddings whatever a config.json says, but not in its thinker_config"),
    ],
    indirect=["registered"],
)
def test_a_class_that_does_less_is_red_at_its_place(registered: type, told: str, heads: tuple[Head, ...]) -> None:
    (problem,) = find_problems_of_own_classes(__name__, heads)
    assert told in problem.message
    assert problem.target == registered.__name__
    assert problem.location is not None
    assert problem.location.file == __file__
