"""One model, one batch: forward and backward, with everything kept that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.modes import Call, call_forward
from patchgen_core.models.one_rank import group_of_one_rank
from patchgen_core.models.random_values import reseed
from patchgen_core.models.routing import Choices, Following, Recording
from patchgen_core.models.tensor_errors import ErrorOfEager
from patchgen_core.models.toy_models import forget_positions
from patchgen_core.workers.phases import phase

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from patchgen_core.models.execution import ExecutionRecorder

LOSS, NORM, EMBEDDINGS = "loss", "gradient norm", "gradient of the input embeddings"
GRADIENT = "gradient of "
_V = TypeVar("_V")
_CACHES = ("past_key_values", "cache_params", "encoder_last_hidden_state_cache")


@dataclass
class Run:
    """What a model computed of a batch. Tensors are on the CPU, in the dtype that the model gave.

    Attributes:
        values: what is compared: the model's own loss, every output, ``gradient of <parameter>``, the norm of all
            gradients and the gradient of the input embeddings. None for a parameter that got no gradient.
        layers: if they are kept, the first floating output of every module, or the first output where all are
            whole numbers, in the order in which they finished, by path; a module that ran more than once has
            ``path (2)`` and so on.
        further_outputs: by these names, the other floating outputs of a module that gives several, as a router does.
        layer_gradients: the gradient of the loss by ``layers``, as far as it got there.
        further_gradients: the same of ``further_outputs``, without those that a module inside gave.
        layer_inputs: the tensors that every module was given, by the same names.
        layer_flags: what every module was given by keyword that is True or False, where nothing by position is.
        written: by these names, the modules that wrote into such a tensor, in the order in which they finished.
        kinds: the class names of the modules by path.
        loss: what was run backward, or a loss that the model gave without: a scalar.
        left_out: what was not computed, and so is not compared.
        choices: what its routers chose.
        has_media: whether the batch has pictures, videos or sounds.
        calls: if the batch ran as on a rank, how often each model inside the model ran, by path.
        without_gradient: if it did, the parameters that got none, not even zeros.
    """

    values: dict[str, torch.Tensor | None] = field(default_factory=dict)
    layers: dict[str, torch.Tensor] = field(default_factory=dict)
    further_outputs: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)
    layer_gradients: dict[str, torch.Tensor] = field(default_factory=dict)
    further_gradients: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)
    layer_inputs: dict[str, tuple[torch.Tensor, ...]] = field(default_factory=dict)
    layer_flags: dict[str, dict[str, bool]] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    loss: torch.Tensor = field(default_factory=lambda: torch.zeros(()))
    left_out: frozenset[str] = frozenset()
    choices: Choices | None = None
    has_media: bool = False
    calls: dict[str, int] = field(default_factory=dict)
    without_gradient: frozenset[str] = frozenset()
    _errors: tuple[Run | None, dict[str, ErrorOfEager]] = field(default=(None, {}), init=False, repr=False)

    def errors_against(self, reference: Run | None) -> dict[str, ErrorOfEager]:
        """How far ``values`` are off a reference, as measured before; for more to be added, and kept for one."""
        if self._errors[0] is not reference or reference is None:
            self._errors = (reference, {})
        return self._errors[1]

    def with_calls_of(self, other: Run) -> Run:
        """The same run with what modules gave in their first call for the further calls that they have in another."""
        return replace(
            self,
            layers=_repeat_calls(self.layers, other.layers),
            further_outputs=_repeat_calls(self.further_outputs, other.layers),
            layer_gradients=_repeat_calls(self.layer_gradients, other.layers),
            layer_inputs=_repeat_calls(self.layer_inputs, other.layer_inputs),
            layer_flags=_repeat_calls(self.layer_flags, other.layer_flags),
        )


def _repeat_calls(own: dict[str, _V], names: Iterable[str]) -> dict[str, _V]:
    firsts = {name: name.partition(" (")[0] for name in names if name not in own}
    return own | {name: own[first] for name, first in firsts.items() if first in own}


def run_model(
    model: PreTrainedModel,
    batch: ToyBatch,
    recorder: ExecutionRecorder | None = None,
    *,
    logits_alone: bool = True,
    like: Run | None = None,
    layers: bool = False,
) -> Run:
    """Run a batch in its mode: forward and, where that has gradients, backward.

    The loss is the model's own; a model that gives none has the mean of all its floating outputs, each weighted by
    random numbers, which is no value to compare: its terms all but cancel. Where labels make a model leave the logits
    out, it runs a second time without them.

    Args:
        model: in training mode; its gradients are dropped before and after.
        batch: is copied to the device and, where it is floating, the dtype of the model.
        logits_alone: whether to run that second time.
        like: the run it is compared with: where rounding decides what a router chooses, this one chooses the same.
        layers: whether to keep what every module is given and gives, which takes long; not of a run that nobody may
            watch.
    """
    kinds = {path: type(module).__name__ for path, module in model.named_modules()}
    run = Run(kinds=kinds, has_media=batch.has_media)
    parameter = next(model.parameters())
    inputs = batch.to(parameter.dtype, parameter.device)
    model.zero_grad(set_to_none=True)
    forget_positions(model)
    with ExitStack() as stack:
        with recorder.recording() if recorder is not None else nullcontext():
            measured = stack.enter_context(batch.mode.around(model))
        with _recorded(model, run, batch, recorder, layers) as embedded:
            outputs = _compute(model, run, batch, inputs, like)
        run.values.update({name: _copy_to_cpu(value) for name, value in (measured or {}).items()})
        if "labels" in inputs and not any(map(_is_logits, outputs)):
            _add_logits(model, run, batch, inputs, like, logits_alone)
        if batch.mode.has_gradients:
            _keep_gradients(model, run, embedded, batch.as_rank)
    model.zero_grad(set_to_none=True)
    return run


def run_until_error(model: PreTrainedModel, batch: ToyBatch, like: Run, recorder: ExecutionRecorder) -> Run:
    """What the modules of a model give of a batch until it raises. Where that is on the way back, a warning tells of
    the call whose backward function does."""
    run = Run(kinds=like.kinds)
    parameter = next(model.parameters())
    inputs = batch.to(parameter.dtype, parameter.device)
    forget_positions(model)
    with (
        suppress(Exception),
        torch.autograd.set_detect_anomaly(True, check_nan=False),
        batch.mode.around(model),
        _recorded(model, run, batch, recorder, layers=True),
    ):
        _compute(model, run, batch, inputs, like)
    model.zero_grad(set_to_none=True)
    return run


def _compute(
    model: PreTrainedModel, run: Run, batch: ToyBatch, inputs: Mapping[str, Any], like: Run | None
) -> Mapping[str, torch.Tensor]:
    """Forward and backward; gives the outputs, which are kept in the run."""
    device = next(model.parameters()).device
    reseed(device)
    with phase("forward"):
        if batch.mode.is_watched:
            output, run.choices = _run_routed(model, inputs, like, batch.mode.call)
        else:
            output = batch.mode.call(model, inputs)
    outputs = dict(_floating_tensors(output))
    loss = outputs.get(LOSS)
    if batch.mode.has_gradients:
        loss = _substitute_loss(outputs) if loss is None else loss
        if loss.requires_grad or not batch.mode.name:  # what is cut off gets no gradient, which is told of as that
            with phase("backward"):
                batch.mode.backward(loss)
    if loss is not None:
        run.loss = _copy_to_cpu(loss)
    run.values.update({name: _copy_to_cpu(outputs[name]) for name in sorted(outputs, key=lambda name: name != LOSS)})
    return outputs


@contextmanager
def _recorded(
    model: PreTrainedModel, run: Run, batch: ToyBatch, recorder: ExecutionRecorder | None, layers: bool
) -> Iterator[list[torch.Tensor]]:
    """Record what runs inside; gives the gradients that come to the input embeddings."""
    active = [] if batch.mode.has_gradients else [""]  # what leads to forward, as generate() does, is the model's own
    embedded: list[torch.Tensor] = []
    if not batch.mode.is_watched:
        yield embedded
        return
    with ExitStack() as stack:
        if batch.as_rank:
            stack.enter_context(group_of_one_rank())
            stack.enter_context(_count_calls(model, run))
        stack.enter_context(_record_embedding_gradients(model, embedded))
        if layers:
            stack.enter_context(keep_layers(model, run))
        if recorder is not None:
            stack.enter_context(track_active_modules(model, active))
            stack.enter_context(recorder.recording(active, model))
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))  # backward is recorded as well
        yield embedded


@contextmanager
def _count_calls(model: PreTrainedModel, run: Run) -> Iterator[None]:
    """Count how often the models inside a model run, such as its towers."""
    with ExitStack() as stack:
        for path, module in model.named_modules():
            if path and hasattr(module, "base_model_prefix"):
                run.calls[path] = 0
                stack.callback(module.register_forward_hook(partial(_count, run, path)).remove)
        yield


def _count(run: Run, path: str, *_: Any) -> None:
    run.calls[path] += 1


def _keep_gradients(model: PreTrainedModel, run: Run, embedded: list[torch.Tensor], as_rank: bool) -> None:
    gradients = {name: value.grad for name, value in model.named_parameters() if value.requires_grad}
    if as_rank:
        run.without_gradient = frozenset(name for name, value in gradients.items() if value is None)
        gradients = {name: None if v is not None and not bool(v.any()) else v for name, v in gradients.items()}
    norms = [value.double().norm() for value in gradients.values() if value is not None]
    run.values[NORM] = torch.stack(norms).norm().cpu() if norms else None
    if embedded:
        run.values[EMBEDDINGS] = _copy_to_cpu(embedded[-1])
    run.values.update({f"{GRADIENT}{name}": None if v is None else _copy_to_cpu(v) for name, v in gradients.items()})


def _copy_to_cpu(value: torch.Tensor) -> torch.Tensor:
    return value.detach().to("cpu", copy=True)


def _run_routed(
    model: PreTrainedModel, inputs: Mapping[str, Any], like: Run | None, call: Call = call_forward
) -> tuple[Any, Choices]:
    """What the model gives, and what its routers chose, where that is not what those of ``like`` did."""
    if like is not None and like.choices is not None:
        with Following(like.choices) if like.choices.indices else nullcontext():
            return call(model, inputs), like.choices
    with Recording() as recording:
        output = call(model, inputs)
    eps = torch.finfo(next(model.parameters()).dtype).eps
    return output, Choices(eps, tuple(recording.indices))


def _is_logits(name: str) -> bool:
    return name.rpartition(".")[2] == "logits"


def _add_logits(
    model: PreTrainedModel, run: Run, batch: ToyBatch, inputs: Mapping[str, Any], like: Run | None, logits_alone: bool
) -> None:
    """Run a model again that gives no logits beside a loss, or note that they are left out."""
    if not logits_alone or batch.mode.call is not call_forward:
        run.left_out = frozenset(filter(_is_logits, like.values if like is not None else ("logits",)))
        return
    reseed(next(model.parameters()).device)
    with phase("forward for the logits"), torch.no_grad():
        output, _ = _run_routed(model, {name: value for name, value in inputs.items() if name != "labels"}, like)
    outputs = dict(_floating_tensors(output))
    run.values.update({name: _copy_to_cpu(value) for name, value in outputs.items() if name == "logits"})


def _floating_tensors(output: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The floating tensors of an output, by the names of their fields; no caches."""
    yield from ((path, value) for path, value in _tensors(output, name) if value.is_floating_point())


def _tensors(output: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(output, torch.Tensor):
        yield name or "output", output
    elif isinstance(output, Mapping):
        for key, value in output.items():
            if key not in _CACHES:
                yield from _tensors(value, f"{name}.{key}" if name else str(key))
    elif isinstance(output, (tuple, list)):
        for number, value in enumerate(output):
            yield from _tensors(value, f"{name}[{number}]")


def _substitute_loss(outputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    parts = []
    for value in outputs.values():
        if value.requires_grad:
            weight = torch.randn(value.shape, generator=generator).to(value.device, value.dtype)
            parts.append((value * weight).mean())
    if not parts:
        raise ValueError("no output of the model has a gradient")
    return torch.stack([part.to(parts[0].dtype) for part in parts]).sum()


@contextmanager
def track_active_modules(model: PreTrainedModel, active: list[str]) -> Iterator[None]:
    """Have in ``active`` the paths of the modules that are running, innermost last."""
    paths = {module: path for path, module in model.named_modules()}

    def enter(module: nn.Module, _: Any) -> None:
        if module in paths:
            active.append(paths[module])

    def leave(module: nn.Module, _: Any, __: Any) -> None:
        if module in paths:
            active.pop()

    with ExitStack() as stack:
        stack.callback(register_module_forward_pre_hook(enter).remove)
        stack.callback(register_module_forward_hook(leave).remove)
        yield


@contextmanager
def _record_embedding_gradients(model: PreTrainedModel, embedded: list[torch.Tensor]) -> Iterator[None]:
    """Keep the gradients that come to the input embeddings."""

    def note(_: nn.Module, __: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor) and output.requires_grad:
            _on_gradient(output, lambda gradient: embedded.append(gradient.detach().clone()))

    embeddings = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    with ExitStack() as stack:
        if isinstance(embeddings, nn.Module):
            stack.callback(embeddings.register_forward_hook(note).remove)
        yield


@contextmanager
def keep_layers(model: PreTrainedModel, run: Run) -> Iterator[None]:
    """Keep in a run what every module is given and gives."""
    outputs_inside: set[torch.Tensor] = set()
    with ExitStack() as stack:
        for path, module in model.named_modules():
            for handle in _keep(path, module, run, outputs_inside):
                stack.callback(handle.remove)
        yield


def _on_gradient(value: torch.Tensor, note: Callable[[torch.Tensor], None]) -> None:
    value.register_hook(note)  # type: ignore[no-untyped-call]


def _keep(path: str, module: nn.Module, run: Run, outputs_inside: set[torch.Tensor]) -> Iterator[Any]:
    given: list[dict[torch.Tensor, int]] = []

    def enter(_: nn.Module, args: Any, kwargs: Any) -> None:
        inputs = [value for _, value in _tensors((args, kwargs))]
        given.append({value: value._version for value in inputs if not value.is_inference()})
        name = _nth(path, run.layer_inputs)
        run.layer_inputs[name] = tuple(map(_copy_to_cpu, inputs))
        if not any(isinstance(value, bool) for value in args):
            run.layer_flags[name] = {key: value for key, value in kwargs.items() if isinstance(value, bool)}

    def leave(_: nn.Module, __: Any, output: Any) -> None:
        versions = given.pop()
        outputs = dict(_floating_tensors(output)) or dict(_tensors(output))
        if not outputs:
            return
        value = outputs.pop(next(iter(outputs)))
        name = _nth(path, run.layers)
        run.layers[name] = _copy_to_cpu(value)
        if any(tensor._version != version for tensor, version in versions.items()):
            run.written.append(name)
        if outputs:
            run.further_outputs[name] = {key: _copy_to_cpu(other) for key, other in outputs.items()}
        if value.requires_grad:
            _on_gradient(value, partial(_keep_gradient, run.layer_gradients, name))
        own = {key: other for key, other in outputs.items() if other.requires_grad and other not in outputs_inside}
        for key, other in own.items():
            _on_gradient(other, partial(_keep_gradient, run.further_gradients.setdefault(name, {}), key))
        outputs_inside.update((value, *outputs.values()))

    yield module.register_forward_pre_hook(enter, with_kwargs=True)
    yield module.register_forward_hook(leave)


def _keep_gradient(gradients: dict[str, torch.Tensor], name: str, gradient: torch.Tensor) -> None:
    gradients[name] = _copy_to_cpu(gradient)


def _nth(path: str, paths: Mapping[str, object]) -> str:
    """The name of one more call of a module."""
    times = sum(name == path or name.startswith(f"{path} (") for name in paths) + 1
    return f"{path} ({times})" if times > 1 else path
