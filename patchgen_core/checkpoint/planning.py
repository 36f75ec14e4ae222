"""What loading a checkpoint into a model will do, found from headers alone."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from patchgen_core.checkpoint.headers import StoredTensor
from patchgen_core.checkpoint.mapping import NameMap, name_map
from patchgen_core.checkpoint.protocol import CheckpointTensorConverter, ConvertedCheckpointTensor
from patchgen_core.checkpoint.regions import is_sharded
from patchgen_core.errors import Location, PatchgenError, Problem, did_you_mean, quote_some

if TYPE_CHECKING:
    from torch import nn

_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
    "C64": "complex64",
}
_CASTABLE = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})
_ALWAYS_IGNORED = r"rotary_emb\.inv_freq"  # checkpoints of old held it; models compute it
_MOST = 4


@dataclass(frozen=True)
class LoadedTensor:
    """A tensor that loading will give to the model; ``origin`` is the name in the checkpoint or by the converter."""

    origin: str
    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class LoadTarget:
    """The tensors of a model, and what checkpoints may call them."""

    tensors: Mapping[str, torch.Tensor]
    names: NameMap
    base: str
    ties: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def resolve(self, name: str) -> str | None:
        """What the model calls a tensor of the checkpoint, or None when it has no such.

        A name that transformers renames for this model goes before the same name left as it is; either may have
        more or less of the base model's prefix (``model.``) than the model.
        """
        for candidate in self.candidates(name):
            if candidate in self.tensors:
                return candidate
        return None

    def candidates(self, name: str) -> Iterable[str]:
        """The names that ``name`` may stand for."""
        for one in dict.fromkeys((self.names.to_model(name), name)):
            yield one
            if self.base:
                yield one.removeprefix(f"{self.base}.")
                yield f"{self.base}.{one}"


@dataclass(frozen=True)
class LoadPlan:
    """What to read, and what comes of it.

    Attributes:
        reads: in the order in which the converter is to see them.
        outputs: the model's name -> what it gets.
        twins: tensors of the checkpoint that the model ties, to be compared.
        missing: names of the model that nothing is loaded into.
        unexpected: names that the model has no tensor for.
        ignored: keys that are left out, because the caller or the model's class says so.
    """

    reads: tuple[StoredTensor, ...]
    outputs: Mapping[str, LoadedTensor]
    twins: tuple[tuple[str, str], ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    ignored: tuple[str, ...]


def target_of(model: nn.Module) -> LoadTarget:
    """The tensors that a checkpoint can be loaded into; PatchgenError when some are on the meta device."""
    tensors = {
        name: value for name, value in model.state_dict(keep_vars=True).items() if isinstance(value, torch.Tensor)
    }
    meta = [name for name, value in tensors.items() if value.is_meta]
    if meta:
        raise PatchgenError(
            f"{len(meta)} of {len(tensors)} tensors of the model are on the meta device: {quote_some(meta, _MOST)}",
            hint="There is nothing to write into: build the model on a real device. 'with"
            " transformers.initialization.no_init_weights():' around it saves the time of initialising it. A sharded"
            " model gets memory for its parts by patchgen_core.runtime.parallel.materialize.",
        )
    return LoadTarget(tensors, name_map(model), getattr(model, "base_model_prefix", "") or "", _ties(tensors))


def make_plan(
    model: nn.Module,
    target: LoadTarget,
    stored: Sequence[StoredTensor],
    converter: CheckpointTensorConverter | None,
    ignore: Sequence[str],
) -> LoadPlan:
    """Find what each tensor of a checkpoint becomes, by converting tensors without values.

    PatchgenError when experts are incomplete, shapes or dtypes do not go together, or two tensors become one.
    """
    class_ignored = [*(getattr(model, "_keys_to_ignore_on_load_unexpected", None) or ()), _ALWAYS_IGNORED]
    ignored = {one.name for one in stored if _matches(one.name, ignore) or _elsewhere(one.name, target, class_ignored)}
    reads = tuple(one for one in stored if one.name not in ignored)
    outputs: dict[str, LoadedTensor] = {}
    unexpected: list[str] = []
    twice: list[tuple[str, str, str]] = []
    for output in _rehearse(reads, converter, model):
        name = target.resolve(output.origin)
        if name is None:
            unexpected.append(output.origin)
        elif name in outputs:
            twice.append((name, outputs[name].origin, output.origin))
        else:
            outputs[name] = output
    waived = {name for name in unexpected if _matches_any(target.candidates(name), class_ignored)}
    _refuse(target, outputs, twice)
    twins, missing = _tied(target, outputs)
    return LoadPlan(
        tuple(one for one in reads if one.name not in waived),
        outputs,
        tuple(twins),
        tuple(missing),
        tuple(name for name in unexpected if name not in waived),
        tuple(sorted(ignored | waived)),
    )


def _rehearse(
    reads: Iterable[StoredTensor], converter: CheckpointTensorConverter | None, model: nn.Module
) -> Iterable[LoadedTensor]:
    rehearsal = _copy(converter, model)
    for one in reads:
        dtype = getattr(torch, _DTYPES.get(one.dtype, one.dtype), None)
        if not isinstance(dtype, torch.dtype):
            raise PatchgenError(f"'{one.name}' has dtype {one.dtype}, which torch lacks", Location(str(one.file)))
        if rehearsal is None or not rehearsal.can_handle(one.name):
            yield LoadedTensor(one.name, one.shape, dtype)
            continue
        converted = call_converter(rehearsal, one, torch.empty(one.shape, dtype=dtype, device="meta"))
        if converted is not None:
            yield LoadedTensor(converted.name, tuple(converted.tensor.shape), converted.tensor.dtype)
    for converted in rehearsal.finalize() if rehearsal is not None else ():
        yield LoadedTensor(converted.name, tuple(converted.tensor.shape), converted.tensor.dtype)


def call_converter(
    converter: CheckpointTensorConverter, one: StoredTensor, tensor: torch.Tensor
) -> ConvertedCheckpointTensor | None:
    """Convert one tensor; a converter's own failure becomes an error that names the tensor."""
    try:
        return converter.convert(one.name, tensor)
    except PatchgenError as error:
        problems = [Problem(p.message, p.location or Location(str(one.file)), p.hint) for p in error.problems]
        raise PatchgenError.from_problems(problems) from None
    except Exception as error:
        raise PatchgenError(
            f"{type(converter).__name__}.convert failed on '{one.name}' {list(one.shape)}:"
            f" {type(error).__name__}: {error}",
            Location(str(one.file)),
            "A converter must work without values too: it is tried on the meta device first.",
        ) from error


def _copy(converter: CheckpointTensorConverter | None, model: nn.Module) -> CheckpointTensorConverter | None:
    """A copy to rehearse with, that shares the model with the original if it holds it."""
    shared = {id(one): one for one in (*model.modules(), *model.parameters(), *model.buffers())}
    try:
        return copy.deepcopy(converter, shared)
    except Exception as error:
        raise PatchgenError(
            f"{type(converter).__name__} cannot be copied: {type(error).__name__}: {error}",
            hint="Loading tries a copy of the converter on tensors without values first: let it hold plain data,"
            " or define __deepcopy__.",
        ) from error


def _elsewhere(name: str, target: LoadTarget, patterns: Sequence[str]) -> bool:
    """Whether the model's class ignores a key, and the key is of a layer that the model does not have."""
    candidates = tuple(target.candidates(name))
    layers = [match[0] for one in candidates if (match := re.match(r"(?:[^.]+\.)*?[0-9]+\.", one))]
    if not layers or not _matches_any(candidates, patterns):
        return False
    return not any(tensor.startswith(layer) for tensor in target.tensors for layer in layers)


def _refuse(target: LoadTarget, outputs: Mapping[str, LoadedTensor], twice: Sequence[tuple[str, str, str]]) -> None:
    problems = [
        Problem(f"'{one}' and '{other}' of the checkpoint both become '{name}'", hint="One of them is stale.")
        for name, one, other in twice
    ]
    for name, output in outputs.items():
        tensor = target.tensors[name]
        if output.shape != tuple(tensor.shape):
            problems.append(_wrong_shape(name, output, tuple(tensor.shape)))
        elif output.dtype != tensor.dtype and not {output.dtype, tensor.dtype} <= _CASTABLE:
            problems.append(
                Problem(
                    f"'{name}' is {_dtype(tensor.dtype)} in the model and {_dtype(output.dtype)} in the checkpoint",
                    hint="Only float64, float32, float16 and bfloat16 are cast to each other. A quantized checkpoint"
                    " must be dequantized first.",
                )
            )
    if len(problems) > _MOST:
        problems[_MOST - 1 :] = [Problem(f"{len(problems) - _MOST + 1} more tensors do not fit like these")]
    if problems:
        raise PatchgenError.from_problems(problems)


def _wrong_shape(name: str, output: LoadedTensor, shape: tuple[int, ...]) -> Problem:
    called = f"'{name}'" if output.origin == name else f"'{name}' (from '{output.origin}')"
    hint = "Was the model built with the checkpoint's configuration?"
    if len(shape) == 3 and output.shape == (shape[0], shape[2], shape[1]):
        hint = "The experts are stored transposed: pass converter=create_checkpoint_tensor_converter(model)."
    return Problem(f"{called} has shape {list(output.shape)}, the model's is {list(shape)}", hint=hint)


def missing_problem(model: nn.Module, missing: Sequence[str], unexpected: Sequence[str]) -> Problem:
    """The problem that tensors of the model get nothing."""
    tied = [name for name in missing if name in (getattr(model, "_tied_weights_keys", None) or ())]
    if tied:
        hint = f"The checkpoint ties '{tied[0]}' and the model does not: set tie_word_embeddings in its configuration."
    else:
        hint = did_you_mean(missing[0], unexpected)
    return Problem(
        f"the checkpoint lacks {len(missing)} tensors of {type(model).__name__}: {quote_some(missing, _MOST)}",
        hint=hint or "Fetch all shards. Was the model built with the checkpoint's configuration?",
    )


def unexpected_problem(
    model: nn.Module, target: LoadTarget, unexpected: Sequence[str], converter: CheckpointTensorConverter | None
) -> Problem:
    """The problem that tensors of the checkpoint have no place in the model."""
    hint = "Leave them out with ignore=[...], a list of regular expressions for keys of the checkpoint."
    if any(re.search(r"\.experts\.[0-9]+\.", name) for name in unexpected):
        hint = "Experts are stored one by one: pass converter=create_checkpoint_tensor_converter(model)."
        if converter is not None:
            hint = f"{type(converter).__name__} does not handle them."
    elif any(target.names.is_converted(name) for name in unexpected):
        hint = (
            "transformers converts them for this model, and the built-in converters are only for experts: write a"
            " converter that does both."
        )
    return Problem(
        f"the checkpoint has {len(unexpected)} tensors that {type(model).__name__} lacks:"
        f" {quote_some(unexpected, _MOST)}",
        hint=hint,
    )


def _tied(target: LoadTarget, outputs: dict[str, LoadedTensor]) -> tuple[list[tuple[str, str]], list[str]]:
    """Tensors of the checkpoint that the model ties, and the names that nothing is loaded into."""
    twins = []
    missing = []
    for name in target.tensors:
        group = target.ties.get(name, (name,))
        sources = [one for one in group if one in outputs]
        if not sources:
            missing.append(name)
        elif name in outputs and name != sources[0]:
            twins.append((sources[0], name))
    return twins, missing


def memory_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """What is equal for two tensors that are one: they lie at the same place in memory, in the same way."""
    if is_sharded(tensor):
        return (id(tensor),)  # of which a rank may have nothing
    return (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)


def _ties(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[str, ...]]:
    """Each name whose tensor has other names too -> all of them."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, tensor in tensors.items():
        if tensor.numel():
            groups.setdefault(memory_of(tensor), []).append(name)
    return {name: tuple(group) for group in groups.values() if len(group) > 1 for name in group}


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(re.search(pattern, name) for pattern in patterns)


def _matches_any(names: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(_matches(name, patterns) for name in names)


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
