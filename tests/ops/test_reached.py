"""Every way in which the code of a model reaches a slot that is bound for that model alone."""

from __future__ import annotations

import pytest

from patchgen_core.ops import bind_ops
from tests.ops.modules import HELPER, LAYER, ONE, THREE, TWO, factor

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
    "decorators of torch.compile": """
        @torch.compiler.disable
        def helper(x):
            return scale(x) if scale.has_kernel else x * 1

        class Net(nn.Module):
            @torch.compile(backend="eager")
            def forward(self, x):
                return helper(scale(x)) / scale(1) if scale.has_kernel else helper(x)
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


pytestmark = pytest.mark.usefixtures("slot_kernels")


@pytest.mark.parametrize("text", WAYS.values(), ids=WAYS.keys())
@pytest.mark.mostly_slow(20)
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
