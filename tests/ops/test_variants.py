"""The classes of bound models: what they keep, what they notice, and how their code is renamed."""

from __future__ import annotations

import importlib
import inspect
import pickle
import sys
import textwrap
import threading
import types
import warnings

import pytest
import torch

from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec, OpSlot, bind_ops
from patchgen_core.ops.functions import attributes_of_globals, read_globals, rename_globals
from tests.ops.modules import (
    HEADER,
    HELPER,
    LAYER,
    NET,
    ONE,
    THREE,
    TWO,
    factor,
    refused,
    triple,
)

pytestmark = pytest.mark.usefixtures("slot_kernels")


def test_methods_keep_their_defaults_and_what_else_they_have(write):
    module = write(
        '''
        def helper(x, y: int = 2, *args, z=3, **rest):
            """Help."""
            return scale(x) if scale.has_kernel else x * 1

        helper.extra = [1]

        class Net(nn.Module):
            def forward(self, x, y: "int" = 2, *, z=3) -> "Tensor":
                """Forward."""
                return helper(x) * (y - 1) * (z - 2)

            forward.extra = "kept"
        '''
    )
    model = module.Net()
    bind_ops(model, TWO)
    assert factor(model) == 2
    assert model(1, 3, z=4) == 8
    ours, theirs = type(model).forward, module.Net.forward
    assert ours is not theirs
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__kwdefaults__", "__dict__"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.__defaults__ == (2,)
    assert inspect.signature(ours) == inspect.signature(theirs)


def test_other_globals_that_are_replaced_later_are_seen(write):
    module = write(
        """
        FACTOR = 1

        def other(x):
            return x * FACTOR

        class Net(nn.Module):
            def forward(self, x):
                return other(scale(x) if scale.has_kernel else x * 1)
        """
    )
    model = module.Net()
    bind_ops(model, TWO)
    module.FACTOR = 5
    assert factor(model) == 10
    module.other = lambda x: x * 100
    assert factor(model) == 200


@pytest.mark.parametrize("what", ["method", "function"])
def test_what_is_replaced_before_a_model_is_bound_is_what_it_runs(write, what):
    module = write(HELPER + "class Net(nn.Module):\n    def forward(self, x):\n        return helper(x)\n")
    first, second = module.Net(), module.Net()
    bind_ops(first, TWO)
    patched = "def {}(self, x):\n    return 10 * (scale(x) if scale.has_kernel else x)\n"
    if what == "method":
        exec(patched.format("forward"), vars(module))
        module.Net.forward = vars(module).pop("forward")
    else:
        exec(patched.format("helper").replace("self, ", ""), vars(module))
    bind_ops(second, TWO)
    assert factor(second) == 20


def test_a_kernel_that_is_replaced_is_what_the_next_model_runs(write):
    module = write(NET)
    first, second = module.Net(), module.Net()
    bind_ops(first, TWO)
    KERNEL_REGISTRY.register(KernelSpec("double", "scale", "standard", lambda: triple), force=True)
    assert factor(first) == 4
    bind_ops(second, TWO)
    assert factor(second) == 9


def test_a_module_that_is_reloaded_binds_its_new_models_and_leaves_the_old(write):
    module = write(HELPER + NET.replace("return x * 1", "return helper(x)"))
    old = module.Net()
    bind_ops(old, TWO)
    importlib.reload(module)
    new = module.Net()
    assert factor(new) == 1
    bind_ops(new, TWO)
    (bound,) = bind_ops(module, THREE)
    assert bound.name == "scale"
    assert [factor(model) for model in (old, new, module.Net())] == [4, 4, 9]
    assert isinstance(new, module.Net)
    assert not isinstance(old, module.Net)
    with pytest.warns(RuntimeWarning, match="bound alone before"):
        bind_ops(old, THREE)
    assert [factor(model) for model in (old, new)] == [9, 4]


def test_a_model_of_an_earlier_import_is_refused(write, monkeypatch):
    module = write(NET)
    model = module.Net()
    monkeypatch.delitem(sys.modules, module.__name__)
    importlib.import_module(module.__name__)
    text = refused(bind_ops, model, TWO)
    assert f"Layer.forward reads slots of {module.__name__}: of an earlier import of it" in text
    assert factor(model) == 1


def test_a_model_that_reads_no_slot_is_refused(write):
    module = write(NET + "\nclass Plain(nn.Module):\n    pass\n")
    assert f"Plain has no part that reads the slots of {module.__name__}" in refused(bind_ops, module.Plain(), TWO)


def test_calling_the_class_of_a_bound_model_makes_one_that_follows_the_module(write):
    module = write(
        NET
        + """
class Root(Net):
    def __init__(self, extra):
        super().__init__()
        self.extra = extra
    def forward(self, x):
        x = super().forward(x)
        return scale(x) if scale.has_kernel else x * 1
"""
    )
    model = module.Root(3)
    bind_ops(model, TWO)
    again = type(model)(extra=4)
    assert (factor(model), factor(again), again.extra) == (8, 1, 4)
    assert type(again) is module.Root

    class Mine(type(model)):  # type: ignore[misc]
        pass

    assert type(Mine(extra=5)) is Mine
    assert Mine(5).extra == 5


def test_an_init_that_reads_slots_reads_those_of_the_module(write):
    module = write(
        """
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.made_with = scale.implementation

        class Net(Layer):
            def forward(self, x):
                return scale(x) if scale.has_kernel else x * 1
        """
    )
    model = module.Net()
    bind_ops(model, TWO)
    assert (factor(model), type(model)().made_with, factor(type(model)())) == (2, None, 1)
    assert "Layer has no part that reads the slots" in refused(bind_ops, module.Layer(), TWO)


def test_classes_keep_their_names_and_relations(write):
    module = write(NET)
    model = module.Net()
    bind_ops(model, TWO)
    cls = type(model.layers[0])
    assert cls is not module.Layer
    assert isinstance(model.layers[0], module.Layer)
    assert issubclass(cls, module.Layer)
    assert (cls.__name__, cls.__qualname__, cls.__module__) == ("Layer", "Layer", module.__name__)
    assert type(model) is module.Net
    assert type(model.linear) is torch.nn.Linear
    assert repr(model) == repr(module.Net())


def test_models_with_the_same_bindings_have_the_same_classes(write):
    module = write(NET)
    one, two = module.Net(), module.Net()
    bind_ops(one, TWO)
    bind_ops(two, TWO)
    assert type(one.layers[0]) is type(two.layers[0])


def test_a_class_that_reduces_itself_is_not_copied_in_silence(write):
    module = write(
        LAYER
        + """
class Net(Layer):
    def __reduce__(self):
        return Net, ()

class Other(Layer):
    def __reduce_ex__(self, protocol):
        return Other, ()
"""
    )
    for cls in (module.Net, module.Other):
        model = cls()
        assert type(pickle.loads(pickle.dumps(model))) is cls
        bind_ops(model, TWO)
        with pytest.raises(TypeError, match=f"{cls.__name__} reduces itself in its own way"):
            pickle.dumps(model)


def test_threads_that_bind_at_once_do_not_mix(write):
    names = [f"kernel_{number}" for number in range(8)]
    for number, name in enumerate(names):
        KERNEL_REGISTRY.register(KernelSpec(name, "scale", "standard", lambda n=number: lambda x: x * (n + 2)))
    helpers = [HELPER.replace("helper", f"helper_{number}") for number in range(40)]
    module = write("".join(helpers) + NET.replace("return scale(x)", "return helper_0(x)"))
    models = [module.Net() for _ in names]
    start = threading.Barrier(len(names))

    def bind(model, name):
        start.wait()
        bind_ops(model, {"scale_implementation": name})

    threads = [threading.Thread(target=bind, args=pair) for pair in zip(models, names)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert [factor(model) for model in models] == [(number + 2) ** 2 for number in range(8)]


class TestCode:
    def code(self, text):
        namespace = {}
        exec(textwrap.dedent(text), namespace)
        return namespace["f"]

    def test_globals_are_told_from_other_names(self):
        f = self.code(
            """
            def f(self, local):
                inner = lambda: deep
                "string"
                class Local:
                    inside = body
                return top(local, key=self.attribute.method(), *[item for item in listed])
            """
        )
        assert read_globals(f.__code__) - {"__name__"} == {"deep", "body", "top", "listed"}

    def test_only_the_globals_are_renamed(self):
        f = self.code(
            """
            def f(self, one):
                def inner(two=two):
                    return [one, two, three, "three", self.four, [three for _ in (1,)]]
                return inner()
            """
        )
        self.four = 4
        names = {name: name.upper() for name in ("one", "two", "three", "four")}
        clone = types.FunctionType(rename_globals(f.__code__, names), {"TWO": 2, "THREE": 3})
        assert clone(self, 1) == [1, 2, 3, "three", 4, [3]]

    @pytest.mark.parametrize(
        "text",
        [
            "def f(self):\n    return scale(self.scale)",
            "def f(self):\n    self.scale = scale",
            "def f(self):\n    return scale(self.scale())",
            "def f(self):\n    del scale.scale",
            "def f():\n    global scale\n    scale = scale",
            "def f():\n    class A:\n        scale = scale",
            "def f():\n    return lambda self: scale(self.scale)",
            "class A:\n    def f(self):\n        return scale(super().scale())\nf = A.f",
        ],
    )
    def test_a_name_that_is_shared_is_refused(self, text):
        f = self.code(text)
        assert "an attribute of the same name" in refused(rename_globals, f.__code__, {"scale": "other"})

    def test_a_name_that_is_only_an_attributes_is_left(self):
        f = self.code("def f(self):\n    return self.scale")
        assert rename_globals(f.__code__, {"scale": "other"}) == f.__code__

    def test_attributes_of_globals(self):
        f = self.code(
            """
            def f(self):
                alias = Second
                isinstance(self, Third) and self.third
                Fourth(self.fourth).call()
                return First.one(self), First.two, alias.three
            """
        )
        found = set(attributes_of_globals(f.__code__))
        assert {("First", "one"), ("First", "two"), ("Second", "three")} <= found
        assert not {name for name, _ in found} & {"Third", "Fourth", "isinstance"}


def test_names_in_the_module_are_not_taken(write):
    module = write(NET + "\nscale__bound_1 = 'mine'\n")
    model = module.Net()
    bind_ops(model, TWO)
    assert module.scale__bound_1 == "mine"
    assert factor(model) == 4


def test_the_slots_of_a_binding_are_not_slots_of_the_module(write):
    module = write(NET)
    for config in (TWO, THREE, ONE):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            bind_ops(module.Net(), config)
    assert [binding.name for binding in bind_ops(module, TWO)] == ["scale"]
    assert isinstance(module.scale, OpSlot)
    assert HEADER.count("OpSlot(") == 1
