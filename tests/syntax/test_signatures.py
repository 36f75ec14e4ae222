"""Whether a call fits a signature: compared with what Python itself says of the same call."""

from __future__ import annotations

import ast
import inspect
from itertools import product
from typing import Any

import pytest

from patchgen_core.syntax.signatures import misfit, signature_of

SIGNATURES = [
    *(
        "",
        "a",
        "a, b",
        "a, b=0",
        "a=0, b=0",
        "a, /",
        "a, /, b",
        "a=0, /, b=0",
        "*, a",
        "*, a=0",
        "a, *, b",
        "a, *, b=0",
    ),
    *("*args", "a, *args", "a=0, *args, b", "**kwargs", "a, **kwargs", "a, /, **kwargs", "*, a, **kwargs"),
    *("*args, **kwargs", "a, *args, b=0, **kwargs", "a, b, /, c=0, *, d, e=0, **kwargs"),
]
POSITIONAL = ["", "1", "1, 2", "1, 2, 3", "*x", "1, *x", "*x, 1"]
KEYWORDS = ["", "a=1", "b=1", "a=1, b=1", "c=1, d=1", "e=1", "**y", "a=1, **y", "z=1, **y"]


def possible(signature: str, call: ast.Call) -> bool:
    """Whether Python takes a call, for some lengths of ``x`` and some keys of ``y``."""
    namespace: dict[str, Any] = {}
    exec(f"def f({signature}): ...", namespace)
    parameters = inspect.signature(namespace["f"]).parameters
    has_args = any(isinstance(argument, ast.Starred) for argument in call.args)
    has_kwargs = any(keyword.arg is None for keyword in call.keywords)
    given = {keyword.arg: 1 for keyword in call.keywords if keyword.arg is not None}
    names = [name for name in parameters if name not in given]
    for count, chosen in product(range(6 if has_args else 1), product((0, 1), repeat=len(names) if has_kwargs else 0)):
        args = [1] * (len(call.args) - has_args + count)
        more = {name: 1 for name, is_chosen in zip(names, chosen) if is_chosen}
        try:
            namespace["f"](*args, **given, **more)
        except TypeError:
            continue
        return True
    return False


@pytest.mark.parametrize("signature", SIGNATURES)
def test_calls_fit_as_python_says(signature: str) -> None:
    function = ast.parse(f"def f({signature}): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    wrong = []
    for positional, keywords in product(POSITIONAL, KEYWORDS):
        text = f"f({', '.join(filter(None, (positional, keywords)))})"
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        why = misfit(call, signature_of(function, bound=False))
        if (why == "") != possible(signature, call):
            wrong.append((text, why))
    assert wrong == []


@pytest.mark.parametrize(
    ("signature", "shown"),
    [
        ("self", "()"),
        ("self, a, b=1, *args, c, d=2, **kwargs", "(a, b=..., *args, c, d=..., **kwargs)"),
        ("self, a, *, b", "(a, *, b)"),
        ("self, a=1, /", "(a=...)"),
    ],
)
def test_signature_is_shown_without_self(signature: str, shown: str) -> None:
    function = ast.parse(f"def f({signature}): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert str(signature_of(function, bound=True)) == shown


def test_star_takes_the_place_of_self() -> None:
    function = ast.parse("def f(*args, a): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert str(signature_of(function, bound=True)) == "(*args, *, a)".replace("*args, *,", "*args,")


def test_keywords_that_a_decorator_takes() -> None:
    function = ast.parse("def f(a, sizes): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    signature = signature_of(function, bound=False)
    for text, why in {
        "f(1, 2, image_sizes=1)": "passes 'image_sizes', which is not a parameter",
        "f(1, 2, return_dict=True)": "",
        "f(1, image_sizes=1)": "passes 'image_sizes', which is not a parameter",
        "f(1, return_dict=True)": "does not pass 'sizes'",
    }.items():
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        assert misfit(call, signature, {"return_dict"}) == why
        if "image_sizes" in text:
            assert misfit(call, signature, {"image_sizes"}) == ""
