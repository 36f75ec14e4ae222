"""Modes: the ways in which a model is run on a batch. Upstream's and the patched one are run in the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Measured = Mapping[str, torch.Tensor]
Around = Callable[["PreTrainedModel"], AbstractContextManager[Measured | None]]
Call = Callable[["PreTrainedModel", Mapping[str, Any]], Any]


def no_change(_: PreTrainedModel) -> AbstractContextManager[None]:
    """Run a model as it is."""
    return nullcontext()


def go_backward(loss: torch.Tensor) -> None:
    """Run a loss backward once; unlike its method, inside the function modes of torch that are on."""
    torch.autograd.backward(loss)


def call_forward(model: PreTrainedModel, inputs: Mapping[str, Any]) -> Any:
    """Call a model once."""
    return model(**inputs)


@dataclass(frozen=True)
class Mode:
    """A way to run a model.

    Attributes:
        name: what reports call it; empty for a training step, which every batch is run in.
        around: gives a context inside which the model, which is in training mode, is run, and after which it is as it
            was. What the context gives, if anything, is compared as well: it is read before the context is left.
        call: gives the output for inputs that are on the model's device and in its dtype: all floating tensors in it
            are compared, by their names or numbers.
        backward: runs the loss backward.
        has_gradients: whether the loss is run backward, and gradients are compared.
        is_rounded: whether a patched model computes in another order than upstream's, so that bits may differ.
        is_training_step: whether a model that rounds nothing computes what it does in a training step.
        is_collated: whether a trainer's collator has made the batch, and so may have added to it.
        is_watched: whether it may be watched from inside, by hooks and tracers, while it runs.
        is_traced: whether torch traces the model before it computes the same, which takes long.
        method: the method of models that this way of running them is there for, and no other calls; empty for none.
    """

    name: str
    around: Around = no_change
    call: Call = call_forward
    backward: Callable[[torch.Tensor], None] = go_backward
    has_gradients: bool = True
    is_training_step: bool = False
    is_rounded: bool = False
    is_collated: bool = True
    is_watched: bool = True
    is_traced: bool = False
    method: str = ""


TRAINING = Mode("")


def combine_modes(outer: Mode, inner: Mode) -> Mode:
    """Two ways to run a model at once; the call and the way back are the outer one's where it has its own."""

    @contextmanager
    def around(model: PreTrainedModel) -> Iterator[Measured]:
        with outer.around(model) as one, inner.around(model) as other:
            yield {**(one or {}), **(other or {})}

    return Mode(
        f"{outer.name}, {inner.name}",
        around,
        outer.call if outer.call is not call_forward else inner.call,
        outer.backward if outer.backward is not go_backward else inner.backward,
        has_gradients=outer.has_gradients and inner.has_gradients,
        is_training_step=outer.is_training_step and inner.is_training_step,
        is_rounded=outer.is_rounded or inner.is_rounded,
    )


@contextmanager
def evaluating(model: PreTrainedModel) -> Iterator[None]:
    """Have a model in evaluation mode, without gradients."""
    modules = [module for module in model.modules() if module.training]
    model.eval()  # type: ignore[no-untyped-call]
    try:
        with torch.no_grad():
            yield
    finally:
        for module in modules:
            module.training = True


EVALUATION = Mode("evaluated", evaluating, has_gradients=False)


def call_with_embeddings(model: PreTrainedModel, inputs: Mapping[str, Any]) -> Any:
    """Give a model the embeddings of the token ids in their place."""
    others = {name: value for name, value in inputs.items() if name != "input_ids"}
    return model(**others, inputs_embeds=model.get_input_embeddings()(inputs["input_ids"]))


EMBEDDED = Mode("embedded", call=call_with_embeddings)
