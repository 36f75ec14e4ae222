from __future__ import annotations

from patchgen_core.checks.checked_in.compare import fix
from tests.conftest import PATCH, UPSTREAM_TEXT, Workspace, generated
from tests.contract.support import found

MOVED = UPSTREAM_TEXT.replace("return x\n", "return x.float()\n", 1)
REMOVED = UPSTREAM_TEXT.replace("    def forward(self, x):\n        return x\n", "    kind = 1\n", 1)


def test_changed_target_is_said_until_the_file_is_generated_anew(gated: Workspace) -> None:
    assert found(gated) == []
    gated.upstream(MOVED, version="1.1")
    assert found(gated) == ["PG215 upstream changed 'Norm.forward', which this config replaces (acme 1.0 -> 1.1)"]
    fix(gated.check())
    assert found(gated) == []


def test_change_outside_of_the_patches_is_none_of_them(gated: Workspace) -> None:
    gated.upstream(UPSTREAM_TEXT.replace("x + 1", "x + 2"), version="1.1")
    assert found(gated) == []


def test_method_of_a_replaced_class(gated: Workspace) -> None:
    gated.config("@config.replace_class('Norm')\nclass Norm:\n    def forward(self, x):\n        return x * 2\n")
    fix(gated.check())
    gated.upstream(MOVED, version="1.1")
    assert found(gated) == ["PG215 upstream changed 'Norm.forward', which this config replaces (acme 1.0 -> 1.1)"]


def test_method_that_upstream_took_away(gated: Workspace) -> None:
    gated.config(PATCH)
    gated.upstream(REMOVED, version="1.1")
    assert found(gated, "PG215") == [
        "PG215 upstream removed 'Norm.forward', which this config replaces (acme 1.0 -> 1.1)"
    ]


def test_without_the_diff_nothing_can_be_told(gated: Workspace) -> None:
    generated(gated, ".diff").unlink()
    gated.upstream(MOVED, version="1.1")
    assert found(gated) == []
