"""Modes in which dropout and jitter are above zero, and draw nothing: two models that draw in another order agree."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from patchgen_core.models.modes import Mode, evaluating
from patchgen_core.models.module_changes import Changes
from patchgen_core.models.toy_models import auto_models

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

NOISE = ("dropout", "drop_path", "pdrop", "jitter")
"""Parts of the names of fields that say how much noise there is."""
_LOWEST, _STEP, _KINDS = 0.1, 0.05, 8
_DROPOUTS = (
    functional.dropout,
    functional.dropout1d,
    functional.dropout2d,
    functional.dropout3d,
    functional.alpha_dropout,
    functional.feature_alpha_dropout,
    torch.dropout,
    torch.dropout_,
)
_IN_PLACE = (torch.dropout_,)


def find_noise(config: PreTrainedConfig) -> list[tuple[PreTrainedConfig, str]]:
    """The fields of a configuration and its parts that say how much noise there is."""
    from transformers import PreTrainedConfig

    fields: list[tuple[PreTrainedConfig, str]] = []
    for name, value in sorted(vars(config).items()):
        if isinstance(value, PreTrainedConfig):
            fields += find_noise(value)
        elif type(value) in (int, float) and any(part in name for part in NOISE):
            fields.append((config, name))
    return fields


@contextmanager
def noisy(model: PreTrainedModel) -> Iterator[None]:
    """Have a model as one built from its configuration with other rates of dropout and jitter in each field.

    Dropout scales what is positive up and what is negative down, by its rate, so that it matters where it stands
    between layers, and not how rows are laid out. What else is drawn at random is the same in every call.
    """
    with Changes() as changes:
        for number, (config, name) in enumerate(find_noise(model.config)):
            changes.set(config, name, _LOWEST + _STEP * (number % _KINDS))
        _take_rates(model, _build_alike(model), changes)
        with WithoutDraws():
            yield


def _build_alike(model: PreTrainedModel) -> PreTrainedModel:
    """A model of the same classes from the configuration that a model has now, without values."""
    from transformers import PreTrainedModel

    parts: dict[type, type] = {}
    for part in model.modules():
        if isinstance(part, PreTrainedModel) and part is not model:
            parts.setdefault(type(part.config), type(part))
    make: Any = type(model)._from_config
    with auto_models(parts), torch.device("meta"):
        built: PreTrainedModel = make(copy.deepcopy(model.config))
    return built


def _take_rates(model: nn.Module, other: nn.Module, changes: Changes) -> None:
    """Put the numbers that a model of the same classes keeps in its modules into a model."""
    others = dict(other.named_modules())
    for path, module in list(model.named_modules()):
        alike = others.get(path)
        if alike is None:
            continue
        if type(alike) is not type(module):
            if path and not any(True for _ in alike.parameters()):
                changes.put_module(model, path, alike.train())
            continue
        for name, value in vars(alike).items():
            if isinstance(value, float) and vars(module).get(name, value) != value:
                changes.set(module, name, value)


class WithoutDraws(TorchFunctionMode):
    """Has dropout and random numbers be the same whatever was drawn before."""

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        if func in _DROPOUTS:
            return _drop(func, *args, **options)
        if func is functional.scaled_dot_product_attention:
            return _attend(*args, **options)
        if func in _FILLED:
            return _fill(func, args, options)
        return func(*args, **options)


def _drop(
    func: Any, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, **more: Any
) -> Tensor:
    training = more.get("train", training)
    if not training or not p:
        return input
    factor = torch.where(input.detach() < 0, 1 - p, 1 + p).to(input.dtype)
    return input.mul_(factor) if inplace or func in _IN_PLACE else input * factor


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention whose weights are dropped as all else is."""
    if not dropout_p:
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None:
        is_bool = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if is_bool else scores + attn_mask
    return _drop(functional.dropout, scores.softmax(-1), dropout_p) @ value


# --- random numbers --------------------------------------------------------------------------------


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _uniform(shape: torch.Size) -> Tensor:
    return torch.rand(shape, generator=_generator())


def _normal(shape: torch.Size) -> Tensor:
    return torch.randn(shape, generator=_generator())


def _fill_uniform(self: Tensor, low: float = 0.0, high: float = 1.0, **options: Any) -> Tensor:
    low, high = options.get("from", low), options.get("to", high)
    return low + _uniform(self.shape) * (high - low)


def _fill_normal(self: Tensor, mean: float = 0.0, std: float = 1.0, **_: Any) -> Tensor:
    return mean + _normal(self.shape) * std


def _fill_exponential(self: Tensor, lambd: float = 1.0, **_: Any) -> Tensor:
    return -torch.log1p(-_uniform(self.shape)) / lambd


def _fill_coins(self: Tensor, p: float | Tensor = 0.5, **_: Any) -> Tensor:
    return (_uniform(self.shape) < (p.detach().cpu() if isinstance(p, Tensor) else p)).float()


_IN_ITSELF: dict[Any, Callable[..., Tensor]] = {
    Tensor.uniform_: _fill_uniform,
    Tensor.normal_: _fill_normal,
    Tensor.exponential_: _fill_exponential,
    Tensor.bernoulli_: _fill_coins,
}
_NEW: dict[Any, Callable[[torch.Size], Tensor]] = {
    torch.rand: _uniform,
    torch.rand_like: _uniform,
    torch.randn: _normal,
    torch.randn_like: _normal,
}
_FILLED = {*_IN_ITSELF, *_NEW, torch.bernoulli, Tensor.bernoulli}


def _fill(func: Any, args: Sequence[Any], options: dict[str, Any]) -> Tensor:
    """What a function gives, with the same float32 numbers for every dtype."""
    with torch.no_grad():
        if func in _IN_ITSELF:
            result: Tensor = args[0]
            return result.copy_(_IN_ITSELF[func](*args, **options))
        if func in _NEW:
            result = func(*args, **{**options, "requires_grad": False})
            return result.copy_(_NEW[func](result.shape))
        chances: Tensor = args[0] if args else options["input"]
        return (_uniform(chances.shape).to(chances.device) < chances).to(chances.dtype)


@contextmanager
def _noisy_in_evaluation(model: PreTrainedModel) -> Iterator[None]:
    with noisy(model), evaluating(model):
        yield


NOISY = Mode("with dropout", noisy)
NOISY_IN_EVALUATION = Mode("with dropout, evaluated", _noisy_in_evaluation, has_gradients=False)
