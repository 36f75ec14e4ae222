"""PG202: which calls are followed to what they call."""

from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import find_misfits

BLOCK = """
from torch import nn

class Block:
    def forward(self, x, mask=None):
        return x
"""

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
    assert len(find_misfits(work, FOLLOWED[name])) == 1


@pytest.mark.parametrize("name", HELD)
@pytest.mark.mostly_slow(9)
def test_attributes_are_followed_to_their_class(work: Workspace, name: str) -> None:
    assigned, called = HELD[name]
    found = find_misfits(work, BLOCK + HOLDER.format(assigned, called))
    assert set(found) == {
        "'Model.forward' calls 'Block.forward' and passes 3 arguments by position where 2 fit: it takes (x, mask=...)"
    }
    assert find_misfits(work, BLOCK + HOLDER.format(assigned, called.replace(", 1, 2", ", mask=1"))) == []
