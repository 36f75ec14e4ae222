"""The dimension ``training tools``: what trainers put around a model, each on the smallest batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
_COMPILE = frozenset({"is_compiling", "is_torchdynamo_compiling", "compile", "item", "tolist", "nonzero"})


@dataclass(frozen=True)
class _Tool:
    """A mode of training; ``may_matter`` tells whether patches may, ``applies`` whether a head takes it, ``is_padded``
    whether the batch is to have padding."""

    mode: Mode
    may_matter: Callable[[Subject], bool]
    applies: Callable[[Subject], bool] = lambda _: True
    is_padded: bool = False


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


_TOOLS = (
    _Tool(tools.CHECKPOINTED, _is_in_layer, _checkpoints),
    _Tool(tools.CHECKPOINTED_REENTRANT, _is_layer, _checkpoints),
    _Tool(tools.IN_BFLOAT16, _names(_DTYPE)),
    _Tool(tools.IN_FLOAT16, lambda _: False),
    _Tool(tools.TWICE_COUNTED, lambda subject: bool(_LOSS & subject.names), _is_language_model, is_padded=True),
    _Tool(
        tools.TWICE,
        lambda subject: bool(_LOSS & subject.names),
        lambda subject: not _is_language_model(subject),
        is_padded=True,
    ),
    _Tool(tools.TUPLES, lambda subject: bool(_TUPLES & subject.names), lambda subject: "labels" in subject.toy.takes),
    _Tool(
        adapters.ADAPTED, _names_linear_layers, lambda subject: bool(adapters.find_linear_layers(subject.toy.model))
    ),
    _Tool(adapters.PROMPTED, _names(_GRADIENT, frozenset({"inputs_embeds"})), _takes_embeddings),
    _Tool(tools.COMPILED, _names(_COMPILE), lambda subject: tools.compiles_whole(subject.toy.model)),
)


def _wanted(subject: Subject) -> list[_Tool]:
    return [tool for tool in _TOOLS if tool.applies(subject) and (subject.is_thorough or tool.may_matter(subject))]


def _find_reason(subject: Subject) -> str:
    names = ", ".join(tool.mode.name for tool in _wanted(subject))
    return f"patches may matter to it ({names})" if names else ""


def _make_batches(subject: Subject) -> Iterator[ToyBatch]:
    for tool in _wanted(subject):
        if batch := choose_batch(subject, is_padded=tool.is_padded):
            yield batch.in_mode(tool.mode)


DIMENSION = Dimension("training tools", _find_reason, _make_batches)
