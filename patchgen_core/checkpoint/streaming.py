"""Load a checkpoint into a model tensor by tensor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from patchgen_core.checkpoint.detection import check_converter_of
from patchgen_core.checkpoint.headers import CheckpointFiles, StoredTensor, read_headers
from patchgen_core.checkpoint.planning import (
    LoadPlan,
    LoadTarget,
    call_converter,
    make_plan,
    missing_problem,
    target_of,
    unexpected_problem,
)
from patchgen_core.checkpoint.protocol import (
    CheckpointTensorConverter,
    ConvertedCheckpointTensor,
    LocatingConverter,
    StoredPart,
)
from patchgen_core.checkpoint.regions import Region, find_region, is_sharded, own_part
from patchgen_core.errors import PatchgenError, Problem

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class LoadReport:
    """What loading a checkpoint did, by the model's names.

    Attributes:
        missing: tensors that keep what they had: the class says that checkpoints may lack them
            (``_keys_to_ignore_on_load_missing``), or loading was not strict.
        unexpected: what the checkpoint has and the model does not; only when loading was not strict.
        ignored: keys of the checkpoint that were left out, as the caller or the model's class asked
            (``_keys_to_ignore_on_load_unexpected``).
        cast: the tensors whose dtype the checkpoint has differently -> the checkpoint's dtype.
    """

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    ignored: tuple[str, ...]
    cast: Mapping[str, torch.dtype]


def load_state_dict_streaming(
    model: nn.Module,
    files: CheckpointFiles,
    converter: CheckpointTensorConverter | None = None,
    *,
    strict: bool = True,
    ignore: str | Sequence[str] = (),
) -> LoadReport:
    """Load safetensors files into a model, one tensor at a time.

    Beyond the model, memory holds the tensor being read and what the converter keeps: at most one layer's experts,
    because keys are read in the order of layers, wherever they lie. Everything that headers tell is checked before
    the model is touched: which keys there are, their shapes and dtypes, and, with a copy of the converter and
    tensors without values, what they become. What can fail later is reading a file and a converter that looks at
    values; the model is then partly loaded.

    Of a model that ranks share (:func:`~patchgen_core.runtime.parallel.parallelize`) every rank calls this and reads
    its own parts alone: slices of tensors, and of experts stored one by one its own. A converter that cannot tell
    where values go (:class:`LocatingConverter`) sees every expert, one layer at a time.

    Names are those of the checkpoint for the converter. What it makes, and what it does not handle, is then renamed
    as transformers renames it for the upstream model (``thinker.``, ``block_sparse_moe``), and the base model's
    prefix is added or dropped as the model needs it. Tied weights are loaded by any of their names.

    Args:
        model: a model on real devices. Its tensors are written in place, and keep dtype and device; float64,
            float32, float16 and bfloat16 are cast to each other (``LoadReport.cast``), nothing else is.
        files: a folder, an index, a safetensors file, or several files in any order.
        converter: turns the checkpoint's experts into the model's. Without it, the one that the model's class makes
            by ``_create_checkpoint_tensor_converter(model)``, if it has that.
        strict: whether a tensor that the checkpoint lacks, or the model, is an error. Incomplete experts, other
            shapes and other dtypes always are.
        ignore: regular expressions, found anywhere in a key of the checkpoint to leave out.

    Raises:
        PatchgenError: the files cannot be read, a key is in two shards, experts are incomplete, tensors are
            missing or unexpected, a shape or dtype is another, tied weights differ in the checkpoint, the model has
            tensors on the meta device, or the converter is for another layout than the model's type has.
    """
    converter = converter if converter is not None else _own_converter(model)
    if converter is not None:
        check_converter_of(model, converter)
    target = target_of(model)
    plan = make_plan(model, target, read_headers(files), converter, _patterns(ignore))
    _check_complete(model, target, plan, converter, strict)
    with ExitStack() as stack, torch.no_grad():
        reader = _Reader(stack)
        skipped = _compare_twins(plan, target, reader)
        _load(plan, target, converter, reader, skipped)
    cast = {name: one.dtype for name, one in plan.outputs.items() if one.dtype != target.tensors[name].dtype}
    return LoadReport(tuple(plan.outputs), plan.missing, plan.unexpected, plan.ignored, cast)


def _own_converter(model: nn.Module) -> CheckpointTensorConverter | None:
    factory = getattr(type(model), "_create_checkpoint_tensor_converter", None)
    return factory(model) if factory is not None else None


def _patterns(ignore: str | Sequence[str]) -> tuple[str, ...]:
    patterns = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise PatchgenError(f"ignore={pattern!r} is not a regular expression: {error}") from None
    return patterns


def _check_complete(
    model: nn.Module, target: LoadTarget, plan: LoadPlan, converter: CheckpointTensorConverter | None, strict: bool
) -> None:
    waived = getattr(model, "_keys_to_ignore_on_load_missing", None) or ()
    missing = [name for name in plan.missing if not any(re.search(pattern, name) for pattern in waived)]
    problems: list[Problem] = []
    if missing:
        problems.append(missing_problem(model, missing, plan.unexpected))
    if plan.unexpected:
        problems.append(unexpected_problem(model, target, plan.unexpected, converter))
    if problems and strict:
        raise PatchgenError.from_problems(problems)
    if not plan.outputs:
        raise PatchgenError.from_problems(problems or [Problem("the checkpoint has nothing for this model")])


class _Reader:
    """Reads tensors from shards that stay open while a checkpoint is loaded."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._open: dict[Path, Any] = {}

    def read(self, one: StoredTensor) -> torch.Tensor:
        """The tensor, on the CPU."""
        tensor: torch.Tensor = self._file(one).get_tensor(one.name)
        return tensor

    def read_own(
        self, one: StoredTensor, part: StoredPart, tensor: torch.Tensor
    ) -> tuple[Region, torch.Tensor] | None:
        """What this rank has, in ``tensor``, of a stored tensor; None when it has nothing of it."""
        region = find_region(tensor, part, one.shape)
        if region is None:
            return None
        if not is_sharded(tensor):
            return region, region.read(lambda _: self.read(one))
        return region, region.read(lambda slices: self._file(one).get_slice(one.name)[slices])

    def _file(self, one: StoredTensor) -> Any:
        from safetensors import safe_open

        if one.file not in self._open:
            self._open[one.file] = self._stack.enter_context(safe_open(one.file, framework="pt"))
        return self._open[one.file]


def _compare_twins(plan: LoadPlan, target: LoadTarget, reader: _Reader) -> set[str]:
    """The tensors that need not be loaded, because the one that the model ties them to is, or a PatchgenError."""
    stored = {one.name: one for one in plan.reads}
    for first, second in plan.twins:
        tensor = target.tensors[first]
        whole = StoredPart(first, (0,) * tensor.dim())
        pair = [stored.get(plan.outputs[name].origin) for name in (first, second)]
        parts = [reader.read_own(one, whole, tensor) if one is not None else None for one in pair]
        if None in pair or any(a is not None and b is not None and not torch.equal(a[1], b[1]) for a, b in [parts]):
            raise PatchgenError(
                f"the model ties '{first}' and '{second}', and the checkpoint has other values for them",
                hint="Set tie_word_embeddings to false in the configuration, or leave one out with ignore=[...].",
            )
    return {second for _, second in plan.twins}


def _load(
    plan: LoadPlan, target: LoadTarget, converter: CheckpointTensorConverter | None, reader: _Reader, skipped: set[str]
) -> None:
    for one in plan.reads:
        _load_one(one, target, converter, reader, skipped)
    for converted in converter.finalize() if converter is not None else ():
        _write(target, converted, skipped)


def _load_one(
    one: StoredTensor,
    target: LoadTarget,
    converter: CheckpointTensorConverter | None,
    reader: _Reader,
    skipped: set[str],
) -> None:
    """Read, convert and write in a function of its own, so that nothing is held on to after it."""
    is_handled = converter is not None and converter.can_handle(one.name)
    part = _locate(one, converter if is_handled else None, target)
    name = target.resolve(part.name) if part is not None else None
    if part is not None and name is not None:
        own = reader.read_own(one, part, target.tensors[name]) if name not in skipped else None
        if own is not None:
            own_part(target.tensors[name])[own[0].local].copy_(own[1])
    elif converter is not None and is_handled:
        converted = call_converter(converter, one, reader.read(one))
        if converted is not None:
            _write(target, converted, skipped)


def _locate(one: StoredTensor, converter: CheckpointTensorConverter | None, target: LoadTarget) -> StoredPart | None:
    """Where a stored tensor goes; None when a converter has to see it whole, which any does of a model not sharded."""
    if converter is None:
        return StoredPart(one.name, (0,) * len(one.shape))
    if not isinstance(converter, LocatingConverter) or _home(converter, "locate") is not _home(converter, "convert"):
        return None
    part = converter.locate(one.name, one.shape)
    name = target.resolve(part.name)
    return part if name is not None and is_sharded(target.tensors[name]) else None


def _home(converter: object, method: str) -> type:
    """The class that a converter has a method from: one that overrides ``convert`` alone is not asked to locate."""
    return next(cls for cls in type(converter).__mro__ if method in vars(cls))


def _write(target: LoadTarget, converted: ConvertedCheckpointTensor, skipped: set[str]) -> None:
    name = target.resolve(converted.name)
    if name is None or name in skipped:
        return
    tensor = target.tensors[name]
    if tensor.shape != converted.tensor.shape:
        raise PatchgenError(
            f"the converter made '{name}' {list(converted.tensor.shape)}, and {list(tensor.shape)} of tensors without"
            " values; the model is partly loaded",
            hint="A converter's shapes must not depend on values.",
        )
    region = find_region(tensor, StoredPart(name, (0,) * tensor.dim()), tuple(tensor.shape))
    if region is not None:
        own_part(tensor)[region.local].copy_(converted.tensor[region.stored])
