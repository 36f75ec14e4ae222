"""The configurations and processors that the zoo registers, and what each is for."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, PreTrainedTokenizerFast, Qwen2VLImageProcessor, WhisperFeatureExtractor
from transformers.models.auto.processing_auto import processor_class_from_name

from patchgen_core.auto import register_with_auto, unregister_from_auto
from patchgen_core.checkpoint import load_state_dict_streaming
from patchgen_core.errors import PatchgenError
from patchgen_core.models.toy_config import toy_config_for
from patchgen_core.registry import MODEL_PROCESSOR_REGISTRY, resolve_model_class

PREFIXES = {"qwen2_5_omni": "Qwen2_5Omni", "qwen3_omni_moe": "Qwen3OmniMoe"}
TOKENS = {
    f"{name}_token": f"<|{name}|>"
    for name in ("image", "video", "audio", "vision_bos", "vision_eos", "audio_bos", "audio_eos")
}


@pytest.fixture(scope="module", params=PREFIXES)
def name(request: pytest.FixtureRequest, zoo_on_path: None) -> Iterator[str]:
    """A model type whose classes transformers' auto classes give."""
    importlib.import_module(f"zoo.{request.param}")
    register_with_auto(request.param)
    yield request.param
    unregister_from_auto()


@pytest.fixture(scope="module")
def checkpoint(name: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A model, and its checkpoint with a config.json that says embeddings are tied."""
    folder = tmp_path_factory.mktemp(name)
    torch.manual_seed(0)
    model = model_class(name)(toy_config_for(name))
    model.save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text())
    for part in (written, written["thinker_config"]):
        part["tie_word_embeddings"] = True
    (folder / "config.json").write_text(json.dumps(written))
    return model, folder


@pytest.fixture(scope="module")
def processors(name: str) -> tuple[Any, Any]:
    """Upstream's processor and the zoo's, without one for videos: that needs torchvision."""
    module = importlib.import_module(f"transformers.models.{name}.processing_{name}")
    class_name = f"{PREFIXES[name]}Processor"
    return make_processor(getattr(module, class_name)), make_processor(processor_class_from_name(class_name))


class TestConfigurations:
    def test_a_checkpoint_that_says_it_is_tied_is_loaded_as_it_is(
        self, name: str, checkpoint: tuple[Any, Path]
    ) -> None:
        model, folder = checkpoint
        config = AutoConfig.from_pretrained(folder)
        assert type(config).__module__ == f"zoo.{name}.configuration_{name}"
        again = model_class(name)(config)
        load_state_dict_streaming(again, folder)
        assert again.thinker.lm_head.weight is not again.thinker.get_input_embeddings().weight
        torch.testing.assert_close(dict(again.named_parameters()), dict(model.named_parameters()), rtol=0, atol=0)

    def test_upstreams_configuration_would_have_it_refused(self, name: str, checkpoint: tuple[Any, Path]) -> None:
        module = importlib.import_module(f"transformers.models.{name}.configuration_{name}")
        config = getattr(module, f"{PREFIXES[name]}Config").from_pretrained(checkpoint[1])
        with pytest.raises(
            PatchgenError, match=r"the model ties .*lm_head\.weight', and the checkpoint has other values"
        ):
            load_state_dict_streaming(model_class(name)(config), checkpoint[1])

    def test_it_stays_untied_when_it_is_saved(self, name: str, checkpoint: tuple[Any, Path], tmp_path: Path) -> None:
        AutoConfig.from_pretrained(checkpoint[1]).save_pretrained(tmp_path)
        again = AutoConfig.from_pretrained(tmp_path)
        assert (again.tie_word_embeddings, again.thinker_config.tie_word_embeddings) == (False, False)


class TestProcessors:
    def test_auto_processor_gives_the_zoos(self, name: str) -> None:
        class_name = f"{PREFIXES[name]}Processor"
        assert processor_class_from_name(class_name) is MODEL_PROCESSOR_REGISTRY.get(class_name)()
        assert processor_class_from_name(class_name).__module__ == f"zoo.{name}.processing_{name}"

    @pytest.mark.parametrize("kind", ["images", "videos", "audio", "audios"])
    @pytest.mark.parametrize("empty", [[], (), np.zeros(0)], ids=["list", "tuple", "array"])
    def test_what_is_empty_is_as_if_it_were_not_there(
        self, processors: tuple[Any, Any], kind: str, empty: Any
    ) -> None:
        upstream, own = processors
        assert dict(own(text="hello world", **{kind: empty})) == dict(upstream(text="hello world"))
        if not isinstance(empty, tuple):
            with pytest.raises((IndexError, ValueError, TypeError)):
                upstream(text="hello world", **{kind: empty})

    def test_sounds_go_by_both_names(self, processors: tuple[Any, Any]) -> None:
        upstream, own = processors
        sounds = [np.sin(np.arange(1600) / 9).astype(np.float32), np.zeros(800, np.float32)]
        text = "hello <|audio|> world <|audio|>"
        wanted = upstream(text=text, audio=sounds)
        assert {"input_features", "feature_attention_mask"} <= set(wanted)
        for given in ({"audio": sounds}, {"audios": sounds}, {"audios": sounds, "images": [], "videos": []}):
            actual = own(text=text, **given)
            assert set(actual) == set(wanted)
            for key, value in wanted.items():
                assert np.array_equal(actual[key], value), key


def model_class(name: str) -> Any:
    """The zoo's class of the whole model."""
    architecture = f"{PREFIXES[name]}ForConditionalGeneration"
    return resolve_model_class({"model_type": name, "architectures": [architecture]})


def make_processor(cls: type) -> Any:
    """A processor of the class with a toy tokenizer."""

    class WithoutVideos(cls):  # type: ignore[misc, valid-type]
        def check_argument_for_proper_class(self, argument_name: str, argument: object) -> Any:
            return (
                None
                if argument_name == "video_processor"
                else super().check_argument_for_proper_class(argument_name, argument)
            )

    words = {word: number for number, word in enumerate(["[UNK]", "hello", "world", *TOKENS.values()])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[UNK]", extra_special_tokens=TOKENS
    )
    return WithoutVideos(
        image_processor=Qwen2VLImageProcessor(),
        feature_extractor=WhisperFeatureExtractor(feature_size=128),
        tokenizer=fast,
    )
