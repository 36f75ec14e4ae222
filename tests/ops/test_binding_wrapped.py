"""Models with bindings of their own in wrappers, in threads, compiled and trained."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch

from patchgen_core.errors import PatchgenError
from patchgen_core.ops import bind_ops
from tests.ops.modules import THREE, TWO, factor, no_warnings

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.usefixtures("slot_kernels")


class TestWrapped:
    def test_wrappers_run_the_models_kernels_and_can_be_bound(self, module):
        model = torch.nn.DataParallel(torch.nn.Sequential(module.Net()))
        bind_ops(model, TWO)
        assert factor(model) == 4
        replica = model._replicate_for_data_parallel()
        assert type(replica.module[0].layers[0]) is type(model.module[0].layers[0])
        layer = model.module[0].layers[0]._replicate_for_data_parallel()
        assert factor(layer) == 2

    @pytest.mark.parametrize("before", [True, False])
    def test_layers_whose_forward_is_wrapped_as_accelerate_does(self, module, before):
        model = module.Net()
        calls = []

        def new_forward(layer, *args):
            calls.append(layer)
            return layer._old_forward(*args)

        if before:
            bind_ops(model, TWO)
        for layer in model.layers:
            layer._old_forward = layer.forward
            layer.forward = functools.update_wrapper(functools.partial(new_forward, layer), layer.forward)
        bind_ops(model, TWO)
        assert factor(model) == 4
        assert calls == list(model.layers)
        bind_ops(module, THREE)
        assert factor(model) == 4
        with pytest.warns(RuntimeWarning, match="bound alone before"):
            bind_ops(model, THREE)
        assert factor(model) == 9

    def test_a_layer_that_keeps_its_forward_in_a_closure_is_refused(self, module):
        model = module.Net()
        layer = model.layers[0]
        layer.forward = (lambda old: lambda x: old(x) * 10)(layer.forward)
        with pytest.raises(PatchgenError) as caught:
            bind_ops(model, TWO)
        assert "layers.0 keeps what reads slots as its own attribute 'forward'" in str(caught.value)
        assert "Bind before the model is wrapped" in str(caught.value)
        assert factor(model) == 10

    def test_a_layer_that_is_wrapped_after_runs_its_kernels_and_is_not_bound_anew(self, module):
        model = module.Net()
        bind_ops(model, TWO)
        layer = model.layers[0]
        layer.forward = (lambda old: lambda x: old(x) * 10)(layer.forward)
        assert factor(model) == 40
        bind_ops(module, THREE)
        bind_ops(model, TWO)
        assert factor(model) == 40
        with pytest.raises(PatchgenError, match="keeps what reads slots as its own attribute"):
            bind_ops(model, THREE)
        assert factor(model) == 40

    @pytest.mark.parametrize("before", [True, False])
    def test_a_parametrized_layer(self, write, before):
        module = write(
            """
            class Net(nn.Linear):
                def __init__(self):
                    super().__init__(3, 3, bias=False)
                    nn.init.eye_(self.weight)
                def forward(self, x):
                    x = super().forward(x)
                    return scale(x) if scale.has_kernel else x * 1
            """
        )
        model = module.Net()
        if before:
            bind_ops(model, TWO)
        torch.nn.utils.parametrize.register_parametrization(model, "weight", torch.nn.Identity())
        bind_ops(model, TWO)
        assert factor(model) == 2
        with pytest.warns(RuntimeWarning, match="bound alone before"):
            bind_ops(model, THREE)
        assert factor(model) == 3
        assert factor(module.Net()) == 1

    def test_what_a_wrapper_class_overrides_is_not_bound_past_it(self, module):
        model = module.Net()
        bind_ops(model, TWO)
        layer = model.layers[0]
        bound = type(layer)

        def forward(self, x):
            return bound.forward(self, x) * 10

        layer.__class__ = type("Wrapped", (bound,), {"forward": forward})
        bind_ops(model, TWO)
        assert factor(model) == 40
        with pytest.raises(PatchgenError, match="Wrapped overrides forward of a class that was bound before"):
            bind_ops(model, THREE)
        assert factor(model) == 40

    @pytest.mark.parametrize("before", [True, False])
    def test_fsdp2_swaps_classes_before_and_after(self, module, group, before):
        from torch.distributed.fsdp import FSDPModule, fully_shard

        model, other = module.Net(), module.Net()
        model.layers[0].weight = torch.nn.Parameter(torch.ones(2))
        if before:
            bind_ops(model, TWO)
        with no_warnings():
            fully_shard(model.layers[0])
            fully_shard(model)
        if not before:
            bind_ops(model, TWO)
        assert isinstance(model.layers[0], FSDPModule)
        assert isinstance(model.layers[0], module.Layer)
        x = torch.ones(2, 3, requires_grad=True)
        assert torch.equal(model(x), x * 4)
        assert factor(other) == 1
        with pytest.warns(RuntimeWarning, match="bound alone before"):
            bind_ops(model, THREE)
        assert torch.equal(model(x), x * 9)


@pytest.fixture
def group(tmp_path):
    """A process group of this process alone."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()
