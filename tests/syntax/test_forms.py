"""When two pieces of code are the same, and what may differ."""

from __future__ import annotations

import ast
from collections.abc import Collection

import pytest

from patchgen_core.syntax.forms import PROSE, Ignored, is_same_code, is_same_syntax

CODE = '''
@wrap
def f(x: int, y=1) -> int:
    """What it does."""
    from .parts import part
    z: int = part(x)
    return z + y
'''


def definition(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


def is_same(changed: tuple[str, str], ignore: Collection[Ignored]) -> bool:
    return is_same_code(definition(CODE), definition(CODE.replace(*changed)), ("pkg", "pkg"), ignore)


LAYOUT = {
    "a comment": ("    return", "    # sum\n    return"),
    "brackets": ("z + y", "(z\n        + y)"),
    "the spelling of an import": ("from .parts", "from pkg.parts"),
}


@pytest.mark.parametrize("name", LAYOUT)
def test_layout_never_counts(name: str) -> None:
    assert is_same(LAYOUT[name], ())


@pytest.mark.parametrize(
    ("changed", "ignore"),
    [
        pytest.param(("What it does.", "It adds."), ["docstrings"], id="docstring"),
        pytest.param(('    """What it does."""\n', ""), ["docstrings"], id="no-docstring"),
        pytest.param(("x: int", "x: float"), ["annotations"], id="parameter"),
        pytest.param((" -> int", ""), ["annotations"], id="returns"),
        pytest.param(("z: int =", "z ="), ["annotations"], id="variable"),
        pytest.param(("@wrap\n", ""), ["decorators"], id="decorator"),
    ],
)
def test_what_is_ignored_does_not_count(changed: tuple[str, str], ignore: list[Ignored]) -> None:
    others: set[Ignored] = {"docstrings", "annotations", "decorators"} - {*ignore}
    assert is_same(changed, ignore)
    assert not is_same(changed, others)


@pytest.mark.parametrize("changed", [("z + y", "z - y"), ("y=1", "y=2"), (".parts", "..parts"), ("def f", "def g")])
def test_other_code_is_not_the_same(changed: tuple[str, str]) -> None:
    assert not is_same(changed, [*PROSE, "decorators"])


def test_annotations_of_a_class_body_make_fields() -> None:
    old, new = definition("class A:\n    x: int = 1\n"), definition("class A:\n    x: float = 1\n")
    assert not is_same_code(old, new, ignore=PROSE)


def test_the_same_syntax_has_no_place_and_every_word() -> None:
    body = ast.parse(CODE).body
    assert is_same_syntax(body, ast.parse("\n\n" + CODE.replace("z + y", "(z + y)")).body)
    assert not is_same_syntax(body, ast.parse(CODE.replace("does.", "does")).body)
    assert not is_same_syntax(body, [])
    assert not is_same_syntax(definition("f(1)"), definition("f(True)"))
