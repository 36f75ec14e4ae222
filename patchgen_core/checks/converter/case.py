"""What a converter is checked with: Hugging Face's model with random values, and its checkpoint as the hub has it."""

from __future__ import annotations

import copy
import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from patchgen_core.checkpoint.explain import differences, listed
from patchgen_core.checkpoint.headers import read_headers, read_tensors
from patchgen_core.checkpoint.mapping import conversion_of_model
from patchgen_core.checkpoint.protocol import CheckpointTensorConverter, Layout
from patchgen_core.checkpoint.sizes import set_expert_count, sizes_of_config
from patchgen_core.errors import PatchgenError, list_some
from patchgen_core.models.optional_packages import raise_if_missing
from patchgen_core.models.toy_config import make_toy_config

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

Factory = Callable[[Any], "CheckpointTensorConverter | None"]

_EXPERTS = 12  # more than ten, so that sorting their numbers as text shows


@dataclass(frozen=True)
class ConverterCase:
    """What the steps of the check work with.

    Attributes:
        config: what models are built of. A model that was built may have chosen for itself in its own copy how it
            attends and runs experts.
        upstream: the model of Hugging Face, with random values everywhere.
        expected: its state dict, without what the generated class leaves out.
        left_out: the names of that: they match one of ``ignored``, its ``_keys_to_ignore_on_load_unexpected`` and
            those of whole parts that it has not.
        hub: its tensors as the hub stores them.
        folder: where the steps may write; ``hub`` in it holds the hub's checkpoint.
    """

    model_class: type[PreTrainedModel]
    factory: Factory
    config: PreTrainedConfig
    upstream: PreTrainedModel
    expected: Mapping[str, torch.Tensor]
    hub: Mapping[str, torch.Tensor]
    folder: Path
    layout: Layout | None
    left_out: frozenset[str] = frozenset()
    ignored: tuple[str, ...] = ()

    def ignores(self, name: str) -> bool:
        """Whether a tensor of a checkpoint is of a part that the generated class leaves out."""
        return bool(self.left_out) and any(re.search(pattern, name) for pattern in self.ignored)


def prepare_case(
    model_class: type[PreTrainedModel],
    factory: Factory,
    config: PreTrainedConfig | None,
    upstream_class: type[PreTrainedModel] | None,
    folder: Path,
    loads_upstream: bool = True,
) -> tuple[ConverterCase, list[str]]:
    """The case, and notes on it; PatchgenError when a model cannot be built, or where ``loads_upstream`` asks for
    that, not loaded by Hugging Face as it was saved."""
    notes: list[str] = []
    upstream_class = upstream_class or _upstream_class(model_class)
    config = copy.deepcopy(config) if config is not None else _toy_config(upstream_class)
    experts = sizes_of_config(config).experts
    if 0 < experts < 11:
        notes.append(f"{experts} experts: an order of their numbers as text would not show with ten or fewer")
    upstream = build_from_config(upstream_class, config)
    randomize(upstream)
    layout = conversion_of_model(upstream).layout
    generated = build_from_config(model_class, config)
    own, absent = generated.state_dict(), _absent_parts(upstream, generated)
    if absent:
        notes.append(f"{model_class.__name__} has no {list_some(absent, 4)}: what checkpoints hold for it is left out")
    ignored = (*(generated._keys_to_ignore_on_load_unexpected or ()), *(rf"^{re.escape(one)}\." for one in absent))
    left_out = {name for name in upstream.state_dict() if name not in own and any(re.search(p, name) for p in ignored)}
    expected = {name: value.clone() for name, value in upstream.state_dict().items() if name not in left_out}
    _save_hub(upstream, layout, folder / "hub", loads_upstream)
    hub = read_tensors(folder / "hub")
    if layout is Layout.NONE:
        notes.append("the model has no experts")
    return ConverterCase(
        model_class, factory, config, upstream, expected, hub, folder, layout, frozenset(left_out), ignored
    ), notes


def _absent_parts(upstream: PreTrainedModel, generated: PreTrainedModel) -> list[str]:
    """The names of what upstream's class is made of and the generated one has nothing of."""
    names = {name for name, _ in generated.named_children()}
    return [name for name, part in upstream.named_children() if name not in names and part.state_dict()]


def _upstream_class(model_class: type[PreTrainedModel]) -> type[PreTrainedModel]:
    """The class of the same name in the modeling module beside the configuration's."""
    config_class = model_class.config_class
    home = getattr(config_class, "__module__", "").replace(".configuration_", ".modeling_")
    module = importlib.import_module(home) if home.startswith("transformers.models.") else None
    upstream: type[PreTrainedModel] | None = getattr(module, model_class.__name__, None)
    if upstream is None:
        raise PatchgenError(
            f"there is no {model_class.__name__} in {home or 'the module of its configuration class'}",
            hint="Pass upstream_class=, the class of transformers to compare with.",
        )
    return upstream


def _toy_config(upstream_class: type[PreTrainedModel]) -> PreTrainedConfig:
    config_class: Any = upstream_class.config_class
    config = make_toy_config(config_class)
    set_expert_count(config, _EXPERTS)
    return config


def build_from_config(model_class: type[PreTrainedModel], config: PreTrainedConfig) -> PreTrainedModel:
    """A model in float32, in evaluation mode; PatchgenError when the class does not take the configuration."""
    try:
        build: Callable[..., Any] = model_class
        model: PreTrainedModel = build(copy.deepcopy(config)).float().eval()
    except Exception as error:
        raise_if_missing(error)
        raise PatchgenError(
            f"{model_class.__module__}.{model_class.__name__} cannot be built from the toy configuration:"
            f" {type(error).__name__}: {error}",
            hint="Give a toy configuration that the class takes.",
        ) from error
    return model


def randomize(model: PreTrainedModel) -> None:
    """Give every tensor values of its own, so that none can stand for another."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator))


def make_empty_model(case: ConverterCase) -> tuple[PreTrainedModel, CheckpointTensorConverter | None]:
    """A generated model in which nothing has been written, and its converter."""
    model = build_from_config(case.model_class, case.config)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.fill_(float("nan"))
    try:
        converter = case.factory(model)
    except PatchgenError:
        raise
    except Exception as error:
        raise_if_missing(error)
        raise PatchgenError(
            f"the factory failed on a {type(model).__name__}: {type(error).__name__}: {error}",
            hint="It is called with a model of every class of the generated module, both whole models and parts.",
        ) from error
    if converter is not None and not isinstance(converter, CheckpointTensorConverter):
        raise PatchgenError(
            f"the factory returned a {type(converter).__name__}, which is not a CheckpointTensorConverter",
            hint="It must have can_handle, convert and finalize; return None when there is nothing to convert.",
        )
    return model, converter


def _save_hub(upstream: PreTrainedModel, layout: Layout | None, folder: Path, loads: bool) -> None:
    """Save as the hub has it, and see that Hugging Face ``loads`` that.

    save_pretrained goes back to one matrix an expert, but leaves experts that it would transpose as they are.
    """
    from safetensors.torch import save_file

    size = sum(value.nbytes for value in upstream.state_dict().values())
    upstream.save_pretrained(folder, max_shard_size=max(size // 4, 1))
    if layout is not Layout.TRANSPOSED:
        return
    for file in {one.file for one in read_headers(folder)}:
        tensors = read_tensors([file])
        fused = {name: value for name, value in tensors.items() if ".experts." in name and value.dim() == 3}
        turned = {name: value.transpose(1, 2).contiguous() for name, value in fused.items()}
        save_file({**tensors, **turned}, file, metadata={"format": "pt"})
    wrong = compare_with_loaded(upstream, folder) if loads and not is_converted_as_part(upstream) else []
    if wrong:
        raise PatchgenError(f"Hugging Face does not load its own hub layout back: {listed(wrong)}")


def is_converted_as_part(model: PreTrainedModel) -> bool:
    """Whether Hugging Face converts this model only as a part of another, and cannot load it from the hub alone."""
    return conversion_of_model(model, alone=True).layout is not conversion_of_model(model).layout


def compare_with_loaded(upstream: PreTrainedModel, folder: Path, lacks: frozenset[str] = frozenset()) -> list[str]:
    """What is wrong with the model that plain ``from_pretrained`` makes of a folder, which lacks some tensors."""
    load: Callable[..., Any] = type(upstream).from_pretrained
    loaded, info = load(folder, dtype=torch.float32, output_loading_info=True)
    reports = {kind: sorted(str(name) for name in names if name not in lacks) for kind, names in info.items()}
    reported = [f"from_pretrained reports {kind}: {names[:3]}" for kind, names in reports.items() if names]
    states = ({n: v for n, v in one.state_dict().items() if n not in lacks} for one in (upstream, loaded))
    return reported + differences(*states)
