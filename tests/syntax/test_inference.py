"""What expressions are: what the rules that ask for it cannot show by themselves."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from patchgen_core.syntax.classes import Class, resolution_order
from patchgen_core.syntax.inference import Inference
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.source import parse_source

TEXT = """
from torch import nn

class A: ...
class B(A): ...

TABLE = {"a": A, "b": B}
OTHER = {"a": A}
MIXED = {"a": A, "b": other}

class Holder:
    def __init__(self, flag, given):
        self.a = A()
        self.both = A() if flag else B()
        self.either = A() if flag else None
        self.given = given
        self.mixed = A() if flag else given
        self.again = A()
        self.again = B()
        self.chosen = TABLE[flag]()
        self.unsure = MIXED[flag]()
        self.several = [A(), B()]
        self.spread = [*self.several, A()]
        self.nested = nn.ModuleList([nn.ModuleList([A()])])
        self.empty = nn.ModuleList([])
        self.none = None
        self.loop = self.loop
        self.zero = A() if flag else 0

    def build(self):
        self.late = B.from_pretrained("b")

    @classmethod
    def make(cls, xs):
        first = cls(1, 2)
        parts = [A() for _ in xs]
        for n, (x, y) in enumerate(parts): ...
        parts.append(B())
        return first

    def local(self, TABLE, part):
        return TABLE, OTHER

    def elsewhere(self):
        global OTHER
        OTHER = self.given

class Child(Holder):
    def __init__(self):
        super().__init__(1, 2)
        self.a = B()
"""


def values(expression: str, owner: str = "Holder.build") -> set[tuple[str, str]]:
    """What an expression at the end of a method is: pairs of a kind and a class."""
    module = Module(parse_source(Path("toy.py"), textwrap.dedent(TEXT)))
    function = module.function(owner)
    assert function is not None
    scope = module.scope_of(function)
    assert scope is not None
    node = ast.parse(expression, mode="eval").body
    return {(value.kind, value.cls.name) for value in Inference(module).values(node, scope)}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("self", {("instance", "Holder")}),
        ("super()", {("super", "Holder")}),
        ("A", {("class", "A")}),
        ("A()", {("instance", "A")}),
        ("self.a", {("instance", "A")}),
        ("self.both", {("instance", "A"), ("instance", "B")}),
        ("self.either", {("instance", "A")}),
        ("self.again", {("instance", "A"), ("instance", "B")}),
        ("self.chosen", {("instance", "A"), ("instance", "B")}),
        ("self.late", {("instance", "B")}),
        ("self.several", {("list", "A"), ("list", "B")}),
        ("self.several[0]", {("instance", "A"), ("instance", "B")}),
        ("self.several[1:]", {("list", "A"), ("list", "B")}),
        ("self.spread", {("list", "A"), ("list", "B")}),
        ("list(reversed(self.several))", {("list", "A"), ("list", "B")}),
        ("[x for x in self.several]", set()),
        ("TABLE['a']", {("class", "A"), ("class", "B")}),
        ("(x := self.a)", {("instance", "A")}),
        *(
            (f"self.{name}", set())
            for name in ("given", "mixed", "unsure", "nested", "empty", "none", "loop", "gone", "zero")
        ),
        *(
            (text, set())
            for text in (
                "self.a.b.c",
                "self.several.a",
                "self.a[0]",
                "unknown()",
                "1",
                "nn.Linear(1)",
                "A.make()",
                "from_pretrained()",
            )
        ),
    ],
)
def test_what_an_expression_is(expression: str, expected: set[tuple[str, str]]) -> None:
    assert values(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("cls", {("class", "Holder")}),
        ("first", {("instance", "Holder")}),
        ("first.both", {("instance", "A"), ("instance", "B")}),
        ("parts", {("list", "A"), ("list", "B")}),
        *((name, set()) for name in ("xs", "n", "x", "y")),
    ],
)
def test_what_a_local_name_is(expression: str, expected: set[tuple[str, str]]) -> None:
    assert values(expression, "Holder.make") == expected


def test_what_goes_through_too_many_names_is_not_followed() -> None:
    lines = [f"    x{number + 1} = x{number}" for number in range(3000)]
    text = "\n".join(["class A: ...", "def f():", "    x0 = A()", *lines, "    return x3000"])
    module = Module(parse_source(Path("toy.py"), text))
    function = module.function("f")
    assert function is not None
    scope = module.scope_of(function)
    assert scope is not None
    inference = Inference(module)
    assert inference.values(ast.Name("x3000", ast.Load()), scope) == ()
    assert len(Inference(module).values(ast.Name("x30", ast.Load()), scope)) == 1


def test_tables_are_those_of_the_top_level() -> None:
    assert values("TABLE['a']", "Holder.local") == set()
    assert values("OTHER['a']", "Holder.local") == set()


def test_what_a_subclass_assigns_comes_first() -> None:
    assert values("self.a", "Child.__init__") == {("instance", "B")}
    assert values("self.both", "Child.__init__") == {("instance", "A"), ("instance", "B")}


@pytest.mark.parametrize(
    ("bases", "expected"),
    [
        ("class X: ...", "X"),
        ("class X(nn.Module): ...", "X"),
        ("class X(Generic[T]): ...", "X"),
        ("class X(ToyPreTrainedModel): ...", "X"),
        ("class X(Outside): ...", "X None"),
        ("class X(make()): ...", "X None"),
        ("class A: ...\nclass X(A): ...", "X A"),
        ("class A(Outside): ...\nclass X(A): ...", "X A None"),
        ("class A: ...\nclass B(A): ...\nclass C(A): ...\nclass X(B, C): ...", "X B C A"),
        ("class X(X): ...", "X None"),
        ("class A(B): ...\nclass B(A): ...\nclass X(A): ...", "X A B None"),
        ("if flag:\n    class A: ...\nelse:\n    class A: ...\nclass X(A): ...", "X None"),
    ],
)
def test_bases_in_the_order_python_searches_them(bases: str, expected: str) -> None:
    module = Module(parse_source(Path("toy.py"), bases + "\n"))
    cls = module.cls("X")
    assert cls is not None
    assert " ".join("None" if base is None else base.name for base in resolution_order(Class(module, cls))) == expected
