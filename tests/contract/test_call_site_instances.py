"""PG202: valid Python in which ``self``, a name or what a list holds is not of the class that it seems to be of."""

from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import find_misfits

FITTING = {
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
    assert find_misfits(work, FITTING[name]) == []
