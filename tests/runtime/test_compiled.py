"""Slots under torch.compile: no graph break, and no kernel that is bound no more."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec, bind_ops
from tests.runtime.modules import NET, ONE, THREE, TWO, factor, kernels, triple, write_module

FORMS = {
    "methods": NET,
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


@pytest.fixture(params=FORMS.values(), ids=FORMS.keys())
def module(request, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    return write_module(tmp_path, request.param)


@pytest.fixture
def counter():
    return CompileCounterWithBackend("aot_eager")


def compiled(model, counter):
    return torch.compile(model, fullgraph=True, backend=counter)


def test_rebinding_the_module_compiles_anew(module, counter):
    model = module.Net()
    run = compiled(model, counter)
    for number, (config, expected) in enumerate(((None, 1), (TWO, 4), (THREE, 9), (ONE, 1)), start=1):
        if config:
            bind_ops(module, config)
        assert [factor(run), factor(run)] == [expected, expected]
        assert counter.frame_count == number
    bind_ops(module, TWO)
    assert factor(run) == 4


def test_rebinding_the_model_compiles_anew(module, counter):
    model = module.Net()
    run = compiled(model, counter)
    for number, (config, expected) in enumerate(((None, 1), (TWO, 4), (THREE, 9), (ONE, 1)), start=1):
        if config:
            bind_ops(model, config)
        assert [factor(run), factor(run)] == [expected, expected]
        assert counter.frame_count == number
    bind_ops(module, THREE)
    assert factor(run) == 1
    assert counter.frame_count == 4


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


@pytest.mark.parametrize("whole", [True, False], ids=["module", "model"])
def test_a_model_or_a_layer_that_is_compiled_in_place_before_it_is_bound(module, counter, whole):
    for part in ("model", "layer", "wrapped"):
        torch._dynamo.reset()
        module.scale.set(None, None)
        module.scale.has_kernel = False
        model = module.Net()
        if part == "wrapped":
            model.layers[0] = compiled(model.layers[0], counter)
        else:
            (model if part == "model" else model.layers[0]).compile(fullgraph=True, backend=counter)
        assert factor(model) == 1
        bind_ops(module if whole else model, TWO)
        assert factor(model) == 4, part
        bind_ops(module if whole else model, THREE)
        assert factor(model) == 9, part


def test_the_compiled_model_itself_can_be_bound(module, counter):
    model = module.Net()
    run = compiled(model, counter)
    assert factor(run) == 1
    bind_ops(run, TWO)
    assert [factor(run), factor(model), factor(module.Net())] == [4, 4, 1]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("own", [True, False], ids=["model", "module"])
def test_gradients_are_those_of_eager(tmp_path, monkeypatch, backend, own):
    monkeypatch.syspath_prepend(str(tmp_path))
    KERNEL_REGISTRY.register(KernelSpec("wave", "scale", "standard", lambda: lambda x: torch.sin(x) * x))
    module = write_module(tmp_path, NET)
    model = module.Net()
    torch.nn.init.normal_(model.linear.weight)
    run = torch.compile(model, fullgraph=True, backend=backend)
    x = torch.randn(5, 3)
    for config in ({}, {"scale_implementation": "wave"}):
        bind_ops(model if own else module, config)
        found = []
        for each in (model, run):
            model.zero_grad()
            loss = each(x).square().sum()
            loss.backward()
            found += [loss.detach(), model.linear.weight.grad.clone()]
        torch.testing.assert_close(found[:2], found[2:])
        if config:
            assert not torch.allclose(found[0], before)
        before = found[0]
