"""The kernel parity check: green for every kernel that can run here, red for broken ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from patchgen_core.checks.kernel import comparison as kernels
from patchgen_core.checks.kernel.comparison import MOST_PROBLEMS, check_kernel
from patchgen_core.checks.result import CheckResult
from patchgen_core.errors import PatchgenError
from patchgen_core.ops.hardware import HardwareRequirement
from patchgen_core.ops.kernel_spec import KernelSpec
from patchgen_core.ops.kernels import DEFAULTS, cases, eager, moe
from patchgen_core.ops.kernels.cases import Case, Draw, register_cases
from patchgen_core.ops.losses import causal_lm_loss
from patchgen_core.ops.registry import KernelRegistry

pytestmark = pytest.mark.torch

HERE = [spec for spec in DEFAULTS if spec.name != "npu"]
CHECK_ALL = """
    import dataclasses, json
    from patchgen_core.models.interpreter import switch_on
    switch_on()
    from patchgen_core.ops import KERNEL_REGISTRY
    from patchgen_core.checks.kernel.comparison import check_kernel

    verdicts = {spec.label: check_kernel(spec.op_name, spec.variant, spec.name) for spec in KERNEL_REGISTRY.specs()}
    print(json.dumps({label: dataclasses.asdict(verdict) for label, verdict in verdicts.items()}))
"""


@pytest.fixture(scope="module")
def verdicts() -> Any:
    settings = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    settings |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    root = Path(__file__).parents[2]
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(CHECK_ALL)]
    done = subprocess.run(command, capture_output=True, text=True, env=settings, cwd=root, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("spec", HERE, ids=lambda spec: spec.label)
@pytest.mark.slow
def test_kernels_that_run_here_are_right(verdicts: Any, spec: KernelSpec) -> None:
    verdict = verdicts[spec.label]
    assert verdict["errors"] == []
    assert verdict["reason"] == ""
    assert ("interpreter" in verdict["notes"][0]) == (spec.name == "liger_kernel")
    assert 0 < max(verdict["figures"].values()) <= 1
    assert {name.split()[0] for name in verdict["figures"]} == {"float32", "bfloat16"}


@pytest.mark.parametrize("spec", [spec for spec in DEFAULTS if spec.name == "npu"], ids=lambda spec: spec.label)
@pytest.mark.slow
def test_kernels_of_an_npu_are_right_with_plain_torch_in_the_place_of_torch_npu(
    verdicts: Any, spec: KernelSpec
) -> None:
    verdict = verdicts[spec.label]
    assert verdict["errors"] == []
    assert "plain torch stood in for torch_npu, which is not installed" in verdict["notes"]
    assert 0 < max(verdict["figures"].values()) <= 1


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> KernelRegistry:
    """A registry of the default kernels that a test may add to, and cases likewise."""
    monkeypatch.setattr(cases, "_REGISTERED", {})

    def fill(registry: KernelRegistry) -> None:
        for spec in DEFAULTS:
            registry.register(spec)

    made = KernelRegistry(fill)
    monkeypatch.setattr(kernels, "KERNEL_REGISTRY", made)
    return made


Checker = Callable[..., CheckResult]


@pytest.fixture
def check(registry: KernelRegistry) -> Checker:
    def run(kernel: Callable[..., Any], op: str, variant: str = "standard", name: str = "broken") -> CheckResult:
        registry.register(KernelSpec(name=name, op_name=op, variant=variant, factory=lambda: kernel))
        return check_kernel(op, variant, name)

    return run


def messages(verdict: CheckResult) -> str:
    return "\n".join(problem.message for problem in verdict.errors)


class Overwriting(torch.autograd.Function):
    """A product whose backward pass writes over what was saved and over the gradient that comes in."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return F.silu(gate) * up

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        d_gate = grads[0] * up * sigmoid * (1 + gate * (1 - sigmoid))
        grads[0].data.mul_(gate * sigmoid)
        return d_gate, grads[0]


class Careless(torch.autograd.Function):
    """A product whose backward pass takes the gradient that comes in to be contiguous."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return F.silu(gate) * up

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        sigmoid = gate.sigmoid()
        grad = torch.as_strided(grads[0], gate.shape, torch.empty(gate.shape).stride())
        return grad * up * sigmoid * (1 + gate * (1 - sigmoid)), grad * gate * sigmoid


class Doubling(torch.autograd.Function):
    """A loss whose second backward pass scales gradients that the first has scaled."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, keywords: Any) -> Tensor:
        with torch.enable_grad():
            leaf = logits.detach().requires_grad_()
            loss = eager.cross_entropy_loss(leaf, labels, **keywords)
            (gradient,) = torch.autograd.grad(loss, leaf)
        ctx.save_for_backward(gradient)
        return loss.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient.data.mul_(grads[0].to(gradient.dtype)), None, None


def doubling(logits: Tensor, labels: Tensor, **keywords: Any) -> Tensor:
    return Doubling.apply(logits, labels, keywords)


def no_eps(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return eager.rms_norm(x, weight, 1e-12)


def other_sign(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
    return eager.rotary_pos_emb(q, k, cos, -sin, unsqueeze_dim)


def detached_weight(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return eager.rms_norm(x, weight.detach(), eps)


def half_gradient(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return eager.rms_norm((x + x.detach()) / 2, weight, eps)


def shifted_twice(states: Tensor, weights: Tensor, labels: Tensor | None, **keywords: Any) -> Tensor:
    labels = None if labels is None else F.pad(labels, (0, 1), value=-100)[:, 1:]
    return causal_lm_loss(states, weights, labels, **keywords)


def items_forgotten(states: Tensor, weights: Tensor, labels: Tensor | None, **keywords: Any) -> Tensor:
    return causal_lm_loss(states, weights, labels, **{**keywords, "num_items_in_batch": None})


def widened(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return eager.rms_norm(x.float(), weight.float(), eps)


def in_place(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    output = eager.rms_norm(x, weight, eps)
    x.data.zero_()
    return output


def weight_alone_forgotten(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return eager.rms_norm(x, weight if x.requires_grad else weight.detach(), eps)


def assumes_contiguous(gate: Tensor, up: Tensor) -> Tensor:
    rows = torch.as_strided(gate, gate.shape, torch.empty(gate.shape).stride())
    return F.silu(rows) * up


def half_cached(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up.to(torch.bfloat16).to(up.dtype)


def last_expert_lost(*arguments: Any) -> Tensor:
    states, index, weights, gate_up, down, act = arguments
    return moe.eager_experts(states, index, weights * (index != 4), gate_up, down, act)


def gate_and_up_swapped(*arguments: Any) -> Tensor:
    states, index, weights, gate_up, down, act = arguments
    return moe.eager_experts(states, index, weights, gate_up.roll(down.shape[2], 1), down, act)


def not_a_number(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True)) * weight


def one_too_many(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, ...]:
    return *eager.rotary_pos_emb(q, k, cos, sin, unsqueeze_dim), q


BROKEN: list[tuple[Callable[..., Any], str, str, str]] = [
    (no_eps, "rms_norm", "standard", "output is off by"),
    (not_a_number, "rms_norm", "standard", "output is off by inf"),
    (other_sign, "rotary_pos_emb", "full", "output 0 is off by"),
    (one_too_many, "rotary_pos_emb", "full", "returns 3 tensors, eager 2"),
    (detached_weight, "rms_norm", "standard", "the gradient of weight is missing"),
    (half_gradient, "rms_norm", "standard", "gradient of hidden_states is off by"),
    (weight_alone_forgotten, "rms_norm", "standard", "the gradient of weight is missing"),
    (shifted_twice, "cross_entropy_loss", "causal", "output is off by"),
    (items_forgotten, "cross_entropy_loss", "causal", "num_items_in_batch: "),
    (widened, "rms_norm", "standard", "output is (5, 33) of float32, eager's (5, 33) of bfloat16"),
    (in_place, "rms_norm", "standard", "overwrites hidden_states"),
    (Overwriting.apply, "swiglu_mlp", "standard", "overwrites the gradient of its output"),
    (Careless.apply, "swiglu_mlp", "standard", "gradient of gate is off by"),
    (doubling, "cross_entropy_loss", "standard", "in a second backward pass"),
    (assumes_contiguous, "swiglu_mlp", "standard", "strided: "),
    (half_cached, "swiglu_mlp", "standard", "output is off by"),
    (last_expert_lost, "moe_experts", "standard", "output is off by"),
    (gate_and_up_swapped, "moe_experts", "standard", "output is off by"),
    (lambda gate, up: None, "swiglu_mlp", "standard", "a kernel returns tensors, not NoneType"),
    (lambda gate, up: gate[5], "swiglu_mlp", "standard", "raises IndexError"),
]


@pytest.mark.parametrize(("kernel", "op", "variant", "message"), BROKEN)
@pytest.mark.mostly_slow(6)
def test_a_broken_kernel_is_found(check: Checker, kernel: Any, op: str, variant: str, message: str) -> None:
    assert message in messages(check(kernel, op, variant))


@pytest.mark.parametrize(
    ("kernel", "op", "variant"),
    [
        (lambda x, weight, eps: F.rms_norm(x, (x.shape[-1],), weight, eps), "rms_norm", "standard"),
        (lambda gate, up: (F.silu(gate.float()) * up.float()).to(up.dtype), "swiglu_mlp", "standard"),
        (moe.grouped_mm_experts, "moe_experts", "standard"),
    ],
)
def test_another_way_of_computing_the_same_passes(check: Checker, kernel: Any, op: str, variant: str) -> None:
    assert messages(check(kernel, op, variant)) == ""


def test_a_problem_names_kernel_dtype_case_and_shapes(check: Checker) -> None:
    problem = check(no_eps, "rms_norm").errors[0]
    assert problem.message.startswith("kernel rms_norm-standard-broken: output is off by ")
    assert "(float32, 5 rows of 33: hidden_states 5x33, weight 33, eps 1e-05)" in problem.message


def test_many_problems_are_cut_short_and_counted(check: Checker) -> None:
    verdict = check(lambda gate, up: gate * up, "swiglu_mlp")
    assert len(verdict.errors) == MOST_PROBLEMS
    assert any("more problems" in note for note in verdict.notes)


def test_the_same_seed_gives_the_same_figures(check: Checker) -> None:
    first, second = (check(eager.rms_norm, "rms_norm", name=name) for name in ("one", "two"))
    assert first == second


def _cube_cases(draw: Draw) -> Iterator[Case]:
    yield Case("three", {"x": draw.normal(3)})


def test_another_packages_op_is_checked_with_its_own_cases(check: Checker) -> None:
    register_cases("cube", "standard", _cube_cases)
    check(lambda x: x**3, "cube", name="eager")
    assert messages(check(lambda x: x * x * x, "cube", name="fast")) == ""
    assert "output is off by" in messages(check(lambda x: x * x * x.abs(), "cube", name="broken"))
    with pytest.raises(PatchgenError, match="cube/standard are registered twice"):
        register_cases("cube", "standard", _cube_cases)


def test_cases_that_cannot_be_made_and_no_cases_are_problems(check: Checker) -> None:
    register_cases("none", "standard", lambda draw: [])
    assert "there is no case" in messages(check(torch.neg, "none", name="eager"))
    register_cases("failing", "standard", lambda draw: [Case("too few", {"x": draw.integers(0, 1)})])
    assert "cannot be made: RuntimeError" in messages(check(torch.neg, "failing", name="eager"))
    register_cases("misfit", "standard", lambda draw: [Case("two", {"x": draw.normal(2), "y": draw.normal(3)})])
    check(torch.add, "misfit", name="eager")
    assert "the eager kernel raises RuntimeError" in messages(check(torch.sub, "misfit"))


def test_what_cannot_be_compared_is_skipped_and_says_why(check: Checker) -> None:
    assert "no eager kernel to compare with" in check(torch.neg, "lonely").reason
    check(torch.neg, "untried", name="eager")
    assert "has no cases" in check(torch.neg, "untried").reason


def test_a_kernel_whose_hardware_is_missing_is_skipped(registry: KernelRegistry) -> None:
    hardware = HardwareRequirement("xpu")
    registry.register(KernelSpec("far", "rms_norm", "standard", lambda: torch.neg, hardware=hardware))
    assert check_kernel("rms_norm", "standard", "far").reason == "cannot run here: needs an XPU"


def test_an_unknown_kernel_is_refused() -> None:
    with pytest.raises(PatchgenError, match="there is no kernel 'liger' for rms_norm/standard"):
        check_kernel("rms_norm", "standard", "liger")
