from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import examine, found

UPSTREAM = """
class Attention:
    def forward(self, x, short=False):
        output, weights = x, None
        if short:
            return output, weights
        return output, weights, x

    def single(self, x):
        return x

    def any(self, x):
        return tuple(x)

    def starred(self, x):
        return (x, *x)
"""


@pytest.mark.parametrize(
    ("method", "body", "count"),
    [
        ("forward", "return output", "1 value where upstream's returns 2 or 3"),
        ("forward", "return output, weights, x, x", "4 values where upstream's returns 2 or 3"),
        ("forward", "def inner():\n        return 1, 2, 3, 4\n    return output, inner()", ""),
        ("forward", "return output, None, None", ""),
        ("forward", "return kernel(output)", ""),
        ("forward", "return (output, *weights, x, x)", ""),
        ("single", "return x, x", ""),
        ("any", "return x, x", ""),
        ("starred", "return x, x", ""),
    ],
)
def test_number_of_returned_values(work: Workspace, method: str, body: str, count: str) -> None:
    signature = "self, x, short=False" if method == "forward" else "self, x"
    work.upstream(UPSTREAM)
    work.config(
        f"config.add_import('acme', names=['kernel'])\n@config.override_method('Attention.{method}')\n"
        f"def f({signature}):\n    output, weights = x, kernel\n    {body}\n"
    )
    assert found(work, "PG223") == ([f"PG223 'Attention.{method}' returns {count}"] if count else [])


@pytest.mark.parametrize(
    ("body", "weight"),
    [
        pytest.param("return output, weights, x, x", "error", id="always"),
        pytest.param(
            "if short:\n        return output, weights, x, x\n    return output, weights", "warning", id="on demand"
        ),
        pytest.param("if short:\n        return output\n    return output, weights", "error", id="fewer on demand"),
    ],
)
def test_more_values_for_callers_that_ask_for_them_are_a_warning(work: Workspace, body: str, weight: str) -> None:
    work.upstream(UPSTREAM)
    work.config(
        "config.add_import('acme', names=['kernel'])\n@config.override_method('Attention.forward')\n"
        f"def f(self, x, short=False):\n    output, weights = x, kernel\n    {body}\n"
    )
    result = examine(work, select=["PG223"])
    assert [len(result.errors), len(result.warnings)] == ([1, 0] if weight == "error" else [0, 1])
