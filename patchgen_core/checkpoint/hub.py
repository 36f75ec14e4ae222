"""Write a model in the hub's layout."""

from __future__ import annotations

import copy
import functools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from patchgen_core.checkpoint.converters import QWEN_RECIPES
from patchgen_core.checkpoint.first_rank import FirstRank
from patchgen_core.checkpoint.headers import INDEX_NAME, natural_key
from patchgen_core.checkpoint.mapping import (
    ExpertConversion,
    NameMap,
    class_name,
    conversion_of_model,
    conversion_of_type,
    name_map,
)
from patchgen_core.checkpoint.planning import memory_of
from patchgen_core.checkpoint.protocol import Layout
from patchgen_core.checkpoint.regions import is_sharded
from patchgen_core.errors import Location, PatchgenError, did_you_mean

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedConfig

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class _TensorToWrite:
    """A tensor to write: its key, its size in bytes, and how to make it when its turn comes."""

    name: str
    nbytes: int
    elements: int
    make: Callable[[], torch.Tensor]


def to_hub_layout(
    model_or_state_dict: nn.Module | Mapping[str, torch.Tensor],
    folder: str | os.PathLike[str],
    layout: Layout | str | None = None,
    max_shard_size: int | str = "5GB",
    *,
    config: PreTrainedConfig | None = None,
) -> Path:
    """Write a checkpoint that plain Hugging Face ``from_pretrained`` and inference engines load.

    The folder, which must not exist or be empty, gets ``model-XXXXX-of-XXXXX.safetensors``,
    ``model.safetensors.index.json`` (whose path is returned), ``config.json`` and, for a model that generates,
    ``generation_config.json``. It appears complete or not at all. Of tied weights one is written. Memory: the tensors
    of one shard beyond the model. A model that ranks share is written by the first rank; every rank calls this, and
    has a layer's experts in full for a while. Tokenizers and processors are not written.

    Args:
        model_or_state_dict: a model of a generated or an upstream class, or its state dict. A model's tensors get
            the hub's names as transformers maps them; of a state dict only the experts are renamed. What
            transformers converts besides experts (kimi_linear's convolutions) is written as the model has it.
        layout: ``per_expert``, ``transposed`` or ``direct``; by default the one that transformers' conversion
            mapping converts from when it loads this model.
        max_shard_size: in bytes, or with a unit (``"5GB"``, ``"500MB"``, ``"1GiB"``). A larger tensor gets a
            shard of its own.
        config: the configuration to write; needed with a state dict, by default the model's own.

    Raises:
        PatchgenError: the folder is not empty or cannot be written, a size or layout is not known, tensors have
            no values (meta device), or no ready converter knows how the hub stores the model's experts.
    """
    target, limit = Path(os.path.abspath(folder)), _bytes(max_shard_size)
    config = config if config is not None else getattr(model_or_state_dict, "config", None)
    if config is None:
        raise PatchgenError("no configuration to write", hint="Pass the model's configuration as config=.")
    tensors, names, conversion = _source(model_or_state_dict, config)
    first = FirstRank(any(map(is_sharded, tensors.values())))
    first.call(lambda: _refuse_occupied(target))
    chosen, recipes = _layout(layout, conversion, config.model_type)
    whole = functools.lru_cache(maxsize=len(recipes))(_whole)  # the experts of a layer are written one by one
    entries = [entry for name, tensor in tensors.items() for entry in _entries(name, tensor, chosen, recipes, whole)]
    shards = list(_shards(_renamed(entries, names), limit))
    try:
        with _appearing(target, first) as temporary:
            _write_shards(temporary, shards, first)
            dtypes = (tensor.dtype for tensor in tensors.values() if tensor.is_floating_point())
            dtype = next(dtypes, torch.float32)
            first.call(lambda: _write_configs(temporary, model_or_state_dict, config, dtype))
    except OSError as error:
        raise PatchgenError(f"cannot be written: {error.strerror}", Location(str(target))) from None
    return target / INDEX_NAME


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor; where ranks share it, a collective operation.

    FSDP splits the parts that a plan made, along the mesh dimensions before the plan's. So these are gathered first.
    """
    if is_sharded(tensor):
        from torch.distributed.tensor import DTensor, Replicate

        assert isinstance(tensor, DTensor)
        for dim in range(tensor.device_mesh.ndim):
            placements = [Replicate()] * (dim + 1) + list(tensor.placements[dim + 1 :])
            tensor = tensor.redistribute(placements=placements)
        tensor = tensor.to_local()
    return tensor


def _source(
    model_or_state_dict: nn.Module | Mapping[str, torch.Tensor], config: PreTrainedConfig
) -> tuple[dict[str, torch.Tensor], NameMap, ExpertConversion]:
    """The tensors to write (each once), the names that the hub has for them, and how it stores experts."""
    if isinstance(model_or_state_dict, Mapping):
        names, conversion = NameMap(), conversion_of_type(config.model_type)
        state, tied = model_or_state_dict, frozenset[str]()
    else:
        names, conversion = name_map(model_or_state_dict), conversion_of_model(model_or_state_dict, alone=True)
        state = model_or_state_dict.state_dict(keep_vars=True)
        tied = frozenset(getattr(model_or_state_dict, "all_tied_weights_keys", None) or ())
    tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
    for name, tensor in tensors.items():
        if tensor.is_meta:
            message = f"'{name}' has no values: it is on the meta device"
            raise PatchgenError(message, hint="Write a model that is on real devices.")
    if not tensors:
        raise PatchgenError("there are no tensors to write")
    return _without_ties(tensors, tied), names, conversion


def _without_ties(tensors: Mapping[str, torch.Tensor], tied: frozenset[str]) -> dict[str, torch.Tensor]:
    written: dict[tuple[object, ...], str] = {}
    for name in sorted(tensors, key=lambda name: name in tied):
        written.setdefault(memory_of(tensors[name]) if tensors[name].numel() else (name,), name)
    names = set(written.values())
    return {name: tensor.detach() for name, tensor in tensors.items() if name in names}


def _layout(
    layout: Layout | str | None, conversion: ExpertConversion, model_type: str
) -> tuple[Layout, Mapping[str, tuple[str, ...]]]:
    """The layout to write, and the projections that a fused tensor is split into."""
    layouts = [str(one) for one in Layout if one is not Layout.NONE]
    if layout is not None and str(layout) not in layouts:
        hint = did_you_mean(str(layout), layouts) or f"There are {', '.join(layouts)}."
        raise PatchgenError(f"there is no layout '{layout}'", hint=hint)
    chosen = Layout(str(layout)) if layout is not None else conversion.layout
    if chosen is None or (conversion.unsupported and chosen is conversion.layout):
        operations = ", ".join(dict.fromkeys(conversion.unsupported))
        raise PatchgenError(
            f"the hub stores the experts of '{model_type}' in a way that cannot be written here ({operations})",
            hint="layout='direct' writes the tensors as the model has them, and Hugging Face loads those too.",
        )
    return chosen, conversion.recipes or QWEN_RECIPES


def _entries(
    name: str,
    tensor: torch.Tensor,
    layout: Layout,
    recipes: Mapping[str, tuple[str, ...]],
    whole: Callable[[torch.Tensor], torch.Tensor],
) -> Iterator[_TensorToWrite]:
    """What one tensor of the model is written as."""
    nbytes, elements = tensor.numel() * tensor.element_size(), tensor.numel()
    match = re.fullmatch(r"((?:.+\.)?experts)\.(\w+)", name)
    if match is None or match[2] not in recipes or tensor.dim() != 3 or layout in (Layout.DIRECT, Layout.NONE):
        yield _TensorToWrite(name, nbytes, elements, lambda: whole(tensor))
    elif layout is Layout.TRANSPOSED:
        yield _TensorToWrite(name, nbytes, elements, lambda: whole(tensor).transpose(1, 2))
    else:
        projections = recipes[match[2]]
        parts = tensor.shape[0] * len(projections)
        for expert in range(tensor.shape[0]):
            for number, projection in enumerate(projections):
                one = f"{match[1]}.{expert}.{projection}.weight"
                make = functools.partial(_projection, whole, tensor, expert, number, len(projections))
                yield _TensorToWrite(one, nbytes // parts, elements // parts, make)


def _projection(
    whole: Callable[[torch.Tensor], torch.Tensor], tensor: torch.Tensor, expert: int, number: int, projections: int
) -> torch.Tensor:
    """One of the projections that a fused tensor [E, projections * out, in] has for an expert."""
    return whole(tensor)[expert].chunk(projections)[number]


def _renamed(entries: Iterable[_TensorToWrite], names: NameMap) -> list[_TensorToWrite]:
    renamed: dict[str, _TensorToWrite] = {}
    for entry in entries:
        name = names.to_hub(entry.name)
        other = renamed.setdefault(name, _TensorToWrite(name, entry.nbytes, entry.elements, entry.make))
        if other.make is not entry.make:
            raise PatchgenError(f"two tensors of the model would both be written as '{name}'")
    return sorted(renamed.values(), key=lambda entry: natural_key(entry.name))


def _shards(entries: Iterable[_TensorToWrite], limit: int) -> Iterator[list[_TensorToWrite]]:
    shard: list[_TensorToWrite] = []
    for entry in entries:
        if shard and sum(one.nbytes for one in shard) + entry.nbytes > limit:
            yield shard
            shard = []
        shard.append(entry)
    yield shard


def _write_shards(folder: Path, shards: list[list[_TensorToWrite]], first: FirstRank) -> None:
    weight_map = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        tensors = _make_tensors(shard, first)
        first.call(functools.partial(_write_shard, folder / file, tensors))
        weight_map.update({entry.name: file for entry in shard})
    total = {
        "total_parameters": sum(entry.elements for shard in shards for entry in shard),
        "total_size": sum(entry.nbytes for shard in shards for entry in shard),
    }
    text = json.dumps({"metadata": total, "weight_map": weight_map}, indent=2, sort_keys=True) + "\n"
    first.call(lambda: (folder / INDEX_NAME).write_text(text, encoding="utf-8"))


def _make_tensors(shard: Iterable[_TensorToWrite], first: FirstRank) -> dict[str, torch.Tensor]:
    """The tensors of a shard, on the rank that writes them; the others make them with it and keep none."""
    tensors = {}
    for entry in shard:
        tensor = entry.make()
        if first.is_this:
            tensors[entry.name] = _on_cpu(tensor)
    return tensors


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor on the CPU, copied where it is a part of a storage, which the format refuses."""
    tensor = tensor.contiguous().cpu()
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()


def _write_shard(file: Path, tensors: dict[str, torch.Tensor]) -> None:
    from safetensors.torch import save_file

    save_file(tensors, file, metadata={"format": "pt"})


def _write_configs(folder: Path, model: object, config: PreTrainedConfig, dtype: torch.dtype) -> None:
    written: Any = copy.deepcopy(config)
    if not isinstance(model, Mapping):
        written.architectures = [class_name(model)]
    written.dtype = str(dtype).removeprefix("torch.")
    written.save_pretrained(folder)
    can_generate = getattr(model, "can_generate", None)
    if can_generate is not None and can_generate():
        copy.deepcopy(model.generation_config).save_pretrained(folder)  # type: ignore[attr-defined]


def _refuse_occupied(target: Path) -> None:
    if target.is_file():
        raise PatchgenError("is a file; a checkpoint needs a folder", Location(str(target)))
    if target.is_dir() and any(target.iterdir()):
        raise PatchgenError(
            "the folder is not empty",
            Location(str(target)),
            "Write into a new folder, so that nothing old is left in it.",
        )


@contextmanager
def _appearing(target: Path, first: FirstRank) -> Iterator[Path]:
    """A folder to write into that takes the place of ``target`` when all went well, and is gone otherwise."""
    temporary = first.call(lambda: _make_folder(target))
    try:
        yield temporary
        first.call(lambda: _put_in_place(temporary, target))
    except BaseException:
        if first.is_this:
            shutil.rmtree(temporary, ignore_errors=True)
        raise


def _make_folder(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))


def _put_in_place(temporary: Path, target: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    temporary.chmod(0o777 & ~umask)
    if target.is_dir():
        target.rmdir()
    temporary.rename(target)


def _bytes(size: int | str) -> int:
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMG]?I?B)\s*", str(size).upper())
    number = size if isinstance(size, int) else int(float(match[1]) * _UNITS[match[2]]) if match else 0
    if number <= 0:
        raise PatchgenError(
            f"max_shard_size={size!r} is not a size", hint='Give bytes, or a text like "5GB" or "500MiB".'
        )
    return number
