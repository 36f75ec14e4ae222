"""Which layout a checkpoint has, which one a model type has, and which one a converter is for."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from patchgen_core.checkpoint.headers import (
    CheckpointFiles,
    StoredTensor,
    config_beside,
    find_shards,
    read_headers,
    read_json,
)
from patchgen_core.checkpoint.mapping import conversion_of_type, is_known, model_type_of
from patchgen_core.checkpoint.protocol import CheckpointTensorConverter, Layout
from patchgen_core.checkpoint.sizes import ExpertSizes, sizes_of_config
from patchgen_core.errors import Location, PatchgenError

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedConfig

_PER_EXPERT = re.compile(r"(?:.+\.)?experts\.[0-9]+\.\w+\.weight")
_FUSED = re.compile(r"(?:.+\.)?experts\.(gate_up_proj|gate_proj|up_proj|down_proj)")
_EXPERTS = re.compile(r"(?:.+\.)?experts\..+")


def detect_layout(
    index_or_files: CheckpointFiles, config: PreTrainedConfig | Mapping[str, Any] | None = None
) -> Layout:
    """Which layout the experts of a checkpoint are stored in, told by names and shapes: no tensor is read.

    ``config`` tells fused layouts apart; without it, the ``config.json`` beside the files is read if it is needed. A
    checkpoint without experts has ``Layout.NONE``.

    Raises:
        PatchgenError: the files cannot be read, the layouts are mixed, or the sizes do not tell which one it is.
    """
    tensors = read_headers(index_or_files)
    single = next((tensor for tensor in tensors if _PER_EXPERT.fullmatch(tensor.name)), None)
    fused = [tensor for tensor in tensors if _FUSED.fullmatch(tensor.name) and len(tensor.shape) == 3]
    if single and fused:
        raise _mixed(single, Layout.PER_EXPERT, fused[0], "fused")
    if single:
        return Layout.PER_EXPERT
    unclear = next((tensor for tensor in tensors if _EXPERTS.fullmatch(tensor.name)), None)
    if unclear is None:
        return Layout.NONE
    sizes, model_type = _configuration(index_or_files, config, (fused or [unclear])[0])
    if is_known(model_type) and conversion_of_type(model_type).layout is Layout.DIRECT:
        return Layout.DIRECT  # there is one layout only, which may have inputs first, as gpt_oss
    if fused:
        return _fused_layout(fused, sizes)
    raise PatchgenError(
        f"'{unclear.name}' is stored in none of the layouts per_expert, transposed and direct",
        Location(str(unclear.file)),
        "A quantized checkpoint must be dequantized first; any other needs a converter of its own.",
    )


def detect_layout_for(model_type: str) -> Layout:
    """Which layout the hub's checkpoints of a model type have, by transformers' own conversion mapping.

    Types that transformers maps like another (deepseek_v3 like qwen2_moe) are resolved; a composite model has the
    layout of its parts, and a part of a composite model the layout of the whole. ``Layout.DIRECT`` is a model with
    experts that transformers loads as they are. A layout is what transformers converts *from*: tensors that are
    stored as the model has them are loaded as well.

    Raises:
        PatchgenError: transformers knows no such type (the nearest one is named), or converts its experts from
            something else.
    """
    conversion = conversion_of_type(model_type)
    if conversion.layout is None:
        raise PatchgenError(
            f"transformers converts the experts of '{model_type}' by {', '.join(conversion.unsupported)},"
            " which is none of the layouts per_expert, transposed and direct",
            hint="Write a converter for it: a class with can_handle, convert and finalize.",
        )
    return conversion.layout


def converter_layout(converter: CheckpointTensorConverter | None) -> Layout:
    """The layout that a converter converts from: its own ``layout``, or the names it handles; DIRECT without one."""
    if converter is None:
        return Layout.DIRECT
    declared = getattr(converter, "layout", None)
    if declared is not None:
        return Layout(declared)
    modules = [f"{model}layers.{layer}.{part}.experts" for model in _MODELS for layer in range(8) for part in _BLOCKS]
    if any(converter.can_handle(f"{module}.0.{name}.weight") for module in modules for name in _PROJECTIONS):
        return Layout.PER_EXPERT
    if any(converter.can_handle(f"{module}.{name}") for module in modules for name in ("gate_up_proj", "down_proj")):
        return Layout.TRANSPOSED
    return Layout.DIRECT


_MODELS = ("model.", "model.language_model.", "thinker.model.", "language_model.model.", "")
_BLOCKS = ("mlp", "block_sparse_moe", "feed_forward", "mixer", "moe")
_PROJECTIONS = ("gate_proj", "up_proj", "down_proj", "w1", "w2", "w3", "fc1", "fc2", "fc3")


def check_converter_layout(converter: CheckpointTensorConverter | None, model_type: str) -> None:
    """Refuse (PatchgenError) a converter for another layout than the hub has for ``model_type``, and unknown types."""
    expected, actual = conversion_of_type(model_type).layout, converter_layout(converter)
    if expected is None and getattr(converter, "layout", None) is None:
        return  # a converter of the project's own, for what has no name
    if actual is expected or {actual, expected} <= {Layout.DIRECT, Layout.NONE}:
        return
    called = f"{type(converter).__name__} is for {actual} checkpoints" if converter else "no converter is given"
    raise PatchgenError(
        f"{called}, but transformers converts '{model_type}' from the layout {expected or 'of its own'}",
        hint=f"Use {_FACTORIES[expected]}, or create_checkpoint_tensor_converter, which chooses by the model's type.",
    )


def check_converter_of(model: nn.Module, converter: CheckpointTensorConverter | None) -> None:
    """:func:`check_converter_layout` for the type of a model, where transformers knows it."""
    model_type = model_type_of(model)
    if model_type is not None and is_known(model_type):
        check_converter_layout(converter, model_type)


_FACTORIES: Mapping[Layout | None, str] = {
    Layout.PER_EXPERT: "create_per_expert_converter",
    Layout.TRANSPOSED: "create_transposed_fused_converter",
    Layout.DIRECT: "create_direct_converter",
    Layout.NONE: "no converter",
    None: "a converter of your own",
}


def _configuration(
    files: CheckpointFiles, config: PreTrainedConfig | Mapping[str, Any] | None, tensor: StoredTensor
) -> tuple[ExpertSizes, str]:
    """The sizes of a checkpoint's experts, and the model type, from its configuration."""
    if config is None:
        path = config_beside(files)
        if path is None:
            raise PatchgenError(
                f"'{tensor.name}' {list(tensor.shape)} does not show the layout without the model's sizes",
                Location(os.fspath(find_shards(files)[0][0].parent)),
                "Pass the model's configuration as config=, or put its config.json beside the files.",
            )
        config = read_json(path)
    model_type = config.get("model_type") if isinstance(config, Mapping) else config.model_type
    return sizes_of_config(config), str(model_type or "")


def _fused_layout(tensors: list[StoredTensor], sizes: ExpertSizes) -> Layout:
    examples: dict[Layout, StoredTensor] = {}
    unclear = tensors[0]
    for tensor in tensors:
        layouts = _layouts_of(tensor, sizes)
        if not layouts:
            raise PatchgenError(
                f"'{tensor.name}' has shape {list(tensor.shape)}, which is not a layout of {_sizes(sizes)}",
                Location(str(tensor.file)),
                "Is the configuration that of this checkpoint?",
            )
        if len(layouts) == 1:
            examples.setdefault(layouts.pop(), tensor)
    if len(examples) == 2:
        (first, one), (second, other) = examples.items()
        raise _mixed(one, first, other, second)
    if not examples:
        raise PatchgenError(
            f"'{unclear.name}' {list(unclear.shape)} does not show the layout: the model has {_sizes(sizes)}",
            Location(str(unclear.file)),
            "Both sizes are needed, and the hidden size must differ from the intermediate size and from twice that.",
        )
    return next(iter(examples))


def _layouts_of(tensor: StoredTensor, sizes: ExpertSizes) -> set[Layout]:
    """The layouts that a fused tensor's shape goes with."""
    rows, columns = tensor.shape[1:]
    wide = (2 if tensor.name.endswith(".gate_up_proj") else 1) * sizes.intermediate
    down = tensor.name.endswith(".down_proj")
    outputs, inputs = (sizes.hidden, wide) if down else (wide, sizes.hidden)
    fits = {
        Layout.DIRECT: _fits(rows, outputs) and _fits(columns, inputs),
        Layout.TRANSPOSED: _fits(rows, inputs) and _fits(columns, outputs),
    }
    return {layout for layout, fit in fits.items() if fit}


def _sizes(sizes: ExpertSizes) -> str:
    return f"hidden size {sizes.hidden or 'unknown'} and expert intermediate size {sizes.intermediate or 'unknown'}"


def _fits(size: int, expected: int) -> bool:
    return not expected or size == expected


def _mixed(one: StoredTensor, first: str, other: StoredTensor, second: str) -> PatchgenError:
    return PatchgenError(
        f"the checkpoint mixes layouts: '{one.name}' is {first}, '{other.name}' is {second}",
        Location(str(other.file)),
        "Shards of two saves may lie in one folder: name the files of one checkpoint.",
    )
