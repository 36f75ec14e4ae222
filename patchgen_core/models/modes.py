"""Modes: the ways in which a model is run on a batch. Upstream's and the patched one are run in the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Around = Callable[["PreTrainedModel"], AbstractContextManager[Any]]
Call = Callable[["PreTrainedModel", Mapping[str, Any]], Any]


def no_change(_: PreTrainedModel) -> AbstractContextManager[None]:
    """Run a model as it is."""
    return nullcontext()


def call_forward(model: PreTrainedModel, inputs: Mapping[str, Any]) -> Any:
    """Call a model once."""
    return model(**inputs)


@dataclass(frozen=True)
class Mode:
    """A way to run a model.

    Attributes:
        name: what reports call it; empty for a training step, which every batch is run in.
        around: gives a context inside which the model, which is in training mode, is run, and after which it is as it
            was.
        call: gives the output for inputs that are on the model's device and in its dtype: all floating tensors in it
            are compared, by their names or numbers.
        has_gradients: whether the loss is run backward, and gradients are compared.
    """

    name: str
    around: Around = no_change
    call: Call = call_forward
    has_gradients: bool = True


TRAINING = Mode("")


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
