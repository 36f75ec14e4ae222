"""What a module's names mean: compared with what Python's own compiler makes of the same code."""

from __future__ import annotations

import ast
import sys
import textwrap
from pathlib import Path

import pytest

from patchgen_core.syntax.module import Module
from patchgen_core.syntax.scopes import Growth
from patchgen_core.syntax.source import parse_source
from tests.syntax.compiled import loaded


def module(text: str) -> Module:
    """A module of this text."""
    return Module(parse_source(Path("toy.py"), textwrap.dedent(text)))


def evaluated(text: str) -> set[str]:
    """The names of the top level that a module's code evaluates at some time."""
    return {name for name, uses in module(text).uses.items() if any(use.moment != "annotation" for use in uses)}


ODD = {
    "parameters and defaults": "def f(a, b=c, *d, e=g, **h):\n    return a, b, d, e, h, i\n",
    "a decorator with calls": "@a.b(c, d=lambda x: x + e)\ndef f():\n    pass\n",
    "a class in a class": """
        class A(B, metaclass=C, flag=d):
            x = y
            class E:
                z = x
                def f(self):
                    return x, z, w
        """,
    "a class body does not lend its names": """
        class A:
            size = 1
            sizes = [size for _ in range(size)]
            def f(self):
                return size
        """,
    "a class attribute named like what it holds": "class A:\n    Norm = Norm\n    other = Norm\n",
    "a class attribute that a loop binds": "class A:\n    for x in y:\n        z = x\n    w = x\n",
    "comprehensions in comprehensions": """
        a = [[x for x in y if x] for y in z for q in y if p]
        b = {k: v for k, v in c}
        """,
    "the first iterable belongs outside": "def f(x):\n    return [x for x in x], {y for z in y for y in z}\n",
    "a walrus": "def f(a):\n    if (b := a) and [c := d for d in a]:\n        return b, c, d\n",
    "a walrus at the top level": """
        if (a := b):
            c = [d := e for e in a]

        def f():
            return a, d, e
        """,
    "a lambda": "f = lambda a, b=c: (a, b, d)\n\nclass A:\n    g = lambda self: h\n",
    "global": "def f():\n    global a\n    a = b\n    def g():\n        return a\n    return a\n",
    "nonlocal": """
        def f():
            a = 1
            def g():
                nonlocal a
                a = b
                return a
            return g, a
        """,
    "match": """
        def f(a):
            match a:
                case B(c, d=e) if g:
                    return c, e
                case [h, *i] | (h, *i):
                    return h, i
                case {"j": k, **l}:
                    return k, l
                case m.n:
                    return a
                case str() as o:
                    return o
                case p:
                    return p, q
        """,
    "try": "try:\n    a = b\nexcept (C, D) as e:\n    f(e)\nelse:\n    g(a)\nfinally:\n    h(e)\n",
    "with": """
        def f():
            with a as b, c as (d, [e, *g]), h() as i.j, k as l[m]:
                return b, d, e, g
        """,
    "loops": """
        def f():
            for a, (b, *c) in d:
                e += a
            else:
                g
            while h:
                del i, j.k, l[m]
        """,
    "async": """
        async def f(a):
            async with b as c:
                async for d in e(c):
                    yield [g async for g in d if await h(g)]
        """,
    "imports in functions": """
        def f():
            import a.b
            import c.d as e
            from g import h as i, j
            return a, c, e, g, h, i, j
        """,
    "an f-string": "def f(a):\n    return f'{a!r:>{b}} {c[\"d\"]=}'\n",
    "a conditional definition": """
        if a:
            def f():
                return b
        else:
            f = c

        def g():
            return f
        """,
    "annotations that are evaluated": """
        a: B = c
        class D:
            e: F
            g: H = i
            def j(self, k: L, *m: N, **o: P) -> Q:
                r: S = t
                def u(v: W) -> X: ...
                self.y: Z = 1
        """,
    "annotations that are not": """
        from __future__ import annotations
        a: B = c
        def f(d: E) -> F:
            def g(h: I): ...
        """,
    "annotations that another module calls so": "from compat import annotations\na: B = c\n",
    "another future": "from __future__ import division\na: B = c\n",
    "a class in a function": "def f():\n    class A: ...\n    return A, B\n",
    "two loops in one comprehension": "a = [x for y in z if p for x in q if r]\n",
    "a name that is deleted": "def f():\n    del a\n    return a\n",
    "a method without parameters": "class A:\n    def f(): return a\n    def g(*b): return b\n",
    "an append of nothing": "def f(a):\n    a.append()\n    b.extend()\n",
    "super": "class A:\n    def f(self):\n        return super().f\n",
    "augmented assignment to attributes": "def f(a):\n    a.b += c\n    d.e -= f\n    g[h] *= i\n",
    "a star": "def f(*a, **b):\n    return g(*a, *c, **b, **d), [*e, h], {**i}, (*j,)\n",
}
if sys.version_info >= (3, 11):
    ODD["except*"] = "try:\n    a\nexcept* B as c:\n    d(c)\n"
if sys.version_info >= (3, 12):
    ODD["type parameters"] = (
        "def f[T: A, *U, **V](a: T, b: U) -> V:\n    return T, C\n\nclass D[T](E[T]):\n    f: T\n\ntype G[T] = H[T]\n"
    )


@pytest.mark.parametrize("name", ODD)
def test_names_mean_what_python_takes_them_for(name: str) -> None:
    text = textwrap.dedent(ODD[name])
    assert evaluated(text) == loaded(text)


def test_references_say_where_and_when() -> None:
    text = """
        import base
        class Model(base.Base):
            width = base.WIDTH
            @base.wrap
            def forward(self, x=base.ZERO) -> "base.Out":
                y: base.Y = x
                return [base.f(z) for z in x]
        class Other:
            class Inner:
                def f(self): return base
        top = lambda: base
        """
    found = {(use.owner, use.moment) for use in module(text).uses["base"]}
    assert found == {
        ("Model", "import"),
        ("Model.forward", "import"),
        ("Model.forward", "annotation"),
        ("Model.forward", "call"),
        ("Other.f", "call"),
        ("", "call"),
    }


def test_annotations_in_quotes_refer_to_names() -> None:
    text = "def f(x: 'list[Layer | None]', y: 'no python at all') -> 'Out': ...\n"
    moments = {name: use.moment for name, uses in module(text).uses.items() for use in uses if name[0].isupper()}
    assert moments == {"Layer": "annotation", "Out": "annotation"}
    assert module(text).strings == []


def test_literals_of_annotations_are_neither_names_nor_strings() -> None:
    text = "def f(x: Literal['Layer', 'Head'] | 'Norm'): ...\n"
    assert set(module(text).uses) == {"Literal", "Norm"}
    assert module(text).strings == []


def test_a_name_that_an_inner_function_binds_is_the_outer_ones() -> None:
    text = """
        def f():
            def g():
                nonlocal x
                x = 1
            x = 2
        """
    toy = module(text)
    outer, inner = (node for node in ast.walk(toy.tree) if isinstance(node, ast.FunctionDef))
    scope = toy.scope_of(inner)
    assert scope is not None
    home = scope.find("x")
    assert home is toy.scope_of(outer)
    assert home is not None
    assert [binding.value is not None for binding in home.bound["x"]] == [True, False]


def test_strings_are_those_that_mean_something() -> None:
    text = '''
        """About it."""
        names = ["Layer", b"bytes"]
        class Model:
            """A model."""
            parts = {"Block": "Head"}
            def f(self):
                "What it does."
                return f"{self}Tail"
        '''
    found = [(constant.value, owner) for constant, owner in module(text).strings]
    assert found == [("Layer", ""), ("Block", "Model"), ("Head", "Model"), ("Tail", "Model.f")]


def test_attributes_are_those_of_the_instance() -> None:
    text = """
        class Model:
            def __init__(self, n):
                self.a = A()
                self.b, (self.c, self.d) = n
                for self.e in n: ...
                self.f: int = 1
                self.g += 1
                with n as self.h: ...
                n.i = 1
                def inner(self): self.j = 1
                def closing(x): self.k = 1
                self.l.append(2)
                self.m[0] = 1
                self.m[1], o = n
                for self.m[2] in n: ...
                (self.n) = (o := 1)
                other.self.p = 1

            async def wait(self, n):
                async for self.t in n: ...

            @staticmethod
            def make(self): self.q = 1

            def rest(this): this.r = self.q = this.s = 1

            class Inner:
                def __init__(self): self.v = 1

        def outside(self): self.u = 1
        """
    found = module(text).attributes("Model")
    assert set(found) == set("abcdefghknrst")
    known = {name for name, values in found.items() if all(value is not None for value, _ in values)}
    assert known == set("afknrs")
    grown = module(text).growth("Model")
    assert {
        n: [ast.unparse(v.elts[0]) for v, _ in values if isinstance(v, Growth)] for n, values in grown.items()
    } == {
        "l": ["2"],
        "m": ["1", "self.m[1]", "self.m[2]"],
    }
    assert module(text).attributes("Inner") == {}


def test_definition_is_the_only_meaning_of_a_name() -> None:
    text = """
        def once(): ...
        if flag:
            def twice(): ...
        else:
            def twice(): ...
        def imported(): ...
        from fast import imported
        def wrapped(): ...
        wrapped = wrap(wrapped)
        class Norm:
            @property
            def size(self): return 1
            @size.setter
            def size(self, value): ...
            def f(self): ...
        """
    found = module(text)
    assert found.function("once") is not None
    assert [found.function(name) for name in ("twice", "imported", "wrapped", "Norm", "Norm.g", "Gone.f")] == [
        None
    ] * 6
    size = found.function("Norm.size")
    assert size is not None
    assert ast.unparse(size.decorator_list[0]) == "property"


def test_owner_of_a_line() -> None:
    text = module(
        "@a\nclass A:\n    x = 1\n\n    @b(\n        c)\n    def f(self):\n        def g():\n            pass\nx = 1"
    )
    assert [text.source.owner_at(line) for line in (1, 3, 5, 6, 9, 10)] == ["A", "A", "A.f", "A.f", "A.f", ""]
