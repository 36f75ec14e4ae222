"""Toy models: built as Hugging Face eager builds them, with values everywhere that tell one tensor from another."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from patchgen_core.errors import PatchgenError, list_some
from patchgen_core.models.random_values import reseed

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

State = Mapping[str, torch.Tensor]

_SPREAD = 0.25
"""Standard deviation of what is added to vectors, which start as ones or zeros."""
_DRAWS = 4.0
"""How many times the error of its logarithm the ratio of two deviations may be, whose squares are drawn alike."""
_ROUNDING = 2.0**-8
"""The largest part of a number that rounding to bfloat16 changes."""


def build_model(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, dtype: torch.dtype, device: str = "cpu"
) -> PreTrainedModel:
    """A model in training mode, with eager attention and eager experts; PatchgenError when the class refuses.

    ``dtype`` is that of parameters; what a class computes in float32 on its own, such as rotary frequencies, stays
    that.
    """
    config = eager_config(config)
    make: Any = model_class._from_config
    try:
        reseed(device)
        built: Any = make(config, dtype=dtype)
    except Exception as error:
        text = " ".join(str(error).split())
        raise PatchgenError(
            f"{model_class.__name__} cannot be built from the toy config: {type(error).__name__}: {text}",
            hint="Give the patch config a toy config that the class accepts: PatchConfig(..., toy_config=...).",
        ) from error
    model: PreTrainedModel = built.to(device).train()
    return model


def eager_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """A copy of a configuration for eager attention and eager experts."""
    config = copy.deepcopy(config)
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    return config


def random_state(model: PreTrainedModel, seed: int = 0) -> State:
    """A state dict of a model with other values: matrices that keep the size of what they multiply, uneven vectors.

    It is in float32, on the CPU. The values are rounded to bfloat16, so that a model has the same ones in every dtype.
    Biases that are kept in buffers are random as well; other buffers stay.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module, tensor in _tensors(model):
            noise = torch.randn(tensor.shape, generator=generator)
            fan_in = tensor[0].numel() if isinstance(module, nn.modules.conv._ConvNd) else tensor.shape[-1:].numel()
            value = noise / fan_in**0.5 if tensor.dim() > 1 else tensor.float().cpu() + _SPREAD * noise
            tensor.copy_(value.bfloat16())
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def _tensors(model: nn.Module) -> Iterator[tuple[nn.Module, torch.Tensor]]:
    """Each parameter once, and the buffers that are biases, in the order of the model."""
    seen: set[int] = set()
    for module in model.modules():
        parameters = module.named_parameters(recurse=False)
        biases = ((name, value) for name, value in module.named_buffers(recurse=False) if "bias" in name)
        for _, value in (*parameters, *biases):
            if id(value) not in seen and value.is_floating_point():
                seen.add(id(value))
                yield module, value


def load_state(model: PreTrainedModel, state: State) -> None:
    """Copy a state into a model, name by name; PatchgenError names those that are missing or of another shape."""
    own = model.state_dict()
    missing = [name for name in state if name not in own]
    added = [name for name in own if name not in state]
    shapes = [
        f"{name} {list(own[name].shape)} instead of {list(value.shape)}"
        for name, value in state.items()
        if name in own and own[name].shape != value.shape
    ]
    if missing or added or shapes:
        parts = [_listed("lacks", missing), _listed("has beside upstream's", added), _listed("has", shapes)]
        raise PatchgenError(
            f"{type(model).__name__} does not load upstream's state dict: it {'; it '.join(filter(None, parts))}",
            hint="Parity copies upstream's parameters by name: keep their names and shapes.",
        )
    model.load_state_dict(state, strict=True)


class InitialValues(NamedTuple):
    """Mean and standard deviation of a parameter's ``size`` values; a single one has a deviation of 0."""

    mean: float
    deviation: float
    size: int


def initial_values(model: nn.Module) -> dict[str, InitialValues]:
    """What every parameter starts with, by name."""
    with torch.no_grad():
        return {
            name: InitialValues(float(value.double().mean()), float(value.double().std(correction=0)), value.numel())
            for name, value in model.named_parameters()
            if value.is_floating_point() and value.numel()
        }


def initialized_otherwise(ours: Mapping[str, InitialValues], theirs: Mapping[str, InitialValues]) -> list[str]:
    """The parameters whose initial values are spread otherwise than upstream's, or are other constants.

    The two may be of unlike dtypes: rounding to bfloat16 counts for nothing. They may also be drawn otherwise: the
    fewer values there are, the further apart their deviations may be.
    """
    names = []
    for name, (mean, deviation, size) in theirs.items():
        own_mean, own_deviation, _ = ours.get(name, theirs[name])
        rounding = _ROUNDING * abs(mean)
        if deviation:
            factor = max(2.0, math.exp(_DRAWS / math.sqrt(max(1, size - 1))))
            is_right = deviation / factor - rounding <= own_deviation <= factor * deviation + rounding
        else:
            is_right = own_deviation == 0 and abs(own_mean - mean) <= rounding
        names += [] if is_right else [name]
    return names


def forget_positions(model: nn.Module) -> None:
    """Have a model run its next batch as its first one: some keep offsets of positions for the steps of a generation,
    and take those of the batch before when they are given embeddings in place of token ids."""
    for module in model.modules():
        if "rope_deltas" in vars(module):
            vars(module)["rope_deltas"] = None


def _listed(what: str, names: list[str]) -> str:
    return f"{what} {list_some(names, 4)}" if names else ""


class _InFloat64(TorchFunctionMode):
    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is torch.Tensor.float:
            return args[0].double()
        wide = {name: _wide(value) for name, value in (kwargs or {}).items()}
        if function is torch.full and "dtype" not in wide and isinstance(args[-1], float):
            wide["dtype"] = torch.float64  # the least number of float64 is none of the default dtype
        return function(*map(_wide, args), **wide)


def _wide(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


def in_float64() -> AbstractContextManager[Any]:
    """Have what asks for float32 on its own, as softmax and norms do, compute in float64."""
    return _InFloat64()


# --- what AutoModel gives --------------------------------------------------------------------------


@contextmanager
def auto_models(model_classes: Mapping[type, type] | None = None) -> Iterator[None]:
    """Have transformers' auto classes give upstream's models, whatever was registered, and ``model_classes`` too."""
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

    classes = [value for value in vars(modeling_auto).values() if isinstance(value, type)]
    autos: list[Any] = [value for value in classes if issubclass(value, _BaseAutoModelClass)]
    with ExitStack() as stack:
        for auto in autos:
            if auto._model_mapping is not None:
                more = dict(model_classes or {}) if auto.__name__ == "AutoModel" else {}
                stack.enter_context(_swapped(auto._model_mapping._extra_content, more))
        yield


@contextmanager
def _swapped(table: dict[Any, Any], content: dict[Any, Any]) -> Iterator[None]:
    before = dict(table)
    table.clear()
    table.update(content)
    try:
        yield
    finally:
        table.clear()
        table.update(before)
