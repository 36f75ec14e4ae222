"""What ranks came to beside what one process did, tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from patchgen_core.checks.result import RIGHT, TENSORS, Table
from patchgen_core.checks.sharded.task import STEPS, Trained
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.execution import Execution
from patchgen_core.models.model_run import GRADIENT, NORM, Run
from patchgen_core.models.run_comparison import ComparedRuns, Difference, compare_runs, path_of
from patchgen_core.project.meshes import Mesh

_COLUMNS = ("tensor", "shape", "relative", "allowed", "verdict")
_ALMOST = 1e-3
MEAN_LOSS_OF = "mean loss of "
AFTER = f" after {STEPS} steps"


@dataclass(frozen=True)
class Comparison:
    """A training on ranks beside that of one process.

    Attributes:
        batches: those of one step, in their order.
        eager, truth: one process in float32 and in float64.
        multiple: how many times the error of eager ranks may be off.
    """

    ranks: Sequence[Trained]
    eager: Trained
    truth: Trained
    mesh: Mesh
    batches: Sequence[ToyBatch]
    multiple: float

    @property
    def is_right(self) -> bool:
        """Whether there is nothing to tell."""
        return not self.wrong and not self.unrepeated and not self.unlike

    @property
    def wrong(self) -> list[Difference]:
        """The tensors that differ, the worst first."""
        bad = [difference for difference in self.differences if not difference.is_right]
        return sorted(bad, key=lambda d: (-d.excess, -d.relative))

    @property
    def are_means_wrong(self) -> bool:
        """Whether ranks part in losses that are means over labels, and not in the first step."""
        rest = [one.name for one in self.wrong if not one.name.endswith(AFTER)]
        return bool(rest) and all(name.startswith(MEAN_LOSS_OF) for name in rest)

    @cached_property
    def unrepeated(self) -> dict[int, tuple[str, ...]]:
        """What came out otherwise when the same batches ran again, by rank."""
        return {rank: trained.unrepeated for rank, trained in enumerate(self.ranks) if trained.unrepeated}

    @cached_property
    def unlike(self) -> dict[str, list[int]]:
        """The parameters that got a gradient on some ranks only, with the ranks that have none."""
        lacking: dict[str, list[int]] = {}
        for rank, trained in enumerate(self.ranks):
            for name in trained.without_gradient:
                lacking.setdefault(name, []).append(rank)
        return {name: ranks for name, ranks in lacking.items() if len(ranks) < len(self.ranks)}

    @cached_property
    def differences(self) -> list[Difference]:
        """How every tensor compares."""
        ours = self._values_of_ranks()
        eager, truth = (Run(self._values_of_one(one, ours)) for one in (self.eager, self.truth))
        return compare_runs(Run(ours), eager, truth, self.multiple)

    @property
    def figures(self) -> dict[str, float]:
        """How many ranks and tensors there are, and how much of what is allowed the worst of these uses."""
        most = max(d.excess for d in self.differences)
        counts = {"ranks": float(len(self.ranks)), "tensors": float(len(self.differences))}
        return {**counts, "largest part of what is allowed": most}

    def factor_of(self, difference: Difference) -> float:
        """By how much a tensor is too large, where it is a multiple of what it should be; 0 where it is none."""
        ours = self._values_of_ranks()
        own = ours.get(difference.name)
        other = self._values_of_one(self.eager, ours).get(difference.name)
        if own is None or other is None or own.shape != other.shape or not bool(other.any()):
            return 0.0
        wide, theirs = own.double(), other.double()
        factor = float((wide * theirs).sum() / theirs.square().sum())
        rest = float((wide - factor * theirs).norm() / theirs.norm())
        return factor if rest < _ALMOST * max(abs(factor), _ALMOST) else 0.0

    @cached_property
    def executions(self) -> dict[str, Execution]:
        """What ran of each patch, by target, on any rank."""
        merged: dict[str, Execution] = {}
        for trained in self.ranks:
            for target, execution in trained.executions.items():
                own = merged.setdefault(target, Execution())
                own.functions |= execution.functions
                own.lines |= execution.lines
                own.modules |= execution.modules
        return merged

    def compare_layers(self) -> Iterator[tuple[str, ComparedRuns]]:
        """What modules gave for each batch, beside what one process's did."""
        for number, batch in enumerate(self.batches):
            parts = self._parts_of(number)
            eager, truth = self.eager.layers[batch.name], self.truth.layers[batch.name]
            runs = [_merge_layers(parts, eager, batch, self.mesh), eager, truth]
            if self.mesh.sp > 1 and "attention_mask" in batch.inputs:
                runs = [_without_padding(run, batch.inputs["attention_mask"]) for run in runs]
            yield batch.name, ComparedRuns(runs[0], runs[1], runs[2], self.multiple)

    def parts_of(self, batch: str) -> list[Run]:
        """What the ranks of a batch's sequences kept; empty runs where an error came before."""
        return self._parts_of(next(number for number, one in enumerate(self.batches) if one.name == batch))

    def _parts_of(self, number: int) -> list[Run]:
        first = number % self.mesh.dp * self.mesh.sp
        ranks = self.ranks[first : first + self.mesh.sp]
        return [trained.layers.get(self.batches[number].name, Run()) for trained in ranks]

    def count_tokens(self, batch: str) -> int:
        """How many tokens a row of a batch has."""
        return next(int(one.inputs["labels"].shape[1]) for one in self.batches if one.name == batch)

    def tables(self, head: str) -> list[Table]:
        """All figures, where something differs."""
        if not self.wrong:
            return []
        right = [difference for difference in self.differences if difference.is_right]
        rows = tuple(_row(difference) for difference in (*self.wrong, *right))
        return [Table(f"{head}, {self.mesh.name}: {TENSORS}", _COLUMNS, rows)]

    def _values_of_ranks(self) -> dict[str, Tensor | None]:
        values: dict[str, Tensor | None] = {}
        for rank, trained in enumerate(self.ranks):
            values |= {_loss_name(name, rank): loss for name, loss in trained.losses.items()}
            values |= {_mean_loss_name(name, rank): loss for name, loss in trained.mean_losses.items()}
            for name, logits in trained.logits.items():
                start, length = self._slice_of(self.eager.logits[name], rank, logits)
                own = logits[:, :length] if start >= 0 else logits
                values[_logits_name(name, rank)] = self._without_padding(name, own, start)
        return values | self._common_values(self.ranks[0])

    def _values_of_one(self, trained: Trained, ours: Mapping[str, Tensor | None]) -> dict[str, Tensor | None]:
        values: dict[str, Tensor | None] = {}
        for rank, own in enumerate(self.ranks):
            for name in own.losses:
                values[_loss_name(name, rank)] = trained.losses[name]
                if name in trained.mean_losses:
                    values[_mean_loss_name(name, rank)] = trained.mean_losses[name]
                whole = trained.logits[name]
                start, length = self._slice_of(whole, rank, own.logits[name])
                part = whole[:, start : start + length] if start >= 0 else whole
                values[_logits_name(name, rank)] = self._without_padding(name, part, start)
        return values | {name: v for name, v in self._common_values(trained).items() if name in ours}

    def _slice_of(self, whole: Tensor, rank: int, own: Tensor) -> tuple[int, int]:
        """Where a rank's logits begin in those of the whole sequence, and how many there are but for padding; -1 for a
        rank whose logits are no slice of these."""
        own_length, length = own.shape[1], whole.shape[1]
        if own_length != -(-length // self.mesh.sp):
            return -1, 0
        start = rank % self.mesh.sp * own_length
        return start, max(0, min(own_length, length - start))

    def _without_padding(self, batch: str, logits: Tensor, start: int) -> Tensor:
        """Logits of a slice with zeros for padding: a token that sees none attends to all that there are, and that are
        more where sequences are padded for the ranks."""
        mask = next(one.inputs.get("attention_mask") for one in self.batches if one.name == batch)
        if self.mesh.sp == 1 or start < 0 or mask is None or mask.shape[0] != logits.shape[0]:
            return logits
        seen: Tensor = mask[:, start : start + logits.shape[1], None]
        return logits * seen.to(logits.dtype)

    def _common_values(self, trained: Trained) -> dict[str, Tensor | None]:
        """The gradients and parameters of all ranks. A gradient of zeros is the same as none: it is what a tower gives
        to take part in what ranks exchange."""
        gradients = {n: v if v is not None and bool(v.any()) else None for n, v in trained.gradients.items()}
        values: dict[str, Tensor | None] = {NORM: trained.norm}
        values |= {f"{GRADIENT}{name}": value for name, value in gradients.items()}
        return values | {f"{name}{AFTER}": value for name, value in trained.parameters.items()}


def _loss_name(batch: str, rank: int) -> str:
    return f"loss of '{batch}' on rank {rank}"


def _mean_loss_name(batch: str, rank: int) -> str:
    return f"{MEAN_LOSS_OF}'{batch}' on rank {rank}"


def _logits_name(batch: str, rank: int) -> str:
    return f"logits of '{batch}' on rank {rank}"


def _row(d: Difference) -> tuple[str, ...]:
    figures = (f"{value:.2e}" if value else "0" for value in (d.relative, d.allowed))
    return (d.name, d.shape, *figures, RIGHT if d.is_right else "differs")


def _merge_layers(parts: Sequence[Run], eager: Run, batch: ToyBatch, mesh: Mesh) -> Run:
    """One run of what the ranks of a sequence kept: their slices, put together. Modules of which these are no slices
    are left out."""
    rows, length = batch.inputs["labels"].shape
    merged = Run(kinds=eager.kinds)
    for name, whole in eager.layers.items():
        if mesh.needs and f"{path_of(name)} (2)" in eager.layers and not _has_all_tokens(whole, rows, length):
            continue  # inside of experts, which have other tokens
        inputs = [part.layer_inputs[name] for part in parts if name in part.layer_inputs]
        if len(inputs) == len(parts) and name in eager.layer_inputs:
            merged.layer_inputs[name] = tuple(_merge_inputs(inputs, eager.layer_inputs[name], rows, length))
        outputs = [part.layers[name] for part in parts if name in part.layers]
        value = _merge(outputs, whole, rows, length) if len(outputs) == len(parts) else None
        if value is not None:
            merged.layers[name] = value
        gradients = [part.layer_gradients[name] for part in parts if name in part.layer_gradients]
        if len(gradients) == len(parts) and name in eager.layer_gradients:
            gradient = _merge_gradients(gradients, eager.layer_gradients[name], rows, length)
            if gradient is not None:
                merged.layer_gradients[name] = gradient / mesh.ranks
    return merged


def _merge_inputs(
    parts: Sequence[Sequence[Tensor]], whole: Sequence[Tensor], rows: int, length: int
) -> Iterator[Tensor]:
    """What a module was given by all ranks, who may give it more. What cannot be put together counts as right."""
    given = list(zip(*parts))
    for tensor in whole:
        merged = (_merge_input(slices, tensor, rows, length) for slices in given)
        number, value = next(((n, value) for n, value in enumerate(merged) if value is not None), (-1, tensor))
        given = given[number + 1 :]
        yield value


def _merge_input(slices: Sequence[Tensor], whole: Tensor, rows: int, length: int) -> Tensor | None:
    if any(part.dtype != whole.dtype for part in slices):
        return None
    if whole.shape[:1] == (1,) and all(torch.equal(part, part[:1].expand_as(part)) for part in slices):
        slices = [part[:1] for part in slices]  # of positions, which each row has here
    value = _merge(slices, whole, rows, length)
    return value if value is not None and value.shape == whole.shape else None


def _has_all_tokens(value: Tensor, rows: int, length: int) -> bool:
    return value.shape[:2] == (rows, length) or value.shape[:1] == (rows * length,)


def _merge_gradients(slices: Sequence[Tensor], whole: Tensor, rows: int, length: int) -> Tensor | None:
    """What all ranks made of the gradient by an output: the sum where each of them has all of it."""
    if all(part.shape == whole.shape for part in slices):
        return torch.stack(list(slices)).sum(dim=0)
    return _merge(slices, whole, rows, length)


def _without_padding(run: Run, mask: Tensor) -> Run:
    """A run in which modules give zeros for padding."""

    def hide(value: Tensor) -> Tensor:
        for seen in (mask, mask.flatten()):
            if value.shape[: seen.dim()] == seen.shape:
                return value * seen.view(*seen.shape, *[1] * (value.dim() - seen.dim())).to(value.dtype)
        return value

    layers = {name: hide(value) for name, value in run.layers.items()}
    gradients = {name: hide(value) for name, value in run.layer_gradients.items()}
    inputs = {name: tuple(map(hide, values)) for name, values in run.layer_inputs.items()}
    return replace(run, layers=layers, layer_gradients=gradients, layer_inputs=inputs)


def _merge(slices: Sequence[Tensor], whole: Tensor, rows: int, length: int) -> Tensor | None:
    first = slices[0]
    if any(part.shape != first.shape for part in slices):
        return None
    if len(slices) == 1 or first.shape == whole.shape:
        return first
    own = -(-length // len(slices))
    sizes, padded = list(zip(first.shape, whole.shape)), (own * len(slices), length)
    if first.dim() == whole.dim() and all(pair[0] == pair[1] or pair == padded for pair in sizes):
        return first[tuple(slice(size) for size in whole.shape)]  # of the whole, as a mask
    if whole.shape[0] == rows * length and first.shape[0] == rows * own:  # tokens of all rows behind each other
        unflat = torch.cat([part.view(rows, own, *part.shape[1:]) for part in slices], dim=1)
        return unflat[:, :length].flatten(0, 1)
    other = [dim for dim, pair in enumerate(sizes) if len(set(pair)) > 1]
    if first.dim() != whole.dim() or len(other) != 1 or first.shape[other[0]] * len(slices) < whole.shape[other[0]]:
        return None
    return torch.cat(list(slices), dim=other[0]).narrow(other[0], 0, whole.shape[other[0]])


def compare_trained(
    ranks: Sequence[Trained], eager: Trained, truth: Trained, mesh: Mesh, batches: Sequence[ToyBatch], multiple: float
) -> Comparison:
    """The comparison of what ranks came to."""
    return Comparison(ranks, eager, truth, mesh, batches, multiple)
