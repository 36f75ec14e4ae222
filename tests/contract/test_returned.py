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


LAYER = """

class Layer:
    def __init__(self, config):
        self.attention = Attention()

    def forward(self, x):
        x, _ = self.attention(x)
        return x
"""
FOUR = "@config.override_method('Attention.forward')\ndef f(self, x, short=False):\n    return x, x, x, x\n"


@pytest.mark.parametrize(
    ("body", "count"),
    [
        pytest.param("x, _, _, _ = self.attention(x)\n    return x", 0, id="unpacked so"),
        pytest.param("x, _ = self.attention(x)\n    return x", 1, id="unpacked as upstream's"),
        pytest.param("return self.attention(x)", 1, id="not unpacked"),
    ],
)
def test_number_that_each_caller_of_the_config_unpacks_is_right(work: Workspace, body: str, count: int) -> None:
    work.upstream(UPSTREAM + LAYER)
    work.config(f"{FOUR}\n@config.override_method('Layer.forward')\ndef g(self, x):\n    {body}\n")
    assert len(found(work, "PG223")) == count


def test_upstreams_caller_counts_on_upstreams_number(work: Workspace) -> None:
    work.upstream(UPSTREAM + LAYER)
    work.config(FOUR)
    assert len(found(work, "PG223")) == 1


LAYER = """

class Layer:
    def __init__(self, config):
        self.attention = Attention()

    def forward(self, x):
        x, _ = self.attention(x)
        return x
"""


def test_more_values_are_a_warning_where_only_own_code_calls(work: Workspace) -> None:
    """The layer, the config's own, hands its attention to a function that may unpack as many."""
    work.upstream(UPSTREAM + LAYER)
    attention = "@config.override_method('Attention.forward')\ndef f(self, x, short=False):\n    return x, x, x, x\n"
    work.config(attention)
    assert len(examine(work, select=["PG223"]).errors) == 1
    layer = "\n@config.override_method('Layer.forward')\ndef g(self, x):\n    return run(self.attention, x)\n"
    work.config("config.add_import('acme', names=['run'])\n" + attention + layer)
    result = examine(work, select=["PG223"])
    assert (len(result.errors), len(result.warnings)) == (0, 1)
