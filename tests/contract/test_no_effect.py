from __future__ import annotations

import pytest

from tests.conftest import UPSTREAM_TEXT, Workspace
from tests.contract.support import found

PYPROJECT = """
[tool.patchgen]
search_root = "proj/models"
package_prefix = "proj.models"
[tool.ruff]
lint.select = ["E"]
"""
UNUSED = "PG214 {}: nothing in patched_modeling_toy_gpu.py uses '{}'"


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ('config.add_import("functools", names=["partial"])', [("add_import", "partial")]),
        (
            'config.add_import("functools", names=["partial"])\nconfig.add_post_import_block("# not partial")',
            [("add_import", "partial")],
        ),
        ('config.add_post_import_block("import functools")', [("post-import block", "functools")]),
        (
            'config.add_post_import_block("from os import path, sep\\nNAME = sep")',
            [("post-import block", "path")],
        ),
    ],
)
def test_added_import_that_ruff_takes_out(work: Workspace, declared: str, said: list[tuple[str, str]]) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(f"{declared}\n")
    assert found(work, "PG214") == [UNUSED.format(*entry) for entry in said]


def test_added_import_that_ruff_leaves_is_not_said(work: Workspace) -> None:
    work.write("pyproject.toml", PYPROJECT)
    work.upstream(UPSTREAM_TEXT)
    work.config('config.add_import("functools", names=["partial"])\n')
    assert "from functools import partial\n" in work.text()
    assert found(work) == []


def test_added_import_that_only_what_ruff_rewrites_needs(work: Workspace) -> None:
    """Without it there would be an undefined name before ruff makes ``X | None`` of ``Optional[X]``."""
    work.write("pyproject.toml", PYPROJECT.replace('["E"]', '["F", "UP"]'))
    work.upstream(UPSTREAM_TEXT)
    added = "config.add_import('typing', names=['Optional', 'Union'])\n"
    work.config(f"{added}@config.replace_function('rotate')\ndef f(x: Optional[int] = None):\n    return x\n")
    assert "x: int | None = None" in work.text()
    assert found(work, "PG214") == [UNUSED.format("add_import", "Union")]


def test_dropped_name_that_upstream_defines_itself(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config("config.drop_import_names('rotate')\n")
    assert found(work) == ["PG214 drop_import_names: upstream defines 'rotate' itself, so there is no import to drop"]


def test_dropped_name_that_ruff_would_leave_out_anyway(work: Workspace) -> None:
    work.upstream(f"from math import sqrt\n{UPSTREAM_TEXT}\n\ndef root(x):\n    return sqrt(x)\n")
    work.config("config.drop_import_names('sqrt')\n@config.replace_function('root')\ndef f(x):\n    return x**0.5\n")
    assert found(work) == ["PG214 drop_import_names: nothing in patched_modeling_toy_gpu.py uses 'sqrt' any more"]


@pytest.mark.parametrize(
    ("upstream", "config"),
    [
        pytest.param(
            "from math import sqrt\n\n\ndef root(x):\n    return sqrt(x)\n",
            "config.drop_import_names('sqrt')\nconfig.add_import('cmath', names=['sqrt'])\n",
            id="bound again",
        ),
        pytest.param(
            "try:\n    from fast import sqrt\nexcept ImportError:\n    sqrt = None\n\n\ndef root(x):\n    return x\n",
            "config.drop_import_names('sqrt')\n",
            id="guarded: the attempt to import it is an effect",
        ),
    ],
)
def test_dropped_name_that_matters(work: Workspace, upstream: str, config: str) -> None:
    work.upstream(upstream)
    work.config(config)
    assert found(work) == []


@pytest.mark.parametrize(
    ("config", "target"),
    [
        ("@config.override_method('Norm.forward')\ndef f(self, x):\n    return x\n", "Norm.forward"),
        ("@config.replace_function('rotate')\ndef f(x):\n    # negative\n    return -x\n", "rotate"),
        ("@config.replace_class('Head')\nclass H:\n    def forward(self, x):\n        return x + 1\n", "Head"),
        (
            "config.patches.append(create_patch_from_external('Norm', 'acme.models.toy.modeling_toy', 'Norm'))\n",
            "Norm",
        ),
    ],
    ids=["method", "function", "class", "external"],
)
def test_patch_that_is_upstreams_own_code(work: Workspace, config: str, target: str) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(config)
    assert found(work, "PG214") == [f"PG214 the patch of '{target}' is upstream's own code"]


@pytest.mark.parametrize(
    "config",
    [
        "@config.override_method('Norm.forward', keep_decorators=False)\ndef f(self, x):\n    return x\n",
        "@config.override_method('Norm.forward')\n@final\ndef f(self, x):\n    return x\n",
        "@config.override_method('Norm.reset')\ndef f(self, x):\n    return x\n",
    ],
    ids=["decorator gone", "decorator added", "method added"],
)
def test_patch_that_changes_something(work: Workspace, config: str) -> None:
    text = UPSTREAM_TEXT.replace("class Norm:\n", "class Norm:\n    @cached\n", 1)
    work.upstream(f"from acme import cached, final\n{text}\n\nX = cached, final\n")
    work.config(f"from acme import final\n{config}")
    assert found(work, "PG214") == []


def test_helper_that_nothing_uses(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(
        """
        @config.add_helper
        def used(x):
            return x

        @config.add_helper
        def recursive(x):
            return recursive(x)

        @config.override_method("Norm.forward")
        def forward(self, x):
            return used(x)
        """
    )
    assert found(work) == ["PG214 nothing in patched_modeling_toy_gpu.py uses the helper 'recursive'"]
