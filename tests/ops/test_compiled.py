"""Slots under torch.compile: no graph break, and no kernel that is bound no more."""

from __future__ import annotations

import copy
import importlib
import warnings

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec, bind_ops
from tests.ops.modules import NET, ONE, THREE, TWO, factor, kernels, triple, write_module

FORMS = {
    "methods": NET
    + """
class Root(Net):
    def forward(self, x):
        x = super().forward(x)
        return scale(x) if scale.has_kernel else x * 1
""",
    "functions": NET.replace("return x * 1", "return helper(x)")
    + "\ndef helper(x):\n    return scale(x) if scale.has_kernel else x * 1\n",
    "super": NET.replace("[Layer(), Layer()]", "[Lower(), Lower()]")
    + "\nclass Lower(Layer):\n    def forward(self, x):\n        return super().forward(x)\n",
}


@pytest.fixture(autouse=True)
def _setup():
    torch._dynamo.reset()
    with kernels(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch._dynamo.reset()


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda form: write_module(tmp_path, FORMS[form])


@pytest.fixture
def module(write):
    return write("methods")


@pytest.fixture
def counter():
    return CompileCounterWithBackend("eager")


def compiled(model, counter):
    return torch.compile(model, fullgraph=True, backend=counter)


@pytest.mark.parametrize("own", [True, False], ids=["model", "module"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.mostly_slow(1)
def test_rebinding_compiles_anew_and_once(write, counter, form, own):
    module = write(form)
    model = module.Net()
    run = compiled(model, counter)
    frames = []
    for config, expected in ((None, 1), (TWO, 4), (THREE, 9), (ONE, 1)):
        if config:
            bind_ops(model if own else module, config)
        assert [factor(run), factor(run)] == [expected, expected]
        frames.append(counter.frame_count)
    assert frames == ([1, 2, 3, 4] if own else [1, 2, 3, 3])  # the first, which was not bound, is eager as well
    bind_ops(module, THREE)
    assert factor(run) == (1 if own else 9)


def test_a_slot_that_is_bound_by_itself_compiles_anew(module, counter):
    run = compiled(module.Net(), counter)
    assert factor(run) == 1
    module.scale.bind("double")
    assert factor(run) == 4


def test_a_kernel_that_takes_the_name_of_another_compiles_anew(module, counter):
    models = {True: module.Net(), False: module.Net()}
    runs = {own: compiled(model, counter) for own, model in models.items()}
    bind_ops(models[True], TWO)
    bind_ops(module, TWO)
    assert [factor(run) for run in runs.values()] == [4, 4]
    KERNEL_REGISTRY.register(KernelSpec("double", "scale", "standard", lambda: triple), force=True)
    bind_ops(models[True], TWO)
    bind_ops(module, TWO)
    assert [factor(run) for run in runs.values()] == [9, 9]


@pytest.mark.slow
def test_kernels_of_one_function_that_differ_in_what_they_close_over(module, counter):
    for by in (5, 7):
        KERNEL_REGISTRY.register(KernelSpec(f"by{by}", "scale", "standard", lambda by=by: lambda x: x * by))
    model, other = module.Net(), module.Net()
    run, run_other = compiled(model, counter), compiled(other, counter)
    bind_ops(model, {"scale_implementation": "by5"})
    assert factor(run) == 25
    bind_ops(model, {"scale_implementation": "by7"})
    assert factor(run) == 49
    bind_ops(module, {"scale_implementation": "by5"})
    assert factor(run_other) == 25
    bind_ops(module, {"scale_implementation": "by7"})
    assert factor(run_other) == 49


def test_a_teacher_and_a_student_that_are_compiled(module, counter):
    teacher, student, follows = module.Net(), module.Net(), module.Net()
    runs = [compiled(model, counter) for model in (teacher, student, follows)]
    bind_ops(teacher, TWO)
    bind_ops(student, THREE)
    assert [factor(run) for run in runs] == [4, 9, 1]
    bind_ops(module, TWO)
    assert [factor(run) for run in runs] == [4, 9, 4]
    assert factor(compiled(copy.deepcopy(student), counter)) == 9


def test_one_compiled_function_of_several_models(module, counter):
    models = [module.Net() for _ in range(3)]
    bind_ops(models[0], TWO)
    bind_ops(models[1], THREE)
    run = torch.compile(lambda model, x: model(x), fullgraph=True, backend=counter)
    x = torch.ones(3)
    assert [float(run(model, x)[0]) for model in (*models, *models)] == [4, 9, 1, 4, 9, 1]


@pytest.mark.parametrize("own", [True, False], ids=["model", "module"])
@pytest.mark.parametrize("part", ["whole", "layer", "wrapped layer"])
@pytest.mark.slow
def test_a_model_that_was_compiled_in_place_before_it_is_bound(module, counter, part, own):
    model = module.Net()
    if part == "wrapped layer":
        model.layers[0] = compiled(model.layers[0], counter)
    else:
        (model if part == "whole" else model.layers[0]).compile(fullgraph=True, backend=counter)
    assert factor(model) == 1
    for config, expected in ((TWO, 4), (THREE, 9)):
        bind_ops(model if own else module, config)
        assert factor(model) == expected
    assert counter.frame_count == 3


def test_what_torch_compile_returns_can_be_bound(module, counter):
    model = module.Root()
    run = compiled(model, counter)
    assert factor(run) == 1
    bind_ops(run, TWO)
    again = compiled(run, counter)
    assert [factor(run), factor(model), factor(again), factor(module.Root())] == [8, 8, 8, 1]
    bind_ops(model, THREE)
    assert [factor(run), factor(model)] == [27, 27]


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("own", [True, False], ids=["model", "module"])
def test_gradients_are_those_of_eager(module, backend, own):
    KERNEL_REGISTRY.register(KernelSpec("wave", "scale", "standard", lambda: lambda x: torch.sin(x) * x))
    model = module.Net()
    torch.nn.init.normal_(model.linear.weight)
    run = torch.compile(model, fullgraph=True, backend=backend)
    x = torch.randn(5, 3)
    losses = []
    for config in ({}, {"scale_implementation": "wave"}):
        bind_ops(model if own else module, config)
        found = []
        for each in (model, run):
            model.zero_grad()
            loss = each(x).square().sum()
            loss.backward()
            found += [loss.detach(), model.linear.weight.grad.clone()]
        torch.testing.assert_close(found[:2], found[2:])
        losses.append(found[0])
    assert not torch.allclose(*losses)


@pytest.mark.slow
def test_a_generated_model_compiles_whole(zoo_on_path, counter):
    """All slots but that of the experts: upstream's loop over them depends on the data."""
    from transformers.models.qwen3_moe import Qwen3MoeConfig

    module = importlib.import_module("zoo.qwen3_moe.generated.patched_modeling_qwen3_moe_gpu")
    rotary = KERNEL_REGISTRY.resolve("rotary_pos_emb", "eager", "full")
    KERNEL_REGISTRY.register(
        KernelSpec(
            "odd", "rotary_pos_emb", "full", lambda: lambda q, k, cos, sin, **rest: rotary(q, k, cos, -sin, **rest)
        )
    )
    KERNEL_REGISTRY.register(KernelSpec("odd", "swiglu_mlp", "standard", lambda: lambda gate, up: gate * up))
    config = Qwen3MoeConfig(
        vocab_size=31,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        mlp_only_layers=[0, 1],
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=32,
        pad_token_id=0,
    )
    model = module.Qwen3MoeForCausalLM(config)
    run = compiled(model, counter)
    ids = torch.arange(18).reshape(2, 9)
    odd = {"rotary_pos_emb_implementation": "odd", "swiglu_mlp_implementation": "odd"}
    losses = []
    for config in ({}, odd, {**odd, "swiglu_mlp_implementation": "eager"}):
        bind_ops(model, config)
        eager, fast = (each(input_ids=ids, labels=ids, use_cache=False).loss for each in (model, run))
        torch.testing.assert_close(eager, fast)
        losses.append(float(fast.detach()))
    assert len(set(losses)) == 3
    assert counter.frame_count == 3


@pytest.mark.parametrize("model_type", ["qwen3_moe", "gpt_oss"])
@pytest.mark.slow
def test_a_mixture_of_experts_compiles_whole_with_fused_kernels(zoo_on_path, counter, model_type):
    from patchgen_core.models.toy_config import toy_config_for

    module = importlib.import_module(f"zoo.{model_type}.generated.patched_modeling_{model_type}_gpu")
    prefix = {"qwen3_moe": "Qwen3Moe", "gpt_oss": "GptOss"}[model_type]
    model = getattr(module, f"{prefix}ForCausalLM")(toy_config_for(model_type))
    names = ("moe_experts", "moe_load_balancing_loss")
    bindings = bind_ops(model, {f"{name}_implementation": "fused" for name in names})
    assert {one.implementation for one in bindings} == {"grouped_mm", "scatter_add", "eager"}
    run = compiled(model, counter)
    ids = torch.arange(18).reshape(2, 9)
    results = []
    for each in (model, run):
        model.zero_grad()
        loss = each(input_ids=ids, labels=ids, use_cache=False, output_router_logits=True).loss
        loss.backward()
        gradients = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
        results.append((loss.detach(), gradients))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
    assert counter.frame_count == 1
