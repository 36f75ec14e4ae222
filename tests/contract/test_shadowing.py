from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import found

UPSTREAM = """
from math import sqrt

try:
    from fast import scan
except ImportError:
    scan = None

if len(__name__):
    from compiled import twist


class Norm:
    def forward(self, x):
        return sum(x) / sqrt(len(x)) + (scan(x) if scan else twist(x))
"""
USER = "@config.override_method('Norm.reset')\ndef reset(self):\n    return {}\n"


@pytest.mark.parametrize(
    ("config", "used", "said"),
    [
        ("@config.add_helper\ndef sum(x):\n    return x\n", "sum", "a helper binds 'sum'"),
        ("config.add_import('numpy', names=['sum'])\n", "sum", "an added import binds 'sum'"),
        ("config.add_post_import_block('def len(x):\\n    return 1')\n", "len", "a post-import block binds 'len'"),
        ("config.add_post_import_block('sqrt = abs')\n", "sqrt", "a post-import block binds 'sqrt'"),
        (
            "config.add_post_import_block('try:\\n    from fla import sqrt\\nexcept OSError:\\n    sqrt = None')\n",
            "sqrt",
            "a post-import block binds 'sqrt'",
        ),
        ("config.add_import('other', names=['twist'])\n", "twist", "an added import binds 'twist'"),
    ],
)
def test_name_that_upstreams_code_means_otherwise(work: Workspace, config: str, used: str, said: str) -> None:
    work.upstream(UPSTREAM)
    work.config(config + USER.format(used))
    messages = found(work, "PG207")
    assert messages
    assert all(m.startswith(f"PG207 {said}, by which upstream's 'Norm.forward' means ") for m in messages)


def test_lines_of_upstreams_in_an_edited_method_are_upstreams(work: Workspace) -> None:
    work.upstream(UPSTREAM.replace("return sum(x)", "x = list(x)\n        return sum(x)"))
    edit = "config.replace_code('Norm.forward', 'x = list(x)', 'x = {}(x)')\n"
    work.config("config.add_post_import_block('sqrt = abs')\n" + edit.format("tuple"))
    assert "binds 'sqrt', by which upstream's 'Norm.forward' means" in found(work, "PG207")[0]
    work.config("config.add_post_import_block('tuple = sorted')\n" + edit.format("tuple"))
    assert found(work, "PG207") == []


@pytest.mark.parametrize(
    ("config", "used"),
    [
        ("config.add_import('math', names=['sqrt'])\n", "sqrt"),
        ("config.add_post_import_block('from math import sqrt')\n", "sqrt"),
        ("config.drop_import_names('sqrt')\nconfig.add_post_import_block('sqrt = abs')\n", "sqrt"),
        ("@config.add_helper\ndef max(x):\n    return x\n", "max"),
        ("config.add_post_import_block('def first(x):\\n    sum = 1\\n    return sum')\n", "first"),
    ],
    ids=["same import", "same import in a block", "dropped on purpose", "builtin nobody uses", "local"],
)
def test_name_that_means_the_same_or_nothing_to_upstream(work: Workspace, config: str, used: str) -> None:
    work.upstream(UPSTREAM)
    work.config(config + USER.format(used))
    assert found(work, "PG207") == []


@pytest.mark.parametrize(
    "config",
    [
        "@config.add_helper\ndef sqrt(x):\n    return x\n",
        "config.add_import('numpy', names=['sqrt'])\n",
        "config.add_import('acme', names=['Norm'])\n",
        "config.add_post_import_block('Norm = None')\n",
    ],
)
def test_name_that_would_hide_or_be_hidden_for_certain_stops_the_generation(work: Workspace, config: str) -> None:
    work.upstream(UPSTREAM)
    work.config(config)
    assert [problem.code for problem in work.outcome().problems] == ["PG207"]
