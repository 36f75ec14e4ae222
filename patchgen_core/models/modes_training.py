"""Modes of what trainers do around a step: checkpointing of layers, autocast, several passes, tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from patchgen_core.models.modes import Measured, Mode, evaluating
from patchgen_core.models.module_changes import Changes

if TYPE_CHECKING:
    from transformers import PreTrainedModel

RUNS = "runs of "
"""Begins the name of a value that says how often a module's layers ran, recomputing included."""
CALLS = "calls of "
"""Begins the name of a value that says how often a layer was called with its hooks."""
_SCALE = 1024.0
_COUNTS = (torch.tensor(5), 7)
_PADDING_LABEL = 1
_CHANGE = 1.25


# --- gradient checkpointing ------------------------------------------------------------------------


def checkpoints_layers(model: PreTrainedModel) -> bool:
    """Whether a model has layers that it can checkpoint."""
    return bool(model.supports_gradient_checkpointing) and bool(find_checkpointed(model))


def find_checkpointed(model: PreTrainedModel) -> dict[str, Any]:
    """The modules that can checkpoint themselves, or the layers that they hold, by path."""
    return {path: module for path, module in model.named_modules() if hasattr(module, "gradient_checkpointing")}


@contextmanager
def _checkpointing(model: PreTrainedModel, is_reentrant: bool) -> Iterator[Measured]:
    """Have the layers recompute what they need backward; gives how often those of each module ran."""
    runs: dict[str, torch.Tensor] = {}
    with Changes() as changes:
        for module in find_checkpointed(model).values():
            changes.set(module, "gradient_checkpointing", module.gradient_checkpointing)
            changes.set(module, "_gradient_checkpointing_func", None)
        _enable(model, {"use_reentrant": is_reentrant})
        for path, module in find_checkpointed(model).items():
            if path.rpartition(".")[2].isdigit():  # one of several layers, at which trainers hang their hooks
                runs[f"{CALLS}{path}"] = torch.zeros(())
                note = partial(_note_call, runs[f"{CALLS}{path}"])
                changes.callback(module.register_forward_pre_hook(note).remove)
            runs[f"{RUNS}{path}"] = torch.zeros(())
            checkpoint = partial(_count, runs[f"{RUNS}{path}"], module._gradient_checkpointing_func)
            module._gradient_checkpointing_func = checkpoint
        try:
            yield runs
        finally:
            if hasattr(model, "_require_grads_hook") or hasattr(model, "_require_grads_hooks"):
                model.disable_input_require_grads()  # type: ignore[no-untyped-call]


def _enable(model: Any, options: Mapping[str, bool]) -> None:
    """By the name that this release of transformers has for it."""
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable(options)
    else:
        model.gradient_checkpointing_enable(options)


def _note_call(calls: torch.Tensor, *_: Any) -> None:
    calls.add_(1)


def _count(
    runs: torch.Tensor, checkpoint: Callable[..., Any], function: Callable[..., Any], *args: Any, **kw: Any
) -> Any:
    def counted(*args: Any, **kwargs: Any) -> Any:
        runs.add_(1)
        return function(*args, **kwargs)

    return checkpoint(counted, *args, **kw)


# --- autocast --------------------------------------------------------------------------------------


def _call_in_autocast(dtype: torch.dtype, model: PreTrainedModel, inputs: Mapping[str, Any]) -> Any:
    with torch.autocast(next(model.parameters()).device.type, dtype=dtype):
        return model(**inputs)


def _go_backward_scaled(loss: torch.Tensor) -> None:
    torch.autograd.backward(loss * _SCALE)


# --- several passes --------------------------------------------------------------------------------


def _call_twice(is_counted: bool, model: PreTrainedModel, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Two micro-batches of a step: the second one's rows stand the other way round, and its padding has labels.

    Both go forward before the first goes backward, each once: fused kernels write gradients over what they saved.
    """
    counts = [{"num_items_in_batch": count} if is_counted and "labels" in inputs else {} for count in _COUNTS]
    first = model(**{**inputs, **counts[0]})
    second = model(**{**_other_rows(inputs), **counts[1]})
    outputs = {"first": first, "second": second}
    if getattr(first, "loss", None) is None:
        return outputs
    if first.loss.requires_grad:
        torch.autograd.backward(first.loss / 4)
    return {"loss": first.loss.detach() / 4 + second.loss * 3 / 4, **outputs}


def _other_rows(inputs: Mapping[str, Any]) -> dict[str, Any]:
    other = dict(inputs)
    for name in ("input_ids", "inputs_embeds"):
        if isinstance(value := inputs.get(name), torch.Tensor):
            other[name] = value.flip(0 if len(value) > 1 else 1)
    labels, mask = inputs.get("labels"), inputs.get("attention_mask")
    if isinstance(labels, torch.Tensor) and isinstance(mask, torch.Tensor) and labels.shape == mask.shape:
        other["labels"] = labels.masked_fill(mask == 0, _PADDING_LABEL)
    return other


# --- a further step --------------------------------------------------------------------------------


@contextmanager
def _restoring_parameters(model: PreTrainedModel) -> Iterator[None]:
    """Have parameters as they were afterwards."""
    before = [parameter.detach().clone() for parameter in model.parameters()]
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), before):
                parameter.copy_(value)


def _call_after_a_step(model: PreTrainedModel, inputs: Mapping[str, Any]) -> Any:
    """A step, which an optimizer would change the parameters after, and the next one forward."""
    loss = getattr(model(**inputs), "loss", None)
    if loss is not None:
        torch.autograd.backward(loss)
    model.zero_grad(set_to_none=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(_CHANGE)
    return model(**inputs)


# --- tuples ----------------------------------------------------------------------------------------


def _call_for_tuples(model: PreTrainedModel, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The tuple without labels, since what stands beside a loss is for an implementation to say."""
    outputs = {"outputs": model(**{name: v for name, v in inputs.items() if name != "labels"}, return_dict=False)}
    if "labels" in inputs:
        outputs["loss"] = model(**inputs, return_dict=False)[0]
    if not isinstance(outputs["outputs"], tuple):
        raise TypeError(f"return_dict=False gives {type(outputs['outputs']).__name__} instead of a tuple")
    return outputs


CHECKPOINTED = Mode("checkpointed", partial(_checkpointing, is_reentrant=False), is_training_step=True)
CHECKPOINTED_REENTRANT = Mode(
    "checkpointed, reentrant", partial(_checkpointing, is_reentrant=True), is_training_step=True
)
IN_BFLOAT16 = Mode("autocast to bfloat16", call=partial(_call_in_autocast, torch.bfloat16), is_training_step=True)
IN_FLOAT16 = Mode(
    "autocast to float16, loss scaled", call=partial(_call_in_autocast, torch.float16), backward=_go_backward_scaled
)
TWICE = Mode("two forward and two backward passes", call=partial(_call_twice, False))
TWICE_COUNTED = Mode("two forward and two backward passes, num_items_in_batch", call=partial(_call_twice, True))
AFTER_A_STEP = Mode("after a step", _restoring_parameters, _call_after_a_step)
TUPLES = Mode("return_dict=False", evaluating, _call_for_tuples, has_gradients=False)
