"""Two steps of an optimizer on a few batches: on one process, or on a rank of several that share the model."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from patchgen_core.checks.sharded.gathering import gather_on_first_rank, own_parameters
from patchgen_core.checks.sharded.task import LEARNING_RATE, MOMENTUM, STEPS, RankTask, Trained, Training
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.execution import ExecutionRecorder
from patchgen_core.models.model_run import LOSS, Run, keep_layers, track_active_modules
from patchgen_core.models.model_setup import ModelSetup
from patchgen_core.models.random_values import reseed
from patchgen_core.models.token_positions import add_positions
from patchgen_core.models.toy_models import auto_models, build_model, forget_positions, in_float64, load_state
from patchgen_core.project.meshes import Mesh
from patchgen_core.runtime.parallel import (
    ParallelState,
    clip_gradients,
    init_parallel_state,
    parallelize,
    slice_batch,
    use_parallel_state,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Inputs = Mapping[str, Any]
LOSS_OF, LOGITS_OF = "loss of ", "logits of "


def takes_items(model_class: type[PreTrainedModel]) -> bool:
    """Whether a model can be told by how many labels to divide its loss."""
    parameters = inspect.signature(model_class.forward).parameters.values()
    return any(one.kind is one.VAR_KEYWORD or one.name == "num_items_in_batch" for one in parameters)


def count_items(batches: Sequence[ToyBatch]) -> int:
    """How many labels batches have that a model learns from: none for the first token of a row."""
    return sum(int((batch.inputs["labels"][:, 1:] != -100).sum()) for batch in batches)


def train_whole(training: Training, dtype: torch.dtype, keeps_layers: bool = False) -> Trained:
    """What one process comes to, in a dtype."""
    with in_float64() if dtype is torch.float64 else nullcontext(), auto_models(training.parts):
        model = _build(training, dtype)
        return _Trainer(model, training, training.batches, None, keeps_layers).train()


def train_on_rank(task: RankTask, setup: ModelSetup) -> Trained:
    """What this rank comes to, in float32."""
    training, mesh = task.training, task.mesh
    state = _parallel_state(mesh)
    with use_parallel_state(state), setup.run_time(), auto_models(training.parts):
        recorder = ExecutionRecorder(task.spans)
        with recorder.recording() if task.keeps_layers else nullcontext():
            model = _build(training, torch.float32)
        recorder.note_places({path: type(module).__name__ for path, module in model.named_modules()})
        batches = [_add_inputs(setup, model, batch, mesh) for batch in training.batches[state.dp_rank :: mesh.dp]]
        parallelize(model, state, task.plan)
        trainer = _Trainer(model, training, batches, mesh, task.keeps_layers, recorder)
        trained = trainer.run_until_error() if task.until_error else trainer.train()
    trained.executions = recorder.executions
    if dist.get_rank():
        trained.gradients, trained.parameters = {}, {}
    return trained


@functools.cache
def _parallel_state(mesh: Mesh) -> ParallelState:
    """The state of a mesh. Where ranks are shared by experts and by sequences, the groups of experts lie across those
    of sequences: one that is taken for the other shows."""
    state = init_parallel_state(mesh.dp, mesh.sp, mesh.ep, device_type="cpu")
    if mesh.sp == 1 or mesh.ep == 1 or mesh.ranks == mesh.ep:
        return state
    across = torch.arange(mesh.ranks).view(mesh.ep, -1).T
    return replace(state, expert_mesh=DeviceMesh("cpu", across, mesh_dim_names=("ep_dp", "ep")))


def _build(training: Training, dtype: torch.dtype) -> PreTrainedModel:
    model = build_model(training.model_class, training.config, dtype)
    load_state(model, training.state)
    return model


def _add_inputs(setup: ModelSetup, model: PreTrainedModel, batch: ToyBatch, mesh: Mesh) -> ToyBatch:
    inputs = setup.inputs_for(model, batch.inputs)
    return ToyBatch(batch.name, add_positions(model, inputs) if mesh.sp > 1 else inputs)


class _Trainer:
    """Trains a model as it is: whole, or shared with other ranks of a mesh."""

    def __init__(
        self,
        model: PreTrainedModel,
        training: Training,
        batches: Sequence[ToyBatch],
        mesh: Mesh | None = None,
        keeps_layers: bool = False,
        recorder: ExecutionRecorder | None = None,
    ) -> None:
        self.model, self.training, self.batches, self.mesh = model, training, batches, mesh
        self.keeps_layers, self.recorder = keeps_layers, recorder
        self.parameters = dict(model.named_parameters())

    def train(self) -> Trained:
        """Run the steps."""
        trained = Trained()
        every = [parameter for parameter in self.parameters.values() if parameter.requires_grad]
        own = own_parameters(every)
        optimizer = torch.optim.SGD(own, LEARNING_RATE, MOMENTUM, foreach=False)
        for step in range(STEPS):
            if step == 0:
                self._first_step(trained)
            else:
                self._further_step(trained)
            for part, parameter in zip(own, every):
                part.grad = _local(parameter.grad)
            optimizer.step()
            self.model.zero_grad(set_to_none=True)
        trained.parameters = self._gather(self.parameters)
        return trained

    def run_until_error(self) -> Trained:
        """Run the first step's batches once, as far as they come."""
        trained = Trained()
        with suppress(Exception):
            self._run_batches(trained.layers)
        return trained

    def _first_step(self, trained: Trained) -> None:
        for batch, output in self._run_batches(trained.layers if self.keeps_layers else None):
            trained.losses[batch.name] = output[LOSS]
            trained.logits[batch.name] = output["logits"]
        if self.mesh is not None:
            trained.unrepeated = tuple(self._repeat(trained))
        gradients = {name: p.grad for name, p in self.parameters.items() if p.requires_grad}
        trained.without_gradient = tuple(name for name, value in gradients.items() if value is None)
        names = list(self._names_on_all_ranks(gradients))
        if len(names) == len(gradients):
            trained.norm = clip_gradients(self.parameters.values())
        present = {name: value for name in names if (value := gradients[name]) is not None}
        trained.gradients = dict.fromkeys(names) | self._gather(present)

    def _further_step(self, trained: Trained) -> None:
        for batch in self.batches:
            loss = self._run(batch, None, items=0)[LOSS]
            if self.training.items:
                trained.mean_losses[batch.name] = loss

    def _gather(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Copies of the whole of what ranks share."""
        if self.mesh is not None:
            return gather_on_first_rank(values)
        return {name: value.detach().clone() for name, value in values.items()}

    def _run_batches(self, layers: dict[str, Run] | None = None) -> list[tuple[ToyBatch, dict[str, Tensor]]]:
        """Forward and backward for each batch; gradients add up."""
        return [(batch, self._run(batch, layers, self.training.items)) for batch in self.batches]

    def _run(self, batch: ToyBatch, layers: dict[str, Run] | None, items: int) -> dict[str, Tensor]:
        inputs = batch.to(next(self.model.parameters()).dtype, "cpu")
        inputs |= {"num_items_in_batch": items} if items else {}
        inputs = slice_batch(inputs)
        forget_positions(self.model)
        reseed("cpu")
        kept = layers.setdefault(batch.name, self._empty_run()) if layers is not None else None
        with self._keep_layers(kept) if kept is not None else nullcontext():
            output = self.model(**inputs)
            # FSDP takes the mean over all ranks, of which those of a sequence have its share times their number
            (output[LOSS] * (self.mesh.dp if self.mesh is not None else 1)).backward()
        return {name: output[name].detach().clone() for name in (LOSS, "logits")}

    @contextmanager
    def _keep_layers(self, run: Run) -> Iterator[None]:
        """Keep what modules give, and which patches run in them."""
        active: list[str] = []
        with ExitStack() as stack:
            stack.enter_context(keep_layers(self.model, run))
            if self.recorder is not None:
                stack.enter_context(track_active_modules(self.model, active))
                stack.enter_context(self.recorder.recording(active, self.model))
            yield

    def _empty_run(self) -> Run:
        return Run(kinds={path: type(module).__name__ for path, module in self.model.named_modules()})

    def _repeat(self, trained: Trained) -> Iterator[str]:
        """Run the batches again, from the same parameters, and tell what is not the same."""
        before = {name: _local(p.grad) for name, p in self.parameters.items()}
        self.model.zero_grad(set_to_none=True)
        for batch, output in self._run_batches():
            if not torch.equal(output[LOSS], trained.losses[batch.name]):
                yield f"{LOSS_OF}'{batch.name}'"
            if not torch.equal(output["logits"], trained.logits[batch.name]):
                yield f"{LOGITS_OF}'{batch.name}'"
        for name, parameter in self.parameters.items():
            one, other = before[name], _local(parameter.grad)
            if (one is None) != (other is None) or (one is not None and not torch.equal(one, _present(other))):
                yield f"gradient of {name}"

    def _names_on_all_ranks(self, gradients: Mapping[str, Tensor | None]) -> Iterator[str]:
        """The parameters of which all ranks have a gradient, or none of them: gathering one asks for all ranks."""
        if self.mesh is None:
            yield from gradients
            return
        count = torch.tensor([value is not None for value in gradients.values()], dtype=torch.int32)
        dist.all_reduce(count)
        yield from (name for name, ranks in zip(gradients, count.tolist()) if ranks in (0, self.mesh.ranks))


def _present(value: Tensor | None) -> Tensor:
    assert value is not None
    return value


def _local(value: Tensor | None) -> Tensor | None:
    return value.to_local().clone() if isinstance(value, DTensor) else value
