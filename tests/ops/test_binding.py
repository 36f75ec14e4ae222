"""Models with bindings of their own, and all that is done with models: copies, files, wrappers, training."""

from __future__ import annotations

import copy
import functools
import os
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from patchgen_core.errors import PatchgenError
from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec, bind_ops
from tests.ops.modules import NET, ONE, THREE, TWO, factor

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.usefixtures("slot_kernels")


def warned(call, *arguments):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call(*arguments)
    assert all(one.filename == __file__ for one in found)
    return [str(one.message) for one in found]


class TestWhoGetsWhat:
    def test_a_teacher_and_a_student_of_one_class_differ(self, module):
        teacher, student, third = module.Net(), module.Net(), module.Net()
        bind_ops(teacher, TWO)
        bind_ops(student, THREE)
        assert [factor(model) for model in (teacher, student, third, module.Net())] == [4, 9, 1, 1]

    def test_a_model_keeps_its_own_when_its_module_is_bound(self, module):
        own, follows = module.Net(), module.Net()
        bind_ops(own, TWO)
        assert warned(bind_ops, module, THREE) == []
        assert [factor(model) for model in (own, follows, module.Net())] == [4, 9, 9]
        bind_ops(follows, ONE)
        assert [factor(model) for model in (own, follows, module.Net())] == [4, 1, 9]

    def test_a_model_that_is_eager_by_itself_stays_eager(self, module):
        own = module.Net()
        bind_ops(own, {})
        bind_ops(module, TWO)
        assert factor(own) == 1

    def test_what_was_bound_is_returned(self, module):
        (binding,) = bind_ops(module.Net(), TWO)
        assert (binding.module, binding.name, binding.implementation) == (module.__name__, "scale", "double")
        assert (binding.op_name, binding.variant) == ("scale", "standard")
        assert not module.scale.is_bound

    def test_a_submodule_alone(self, module):
        model, other = module.Net(), module.Net()
        bind_ops(model.layers[0], TWO)
        assert [factor(model), factor(other)] == [2, 1]
        bind_ops(module, THREE)
        assert [factor(model), factor(other)] == [6, 9]

    def test_a_submodule_within_a_bound_model(self, module):
        model = module.Net()
        bind_ops(model, TWO)
        with pytest.warns(RuntimeWarning, match="Layer was bound alone before"):
            bind_ops(model.layers[1], THREE)
        assert factor(model) == 6

    def test_a_submodule_that_two_models_share_is_bound_anew_for_both(self, module):
        first, second = module.Net(), module.Net()
        second.layers[0] = first.layers[0]
        bind_ops(first, TWO)
        (text,) = warned(bind_ops, second, THREE)
        assert "parts of these classes are bound again, also for other models that share them: Layer" in text
        assert [factor(first), factor(second)] == [6, 9]

    def test_rebinding_a_model_warns_once_and_the_same_again_does_not(self, module):
        model = module.Net()
        assert warned(bind_ops, model, TWO) == []
        assert warned(bind_ops, model, TWO) == []
        (text,) = warned(bind_ops, model, THREE)
        assert "Net was bound alone before" in text
        assert factor(model) == 9

    def test_a_part_that_is_added_later_follows_the_module_until_bound(self, module):
        model = module.Net()
        bind_ops(model, TWO)
        model.layers.append(module.Layer())
        assert factor(model) == 4
        assert warned(bind_ops, model, TWO) == []
        assert factor(model) == 8

    def test_an_error_leaves_the_model_as_it_was(self, write):
        module = write(
            NET
            + """
class Held(Net):
    def __init__(self):
        super().__init__()
        forward = self.layers[1].forward
        self.layers[1].forward = lambda x: forward(x)
"""
        )
        model = module.Held()
        with pytest.raises(PatchgenError, match=r"layers\.1 keeps what reads slots as its own attribute 'forward'"):
            bind_ops(model, TWO)
        assert {type(layer) for layer in model.layers} == {module.Layer}
        assert factor(model) == 1

    def test_models_in_threads_run_their_own(self, module):
        models = [module.Net() for _ in range(4)]
        for model, config in zip(models, (ONE, TWO, THREE, TWO)):
            bind_ops(model, config)
        found = {}

        def run(number):
            found[number] = {factor(models[number]) for _ in range(20)}

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {0: {1}, 1: {4}, 2: {9}, 3: {4}}


class TestTheModelStaysTheSame:
    def test_parameters_state_and_hooks(self, module):
        model = module.Net()
        calls = []
        model.layers[0].register_forward_hook(lambda *_: calls.append("hook"))
        model.layers[0].register_forward_pre_hook(lambda *_: calls.append("pre"))
        model.layers[0].note = "kept"
        model.register_buffer("extra", torch.ones(1))
        model.eval()
        before, state = dict(model.named_parameters()), dict(model.state_dict(keep_vars=True))
        bind_ops(model, TWO)
        assert all(before[name] is value for name, value in model.named_parameters())
        assert {name: id(value) for name, value in state.items()} == {
            name: id(value) for name, value in model.state_dict(keep_vars=True).items()
        }
        assert factor(model) == 4
        assert calls == ["pre", "hook"]
        assert model.layers[0].note == "kept"
        assert not model.training

    def test_an_optimizer_made_before_trains_it(self, module):
        model = module.Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        bind_ops(model, TWO)
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        assert torch.equal(model.linear.weight, torch.eye(3) - 4)

    @pytest.mark.parametrize("reentrant", [True, False])
    def test_what_is_computed_again_in_backward_uses_the_kernels_of_the_model(self, module, reentrant):
        ran = []

        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, by):
                ctx.save_for_backward(x)
                ctx.by = by
                ran.append(by)
                return x * by

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                return grad * ctx.by * (x / x), None

        for name, by in (("five", 5), ("seven", 7)):
            kernel = functools.partial(lambda by, x: Scale.apply(x, by), by)
            KERNEL_REGISTRY.register(KernelSpec(name, "scale", "standard", lambda kernel=kernel: kernel))
        teacher, student, follows = module.Net(), module.Net(), module.Net()
        bind_ops(teacher, {"scale_implementation": "five"})
        bind_ops(student, {"scale_implementation": "seven"})
        x = torch.ones(2, 3, requires_grad=True)
        outputs = [checkpoint(model, x, use_reentrant=reentrant) for model in (teacher, student, follows)]
        bind_ops(module, TWO)
        ran.clear()
        outputs[0].sum().backward()
        assert ran == [5, 5]
        assert torch.equal(x.grad, torch.full((2, 3), 25.0))
        ran.clear()
        outputs[1].sum().backward()
        assert ran == [7, 7]
        assert torch.equal(x.grad, torch.full((2, 3), 74.0))


COPIES = {
    "copy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "old pickle": lambda model: pickle.loads(pickle.dumps(model, protocol=0)),
    "shallow copy": copy.copy,
}


class TestCopies:
    @pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())
    def test_a_copy_has_the_bindings_of_the_model(self, module, copied):
        model = module.Net()
        bind_ops(model, TWO)
        again = copied(model)
        bind_ops(module, THREE)
        assert [factor(model), factor(again), factor(copied(module.Net()))] == [4, 4, 9]
        assert isinstance(again.layers[0], module.Layer)

    def test_a_copy_can_be_bound_to_something_else(self, module):
        model = module.Net()
        bind_ops(model, TWO)
        student = copy.deepcopy(model)
        with pytest.warns(RuntimeWarning, match="bound alone before"):
            bind_ops(student, THREE)
        assert [factor(model), factor(student)] == [4, 9]

    def test_a_copy_of_a_layer(self, module):
        model = module.Net()
        bind_ops(model, TWO)
        assert factor(copy.copy(model.layers[0])) == 2
        assert factor(copy.deepcopy(model.layers)[0]) == 2

    def load(self, path, folder, register=True):
        code = f"""
import sys, torch
sys.path.insert(0, {str(folder)!r})
from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec
if {register}:
    KERNEL_REGISTRY.register(KernelSpec("double", "scale", "standard", lambda: lambda x: x * 2))
model = torch.load({str(path)!r}, weights_only=False)
assert not sys.modules[type(model).__module__].scale.is_bound
print(type(model).__name__, model(torch.ones(3))[0].item(), type(model)()(torch.ones(3))[0].item())
"""
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)

    @pytest.mark.slow
    def test_a_saved_model_is_loaded_in_another_process_with_its_bindings(self, module, tmp_path):
        model = module.Net()
        bind_ops(model, TWO)
        torch.save(model, tmp_path / "model.pt")
        assert factor(torch.load(tmp_path / "model.pt", weights_only=False)) == 4
        done = self.load(tmp_path / "model.pt", tmp_path)
        assert done.stdout == "Net 4.0 1.0\n", done.stderr

    @pytest.mark.slow
    def test_a_saved_model_is_not_loaded_without_its_kernel(self, module, tmp_path):
        model = module.Net()
        bind_ops(model, TWO)
        torch.save(model, tmp_path / "model.pt")
        done = self.load(tmp_path / "model.pt", tmp_path, register=False)
        assert "PatchgenError: no kernel is registered for the op 'scale'" in done.stderr
        assert done.stdout == ""

    def test_a_saved_model_is_not_loaded_by_a_module_with_other_slots(self, module, tmp_path):
        model = module.Net()
        bind_ops(model, TWO)
        saved = pickle.dumps(model)
        module.shift = type(module.scale)("shift")
        with pytest.raises(PatchgenError, match=f"slots are scale; those of {module.__name__} are scale, shift"):
            pickle.loads(saved)
