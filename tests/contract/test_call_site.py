"""PG202: which calls are followed to what they call, which are found wrong, and what is left alone."""

from __future__ import annotations

import pytest

from tests.conftest import PREAMBLE, UPSTREAM, Workspace
from tests.contract.support import examine, found

BLOCK = """
from torch import nn

class Block:
    def forward(self, x, mask=None):
        return x
"""


def messages(work: Workspace, upstream: str, config: str = "") -> list[str]:
    """What PG202 says of a config over a module, without the beginning that all share."""
    work.upstream(upstream)
    work.config(config)
    return [title.removeprefix("PG202 ").removeprefix("upstream's own: ") for title in found(work, "PG202")]


FOLLOWED = {
    "function": "\ndef f(x):\n    return g(x, 1)\n\ndef g(x):\n    return x\n",
    "method": "\nclass A:\n    def f(self, x):\n        return self.g(x, 1)\n    def g(self, x):\n        return x\n",
    "construction": "\nclass A:\n    def __init__(self, x):\n        self.x = x\n\ndef f(x):\n    return A(x, 1)\n",
    "inherited construction": """
class Base:
    def __init__(self, x):
        self.x = x

class A(Base):
    pass

def f(x):
    return A(x, 1)
""",
    "dataclass": """
from dataclasses import dataclass

@dataclass
class A:
    x: int = 0

def f(x):
    return A(x, 1)
""",
    "dataclass without what it requires": """
from dataclasses import dataclass

@dataclass(frozen=True, kw_only=False)
class A(ModelOutput):
    x: int
    y: int = 0

def f(x):
    return A(x, 1), A(y=x)
""",
    "a class with an abstract metaclass and another keyword": """
class A(Base, metaclass=ABCMeta, flag=True):
    def __init__(self, x):
        self.x = x

def f(x):
    return A(x, 1)
""",
    "dataclass by keyword only": """
from dataclasses import dataclass

@dataclass(kw_only=True)
class Base:
    x: int = 0

@dataclass
class A(Base):
    y: int = 0

def f(x):
    return A(x, x=1), A(1, x)
""",
    "super": """
class Base:
    def f(self, x):
        return x

class A(Base):
    def f(self, x):
        return super().f(x, 1)
""",
    "super of the middle of three": """
class First:
    def f(self, x):
        return x

class Second(First):
    def f(self, x, y):
        return x

class Third(Second):
    def f(self, x, y, z):
        return super().f(x)
""",
    "static method": """
class A:
    @staticmethod
    def g(x):
        return x

    def f(self, x):
        return self.g(x, 1)
""",
    "class method": """
class A:
    @classmethod
    def g(cls, x):
        return x

    def f(self, x):
        return A.g(x, 1)
""",
    "construction by cls": """
class A:
    def __init__(self, x):
        self.x = x

    @classmethod
    def make(cls, x):
        return cls(x, 1)
""",
    "unbound method": """
class A:
    def g(self, x):
        return x

def f(a, x):
    return A.g(a, x, 1)
""",
    "__call__": """
class A:
    def __call__(self, x):
        return x

    def forward(self, x, y):
        return x

def f(x):
    return A()(x, 1)
""",
    "a local name": "\nclass A:\n    def g(self, x):\n        return x\n\ndef f(x):\n    a = A()\n    a.g(x, 1)\n",
    "a walrus": "\nclass A:\n    def g(self, x):\n        return x\n\ndef f(x):\n    (a := A()).g(x)\n    a.g(x, 1)\n",
    "a call in a comprehension": "\ndef g(x):\n    return x\n\ndef f(xs):\n    return [g(x, 1) for x in xs]\n",
    "a call in a lambda": "\ndef g(x):\n    return x\n\nf = lambda x: g(x, 1)\n",
    "a call in a nested function": """
class A:
    def g(self, x):
        return x

    def f(self, x):
        def inner(y):
            return self.g(y, 1)
        return inner(x)
""",
    "an async method": """
class A:
    async def g(self, x):
        return x

    async def f(self, x):
        return await self.g(x, 1)
""",
    "a method in a branch of a class": """
class A:
    if True:
        def g(self, x):
            return x

    def f(self, x):
        return self.g(x, 1)
""",
    "a diamond": """
class Base:
    def g(self, x, y):
        return x

class Left(Base):
    pass

class Right(Base):
    def g(self, x):
        return x

class Both(Left, Right):
    def f(self, x):
        return self.g(x, 1)
""",
}
HELD = {
    "an attribute": ("self.block = Block()", "self.block(x, 1, 2)"),
    "an attribute of an attribute": ("self.inner = Inner()", "self.inner.block(x, 1, 2)"),
    "a method of an attribute": ("self.block = Block()", "self.block.forward(x, 1, 2)"),
    "either of two": ("self.block = Block() if flag else Other()", "self.block(x, 1, 2)"),
    "one or nothing": ("self.block = Block() if flag else None", "self.block(x, 1, 2)"),
    "by a builder": ("self.block = Block._from_config(flag)", "self.block(x, 1, 2)"),
    "a class chosen before": ("cls = Block if flag else Other\n        self.block = cls()", "self.block(x, 1, 2)"),
    "a class out of a table": ("self.block = TABLE[flag]()", "self.block(x, 1, 2)"),
    "something that is appended to": (
        "self.block = Block()\n        self.block.append(1)\n        self.block[0] = 1",
        "self.block(x, 1, 2)",
    ),
    "a list, in a loop": (
        "self.blocks = nn.ModuleList([Block() for _ in range(3)])",
        "[block(x, 1, 2) for block in self.blocks]",
    ),
    "a slice": ("self.blocks = nn.ModuleList([Block()])", "[block(x, 1, 2) for block in self.blocks[:3]]"),
    "by index": ("self.blocks = nn.ModuleList([Block()])", "self.blocks[0](x, 1, 2)"),
    "reversed": ("self.blocks = nn.ModuleList([Block()])", "[block(x, 1, 2) for block in reversed(self.blocks)]"),
    "enumerated": ("self.blocks = nn.ModuleList([Block()])", "[b(x, 1, 2) for n, b in enumerate(self.blocks)]"),
    "zipped": ("self.blocks = nn.ModuleList([Block()])", "[b(x, 1, 2) for n, b in zip(x, self.blocks)]"),
    "a list, appended to": (
        "self.blocks = nn.ModuleList()\n        self.blocks.append(Block())",
        "[block(x, 1, 2) for block in self.blocks]",
    ),
    "a list that was a local one": (
        "blocks = []\n        for _ in range(3):\n            blocks.append(Block())\n"
        "        self.blocks = nn.ModuleList(blocks)",
        "[block(x, 1, 2) for block in self.blocks]",
    ),
    "a list, extended": (
        "self.blocks = nn.ModuleList([])\n        self.blocks.extend([Block()])",
        "self.blocks[1](x, 1, 2)",
    ),
}
HOLDER = """
class Other(Block):
    pass

class Inner:
    def __init__(self):
        self.block = Block()

TABLE = {{"a": Block, "b": Other}}

class Model:
    def __init__(self, flag):
        {}

    def forward(self, x):
        return {}
"""


@pytest.mark.parametrize("name", FOLLOWED)
def test_calls_are_followed(work: Workspace, name: str) -> None:
    assert len(messages(work, FOLLOWED[name])) == 1


@pytest.mark.parametrize("name", HELD)
def test_attributes_are_followed_to_their_class(work: Workspace, name: str) -> None:
    assigned, called = HELD[name]
    found = messages(work, BLOCK + HOLDER.format(assigned, called))
    assert set(found) == {
        "'Model.forward' calls 'Block.forward' and passes 3 arguments by position where 2 fit: it takes (x, mask=...)"
    }
    assert messages(work, BLOCK + HOLDER.format(assigned, called.replace(", 1, 2", ", mask=1"))) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("g(1, 2, 3)", "passes 3 arguments by position where 2 fit: it takes (a, b=..., *, c)"),
        ("g(1, 2, d=3, c=1)", "passes 'd', which is no parameter: it takes (a, b=..., *, c)"),
        ("g(1, a=2, c=3)", "passes 'a' twice, by position and by keyword: it takes (a, b=..., *, c)"),
        ("g(c=1)", "does not pass 'a': it takes (a, b=..., *, c)"),
        ("g(1)", "does not pass 'c': it takes (a, b=..., *, c)"),
        ("g(1, *x)", "does not pass 'c': it takes (a, b=..., *, c)"),
        ("g(*x, d=1, **y)", "passes 'd', which is no parameter: it takes (a, b=..., *, c)"),
    ],
)
def test_says_what_does_not_fit(work: Workspace, call: str, message: str) -> None:
    text = f"\ndef g(a, b=0, *, c):\n    return a\n\ndef f(x, y):\n    return {call}\n"
    assert messages(work, text) == [f"'f' calls 'g' and {message}"]


@pytest.mark.parametrize(
    "call", ["g(1, c=2)", "g(1, 2, c=3)", "g(*x, c=1)", "g(1, **y)", "g(*x, **y)", "g(b=1, a=2, c=3)"]
)
def test_calls_that_fit_or_may_fit_pass(work: Workspace, call: str) -> None:
    text = f"\ndef g(a, b=0, *, c):\n    return a\n\ndef f(x, y):\n    return {call}\n"
    assert messages(work, text) == []


FITTING = {
    "a parameter hides a function": "\ndef g(x):\n    return x\n\ndef f(x, g):\n    return g(x, 1)\n",
    "a local name hides a function": ("\ndef g(x):\n    return x\n\ndef f(x):\n    g = max\n    return g(x, 1)\n"),
    "an import in a function hides a function": (
        "\ndef g(x):\n    return x\n\ndef f(x):\n    from math import pow as g\n    return g(x, 1)\n"
    ),
    "a loop variable hides a function": ("\ndef g(x):\n    return x\n\ndef f(x):\n    return [g(x, 1) for g in x]\n"),
    "a name caught by a pattern hides a function": (
        "\ndef g(x):\n    return x\n\ndef f(x):\n    match x:\n        case [g, *_]:\n            return g(x, 1)\n"
    ),
    "an exception hides a function": (
        "\ndef g(x):\n    return x\n\ndef f(x):\n    try:\n        pass\n"
        "    except ValueError as g:\n        return g(x, 1)\n"
    ),
    "a walrus in a comprehension": (
        "\ndef g(x):\n    return x\n\ndef f(xs):\n    [g := max for x in xs]\n    return g(xs, 1)\n"
    ),
    "a global that a function assigns": (
        "\ndef g(x):\n    return x\n\ndef set_up():\n    global g\n    g = max\n\ndef f(x):\n    return g(x, 1)\n"
    ),
    "a function of two branches": (
        "\ntry:\n    from fast import g\nexcept ImportError:\n    def g(x):\n        return x\n\n"
        "def f(x):\n    return g(x, 1)\n"
    ),
    "a function wrapped later": "\ndef g(x):\n    return x\n\ng = wrap(g)\n\ndef f(x):\n    return g(x, 1)\n",
    "a decorator that is not known": ("\n@adapt\ndef g(x):\n    return x\n\ndef f(x):\n    return g(x, 1)\n"),
    "a method of the same name is not called by name": """
def g(x, y):
    return x

class A:
    def g(self, x):
        return g(x, 1)
""",
    "a property that holds a function": """
class A:
    @property
    def act(self):
        return max

    def f(self, x):
        return self.act(x, 1)
""",
    "an attribute that hides a method": """
class A:
    def __init__(self, g):
        self.g = g

    def g(self, x):
        return x

    def f(self, x):
        return self.g(x, 1)
""",
    "an attribute that a with statement sets": """
class A:
    def g(self, x):
        return x

class B:
    def __init__(self):
        self.a = A()

    def open(self, pool):
        with pool as self.a:
            self.a.g(1, 2)
""",
    "an attribute that a loop sets": """
class A:
    def g(self, x):
        return x

class B:
    def __init__(self, others):
        self.a = A()
        for self.a in others:
            self.a.g(1, 2)
""",
    "a class attribute that hides a base's method": """
class Base:
    def g(self, x):
        return x

class A(Base):
    g = max

    def f(self, x):
        return self.g(x, 1)
""",
    "a base of another module": """
from elsewhere import Mixin

class Base:
    def g(self, x):
        return x

class A(Mixin, Base):
    def f(self, x):
        return self.g(x, 1)
""",
    "a class with a metaclass": """
class A(metaclass=Meta):
    def __init__(self, x):
        self.x = x

def f(x):
    return A(x, 1)
""",
    "a class with __new__": """
class A:
    def __new__(cls, x, y):
        return make(x, y)

    def __init__(self, x):
        pass

def f(x):
    return A(x, 1)
""",
    "__new__ of a metaclass's instance": """
class Meta(type):
    def __new__(metacls, name, bases, members):
        return super().__new__(metacls, name, bases, members)

    def make(cls, value):
        return cls.__new__(cls)
""",
    "an abstract method, which subclasses define with other parameters": """
class Base:
    def g(self):
        raise NotImplementedError

    def h(self):
        '''To be overridden.'''
        raise NotImplementedError("h")

    def f(self, x):
        return self.g(x) + self.h(x)
""",
    "an enumeration": """
class A(IntEnum):
    ONE = (1, 2)

    def __init__(self, x, y):
        self.x = x

def f(x):
    return A(x)
""",
    "methods called in every way": """
class A:
    @staticmethod
    def g(x):
        return x

    @classmethod
    def h(cls, x):
        return x

    def i(self, x):
        return x

    def f(self, x):
        return self.g(x), A.g(x), self.h(x), A.h(x), self.i(x), A.i(self, x)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        return cls.i(cls(), 1)
""",
    "super that starts elsewhere": """
class First:
    def f(self, x):
        return x

class Second(First):
    def f(self, x, y):
        return x

class Third(Second):
    def f(self, x):
        return super(Second, self).f(x)
""",
    "pairs in a loop": """
class A:
    def g(self, x):
        return x

def f(pairs):
    for n, a in pairs:
        a.g(1, 2)
    for n, a in [(1, A())]:
        a.g(1, 2)
""",
    "constructors beside a dataclass's": """
from dataclasses import dataclass

@dataclass
class A:
    x: int

    def __init__(self, x, y):
        self.x = x

@dataclass
class B:
    x: int

class C(B):
    def __init__(self):
        super().__init__(1)

@dataclass
class D(Outside):
    x: int

def f(x):
    return A(x, 1), C(), D(x, 1)
""",
    "__new__ of a base": """
class Base:
    def __new__(cls, x):
        return object.__new__(cls)

class A(Base):
    def __new__(cls, x):
        return super().__new__(cls, x)
""",
    "the class in __new__ is a class": """
class A:
    def __init__(self, x):
        self.x = x

    def __new__(cls, x):
        return cls.make(x)

    @classmethod
    def make(cls, x):
        return cls(x)

    def forward(self):
        return None
""",
    "a nested class has a self of its own": """
class A:
    class Inner:
        def g(self, x, y):
            return x

        def f(self, x):
            return self.g(x, 1)

    def g(self, x):
        return x

class Inner:
    def g(self, x):
        return x
""",
    "a nested function has a self of its own": """
class A:
    def g(self, x):
        return x

    def f(self, x):
        def hook(self, y):
            return self.g(y, 1)
        return hook
""",
    "a lambda has a self of its own": """
class A:
    def g(self, x):
        return x

    def f(self, x):
        return lambda self, y: self.g(y, 1)
""",
    "a nested function changes a name outside of it": """
class A:
    def g(self, x):
        return x

def f(x, other):
    a = A()
    def change():
        nonlocal a
        a = other
    change()
    return a.g(x, 1)
""",
    "a nested function reads what another one changes": """
class A:
    def g(self, x):
        return x

def f(x, other):
    a = A()
    def change():
        nonlocal a
        a = A()
        other(change)
        return a.g(x, 1)
    return change
""",
    "self is given another value": """
class A:
    def g(self, x):
        return x

    def f(self, other):
        self = other
        return self.g(1, 2)
""",
    "__new__ calls a method by its class": """
class A:
    def __new__(cls, x):
        a = object.__new__(cls)
        cls.set(a, x)
        return a

    def set(self, x):
        self.x = x
""",
    "an instance that is called as its base says": """
class A(dict):
    pass

class B:
    pass

def f(x):
    return A()(x, 1), B()(x)
""",
    "a list of two kinds": """
class A:
    def g(self, x):
        return x

class B:
    def g(self, x, y):
        return x

class C:
    def __init__(self):
        self.blocks = [A()]
        self.blocks.append(B())

    def f(self, x):
        return self.blocks[0].g(x), self.blocks[1].g(x, 1)
""",
    "a list whose item is set": """
class A:
    def g(self, x):
        return x

class C:
    def __init__(self, other):
        self.blocks = [A()]
        self.blocks[0] = other

    def f(self, x):
        return self.blocks[0].g(x, 1)
""",
    "a list that grows by what is not known": """
class A:
    def g(self, x):
        return x

class C:
    def __init__(self, others):
        self.blocks = [A()]
        self.blocks += others

    def f(self, x):
        return self.blocks[-1].g(x, 1)
""",
    "an instance that has items": """
class A(dict):
    def g(self, x):
        return x

class C:
    def __init__(self, other):
        self.a = A()
        self.a["x"] = other

    def f(self, x):
        return self.a.g(x)
""",
    "branches that belong together": """
class A:
    def g(self, x):
        return x

class B:
    def g(self, x, y):
        return x

class C:
    def __init__(self, flag):
        self.flag = flag
        self.inner = A() if flag else B()

    def f(self, x):
        return self.inner.g(x) if self.flag else self.inner.g(x, 1)
""",
    "a dataclass's fields": """
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

class Plain:
    size: int

@dataclass
class Base(Plain):
    def __init__(self, a, b, c, d):
        self.x = a

@dataclass
class A(Base):
    count: ClassVar[int]
    x: int
    _: KW_ONLY
    y: int = 0

def f(x):
    return A(x, y=1)
""",
    "a dataclass without a constructor": """
from dataclasses import dataclass

class Base:
    def __init__(self, x, y):
        self.x = x

@dataclass(init=False)
class A(Base):
    z: int

def f(x):
    return A(x, 1)
""",
    "enumerate and zip in odd ways": """
class A:
    def g(self, x):
        return x

def f(x, others):
    for n, a in enumerate(iterable=x):
        a.g(1, 2)
    for m, b in zip(*others, [A()]):
        b.g(1, 2)
    for o, c in zip():
        c.g(1, 2)
""",
    "a subclass that is built otherwise": """
class A:
    def __init__(self, x):
        self.x = x

class B(A):
    def __init__(self, x, y):
        super().__init__(x)

def f(x):
    return A(x), B(x, 1)
""",
    "a decorator of transformers takes keywords": """
class A:
    @can_return_tuple
    @auto_docstring
    def g(self, x):
        return x

    @accepts_precomputed_kwargs(modality="image")
    def h(self, x, sizes):
        return x

    def f(self, x):
        return self.g(x, return_dict=True), self.h(x, image_sizes=1, video_grid=1)
""",
}


@pytest.mark.parametrize("name", FITTING)
def test_valid_python_passes(work: Workspace, name: str) -> None:
    assert messages(work, FITTING[name]) == []


@pytest.mark.parametrize(
    ("decorator", "keyword"),
    [
        *((name, "output_attentions") for name in ("can_return_tuple", "capture_outputs", "check_model_inputs")),
        ("merge_with_config_defaults", "use_cache"),
        ("accepts_precomputed_kwargs('image')", "max_length_q"),
        ("filter_out_non_signature_kwargs()", "anything"),
    ],
)
def test_decorators_of_transformers_take_keywords(work: Workspace, decorator: str, keyword: str) -> None:
    text = f"""
        class A:
            @{decorator}
            def g(self, x):
                return x

            def f(self, x):
                return self.g(x, {keyword}=True), self.g()
        """
    assert messages(work, text) == ["'A.f' calls 'A.g' and does not pass 'x': it takes (x)"]


def test_calls_at_the_top_level_are_the_modules(work: Workspace) -> None:
    found = messages(work, "\ndef g(x):\n    return x\n\ny = g(1, 2)\n")
    assert found == ["the module calls 'g' and passes 2 arguments by position where 1 fit: it takes (x)"]


def test_decorators_of_transformers_do_not_hide_a_wrong_call(work: Workspace) -> None:
    text = """
class A:
    @can_return_tuple
    @auto_docstring
    def g(self, x):
        return x

    @accepts_precomputed_kwargs(modality="image")
    def h(self, x):
        return x

    def f(self, x):
        return self.g(x, mask=1), self.h(x, 1)
"""
    assert messages(work, text) == [
        "'A.f' calls 'A.g' and passes 'mask', which is no parameter: it takes (x)",
        "'A.f' calls 'A.h' and passes 2 arguments by position where 1 fit: it takes (x)",
    ]


# --- what a config makes of it ---------------------------------------------------------------------------

LAYER = """
class Attention:
    def forward(self, x, scale=1):
        return x * scale


class Layer:
    def __init__(self, config):
        self.attention = Attention()

    def forward(self, x):
        return self.attention(x, scale=2)
"""


def test_callee_that_loses_a_parameter_is_found_at_upstreams_call(work: Workspace) -> None:
    work.upstream(LAYER)
    path = work.config('@config.override_method("Attention.forward")\ndef forward(self, x):\n    return x\n')
    verdict = examine(work, select=["PG202"])
    assert [p.message for p in verdict.errors] == [
        "'Layer.forward' calls 'Attention.forward' and passes 'scale', which is no parameter: it takes (x)"
    ]
    location, generated = verdict.errors[0].location, verdict.errors[0].generated
    assert location is not None
    assert (location.file, location.line) == (str(path), PREAMBLE.count("\n") + 1)
    assert generated is not None
    assert "return self.attention(x, scale=2)" in generated.text
    assert verdict.warnings == ()


def test_one_of_several_classes_that_stops_fitting_is_found(work: Workspace) -> None:
    upstream = LAYER.replace("Attention()\n", "Attention() if config else Linear()\n") + (
        "\n\nclass Linear:\n    def forward(self, x, scale=1):\n        return x\n"
    )
    assert messages(
        work, upstream, '@config.override_method("Linear.forward")\ndef forward(self, x):\n    return x\n'
    ) == ["'Layer.forward' calls 'Linear.forward' and passes 'scale', which is no parameter: it takes (x)"]


def test_replaced_class_is_built_as_before(work: Workspace) -> None:
    upstream = LAYER.replace("Attention()\n", "Attention(config, 3)\n").replace(
        "class Attention:\n", "class Attention:\n    def __init__(self, config, n):\n        pass\n\n"
    )
    config = """
@config.replace_class("Attention")
class FusedAttention:
    def __init__(self, config):
        self.config = config

    def forward(self, x, scale=1):
        return x
"""
    assert messages(work, upstream, config) == [
        "'Layer.__init__' calls 'Attention' and passes 2 arguments by position where 1 fit: it takes (config)"
    ]


def test_helper_is_called_as_it_is_defined(work: Workspace) -> None:
    config = """
@config.add_helper
def fused(x, *, bias):
    return x

@config.override_method("Attention.forward")
def forward(self, x, scale=1):
    return fused(x, scale)
"""
    assert messages(work, LAYER, config) == [
        "'Attention.forward' calls 'fused' and passes 2 arguments by position where 1 fit: it takes (x, *, bias)"
    ]


@pytest.mark.parametrize("module", ["proj.models.kernels", "acme.kernels", "acme.reexport"])
def test_external_class_is_read_where_its_file_is(work: Workspace, module: str) -> None:
    work.upstream(LAYER)
    fused = "class FusedAttention:\n    def forward(self, x):\n        return x\n"
    work.write("proj/models/kernels.py", fused)
    work.upstream(LAYER)
    (work.site / "acme/kernels.py").write_text(fused)
    (work.site / "acme/reexport.py").write_text("from .kernels import FusedAttention\n")
    config = f'config.patches.append(create_patch_from_external("Attention", "{module}", "FusedAttention"))\n'
    assert messages(work, LAYER, config) == [
        "'Layer.forward' calls 'FusedAttention.forward' and passes 'scale', which is no parameter: it takes (x)"
    ]
    location = examine(work, select=["PG202"]).errors[0].location
    assert location is not None
    assert location.line == PREAMBLE.count("\n") + 1


def test_external_class_that_is_not_here_is_left_alone(work: Workspace) -> None:
    config = 'config.patches.append(create_patch_from_external("Attention", "torch_npu.nowhere", "Fused"))\n'
    assert messages(work, LAYER, config) == []


GPU = """
from patchgen import PatchConfig

config = PatchConfig("{upstream}", "patched_modeling_toy_gpu.py")


@config.override_method("Attention.forward")
def attention_forward(self, x, scale=1{more}):
    return x


@config.override_method("Layer.forward")
def layer_forward(self, x):
    return self.attention(x, scale=2{passed})
"""
NPU = """
from patchgen import PatchConfig
from proj.models.toy.toy_gpu_patch_gen_config import layer_forward

config = PatchConfig("{upstream}", "patched_modeling_toy_npu.py")
config.override_method("{prefix}Layer.forward", replacement=layer_forward, name_map={names})


@config.override_method("{prefix}Attention.forward")
def npu_attention_forward(self, x, scale=1):
    return x
"""
NPU_CONFIG = "toy/toy_npu_patch_gen_config.py"


@pytest.mark.parametrize("prefix", ["", "Moe"])
def test_npu_config_that_forks_a_method_breaks_when_the_gpu_configs_gains_a_parameter(
    work: Workspace, prefix: str
) -> None:
    work.upstream(LAYER)
    upstream = UPSTREAM
    if prefix:
        upstream = "acme.models.moe.modeling_moe"
        work.upstream(LAYER.replace("Attention", f"{prefix}Attention").replace("Layer", f"{prefix}Layer"), upstream)
    names = {name: f"{prefix}{name}" for name in ("Attention", "Layer") if prefix}
    work.config(NPU.format(upstream=upstream, prefix=prefix, names=names), NPU_CONFIG, preamble="")
    work.config(GPU.format(upstream=UPSTREAM, more="", passed=""), preamble="")
    assert examine(work, NPU_CONFIG, ["PG202"]).errors == ()
    work.config(GPU.format(upstream=UPSTREAM, more=", window=0", passed=", window=4"), preamble="")
    assert examine(work, select=["PG202"]).errors == ()
    errors = examine(work, NPU_CONFIG, ["PG202"]).errors
    assert [error.message for error in errors] == [
        f"'{prefix}Layer.forward' calls '{prefix}Attention.forward' and passes 'window', which is no parameter: "
        "it takes (x, scale=...)"
    ]
