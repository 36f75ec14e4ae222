"""The dimension ``training tools``: what trainers put around a model, each on the smallest batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from patchgen_core.checks.parity.dimensions.batch_choice import choose_batch
from patchgen_core.checks.parity.dimensions.dimension import Dimension, Subject
from patchgen_core.models import modes_adapters as adapters
from patchgen_core.models import modes_training as tools
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.modes import Mode

_CHECKPOINT = frozenset({"gradient_checkpointing", "_gradient_checkpointing_func", "checkpoint", "use_reentrant"})
_DTYPE = frozenset({"dtype", "to", "float", "type_as", "float32", "bfloat16", "float16", "half", "autocast", "finfo"})
_DTYPE |= frozenset(
    {"Function", "index_add", "index_add_", "empty_like", "zeros_like", "zeros", "is_autocast_enabled"}
)
_GRADIENT = frozenset(
    {"requires_grad", "requires_grad_", "needs_input_grad", "detach", "no_grad", "is_grad_enabled", "Function"}
)
_TUPLES = frozenset({"return_dict", "can_return_tuple", "to_tuple", "capture_outputs", "use_return_dict"})
_LOSS = frozenset({"loss_function", "labels", "num_items_in_batch", "loss", "Function", "backward", "register_buffer"})


@dataclass(frozen=True)
class _Tool:
    """A mode of training.

    Attributes:
        may_matter: whether patches may matter to it.
        applies: whether a head takes it.
        is_padded: whether the batch is to have padding.
        is_for_towers: whether the batch is to have media where a patch is of a class that only media reach.
        is_for_kernels: whether it is run with each kernel, whose dtypes and gradients it shows.
    """

    mode: Mode
    may_matter: Callable[[Subject], bool]
    applies: Callable[[Subject], bool] = lambda _: True
    is_padded: bool = False
    is_for_towers: bool = False
    is_for_kernels: bool = False

    def is_wanted(self, subject: Subject) -> bool:
        """Whether it is run on a head."""
        if not self.applies(subject):
            return False
        return subject.is_thorough or (self.may_matter(subject) and (self.is_for_kernels or not subject.has_kernels))


def _names(*names: frozenset[str]) -> Callable[[Subject], bool]:
    wanted = frozenset().union(*names)
    return lambda subject: subject.is_main and bool(wanted & subject.names)


def _is_in_layer(subject: Subject) -> bool:
    """Whether a patch is of a class whose objects hold checkpointed layers, are them or stand in them."""
    if not subject.is_main:
        return False
    layers = tools.find_checkpointed(subject.toy.model)
    inside = {type(part).__name__ for layer in layers.values() for part in layer.modules()}
    return bool(_CHECKPOINT & subject.names or inside & _classes(subject))


def _is_layer(subject: Subject) -> bool:
    layers = {type(layer).__name__ for layer in tools.find_checkpointed(subject.toy.model).values()}
    wanted = (_CHECKPOINT | _GRADIENT) & subject.names
    return subject.is_main and bool(wanted or layers & _classes(subject))


def _classes(subject: Subject) -> set[str]:
    return {target.partition(".")[0] for target in subject.targets}


def _names_linear_layers(subject: Subject) -> bool:
    layers = adapters.find_linear_layers(subject.toy.model)
    return subject.is_main and bool({path.rpartition(".")[2] for path in layers} & subject.names)


def _is_language_model(subject: Subject) -> bool:
    return any("num_items_in_batch" in batch.inputs for batch in subject.batches)


def _checkpoints(subject: Subject) -> bool:
    return tools.checkpoints_layers(subject.toy.model)


def _takes_embeddings(subject: Subject) -> bool:
    return "inputs_embeds" in subject.toy.takes


def _has_linear_layers(subject: Subject) -> bool:
    return bool(adapters.find_linear_layers(subject.toy.model))


def _has_loss(subject: Subject) -> bool:
    return subject.toy.kind != "base" and bool(_LOSS & subject.names)


_TOOLS = (
    _Tool(tools.CHECKPOINTED, _is_in_layer, _checkpoints, is_for_towers=True),
    _Tool(tools.CHECKPOINTED_REENTRANT, _is_layer, _checkpoints),
    _Tool(tools.IN_BFLOAT16, _names(_DTYPE), is_for_towers=True, is_for_kernels=True),
    _Tool(tools.IN_FLOAT16, lambda _: False),
    _Tool(tools.TWICE_COUNTED, _has_loss, _is_language_model, is_padded=True, is_for_kernels=True),
    _Tool(tools.TWICE, _has_loss, lambda s: not _is_language_model(s), is_padded=True, is_for_kernels=True),
    _Tool(tools.AFTER_A_STEP, lambda s: s.is_main and s.keeps_values, is_for_towers=True),
    _Tool(tools.TUPLES, lambda s: bool(_TUPLES & s.names), lambda s: "labels" in s.toy.takes),
    _Tool(adapters.ADAPTED, _names_linear_layers, _has_linear_layers, is_for_towers=True),
    _Tool(adapters.PROMPTED, _names(_GRADIENT, frozenset({"inputs_embeds"})), _takes_embeddings),
)


def _wanted(subject: Subject) -> list[_Tool]:
    return [tool for tool in _TOOLS if tool.is_wanted(subject)]


def _as_patched(mode: Mode, subject: Subject) -> Mode:
    """A mode with rounding where patches choose themselves what autocast applies to."""
    is_chosen = mode in (tools.IN_BFLOAT16, tools.IN_FLOAT16) and "autocast" in subject.names
    return replace(mode, is_rounded=True) if is_chosen else mode


def _find_reason(subject: Subject) -> str:
    names = ", ".join(tool.mode.name for tool in _wanted(subject))
    return f"the patches may affect it ({names})" if names else ""


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    for tool in _wanted(subject):
        if batch := choose_batch(subject, is_padded=tool.is_padded, is_for_towers=tool.is_for_towers):
            yield batch.in_mode(_as_patched(tool.mode, subject))


DIMENSION = Dimension("training tools", _find_reason, _make_batches)
