"""Parameters that edits add and take out, with what documents them."""

from __future__ import annotations

import ast

import pytest

from tests.conftest import Workspace

DOCSTRINGS = {
    "none": ("", '    r"""\n    y (`int`):\n        More.\n    """\n'),
    "one line": (
        '    """Does it."""\n',
        '    """Does it.\n\n    y (`int`):\n        More.\n    """\n',
    ),
    "entries below a heading, and what follows": (
        '    """\n    Args:\n        x (`int`):\n            It.\n\n    Returns:\n        it\n    """\n',
        '    """\n    Args:\n        x (`int`):\n            It.\n        y (`int`):\n            More.\n\n'
        '    Returns:\n        it\n    """\n',
    ),
}
LONG = """def f(
    x,  # first
    y: int = 1,
    *,
    z=None,
): return x
"""
REMOVED = {
    "x": "def f(\n    y: int = 1,\n    *,\n    z=None,\n): return x\n",
    "y": "def f(\n    x,  # first\n    *,\n    z=None,\n): return x\n",
}


@pytest.mark.parametrize(("docstring", "expected"), DOCSTRINGS.values(), ids=DOCSTRINGS)
def test_documentation_goes_behind_that_of_other_parameters(work: Workspace, docstring: str, expected: str) -> None:
    work.upstream(f"def f(x):\n{docstring}    # why\n    return x\n")
    work.config('config.add_parameter("f", "y=1", documentation="y (`int`):\\n    More.")')
    assert f"def f(x, y=1):\n{expected}    # why\n    return x\n" in work.raw()


@pytest.mark.parametrize(("name", "expected"), REMOVED.items())
def test_a_parameter_goes_with_its_comma(work: Workspace, name: str, expected: str) -> None:
    work.upstream(LONG)
    work.config(f'config.remove_parameter("f", "{name}")')
    assert ast.unparse(ast.parse(expected)) in ast.unparse(ast.parse(work.raw()))
