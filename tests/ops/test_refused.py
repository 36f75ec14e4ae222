"""Every way of reaching a slot that only the module can bind: refused for one model."""

from __future__ import annotations

import pytest
import torch

from patchgen_core.ops import bind_ops
from tests.ops.modules import HELPER, LAYER, THREE, TWO, factor, refused

REFUSED = {
    "a decorator that is an object": (
        """
        class Decorator:
            def __init__(self, function):
                self.function = function
            def __get__(self, instance, owner=None):
                return functools.partial(self.function, instance)

        class Net(nn.Module):
            @Decorator
            def forward(self, x):
                return scale(x) if scale.has_kernel else x * 1
        """,
        "Net.forward reaches a function that reads slots, or a slot, by a Decorator",
    ),
    "a property of a class of its own": (
        """
        class Mine(property):
            pass

        class Net(nn.Module):
            @Mine
            def factor(self):
                return scale(1) if scale.has_kernel else 1
            def forward(self, x):
                return x * self.factor
        """,
        "Net.factor reaches a function that reads slots, or a slot, by a Mine",
    ),
    "a table of functions": (
        HELPER + "TABLE = {'a': helper}\n" + LAYER.replace("Layer", "Net"),
        "TABLE reaches a function that reads slots, or a slot, by a dict",
    ),
    "a table of tables": (
        HELPER + "TABLE = {'a': [(helper, 1)]}\n" + LAYER.replace("Layer", "Net"),
        "TABLE reaches a function that reads slots, or a slot, by a dict",
    ),
    "a table of slots": (
        "TABLE = [scale]\n" + LAYER.replace("Layer", "Net"),
        "TABLE reaches a function that reads slots, or a slot, by a list",
    ),
    "a table of transformers": (
        """
        from transformers.modeling_utils import AttentionInterface

        def attention(x):
            return scale(x) if scale.has_kernel else x * 1

        FUNCTIONS = AttentionInterface()
        FUNCTIONS["mine"] = attention

        class Net(nn.Module):
            def forward(self, x):
                return FUNCTIONS["mine"](x)
        """,
        "FUNCTIONS reaches a function that reads slots, or a slot, by a AttentionInterface",
    ),
    "a table in a closure": (
        """
        def dispatch(function):
            table = {"a": function}
            return lambda *args: table["a"](*args)

        class Net(nn.Module):
            @dispatch
            def forward(self, x):
                return scale(x) if scale.has_kernel else x * 1
        """,
        "Net.forward reaches a function that reads slots, or a slot, by a dict",
    ),
    "a cache": (
        """
        @functools.lru_cache
        def helper(n):
            return scale(n) if scale.has_kernel else n

        class Net(nn.Module):
            def forward(self, x):
                return x * helper(1)
        """,
        "helper reaches a function that reads slots, or a slot, by a _lru_cache_wrapper",
    ),
    "a function of one type": (
        """
        @functools.singledispatch
        def helper(x):
            return scale(x) if scale.has_kernel else x * 1

        class Net(nn.Module):
            def forward(self, x):
                return helper(x)
        """,
        "helper reaches a function that reads slots, or a slot, by a",
    ),
    "a custom op": (
        """
        @torch.library.custom_op(__name__ + "::helper", mutates_args=())
        def helper(x: torch.Tensor) -> torch.Tensor:
            return scale(x) if scale.has_kernel else x * 1

        class Net(nn.Module):
            def forward(self, x):
                return helper(x)
        """,
        "helper reaches a function that reads slots, or a slot, by a CustomOpDef",
    ),
    "an autograd function": (
        """
        class Function(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return scale(x) if scale.has_kernel else x * 1
            @staticmethod
            def backward(ctx, grad):
                return scale(grad) if scale.has_kernel else grad

        class Net(nn.Module):
            def forward(self, x):
                return Function.apply(x)
        """,
        "reads slots",
    ),
    "an object that is no layer": (
        """
        class Helper:
            def __call__(self, x):
                return scale(x) if scale.has_kernel else x * 1

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.helper = Helper()
            def forward(self, x):
                return self.helper(x)
        """,
        "Helper of {module} reads slots outside of a model's layers",
    ),
    "a class in a class": (
        """
        class Net(nn.Module):
            class Inner:
                @staticmethod
                def calc(x):
                    return scale(x) if scale.has_kernel else x * 1
            def forward(self, x):
                return self.Inner.calc(x)
        """,
        "Net.Inner of {module} reads slots outside of a model's layers",
    ),
    "a layer of the module": (
        LAYER
        + """
SHARED = Layer()

class Net(nn.Module):
    def forward(self, x):
        return SHARED(scale(x) if scale.has_kernel else x * 1)
""",
        "Layer of {module} reads slots outside of a model's layers",
    ),
    "the name of a class": (
        LAYER
        + """
class Net(Layer):
    def forward(self, x):
        return Layer.forward(self, x)
""",
        "Net.forward calls Layer.forward, which reads slots",
    ),
    "another name of a class": (
        LAYER
        + """
class Net(Layer):
    def forward(self, x):
        parent = Layer
        return parent.forward(self, x)
""",
        "Net.forward calls Layer.forward, which reads slots",
    ),
    "the name of a class in a function": (
        LAYER
        + """
def helper(layer, x):
    return Layer.forward(layer, x)

class Net(Layer):
    def forward(self, x):
        return helper(self, x)
""",
        "helper calls Layer.forward, which reads slots",
    ),
    "the name of the slot is also that of an attribute": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = 1
            def forward(self, x):
                return scale(x) if scale.has_kernel else x * self.scale
        """,
        "forward reads the slot or function 'scale' and an attribute of the same name\n  Give the slot another name",
    ),
    "the slot as an attribute of a layer": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.op = scale
            def forward(self, x):
                return self.op(x) if self.op.has_kernel else x * 1
        """,
        "Net keeps what reads slots as its own attribute 'op'",
    ),
    "a function as an attribute of a layer": (
        HELPER
        + LAYER
        + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()
        self.layer.calls = [helper]
    def forward(self, x):
        return self.layer.calls[0](x)
""",
        "layer keeps what reads slots as its own attribute 'calls'",
    ),
}


pytestmark = pytest.mark.usefixtures("slot_kernels")


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_only_the_module_can_bind_is_refused_for_a_model(write, text, said):
    module = write(text)
    model = module.Net()
    before = {name: type(part) for name, part in model.named_modules()}
    for _ in range(2):
        text = refused(bind_ops, model, TWO)
        assert said.format(module=module.__name__) in text
        assert "call bind_ops with the module" in text or "Give the slot another name" in text
    assert {name: type(part) for name, part in model.named_modules()} == before
    assert [one.name for one in bind_ops(module, TWO)] == ["scale"]
    assert float(model(torch.ones(3))[0]) in (2, 4)


class TestTwoModules:
    def test_each_gets_its_own(self, write):
        first = write(LAYER)
        second = write(
            f"from {first.__name__} import Layer as Other\n"
            + LAYER
            + "class Net(nn.Sequential):\n    def __init__(self):\n        super().__init__(Layer(), Other())\n"
        )
        one, two = second.Net(), second.Net()
        found = bind_ops(one, TWO)
        assert {binding.module for binding in found} == {first.__name__, second.__name__}
        bind_ops(two, THREE)
        assert [factor(one), factor(two), factor(second.Net())] == [4, 9, 1]

    @pytest.mark.parametrize("call", ["return super().forward(x)", "return self.calc(x)"])
    def test_a_class_may_inherit_from_another_module(self, write, call):
        base = write(
            """
            class Base(nn.Module):
                def forward(self, x):
                    return self.calc(x)
                def calc(self, x):
                    return scale(x) if scale.has_kernel else x * 1
            """
        )
        module = write(
            f"from {base.__name__} import Base\n\nclass Net(Base):\n    def forward(self, x):\n        {call}\n",
            header="",
        )
        one, two = module.Net(), module.Net()
        assert [binding.module for binding in bind_ops(one, TWO)] == [base.__name__]
        bind_ops(two, THREE)
        assert [factor(one), factor(two), factor(module.Net())] == [2, 3, 1]

    def test_a_class_that_calls_a_function_of_another_module_is_refused(self, write):
        base = write(HELPER + LAYER)
        text = f"""
            from {base.__name__} import Layer, helper

            class Net(Layer):
                def forward(self, x):
                    return helper(x)
            """
        said = "Net.forward calls helper of another module, which reads slots there"
        assert said in refused(bind_ops, write(text, header="").Net(), TWO)
        module = write(text + "\n            class Mine(Layer):\n                pass\n")
        assert said in refused(bind_ops, module.Net(), TWO)
        bind_ops(module.Mine(), TWO)

    def test_a_class_that_calls_a_base_of_another_module_by_name_is_refused(self, write):
        base = write(LAYER)
        text = f"""
            from {base.__name__} import Layer

            class Net(Layer):
                def forward(self, x):
                    return Layer.forward(self, x)
            """
        model = write(text, header="").Net()
        assert "Net.forward calls Layer.forward, which reads slots" in refused(bind_ops, model, TWO)

    def test_a_method_that_is_a_function_of_another_module_is_refused(self, write):
        base = write("def forward(self, x):\n    return scale(x) if scale.has_kernel else x * 1\n")
        module = write(f"import {base.__name__}\n" + LAYER + f"Layer.forward = {base.__name__}.forward\n")
        assert f"Layer.forward reads slots of {base.__name__}" in refused(bind_ops, module.Layer(), TWO)

    def test_a_class_that_reads_slots_of_both_is_refused(self, write):
        base = write(LAYER.replace("forward", "other"))
        module = write(
            f"from {base.__name__} import Layer\n"
            "class Net(Layer):\n"
            "    def forward(self, x):\n"
            "        return scale(self.other(x)) if scale.has_kernel else self.other(x)\n"
        )
        model = module.Net()
        assert "Net reads slots of two modules" in refused(bind_ops, model, TWO)
        bind_ops(module, TWO)
        bind_ops(base, THREE)
        assert factor(model) == 6
