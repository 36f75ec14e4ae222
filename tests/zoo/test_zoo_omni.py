"""The zoo's models whose speech half is left out: what is left takes upstream's checkpoints and is trained whole."""

from __future__ import annotations

import copy
import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForMultimodalLM

from patchgen_core.auto import register_with_auto, unregister_from_auto
from patchgen_core.checkpoint import load_state_dict_streaming
from patchgen_core.checkpoint.headers import read_tensors
from patchgen_core.models.environment import use_loopback
from patchgen_core.models.random_values import random_floats
from patchgen_core.models.toy_config import toy_config_for
from patchgen_core.models.toy_models import build_model
from patchgen_core.registry import resolve_model_class

ROOT = Path(__file__).parents[2]
PREFIXES = {"qwen2_5_omni": "Qwen2_5Omni", "qwen3_omni_moe": "Qwen3OmniMoe"}
"""The models by folder, with what the names of their classes begin with."""
WITH_EXPERTS = ["qwen3_omni_moe"]
SPEECH = ("Talker", "Token2Wav", "Code2Wav", "DiT")
EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}


@dataclass(frozen=True)
class Omni:
    """A generated module, and upstream's whole model with a checkpoint of it.

    Attributes:
        name: its model type.
        generated: the module.
        upstream: the model, with what makes speech.
        folder: what upstream's ``save_pretrained`` wrote, and no file of speakers.
        inputs: a row of text with a picture, a video and a sound in it.
    """

    name: str
    generated: ModuleType
    upstream: Any
    folder: Path
    inputs: dict[str, Any]

    def class_of(self, part: str = "") -> Any:
        """The class that the registry has for the whole model, or for a part of it."""
        architecture = f"{PREFIXES[self.name]}{part}ForConditionalGeneration"
        return resolve_model_class({"model_type": self.name, "architectures": [architecture]})

    def load(self, part: str = "") -> tuple[Any, dict[str, Any]]:
        """The generated model from upstream's checkpoint, and what transformers says of loading it."""
        config = AutoConfig.from_pretrained(self.folder)
        config = config.thinker_config if part == "Thinker" else config
        model, info = self.class_of(part).from_pretrained(
            self.folder, config=config, output_loading_info=True, **EAGER
        )
        return model, info


pytestmark = pytest.mark.usefixtures("zoo_on_path")


@pytest.fixture(scope="module", params=PREFIXES)
def omni(request: pytest.FixtureRequest, zoo_on_path: None, tmp_path_factory: pytest.TempPathFactory) -> Omni:
    name: str = request.param
    importlib.import_module(f"zoo.{name}")
    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    upstream = build_model(
        getattr(module, f"{PREFIXES[name]}ForConditionalGeneration"), toy_config_for(name), torch.float32
    )
    upstream.eval()
    folder = tmp_path_factory.mktemp(name)
    upstream.save_pretrained(folder)
    generated = importlib.import_module(f"zoo.{name}.generated.patched_modeling_{name}_gpu")
    return Omni(name, generated, upstream, folder, inputs_of(upstream.thinker))


def inputs_of(thinker: Any) -> dict[str, Any]:
    config = thinker.config
    vision, hearing = config.vision_config, config.audio_config
    merge, row = vision.spatial_merge_size, vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    frames = 2 * hearing.n_window + 3
    inputs = {
        "pixel_values": random_floats(2 * merge**2, row),
        "image_grid_thw": torch.tensor([[1, merge, 2 * merge]]),
        "pixel_values_videos": random_floats(6 * merge**2, row),
        "video_grid_thw": torch.tensor([[2, merge, 3 * merge]]),
        "video_second_per_grid": torch.tensor([1.0]),
        "input_features": random_floats(1, hearing.num_mel_bins, frames),
        "feature_attention_mask": torch.ones(1, frames, dtype=torch.long),
    }
    with torch.no_grad():
        heard = thinker.get_audio_features(inputs["input_features"], inputs["feature_attention_mask"])
    heard_until = getattr(config, "audio_end_token_id", 69)  # not every configuration names it
    pieces = [
        (config.vision_start_token_id, config.image_token_id, 2, config.vision_end_token_id),
        (config.vision_start_token_id, config.video_token_id, 6, config.vision_end_token_id),
        (config.audio_start_token_id, config.audio_token_id, len(heard.last_hidden_state), heard_until),
    ]
    ids = [60, 61]
    for number, (start, token, count, end) in enumerate(pieces):
        ids += [start, *[token] * count, end, 70 + number]
    inputs["input_ids"] = torch.tensor([ids])
    return {**inputs, "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}


@contextmanager
def logged(level: int) -> Iterator[list[str]]:
    """What transformers and generated modules say meanwhile."""
    found: list[str] = []
    handler = logging.Handler(level)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    loggers = [logging.getLogger("transformers"), logging.getLogger("zoo")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(level)
    try:
        yield found
    finally:
        for logger, old in zip(loggers, before):
            logger.removeHandler(handler)
            logger.setLevel(old)


def logits_of(model: Any, inputs: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(**inputs).logits


# --- checkpoints -----------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["", "Thinker"])
@pytest.mark.mostly_slow(2)
def test_upstreams_whole_checkpoint_gives_the_thinkers_bits_and_no_warning(omni: Omni, part: str) -> None:
    with logged(logging.WARNING) as said:
        model, info = omni.load(part)
    assert said == []
    assert {name: list(found) for name, found in info.items() if found} == {}
    assert torch.equal(logits_of(model, omni.inputs), logits_of(omni.upstream.thinker, omni.inputs))
    state = getattr(model, "thinker", model).state_dict()
    expected = omni.upstream.thinker.state_dict()
    assert state.keys() == expected.keys()
    assert [name for name, value in expected.items() if not torch.equal(state[name], value)] == []


@pytest.mark.parametrize("part", ["", "Thinker"])
@pytest.mark.mostly_slow(1)
def test_upstreams_whole_checkpoint_streams_into_the_thinker(omni: Omni, part: str) -> None:
    """Tensor by tensor, through the converter that the registry gives the class where it has experts."""
    config = AutoConfig.from_pretrained(omni.folder, **EAGER)
    model = omni.class_of(part)(config.thinker_config if part else config)
    report = load_state_dict_streaming(model, omni.folder)
    assert (report.missing, report.unexpected, dict(report.cast)) == ((), (), {})
    assert report.ignored
    assert [name for name in report.ignored if name.startswith("thinker.")] == []
    assert torch.equal(logits_of(model, omni.inputs), logits_of(omni.upstream.thinker, omni.inputs))


@pytest.mark.parametrize("omni", WITH_EXPERTS, indirect=True)
def test_experts_that_make_speech_are_left_to_upstream(omni: Omni) -> None:
    hubs = read_tensors(omni.folder)
    experts = [name for name in hubs if ".experts." in name]
    assert {name.partition(".")[0] for name in experts} == {"thinker", "talker"}
    for part in ("", "Thinker"):
        model_class = omni.class_of(part)
        model = model_class(omni.upstream.config.thinker_config if part else omni.upstream.config)
        converter = model_class._create_checkpoint_tensor_converter(model)
        handled = [name for name in hubs if converter.can_handle(name)]
        assert handled == [name for name in experts if name.startswith("thinker.")]


def test_a_whole_state_dict_loads_strictly_and_stays_as_it_is(omni: Omni) -> None:
    model = copy.deepcopy(omni.class_of()(omni.upstream.config))
    state = omni.upstream.state_dict()
    names = list(state)
    speech = [name for name in names if not name.startswith("thinker.")]
    assert speech
    with logged(logging.INFO) as said:
        assert not any(model.load_state_dict(state))
        wrapped = nn.ModuleDict({"model": model})
        assert not any(wrapped.load_state_dict({f"model.{name}": value for name, value in state.items()}))
    assert list(state) == names
    assert len(said) == 2
    assert all(f" {len(speech)} tensors" in line for line in said)
    assert torch.equal(logits_of(model, omni.inputs), logits_of(omni.upstream.thinker, omni.inputs))


def test_what_is_not_speech_is_not_left_out(omni: Omni) -> None:
    model = omni.class_of()(omni.upstream.config)
    state = omni.upstream.state_dict()
    with pytest.raises(RuntimeError, match=r"Unexpected key.*talkers\.weight"):
        model.load_state_dict(state | {"talkers.weight": torch.zeros(1)})
    del state["thinker.lm_head.weight"]
    with pytest.raises(RuntimeError, match=r"Missing key.*thinker\.lm_head\.weight"):
        model.load_state_dict(state)


@pytest.mark.mostly_slow(1)
def test_what_is_saved_is_the_thinkers_part_of_upstreams_checkpoint(omni: Omni, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    model, _ = omni.load()
    model.save_pretrained(tmp_path)
    saved, upstreams = (load_file(folder / "model.safetensors") for folder in (tmp_path, omni.folder))
    assert saved.keys() == {name for name in upstreams if name.startswith("thinker.")}
    again = omni.class_of().from_pretrained(tmp_path, **EAGER)
    assert torch.equal(logits_of(again, omni.inputs), logits_of(model, omni.inputs))


# --- the whole model -------------------------------------------------------------------------------


def test_parameters_begin_as_upstreams(omni: Omni) -> None:
    """Training from scratch. What nothing initializes is NaN here, and not what happens to be in memory."""
    config = omni.upstream.config.thinker_config
    torch.use_deterministic_algorithms(True)
    try:
        torch.manual_seed(0)
        expected = type(omni.upstream.thinker)(config).state_dict()
        torch.manual_seed(0)
        found = omni.class_of("Thinker")(config).state_dict()
    finally:
        torch.use_deterministic_algorithms(False)
    assert [name for name, value in expected.items() if not torch.equal(found[name], value)] == []


def test_the_whole_model_trains_its_thinker(omni: Omni) -> None:
    model = omni.class_of()(omni.upstream.config).train()
    ids = omni.inputs["input_ids"]
    loss = model(**omni.inputs, labels=ids).loss
    assert torch.equal(loss, model.thinker(**omni.inputs, labels=ids).loss)
    loss.backward()
    without = {name for name, value in model.named_parameters() if value.grad is None}
    assert {name.split(".")[0] for name in model.state_dict()} == {"thinker"}
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in without} <= {"audio_bos_eos_token"}
    positions, metadata = model.get_position_id_func(), model.get_metadata_collate_func()
    assert type(positions) is type(model.thinker.get_position_id_func())
    assert type(metadata) is type(model.thinker.get_metadata_collate_func())


def test_sharded_towers_run_on_a_rank_with_text_alone(omni: Omni) -> None:
    """What a dummy forward is for: outside of the tower's own forward its parameters are sharded tensors."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = omni.class_of()(omni.upstream.config).train()
    towers = [part for part in model.modules() if hasattr(part, "dummy_forward")]
    assert len(towers) == 2
    ids = torch.arange(60, 65)[None]
    use_loopback()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        for part in (*towers, model):
            fully_shard(part, mesh=mesh)
        model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss.backward()
        for tower in towers:
            found = [value.grad for value in tower.parameters() if value.grad is not None]
            assert found
            assert not any(bool(gradient.to_local().any()) for gradient in found)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("omni", WITH_EXPERTS, indirect=True)
def test_routers_that_are_asked_for_balance_the_loss(omni: Omni) -> None:
    model, _ = omni.load()
    asked = {**omni.inputs, "labels": omni.inputs["input_ids"], "output_router_logits": True}
    output, expected = (one.eval()(**asked) for one in (model, omni.upstream.thinker))
    assert expected.aux_loss > 0
    assert torch.equal(output.aux_loss, expected.aux_loss)
    assert torch.equal(output.loss, expected.loss)
    assert len(output.router_logits) == len(expected.router_logits) > 0


def test_speech_is_refused_with_what_to_use_instead(omni: Omni) -> None:
    model = omni.class_of()(omni.upstream.config)
    upstreams = f"transformers.{PREFIXES[omni.name]}ForConditionalGeneration"
    assert model.has_talker is False
    with pytest.raises(NotImplementedError, match=upstreams):
        model.enable_talker()
    with pytest.raises(NotImplementedError, match=rf"model\.thinker\.generate .*{upstreams}"):
        model.generate(omni.inputs["input_ids"], speaker="Chelsie")
    model.disable_talker()


def test_the_thinker_writes_what_upstreams_writes(omni: Omni) -> None:
    model, _ = omni.load()
    asked = {"max_new_tokens": 3, "do_sample": False, **omni.inputs}
    assert torch.equal(model.thinker.generate(**asked), omni.upstream.thinker.generate(**asked))


# --- the module and the registry -------------------------------------------------------------------


def test_nothing_of_the_speech_half_is_left(omni: Omni) -> None:
    names = [name for name in vars(omni.generated) if any(part in name for part in SPEECH)]
    assert names == []
    assert set(omni.generated.__all__) <= vars(omni.generated).keys()
    whole = omni.class_of()(omni.upstream.config)
    built = {type(part).__name__ for part in whole.modules()}
    assert set(type(whole)._no_split_modules) <= built
    assert whole._no_split_modules <= built  # with those of its parts


def test_the_registry_has_upstreams_classes_for_speech_and_generated_ones_for_the_rest(omni: Omni) -> None:
    assert omni.class_of().__module__ == omni.class_of("Thinker").__module__ == omni.generated.__name__
    assert omni.class_of("Talker").__module__ == type(omni.upstream).__module__


def test_auto_models_give_the_generated_classes(omni: Omni) -> None:
    config = omni.upstream.config
    try:
        register_with_auto(omni.name)
        register_with_auto(f"{omni.name}_thinker")
        made = [AutoModelForMultimodalLM.from_config(part) for part in (config, config.thinker_config)]
    finally:
        unregister_from_auto()
    assert [type(model) for model in made] == [omni.class_of(), omni.class_of("Thinker")]
