"""Two runs of one batch beside each other: which tensors differ, by how much, and where they begin to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from patchgen_core.models.model_run import EMBEDDINGS, GRADIENT, Run
from patchgen_core.models.tensor_errors import ErrorOfEager, compare_tensors, measure_eager, to_array

_NONE = "none"
_FEW = 16


@dataclass(frozen=True)
class Difference:
    """How one tensor of the patched model compares with upstream's, by its name in a run.

    Attributes:
        shape, dtype: of upstream's; where the patched model's differ, both.
        absolute: largest difference of an element; infinite where one is not there or has another shape.
        relative: Euclidean norm of the difference over that of the reference.
        allowed: what ``relative`` may be.
        error_of_eager: the relative error of upstream's own; 0 where bits are compared.
    """

    name: str
    shape: str
    dtype: str
    absolute: float
    relative: float
    allowed: float
    error_of_eager: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether it is within what is allowed."""
        return self.relative <= self.allowed

    @property
    def excess(self) -> float:
        """How many times what is allowed it is off; infinite where nothing is."""
        if self.allowed:
            return self.relative / self.allowed
        return 0.0 if self.is_right else float("inf")


@dataclass(frozen=True)
class ComparedRuns:
    """The runs of one batch; ``multiple`` is how many times the error of eager is allowed, 0 for the same bits."""

    patched: Run
    eager: Run
    reference: Run | None
    multiple: float

    def forward(self) -> list[Difference]:
        """How the output of every module compares, in the order in which upstream's finish."""
        return [self._compare_output(path) for path in self.eager.layers if path in self.patched.layers]

    def backward(self) -> list[Difference]:
        """How the gradient that comes to the output of every module compares, in the order in which they come.

        Where none comes to a module that ran, it differs. What else a module gives and none inside of it counts too.
        """
        patched, eager = self.patched, self.eager
        reference_gradients = self.reference.layer_gradients if self.reference is not None else {}
        differences = []
        for path in reversed(eager.layers):
            if path in eager.layer_gradients and path in patched.layers:
                differences += [d for d in self._compare_further_gradients(path) if not d.is_right][:1]
                gradients = patched.layer_gradients, eager.layer_gradients, reference_gradients
                differences.append(_compare(path, *gradients, self.multiple))
        return differences

    def _compare_further_gradients(self, path: str) -> Iterator[Difference]:
        patched, eager = (run.further_gradients.get(path, {}) for run in (self.patched, self.eager))
        truth = self.reference.further_gradients.get(path, {}) if self.reference is not None else {}
        outputs = self.patched.further_outputs.get(path, {})
        for place in (place for place in eager if place in outputs):
            yield replace(_compare(place, patched, eager, truth, self.multiple), name=path)

    def kind(self, name: str) -> str:
        """The class of a module."""
        return self.eager.kinds.get(path_of(name), "")

    def find_first(self, *, is_lost: bool = False) -> tuple[str, str] | None:
        """The first module, as upstream's finish, whose output differs, and the last one before where both agree.

        Args:
            is_lost: whether it also differs where an output is not there; a patch may leave one out that nobody asks
                for.
        """
        after = ""
        for difference in self.forward():
            path = difference.name
            if not difference.is_right and not self._is_called_otherwise(path):
                return path, after
            if is_lost and self.eager.further_outputs.get(path, {}).keys() - self.patched.further_outputs.get(
                path, {}
            ):
                return path, after
            after = path
        return None

    def inputs_agree(self, name: str) -> bool:
        """Whether a module is given the same as upstream's is; more beside it does not count."""
        flags = self.patched.layer_flags.get(name), self.eager.layer_flags.get(name, {})
        if flags[0] is not None and not flags[1].items() <= flags[0].items():
            return False
        inputs_64 = _floating(self.reference.layer_inputs.get(name, ())) if self.reference is not None else []
        ours, theirs = self.patched.layer_inputs.get(name, ()), self.eager.layer_inputs[name]
        if not all(any(_is_same(one, other) for one in ours) for other in theirs if not other.is_floating_point()):
            return False
        own, others = _floating(ours), _floating(theirs)
        if len(own) < len(others):
            return False
        for number, (one, other) in enumerate(zip(own, others)):
            if _is_same(one, other):
                continue  # a mask's least number has no counterpart in float64
            truth = {"": inputs_64[number]} if number < len(inputs_64) else {}
            if not _compare("", {"": one}, {"": other}, truth, self.multiple).is_right:
                return False
        return True

    def _compare_output(self, path: str) -> Difference:
        layers_64 = self.reference.layers if self.reference is not None else {}
        ours, theirs, truth = self.patched.layers, self.eager.layers, layers_64
        if not theirs[path].is_floating_point():  # places and the like, of whatever dtype
            ours, theirs, truth = ({path: run[path].double()} if path in run else {} for run in (ours, theirs, truth))
        first = _compare(path, ours, theirs, truth, self.multiple)
        if not first.is_right:
            return first
        wrong = (d for d in self._compare_further_outputs(path) if not d.is_right)
        return next((replace(difference, name=path) for difference in wrong), first)

    def _compare_further_outputs(self, path: str) -> Iterator[Difference]:
        """Those of the same shape; a patch may give more, or fewer."""
        patched, eager = (run.further_outputs.get(path, {}) for run in (self.patched, self.eager))
        truth = self.reference.further_outputs.get(path, {}) if self.reference is not None else {}
        for place in eager:
            if place in patched and patched[place].shape == eager[place].shape:
                yield _compare(place, patched, eager, truth, self.multiple)

    def _is_called_otherwise(self, path: str) -> bool:
        """Whether a module gets other rows than upstream's inside one that gives the same, as an activation may."""
        patched, eager = self.patched.layers, self.eager.layers
        around = path_of(path).rpartition(".")[0]
        if patched[path].shape == eager[path].shape or around not in patched or around not in eager:
            return False
        return self._compare_output(around).is_right


def _floating(values: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [value for value in values if value.is_floating_point()]


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


def path_of(name: str) -> str:
    """The path of a module, without which of its calls it was."""
    return name.partition(" (")[0]


def compare_runs(patched: Run, eager: Run, reference: Run | None, multiple: float) -> list[Difference]:
    """Compare every tensor of eager's run of one batch that the patched model did not leave out.

    The patched model may be off ``multiple`` times the error that eager has against ``reference``, upstream's run in
    float64; 0 asks for the same bits, without a reference. A tensor of few elements, whose error can vanish by
    chance, is allowed what the worst tensor is.
    """
    reference_values = reference.values if reference is not None else {}
    errors = eager.errors_against(reference)
    rows = [
        _compare(name, patched.values, eager.values, reference_values, multiple, errors)
        for name in eager.values
        if name not in patched.left_out
    ]
    few = {name for name, value in eager.values.items() if value is not None and value.numel() < _FEW}
    worst = max((row.error_of_eager for row in rows if row.name not in few), default=0.0)
    return [replace(row, allowed=max(row.allowed, multiple * worst)) if row.name in few else row for row in rows]


def summarize_differences(where: str, differences: Sequence[Difference]) -> Iterator[tuple[str, float]]:
    """The relative errors, of the gradients of parameters the worst only; each named, ``where`` before it."""
    gradients = [d for d in differences if d.name.startswith(GRADIENT) and d.name != EMBEDDINGS]
    yield from ((f"{where}: {d.name}", d.relative) for d in differences if d not in gradients)
    if gradients:
        yield f"{where}: worst gradient of a parameter", max(d.relative for d in gradients)
    yield f"{where}: largest part of what is allowed", max(d.excess for d in differences)


def are_equal(patched: Run, eager: Run) -> bool:
    """Whether a run has the bits of eager's in every tensor that it did not leave out."""
    return all(difference.is_right for difference in compare_runs(patched, eager, None, 0.0))


def _compare(
    name: str,
    patched: Mapping[str, torch.Tensor | None],
    eager: Mapping[str, torch.Tensor | None],
    reference: Mapping[str, torch.Tensor | None],
    multiple: float,
    errors: dict[str, ErrorOfEager] | None = None,
) -> Difference:
    """How one tensor compares; ``errors`` are those of eager that were measured before, and get this one's."""
    ours, theirs = patched.get(name), eager.get(name)
    shape, dtype = _describe("shape", ours, theirs), _describe("dtype", ours, theirs)
    if ours is None or theirs is None:
        worst = 0.0 if ours is theirs is None else float("inf")
        return Difference(name, shape, dtype, worst, worst, 0.0)
    if ours.shape != theirs.shape or (ours.dtype != theirs.dtype and not (multiple and theirs.dim() == 0)):
        return Difference(name, shape, dtype, float("inf"), float("inf"), 0.0)
    if not multiple:
        absolute, relative = (0.0, 0.0) if torch.equal(ours, theirs) else compare_tensors(ours, to_array(theirs))
        return Difference(name, shape, dtype, absolute, relative, 0.0)
    error = (errors or {}).get(name) or measure_eager(theirs, reference.get(name))
    if errors is not None:
        errors[name] = error
    is_same = ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    absolute, relative = (error.absolute, error.relative) if is_same else compare_tensors(ours, error.truth)
    return Difference(
        name, shape, dtype, absolute, relative, multiple * max(error.relative, error.floor), error.relative
    )


def _describe(name: str, ours: torch.Tensor | None, theirs: torch.Tensor | None) -> str:
    """An attribute of two tensors: upstream's, or both where they differ."""
    texts = [_NONE if value is None else getattr(value, name) for value in (ours, theirs)]
    one, other = (str(list(text)) if isinstance(text, torch.Size) else str(text) for text in texts)
    one, other = one.removeprefix("torch."), other.removeprefix("torch.")
    return other if one == other else f"{one} instead of {other}"
