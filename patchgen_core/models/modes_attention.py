"""Modes that run a model with another implementation of attention than eager."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from patchgen_core.models.flash_attention import FLASH_2, FLASH_3, standing_in
from patchgen_core.models.modes import Mode

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

SDPA, FLEX = "sdpa", "flex_attention"
_SUPPORTED = {
    SDPA: "_supports_sdpa",
    FLASH_2: "_supports_flash_attn",
    FLASH_3: "_supports_flash_attn",
    FLEX: "_supports_flex_attn",
}
_INTERNAL = "_attn_implementation_internal"


def find_flash(model: PreTrainedModel) -> str:
    """The version of flash attention that a model is trained with: 3 where it names others than 2, as for sinks."""
    named = getattr(model, "_compatible_flash_implementations", None)
    return FLASH_2 if named is None or FLASH_2 in named else FLASH_3


def is_supported(model: PreTrainedModel, implementation: str) -> bool:
    """Whether a model says that it runs with an implementation of attention, and asks which one when it runs."""
    can_set = getattr(type(model), "_can_set_attn_implementation", lambda: True)
    return bool(getattr(model, _SUPPORTED[implementation], False)) and bool(can_set())


def attention_mode(implementation: str, *, is_exact: bool = False) -> Mode:
    """Run a model with an implementation of attention: flash attention by a stand-in, in any dtype.

    Args:
        is_exact: whether but for rounding it computes what eager attention does, as it does where nothing is padding.
    """
    name = {FLASH_2: "flash attention", FLASH_3: "flash attention", FLEX: "flex attention"}
    around: Any = partial(_attending, implementation=implementation)
    return Mode(
        name.get(implementation, implementation),
        around,
        has_gradients=implementation != FLEX,
        is_training_step=is_exact,
    )


@contextmanager
def _attending(model: PreTrainedModel, implementation: str) -> Iterator[None]:
    """Have a model, and the parts of it that support it, attend by an implementation."""
    if not getattr(model, _SUPPORTED[implementation], False):
        raise ValueError(f"{type(model).__name__} does not support {implementation}")
    configs = list(_find_configs(model, _SUPPORTED[implementation]))
    before = [getattr(config, _INTERNAL) for config in configs]
    with ExitStack() as stack:
        if implementation in (FLASH_2, FLASH_3):
            stack.enter_context(standing_in())
        if implementation == FLEX:
            stack.enter_context(_uncompiled_flex())
        try:
            for config in configs:
                setattr(config, _INTERNAL, implementation)
            yield
        finally:
            for config, value in zip(configs, before, strict=True):
                setattr(config, _INTERNAL, value)


def _find_configs(model: nn.Module, support: str) -> Iterator[PreTrainedConfig]:
    """The configurations of a model and its modules, without those of parts that lack a support."""
    from transformers import PreTrainedConfig, PreTrainedModel

    seen: dict[int, PreTrainedConfig | None] = {}
    parts = sorted(model.modules(), key=lambda part: not isinstance(part, PreTrainedModel))
    for part in parts:
        config = getattr(part, "config", None)
        if isinstance(config, PreTrainedConfig) and id(config) not in seen:
            is_left = isinstance(part, PreTrainedModel) and not getattr(part, support, False)
            seen[id(config)] = None if is_left else config
    yield from (config for config in seen.values() if config is not None)


@contextmanager
def _uncompiled_flex() -> Iterator[None]:
    """Flex attention on a CPU: without gradients, which it has none for there, and not compiled, which takes long."""
    from torch.nn.attention.flex_attention import flex_attention
    from transformers.integrations import flex_attention as interface

    wrapper: Any = interface.WrappedFlexAttention
    interface.WrappedFlexAttention = lambda _: lambda: flex_attention
    try:
        with torch.no_grad():
            yield
    finally:
        interface.WrappedFlexAttention = wrapper
