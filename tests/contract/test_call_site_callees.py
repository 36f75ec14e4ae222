"""PG202: valid Python in which a name is not what it seems to be, or a class is built in a way of its own."""

from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import find_misfits

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
}


@pytest.mark.parametrize("name", FITTING)
@pytest.mark.mostly_slow(14)
def test_valid_python_passes(work: Workspace, name: str) -> None:
    assert find_misfits(work, FITTING[name]) == []
