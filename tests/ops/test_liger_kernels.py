"""Liger's kernels in an interpreter, in a process of its own."""

from __future__ import annotations

from typing import Any

import pytest

from patchgen_core.ops.kernels import DEFAULTS
from tests.ops.kernel_cases import REFUSED_ROTATIONS, child

LIGER = """
    import json
    from patchgen_core.models.interpreter import switch_on
    switch_on()

    import torch
    from patchgen_core.errors import PatchgenError
    from patchgen_core.ops import KERNEL_REGISTRY
    from patchgen_core.ops.kernels.cases import Draw, find_cases
    from patchgen_core.checks.kernel.comparison import run_kernel

    torch.manual_seed(0)
    cpu = torch.device("cpu")
    specs = [spec for spec in KERNEL_REGISTRY.specs() if spec.name == "liger_kernel"]
    kernels = {spec.label: KERNEL_REGISTRY.resolve(spec.op_name, spec.name, spec.variant) for spec in specs}

    def refusal(label, *arguments, **keywords):
        try:
            kernels[label](*arguments, **keywords)
        except PatchgenError as error:
            return str(error)

    def compiled(spec):
        torch._dynamo.reset()
        case = next(iter(find_cases(spec.op_name, spec.variant)(Draw(torch.float32, "any"))))
        again = torch.compile(kernels[spec.label], fullgraph=True, backend="aot_eager")
        one, other = (run_kernel(kernel, case, torch.float32, cpu) for kernel in (kernels[spec.label], again))
        pairs = [(one.outputs, other.outputs), (one.gradients, other.gradients)]
        return all(torch.equal(a[name], b[name]) for a, b in pairs for name in a)

    def halved(spec):
        def kernel(*arguments, **keywords):
            outputs = kernels[spec.label](*arguments, **keywords)
            for output in outputs if isinstance(outputs, tuple) else (outputs,):
                output *= 0.5  # as Mixtral does to what a norm gives
            return outputs

        case = next(iter(find_cases(spec.op_name, spec.variant)(Draw(torch.float32, "any"))))
        one, other = (run_kernel(k, case, torch.float32, cpu) for k in (kernels[spec.label], kernel))
        pairs = [(one.outputs, other.outputs), (one.gradients, other.gradients)]
        return all(torch.equal(a[name] / 2, b[name]) for a, b in pairs for name in a)

    def operators():
        from patchgen_core.ops.kernels import liger, liger_losses

        x, w = torch.randn(2, 3, 8), torch.randn(8)
        g, u = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
        q, k = (torch.randn(2, 3, heads, 8).transpose(1, 2) for heads in (4, 2))
        c = torch.randn(2, 3, 8)
        labels, head = torch.randint(20, (6,)), torch.randn(20, 8)
        _, r = liger.liger_rms_norm(x, w, 1e-5, 0.0, 0)
        _, mean, d = liger.liger_layer_norm(x, w, w, 1e-5)
        yield liger.liger_rms_norm, (x, w, 1e-5, 0.0, 0)
        yield liger.liger_rms_norm_backward, (g, x, w, r, 0.0, 0)
        yield liger.liger_layer_norm, (x, w, w, 1e-5)
        yield liger.liger_layer_norm_backward, (g, x, w, w, mean, d)
        yield liger.liger_rotary, (q, k, c, c)
        yield liger.liger_rotary_backward, (q, k, c, c)
        for activation in ("silu", "gelu"):
            yield liger.liger_gated, (g, u, activation)
            yield liger.liger_gated_backward, (x, g, u, activation)
        for wants in (True, False):
            yield liger_losses.liger_cross_entropy, (torch.randn(6, 20), labels, -100, True, wants)
            for bias in (torch.randn(20), None):
                more = (bias, -100, False, None, wants, wants)
                yield liger_losses.liger_linear_cross_entropy, (torch.randn(6, 8), head, labels, *more)

    def checked(operator, arguments):
        found = torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_faketensor"))
        return set(found.values()) == {"SUCCESS"}

    def double(spec):
        case = next(iter(find_cases(spec.op_name, spec.variant)(Draw(torch.float64, "any"))))
        return refusal(spec.label, *case.arguments.values(), **case.keywords)

    def mixed(q, k, cos):
        cos = torch.cat((cos[..., :2], cos[..., :2]), dim=-1)
        ours = kernels["rotary_pos_emb-full-liger_kernel"](q, k, cos, cos)
        theirs = KERNEL_REGISTRY.resolve("rotary_pos_emb", "eager", "full")(q, k, cos, cos)
        return [torch.allclose(one, other, rtol=1e-6, atol=1e-6) for one, other in zip(ours, theirs)]

    ROTATIONS, COMPILES = %r, %r
    zeros = torch.zeros
    labels = torch.tensor([1, 4])
    causal, seq_cls = (f"cross_entropy_loss-{variant}-liger_kernel" for variant in ("causal", "seq_cls"))
    q, cos = torch.randn(1, 2, 3, 4), torch.randn(1, 3, 4)
    print(json.dumps({
        "compiled": {spec.label: compiled(spec) for spec in specs if COMPILES},
        "halved": {spec.label: halved(spec) for spec in specs},
        "operators": [[operator.name(), checked(operator, arguments)] for operator, arguments in operators()],
        "rotations": {
            name: refusal("rotary_pos_emb-full-liger_kernel", zeros(q), zeros(k), zeros(c), zeros(c), dim)
            for name, (q, k, c, dim) in ROTATIONS.items()
        },
        "angles": refusal("rotary_pos_emb-full-liger_kernel", q, q.clone(), cos.clone().requires_grad_(), cos),
        "gate": refusal("swiglu_mlp-standard-liger_kernel", zeros(2, 3), zeros(2, 1)),
        "label": refusal("cross_entropy_loss-standard-liger_kernel", zeros(2, 3), torch.tensor([0, 3])),
        "causal label": refusal(causal, zeros(1, 2, 4), zeros(3, 4), torch.tensor([[0, 7]])),
        "regression": refusal(seq_cls, zeros(2, 4), zeros(1, 4), torch.tensor([0.5, 1.0])),
        "several": refusal(seq_cls, zeros(2, 4), zeros(3, 4), zeros(2, 3)),
        "both": refusal(causal, zeros(1, 2, 4), zeros(3, 4), zeros(1, 2).long(), shift_labels=zeros(1, 2).long()),
        "double": {spec.label: double(spec) for spec in specs},
        "mixed": mixed(q, q.flip(0), cos.to(torch.bfloat16)),
    }))
"""


@pytest.fixture(scope="module")
def liger() -> Any:
    return child(LIGER % (REFUSED_ROTATIONS, False))


@pytest.fixture(scope="module")
def compiled_liger() -> Any:
    return child(LIGER % (REFUSED_ROTATIONS, True))


@pytest.mark.parametrize(
    "spec", [spec for spec in DEFAULTS if spec.name == "liger_kernel"], ids=lambda spec: spec.label
)
@pytest.mark.slow
def test_liger_compiles_without_a_graph_break(compiled_liger: Any, spec: Any) -> None:
    assert compiled_liger["compiled"][spec.label] is True


@pytest.mark.parametrize(
    "spec", [spec for spec in DEFAULTS if spec.name == "liger_kernel"], ids=lambda spec: spec.label
)
def test_liger_refuses_float64(liger: Any, spec: Any) -> None:
    assert "and were given float64" in liger["double"][spec.label]


@pytest.mark.parametrize(
    "spec", [spec for spec in DEFAULTS if spec.name == "liger_kernel"], ids=lambda spec: spec.label
)
def test_what_liger_gives_can_be_changed_in_place(liger: Any, spec: Any) -> None:
    assert liger["halved"][spec.label] is True


def test_operators_keep_their_arguments_and_describe_their_results(liger: Any) -> None:
    assert len(liger["operators"]) == 16
    assert [name for name, passed in liger["operators"] if not passed] == []


@pytest.mark.parametrize("name", REFUSED_ROTATIONS)
def test_liger_refuses_the_rotations_that_eager_refuses(liger: Any, name: str) -> None:
    assert "rotary_pos_emb/full" in liger["rotations"][name]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("angles", "no gradient for cos and sin"),
        ("gate", "gate and up must be alike"),
        ("label", "label 3 is none of 3 classes"),
        ("causal label", "label 7 is none of 3 classes"),
        ("regression", "single_label_classification, and this is regression"),
        ("several", "single_label_classification, and this is multi_label_classification"),
        ("both", "labels or shift_labels, not both"),
    ],
)
def test_liger_refuses_what_it_cannot_do(liger: Any, call: str, message: str) -> None:
    assert message in liger[call]


def test_rotation_by_coarser_angles_keeps_the_precision(liger: Any) -> None:
    assert liger["mixed"] == [True, True]
