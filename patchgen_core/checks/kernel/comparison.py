"""Kernel parity: a kernel computes what the eager function of its op computes, forward and backward.

For each case of the op (:mod:`patchgen_core.ops.kernels.cases`) and each dtype of :data:`TOLERANCES`, the eager
function runs in float64 on a CPU: that is what is right. How far eager is from it in the dtype itself is what the
dtype costs; a kernel may be off by a stated multiple of that. Errors are measured along the last dimension of each
output and gradient, so that a wrong row does not hide behind the size of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from patchgen_core.checks.kernel.npu import list_stood_in, stood_in
from patchgen_core.checks.model_process.answering import register_kernels
from patchgen_core.checks.model_process.request import ModelRequest
from patchgen_core.checks.result import CheckResult, make_result
from patchgen_core.errors import Problem
from patchgen_core.models.interpreter import device_type
from patchgen_core.models.optional_packages import raise_if_missing
from patchgen_core.ops.hardware import interpreter_is_on
from patchgen_core.ops.kernel_spec import EAGER, Kernel, KernelSpec
from patchgen_core.ops.kernels.arguments import Case, Draw, Maker, strided
from patchgen_core.ops.kernels.cases import find_cases
from patchgen_core.ops.registry import KERNEL_REGISTRY


@dataclass(frozen=True)
class KernelTolerance:
    """How far from float64 a kernel may be: ``multiple * (error of eager) + units * eps * (size of the values)``.

    Attributes:
        multiple: of the error that eager has in the same dtype.
        units: of the dtype's machine epsilon, of the largest value along the last dimension (and of a tenth of
            the largest value of all): room where eager happens to be exact. Eager itself is held to this alone.
    """

    multiple: float
    units: float


TOLERANCES: dict[torch.dtype, KernelTolerance] = {
    torch.float32: KernelTolerance(multiple=4, units=32),
    torch.bfloat16: KernelTolerance(multiple=2, units=8),
}
MOST_PROBLEMS = 8
_SHARE = 0.1
_BEYOND = 1e9
"""The ratio of what is NaN or infinite where it should not be."""


@dataclass(frozen=True)
class KernelRun:
    """What one call of a kernel and its backward pass gave, by name; None for an argument without a gradient.

    ``again`` holds the gradients of a second backward pass over the same graph, empty when it was refused;
    ``overwritten`` the names of arguments that have other values than before.
    """

    outputs: Mapping[str, Tensor]
    gradients: Mapping[str, Tensor | None]
    again: Mapping[str, Tensor | None]
    overwritten: tuple[str, ...]


def check_request(request: ModelRequest) -> CheckResult:
    """Check the kernel that a request names; in the process that runs models."""
    register_kernels(request)
    return check_kernel(*request.subject)


def check_kernel(op_name: str, variant: str, name: str) -> CheckResult:
    """Compare a registered kernel with the eager function of its op.

    Triton kernels run in the interpreter without a GPU: call :func:`patchgen_core.models.interpreter.switch_on`
    first. There is a problem for every case that the kernel gets wrong; it is skipped where it cannot run here or
    there is nothing to compare it with. ``figures`` holds the worst error of each output and gradient as a share of
    its tolerance.

    Raises:
        PatchgenError: no such kernel is registered.
    """
    specs = [spec for spec in KERNEL_REGISTRY.specs(op_name, variant) if spec.name == name]
    if specs and specs[0] in list_stood_in():
        with stood_in(specs[0]) as kernel:
            result = _compare(specs[0], kernel, torch.device("cpu"))
        return replace(result, notes=(*result.notes, "plain torch stood in for torch_npu, which is not installed"))
    if reason := specs[0].why_not_here() if specs else "":
        return make_result(skipped=f"cannot run here: {reason}")
    kernel = KERNEL_REGISTRY.resolve(op_name, name, variant)
    return _compare(specs[0], kernel, _device(specs[0]))


def _compare(spec: KernelSpec, kernel: Kernel, device: torch.device) -> CheckResult:
    op_name, variant = spec.op_name, spec.variant
    maker = find_cases(op_name, variant)
    if not any(other.name == EAGER for other in KERNEL_REGISTRY.specs(op_name, variant)):
        return make_result(skipped=f"{op_name}/{variant} has no eager kernel to compare with")
    if maker is None:
        return make_result(skipped=f"{op_name}/{variant} has no cases: register some with register_cases")
    eager = KERNEL_REGISTRY.resolve(op_name, EAGER, variant)
    return _Check(spec, kernel, eager, maker, device).verdict()


class _Check:
    def __init__(self, spec: KernelSpec, kernel: Kernel, eager: Kernel, maker: Maker, device: torch.device) -> None:
        self.spec, self.kernel, self.eager, self.maker, self.device = spec, kernel, eager, maker, device
        self.figures: dict[str, float] = {}
        self.cases = 0

    def verdict(self) -> CheckResult:
        problems = [problem for dtype in TOLERANCES for problem in self._problems(dtype)]
        interpreted = self.spec.hardware is not None and self.spec.hardware.interpretable and interpreter_is_on()
        notes = [f"{self.cases} cases on {self.device}" + (", by Triton's interpreter" if interpreted else "")]
        if len(problems) > MOST_PROBLEMS:
            notes.append(f"{len(problems) - MOST_PROBLEMS} more problems of the same kernel")
        return make_result(tuple(problems[:MOST_PROBLEMS]), "", tuple(notes), self.figures)

    def _problems(self, dtype: torch.dtype) -> Iterator[Problem]:
        try:
            cases = list(self.maker(Draw(dtype, f"{self.spec.op_name}/{self.spec.variant}")))
        except Exception as error:
            yield Problem(f"the cases of {self.spec.label} cannot be made: {type(error).__name__}: {error}")
            return
        if not cases:
            yield Problem(f"there is no case to try {self.spec.label} in {_dtype_name(dtype)}")
        for number, case in enumerate(cases):
            self.cases += 1
            where = f"{_dtype_name(dtype)}, {case.label}: {_shapes(case)}"
            messages: dict[str, str] = {}
            for message, hint in self._check(case, dtype, number):
                messages.setdefault(message, hint)
            for message, hint in messages.items():
                yield Problem(f"kernel {self.spec.label}: {message} ({where})", hint=hint)

    def _check(self, case: Case, dtype: torch.dtype, number: int) -> Iterator[tuple[str, str]]:
        gaps = number % 2 == 1
        try:
            right = run_kernel(self.eager, case, dtype, torch.device("cpu"), cast=torch.float64, gaps=gaps)
            own = run_kernel(self.eager, case, dtype, self.device, gaps=gaps)
        except Exception as error:
            raise_if_missing(error)
            yield f"the eager kernel raises {type(error).__name__}: {error}", "The case or the eager kernel is wrong."
            return
        try:
            actual = own if self.kernel is self.eager else run_kernel(self.kernel, case, dtype, self.device, gaps=gaps)
            yield from self._compare(actual, own, right, dtype)
            if number == 0:
                yield from self._check_alone(case, own, right, dtype)
        except Exception as error:
            raise_if_missing(error)
            yield f"raises {type(error).__name__}: {error}", ""

    def _check_alone(
        self, case: Case, own: KernelRun, right: KernelRun, dtype: torch.dtype
    ) -> Iterator[tuple[str, str]]:
        """Each gradient when it is the only one that is wanted, and the outputs when none is."""
        for inputs in [*([name] for name in right.gradients), []]:
            alone = run_kernel(self.kernel, case, dtype, self.device, input_names=inputs)
            gradients = {name: right.gradients[name] for name in inputs}
            when = f"only {inputs[0]} requires a gradient" if inputs else "under no_grad"
            for message, hint in self._compare(alone, own, KernelRun(right.outputs, gradients, {}, ()), dtype):
                yield message, hint or f"This is where {when}."

    def _compare(
        self, actual: KernelRun, own: KernelRun, right: KernelRun, dtype: torch.dtype
    ) -> Iterator[tuple[str, str]]:
        for name in actual.overwritten:
            yield f"overwrites {name}", "Other code that holds that tensor gets wrong values: work on a copy."
        if actual.outputs.keys() != own.outputs.keys():
            yield f"returns {len(actual.outputs)} tensors, eager {len(own.outputs)}", ""
            return
        for name, value in right.outputs.items():
            yield from self._compare_one(name, actual.outputs[name], own.outputs[name], value, dtype)
        for name, gradient in right.gradients.items():
            label = f"gradient of {name}"
            problems = list(self._compare_one(label, actual.gradients.get(name), own.gradients[name], gradient, dtype))
            yield from problems
            if name in actual.again and not problems:
                for message, _ in self._compare_one(label, actual.again[name], own.gradients[name], gradient, dtype):
                    yield f"{message} in a second backward pass", "The first must not overwrite what was saved for it."

    def _compare_one(
        self, name: str, actual: Tensor | None, own: Tensor | None, right: Tensor | None, dtype: torch.dtype
    ) -> Iterator[tuple[str, str]]:
        if actual is None or own is None or right is None:
            if (actual is None) != (own is None):
                yield f"the {name} is {'missing' if actual is None else 'there'}, unlike eager's", ""
            return
        if actual.shape != own.shape or actual.dtype != own.dtype:
            one, other = (f"{tuple(tensor.shape)} of {_dtype_name(tensor.dtype)}" for tensor in (actual, own))
            yield f"{name} is {one}, eager's {other}", ""
            return
        is_eager = self.kernel is self.eager
        ratio, error, allowed = _worst(actual, None if is_eager else own, right, dtype, TOLERANCES[dtype])
        key = f"{_dtype_name(dtype)} {name}"
        self.figures[key] = max(self.figures.get(key, 0.0), ratio)
        if not ratio <= 1:
            yield f"{name} is off by {error:.3g}; {allowed:.3g} is allowed", ""


def run_kernel(
    kernel: Kernel,
    case: Case,
    dtype: torch.dtype,
    device: torch.device,
    *,
    cast: torch.dtype | None = None,
    input_names: Sequence[str] | None = None,
    gaps: bool = False,
) -> KernelRun:
    """Call a kernel with copies of a case's arguments, strides kept, and differentiate what it returns.

    Args:
        dtype: what the gradients of the outputs are drawn in.
        cast: what to cast floating arguments to; None leaves them.
        input_names: the arguments to differentiate; all floating ones that are not constant when None.
        gaps: whether the gradients of the outputs are not contiguous.
    """
    leaves: dict[str, Tensor] = {}
    arguments = [_copy(value, name, device, cast, leaves) for name, value in case.arguments.items()]
    keywords = {name: _copy(value, name, device, cast, leaves) for name, value in case.keywords.items()}
    before = {name: leaf.detach().clone() for name, leaf in leaves.items()}
    free = [n for n, leaf in leaves.items() if leaf.is_floating_point() and n.partition("[")[0] not in case.constant]
    inputs = [name for name in free if input_names is None or name in input_names]
    for name in inputs:
        leaves[name].requires_grad_()
    with torch.set_grad_enabled(bool(inputs)):
        outputs = _outputs(kernel(*arguments, **keywords))
    draw = Draw(dtype, case.label)
    originals = {name: draw.normal(*value.shape).to(device, value.dtype) for name, value in outputs.items()}
    seeds = {name: strided(seed) if gaps else seed.clone() for name, seed in originals.items()}
    gradients = _gradients(outputs, seeds, leaves, inputs)
    overwritten = [name for name, leaf in leaves.items() if not _same(leaf.detach(), before[name])]
    overwritten += [f"the gradient of its {name}" for name, seed in originals.items() if not _same(seed, seeds[name])]
    try:
        again = _gradients(outputs, originals, leaves, inputs)
    except RuntimeError:  # refused, which nobody takes for a result
        again = {}
    values = {name: value.detach() for name, value in outputs.items()}
    return KernelRun(values, gradients, again, tuple(overwritten))


def _gradients(
    outputs: Mapping[str, Tensor], seeds: Mapping[str, Tensor], leaves: Mapping[str, Tensor], inputs: Sequence[str]
) -> dict[str, Tensor | None]:
    differentiable = [name for name, value in outputs.items() if value.requires_grad]
    if not differentiable:
        return dict.fromkeys(inputs)
    gradients = torch.autograd.grad(
        [outputs[name] for name in differentiable],
        [leaves[name] for name in inputs],
        [seeds[name] for name in differentiable],
        retain_graph=True,
        allow_unused=True,
    )
    return {name: None if gradient is None else gradient.clone() for name, gradient in zip(inputs, gradients)}


def _copy(value: Any, name: str, device: torch.device, cast: torch.dtype | None, leaves: dict[str, Tensor]) -> Any:
    """A copy of an argument; its tensors are entered into ``leaves``."""
    if isinstance(value, Tensor):
        dtype = cast if cast is not None and value.is_floating_point() else value.dtype
        value = value.contiguous() if 0 in value.stride() else value
        leaves[name] = torch.empty_strided(value.shape, value.stride(), dtype=dtype, device=device).copy_(value)
        return leaves[name]
    if isinstance(value, (tuple, list)):
        return type(value)(_copy(item, f"{name}[{n}]", device, cast, leaves) for n, item in enumerate(value))
    return value


def _outputs(returned: Any) -> dict[str, Tensor]:
    values = returned if isinstance(returned, (tuple, list)) else [returned]
    for value in values:
        if not isinstance(value, Tensor):
            raise TypeError(f"a kernel returns tensors, not {type(value).__name__}")
    return {"output" if len(values) == 1 else f"output {n}": value for n, value in enumerate(values)}


def _worst(
    actual: Tensor, own: Tensor | None, right: Tensor, dtype: torch.dtype, tolerance: KernelTolerance
) -> tuple[float, float, float]:
    """The largest error as a share of what is allowed there, the error, and what is allowed."""
    if right.numel() == 0:
        return 0.0, 0.0, 0.0
    size = right.abs().nan_to_num()
    along = _along(size)
    allowed = tolerance.units * torch.finfo(dtype).eps * torch.maximum(along, _SHARE * size.max())
    if own is not None:
        allowed = allowed + tolerance.multiple * _along(_error(own, right))
    error = _along(_error(actual, right))
    ratio = (
        torch.where(error == 0, torch.zeros_like(error), error / allowed).nan_to_num(nan=_BEYOND).clamp(max=_BEYOND)
    )
    worst = int(ratio.argmax())
    return (
        float(ratio.flatten()[worst]),
        float(error.flatten()[worst]),
        float(allowed.expand_as(error).flatten()[worst]),
    )


def _error(value: Tensor, right: Tensor) -> Tensor:
    """Distances from what is right; 0 where both are NaN, infinite where one is."""
    value = value.detach().to("cpu", torch.float64)
    same = (value == right) | (value.isnan() & right.isnan())
    return torch.where(same, 0.0, (value - right).abs().nan_to_num(nan=torch.inf))


def _along(values: Tensor) -> Tensor:
    return values.amax(dim=-1) if values.dim() else values


def _same(one: Tensor, other: Tensor) -> bool:
    return bool(torch.equal(one.nan_to_num(), other.nan_to_num()))


def _device(spec: KernelSpec) -> torch.device:
    if spec.hardware is not None and not spec.hardware.interpretable and not spec.hardware.or_cpu:
        return torch.device(spec.hardware.device_type)
    return torch.device(device_type())


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _shapes(case: Case) -> str:
    def shape(value: Any) -> str:
        if isinstance(value, Tensor):
            return "x".join(map(str, value.shape)) or "a scalar"
        if isinstance(value, (tuple, list)):
            return f"({', '.join(map(shape, value))})"
        return getattr(value, "__name__", repr(value))

    return ", ".join(f"{name} {shape(value)}" for name, value in {**case.arguments, **case.keywords}.items())
