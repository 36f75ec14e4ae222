"""Which names are global: the interpreter's own symbol tables are the judge."""

from __future__ import annotations

import ast
import importlib.util
import re
import symtable
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.syntax.scopes import Scope
from patchgen_core.syntax.source import parse_source

Globals = Counter[tuple[str, int, frozenset[str]]]
TABLES = {
    **{"Lambda": "lambda", "ListComp": "listcomp", "SetComp": "setcomp"},
    **{"DictComp": "dictcomp", "GeneratorExp": "genexpr"},
}


def is_seen(name: str) -> bool:
    """Whether both sides know a name: private names are mangled, and a use of ``super`` is one of ``__class__``."""
    return name != "__class__" and not (name.startswith("__") and not name.endswith("__"))


def table_of(scope: Scope) -> Scope:
    """The scope that has a symbol table: Python 3.12 makes comprehensions a part of what they stand in."""
    while sys.version_info >= (3, 12) and isinstance(scope.node, (ast.ListComp, ast.SetComp, ast.DictComp)):
        assert scope.parent is not None
        scope = scope.parent
    return scope


def ours(text: str) -> Globals:
    """The global names that each function, class and comprehension reads: its name, its line, the names."""
    used: dict[Scope, set[str]] = {}
    for reference in find_scopes(ast.parse(text)).references:
        if isinstance(reference.node, ast.Name):
            table = table_of(reference.scope)
            names = used.setdefault(table, set())
            is_global = reference.scope.find(reference.node.id) is None and table.find(reference.node.id) is None
            if is_global and is_seen(reference.node.id):
                names.add(reference.node.id)
    found: Globals = Counter()
    for scope, names in used.items():
        if scope.parent is not None and names:
            name = getattr(scope.node, "name", "") or TABLES.get(type(scope.node).__name__, "")
            name = name.id if isinstance(name, ast.Name) else name
            found[name, getattr(scope.node, "lineno", 0), frozenset(names)] += 1
    return found


def tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from tables(child)


def theirs(text: str) -> Globals:
    found: Globals = Counter()
    for table in tables(symtable.symtable(text, "x.py", "exec")):
        symbols = [s for s in table.get_symbols() if s.is_referenced() and s.is_global() and is_seen(s.get_name())]
        if symbols:
            found[table.get_name(), table.get_lineno(), frozenset(s.get_name() for s in symbols)] += 1
    return found


SCOPES = """
def bindings(a, /, b=a, *c, d=d, **e):
    import f, g.h, i as j
    from k import l, m as n
    for o, (p, *q) in z: pass
    with z as r, z as (s, t): pass
    try: pass
    except z as u: pass
    def v(): return u, v, z
    class w(v, metaclass=z): w = w, z
    del x
    y += 1
    aa[bb] = cc.dd = 1
    ee: ff
    gg: hh = ii
    (jj): kk; jj
    ll.mm: nn
    return (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, aa, bb, cc, dd, ee, ff, gg, ii)

def outer(a):
    b = c = 1
    def inner():
        nonlocal b
        global c, d
        b, c, d, e = a, 1, 2, 3
        def innermost(): return a, b, c, d, e, f
        class K:
            global a
            nonlocal e
            a = b = e = 1
            def m(self): return a, b, c, e, K, __class__
            return_ = a, b, c, e
    return c, d, e, f

class C(base, key=word):
    x = y = 1
    z = [x for y in x for z in y], {x: y for _ in y}, (lambda x=x: (x, y))
    def m(self, a: x = y) -> z: return x, y, C, super().m
    @z
    @other
    async def n(self): return [await x async for w in self]
    class D(x):
        def o(self): return x, D

def comprehensions(a):
    b = [c for c in a if (d := c)], {e: f for e, f in e}, {g async for g in g}
    h = ([i := 1 for _ in a], (j for k in a for j in k for l in j if l and m), [[n for n in o] for o in n])
    return b, c, d, e, f, g, h, i, j, k, l, m, lambda p, *q, r=p, **s: (p, q, r, s, t, a)

def patterns(a):
    match a:
        case b | {"k": b, **c}: pass
        case d.e(f, g=h): pass
        case [i, *j, *_] if k: pass
        case l(m) as n: pass
        case o: pass
    return b, c, d, e, f, g, h, i, j, k, l, m, n, o

async def formats(a):
    return f"{a} {b!r:>{c}} {d=} {[e for e in f]} {(lambda g: g + h)(i)}" f'{j["k"]}' "{l}"

def strings(a: "b", *c: "d") -> "e":
    f: "g" = "h"
""".replace(", *_]", "]")

TYPE_PARAMETERS = """
type A[T: X] = dict[T, Y, A]
type B = list[C]

@deco(T)
def f[T: (X, T), *Ts, **P](a: T = T, *b: *Ts) -> P:
    x: T
    return T, Ts, P, Z

class C[T](Base[T], metaclass=M[T]):
    x = T
    type U[V] = dict[T, V, u]
    def m[W: v](self, a: W = x) -> w: return T, W, x, __class__
    z = y = T

def g():
    T = 1
    class D[X](T): y = T, X
    return X
"""


@pytest.mark.parametrize("text", [SCOPES, *SCOPES.split("\n\n")])
def test_the_global_names_of_every_scope_are_the_interpreters(text: str) -> None:
    assert ours(text) == theirs(text)
    assert theirs(text) or "strings" in text


if sys.version_info >= (3, 12):

    def test_type_parameters_have_a_scope_of_their_own() -> None:
        assert ours(TYPE_PARAMETERS) == theirs(TYPE_PARAMETERS)


if sys.version_info >= (3, 12):

    def test_type_parameters_see_the_names_of_a_class() -> None:
        """The interpreter decides that when it gets there, so its symbol tables call these names global."""
        text = "class C:\n    x = 1\n    type A[T] = x\n    def m[T: x](self) -> x: return x\n"
        scopes = find_scopes(ast.parse(text))
        owners = [r.scope.find("x") for r in scopes.references if isinstance(r.node, ast.Name)]
        assert [owner.kind if owner else "" for owner in owners] == ["class", "class", "class", ""]


def modeling(*models: str) -> list[Path]:
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        return []
    return [Path(spec.origin).parent / f"models/{model}/modeling_{model}.py" for model in models]


@pytest.mark.torch
@pytest.mark.parametrize(
    "path", modeling("llama", "qwen3_omni_moe", "deepseek_v3", "big_bird", "oneformer"), ids=lambda path: path.stem
)
def test_the_global_names_of_modeling_files_are_the_interpreters(path: Path) -> None:
    text = re.sub(r"^from __future__ import annotations$", "pass", path.read_text("utf-8"), flags=re.MULTILINE)
    assert ours(text) == theirs(text)  # postponed annotations would be in no table
    assert len(theirs(text)) > 20


FIELDS = [
    'f"{Fast}"',
    """f'''
{Fast}
  {x}{Fast!r:>{Fast.size}}
'''""",
    r"""('fast' f'{{fast}} {Fast}'  # {fast}
   "{fast}" rf'\{Fast}' F'\N{DIGIT ONE}{Fast=}')""",
    """'é' + f'é {Fast} {"é" + Fast} {[a for a in Fast][Fast:Fast]}é' + Fast""",
    'f"{x != Fast} {(lambda y: Fast)} {x[Fast!=1:2]:{Fast}{Fast}} {Fast = !s:=^{Fast}}"',
    '''f"{f'{Fast} {Fast:{Fast}}'} {x['{fast}'] + Fast}"''',
    """f'''{
Fast
  + f"{Fast:>10}" "é"}é{Fast}'''""",
    r"f'\\{Fast}\t\'{Fast}' + rf'\N{Fast}'",
]


@pytest.mark.parametrize("text", FIELDS)
@pytest.mark.parametrize("before", ["", "\n\nx = 1; y = "], ids=["first-line", "below"])
def test_names_inside_f_strings_have_their_positions(before: str, text: str) -> None:
    source = parse_source(Path("x.py"), f"{before}{text}\n")
    names = [r.node for r in find_scopes(source.tree).references if isinstance(r.node, ast.Name)]
    assert [source.segment(node) for node in names] == [node.id for node in names]
    starts = {source.start(node) for node in names if node.id == "Fast"}
    assert starts == {match.start() for match in re.finditer("Fast", source.text)}
