"""Every way in which the code of a model reaches a slot: bound for that model alone, or refused."""

from __future__ import annotations

import importlib
import pickle
import textwrap
import threading
import types
import warnings

import pytest
import torch

from patchgen_core.errors import PatchgenError
from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec, OpSlot, bind_ops
from patchgen_core.ops.functions import attributes_of_globals, read_globals, renamed
from tests.runtime.modules import HEADER, LAYER, NET, ONE, THREE, TWO, factor, kernels, triple, write_module

HELPER = """
def helper(x):
    return scale(x) if scale.has_kernel else x * 1
"""
WAYS = {
    "a method": LAYER.replace("Layer", "Net"),
    "use_non_eager_impl": """
        class Net(nn.Module):
            def forward(self, x):
                if scale.use_eager_impl:
                    return x * 1
                return scale(x) if scale.use_non_eager_impl else 0
        """,
    "bound_kernel": """
        class Net(nn.Module):
            def forward(self, x):
                return (scale.bound_kernel or (lambda x: x * 1))(x)
        """,
    "the slot as a value": """
        class Net(nn.Module):
            def forward(self, x):
                chosen = scale if scale.has_kernel else torch.clone
                return chosen(x)
        """,
    "a function": HELPER
    + """
class Net(nn.Module):
    def forward(self, x):
        return helper(x)
""",
    "a function of functions": HELPER
    + """
def outer(x):
    return middle(x)

class Net(nn.Module):
    def forward(self, x):
        return outer(x)

def middle(x):
    return helper(x)
""",
    "functions that call each other": """
def even(x, n):
    return (scale(x) if scale.has_kernel else x * 1) if n == 0 else odd(x, n - 1)

def odd(x, n):
    return even(x, n - 1)

class Net(nn.Module):
    def forward(self, x):
        return odd(x, 3)
""",
    "a function by another name": HELPER
    + """
other = helper

class Net(nn.Module):
    def forward(self, x):
        return other(x)
""",
    "a function that is a class attribute": HELPER
    + """
class Net(nn.Module):
    calc = staticmethod(helper)
    def forward(self, x):
        return self.calc(x)
""",
    "another name of the slot": """
        other = scale

        class Net(nn.Module):
            def forward(self, x):
                return other(x) if scale.has_kernel else x * 1
        """,
    "a lambda": """
        class Net(nn.Module):
            def forward(self, x):
                return (lambda y: scale(y) if scale.has_kernel else y * 1)(x)
        """,
    "a nested function": """
        class Net(nn.Module):
            def forward(self, x):
                def inner():
                    def innermost():
                        return scale(x) if scale.has_kernel else x * 1
                    return innermost()
                return inner()
        """,
    "a comprehension": """
        class Net(nn.Module):
            def forward(self, x):
                return [scale(row) if scale.has_kernel else row * 1 for row in [x]][0]
        """,
    "a generator": """
        class Net(nn.Module):
            def forward(self, x):
                return next(scale(row) if scale.has_kernel else row * 1 for row in [x])
        """,
    "a class in a function": """
        class Net(nn.Module):
            def forward(self, x):
                class Local:
                    result = scale(x) if scale.has_kernel else x * 1
                return Local.result
        """,
    "a method of a class in a function": """
        class Net(nn.Module):
            def forward(self, x):
                class Local:
                    def run(self):
                        return scale(x) if scale.has_kernel else x * 1
                return Local().run()
        """,
    "a default": """
        class Net(nn.Module):
            def forward(self, x, op=scale, *, again=scale):
                return op(x) if again.has_kernel else x * 1
        """,
    "a function as a default": HELPER
    + """
class Net(nn.Module):
    def forward(self, x, call=helper):
        return call(x)
""",
    "a class attribute": """
        class Net(nn.Module):
            op = scale
            def forward(self, x):
                return self.op(x) if self.op.has_kernel else x * 1
        """,
    "a staticmethod": """
        class Net(nn.Module):
            @staticmethod
            def calc(x):
                return scale(x) if scale.has_kernel else x * 1
            def forward(self, x):
                return self.calc(x)
        """,
    "a classmethod": """
        class Net(nn.Module):
            @classmethod
            def calc(cls, x):
                return scale(x) if scale.has_kernel else x * 1
            def forward(self, x):
                return self.calc(x)
        """,
    "a property": """
        class Net(nn.Module):
            @property
            def factor(self):
                return scale(1) if scale.has_kernel else 1
            def forward(self, x):
                return x * self.factor
        """,
    "a cached property": """
        class Net(nn.Module):
            @functools.cached_property
            def factor(self):
                return scale(1) if scale.has_kernel else 1
            def forward(self, x):
                return x * self.factor
        """,
    "a partial": HELPER
    + """
ready = functools.partial(helper)

class Net(nn.Module):
    def forward(self, x):
        return ready(x)
""",
    "an argument of a partial": HELPER
    + """
def call(function, x):
    return function(x)

ready = functools.partial(call, helper)

class Net(nn.Module):
    def forward(self, x):
        return ready(x)
""",
    "a partialmethod": """
        class Net(nn.Module):
            def calc(self, extra, x):
                return scale(x) if scale.has_kernel else x * 1
            call = functools.partialmethod(calc, 3)
            def forward(self, x):
                return self.call(x)
        """,
    "a decorator": """
        def decorate(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs)
            return wrapper

        class Net(nn.Module):
            @decorate
            @decorate
            def forward(self, x):
                return scale(x) if scale.has_kernel else x * 1
        """,
    "a decorator that reads the slot": """
        def decorate(function):
            def wrapper(self, x):
                return function(self, scale(x) if scale.has_kernel else x * 1)
            return wrapper

        class Net(nn.Module):
            @decorate
            def forward(self, x):
                return x
        """,
    "a decorator of a module function": """
        def decorate(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs)
            return wrapper

        @decorate
        def helper(x):
            return scale(x) if scale.has_kernel else x * 1

        class Net(nn.Module):
            def forward(self, x):
                return helper(x)
        """,
    "torch.no_grad and set_grad_enabled": """
        class Net(nn.Module):
            @torch.set_grad_enabled(True)
            @torch.enable_grad()
            def forward(self, x):
                return scale(x) if scale.has_kernel else x * 1
        """,
    "decorators of transformers": """
        from transformers.utils import can_return_tuple
        from transformers.utils.deprecation import deprecate_kwarg

        class Net(nn.Module):
            @can_return_tuple
            @deprecate_kwarg("y", version="99.0")
            def forward(self, x):
                return scale(x) if scale.has_kernel else x * 1
        """,
    "a closure over the slot": """
        def make(op):
            def call(x):
                return op(x) if op.has_kernel else x * 1
            return call

        run = make(scale)

        class Net(nn.Module):
            def forward(self, x):
                return run(x)
        """,
    "a recursive closure": """
        def make():
            def call(x, n=2):
                return call(x, n - 1) if n else (scale(x) if scale.has_kernel else x * 1)
            return call

        run = make()

        class Net(nn.Module):
            def forward(self, x):
                return run(x)
        """,
    "a method of a base": LAYER + "\nclass Net(Layer):\n    pass\n",
    "super": LAYER
    + """
class Net(Layer):
    def forward(self, x):
        return super().forward(x)
""",
    "super with arguments": LAYER
    + """
class Net(Layer):
    def forward(self, x):
        parent = super(Net, self)
        return parent.forward(x)
""",
    "super over three classes": LAYER
    + """
class Middle(Layer):
    def forward(self, x):
        return super().forward(x)

class Net(Middle):
    def forward(self, x):
        return super().forward(x)
""",
    "super over two bases": """
        class Top(nn.Module):
            def forward(self, x):
                return x * 1

        class Left(Top):
            def forward(self, x):
                return super().forward(x)

        class Right(Top):
            def forward(self, x):
                return scale(super().forward(x)) if scale.has_kernel else super().forward(x)

        class Net(Left, Right):
            def forward(self, x):
                return super().forward(x)
        """,
    "a mixin": """
        class Mixin:
            def calc(self, x):
                return scale(x) if scale.has_kernel else x * 1

        class Net(Mixin, nn.Module):
            def forward(self, x):
                return self.calc(x)
        """,
    "an override of what a base calls": """
        class Base(nn.Module):
            def forward(self, x):
                return self.calc(x)
            def calc(self, x):
                raise NotImplementedError

        class Net(Base):
            def calc(self, x):
                return scale(x) if scale.has_kernel else x * 1
        """,
    "a submodule called by its method": LAYER
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Layer()
    def forward(self, x):
        return self.inner.forward(x) if isinstance(self.inner, Layer) else 0
""",
    "the name in a string and in a local": """
        class Net(nn.Module):
            def forward(self, x):
                names = {"scale": "scale"}
                return scale(x) if scale.has_kernel and names["scale"] == "scale" else x * 1
        """,
}


@pytest.fixture(autouse=True)
def _kernels():
    with kernels():
        yield


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda text, **rest: write_module(tmp_path, text, **rest)


def refused(call, *arguments):
    with pytest.raises(PatchgenError) as caught:
        call(*arguments)
    return str(caught.value)


@pytest.mark.parametrize("text", WAYS.values(), ids=WAYS.keys())
def test_each_model_runs_its_own_kernels(write, text):
    module = write(text)
    follows, teacher, student, plain = (module.Net() for _ in range(4))
    assert factor(teacher) == 1
    bind_ops(student, THREE)
    bind_ops(teacher, TWO)
    bind_ops(plain, ONE)
    for found in (vars(one) for one in (teacher, student, plain)):
        found.pop("factor", None)
    assert [factor(one) for one in (follows, teacher, student, plain)] == [1, 2, 3, 1]
    bind_ops(module, THREE)
    vars(follows).pop("factor", None)
    assert [factor(one) for one in (module.Net(), follows, teacher, student, plain)] == [3, 3, 2, 3, 1]


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
    import inspect

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
        module.Net.forward = module.forward
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
    with pytest.warns(RuntimeWarning, match="bound by itself before"):
        bind_ops(old, THREE)
    assert [factor(model) for model in (old, new)] == [9, 4]


def test_a_model_of_an_earlier_import_is_refused(write, monkeypatch):
    import sys

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
    module = write(HELPER + NET.replace("return x * 1", "return helper(x)"))
    models = [module.Net() for _ in names]
    start = threading.Barrier(len(names))

    def bind(model, name):
        start.wait()
        bind_ops(model, {"scale_implementation": name})

    threads = [threading.Thread(target=bind, args=pair) for pair in zip(models, names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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
        clone = types.FunctionType(renamed(f.__code__, names), {"TWO": 2, "THREE": 3})
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
        assert "an attribute of the same name" in refused(renamed, f.__code__, {"scale": "other"})

    def test_a_name_that_is_only_an_attributes_is_left(self):
        f = self.code("def f(self):\n    return self.scale")
        assert renamed(f.__code__, {"scale": "other"}) == f.__code__

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
