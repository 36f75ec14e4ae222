"""The mode in which torch.compile traces a model whole, without a compiler behind it: what breaks the graph raises."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from patchgen_core.models.modes import Mode

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_DETAILS = ("\n  Hint:", "\n  Developer debug context:", "\nfrom user code:", "\n For more details")


class GraphBreakError(Exception):
    """A model that is not one graph.

    Args:
        message: what torch says of it.
        real_stack: where in the model's code, innermost last.
    """

    def __init__(self, message: str, real_stack: Sequence[traceback.FrameSummary]) -> None:
        super().__init__(message)
        self.real_stack = tuple(real_stack)


@contextmanager
def _tracing(_: PreTrainedModel) -> Iterator[None]:
    """Have nothing be traced before or after, and torch's log be silent of what is raised."""
    disabled = logging.root.manager.disable
    torch._dynamo.reset()
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)
        torch._dynamo.reset()


def call_compiled(model: PreTrainedModel, inputs: Mapping[str, Any]) -> Any:
    """Trace a model's forward as one graph and run that; GraphBreakError where it is none."""
    forward = torch.compile(model, fullgraph=True, dynamic=False, backend="eager")
    try:
        return forward(**inputs)
    except torch._dynamo.exc.TorchDynamoException as error:
        text = str(error)
        for detail in _DETAILS:
            text = text.partition(detail)[0]
        raise GraphBreakError(text, getattr(error, "real_stack", None) or ()) from None


COMPILED = Mode("compiled", _tracing, call_compiled, is_training_step=True, is_watched=False, is_traced=True)
