from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import found

PLACES = {
    "if FAST:\n    from fast import Norm\nelse:\n    class Norm:\n        kind = 'upstream'\n": "imports it in line 3",
    "class Norm:\n    kind = 'upstream'\n\n\nif FAST:\n    Norm = FAST\n": "assigns it in line 7",
}


@pytest.mark.parametrize("upstream", PLACES, ids=PLACES.get)
def test_patch_that_another_branch_bypasses(work: Workspace, upstream: str) -> None:
    work.upstream("FAST = bool(open)\n" + upstream)
    work.config("@config.replace_class('Norm')\nclass FastNorm:\n    kind = 'patched'\n")
    assert found(work) == [f"PG220 'Norm' is patched where it is defined, but upstream also {PLACES[upstream]}"]


def test_method_that_one_branch_lacks(work: Workspace) -> None:
    work.upstream(
        "if X:\n    class A(B):\n        def f(self):\n            return 1\nelse:\n    class A(B):\n        x = 1\n"
    )
    work.config("@config.override_method('A.f')\ndef g(self):\n    return 2\n")
    assert found(work, "PG220") == [
        "PG220 'A.f' is patched where it is defined, but upstream also defines it without that method in line 6"
    ]


def test_patch_of_every_branch_is_not_bypassed(work: Workspace) -> None:
    work.upstream("if open:\n    class A:\n        k = 1\nelse:\n    class A:\n        k = 2\n")
    work.config("@config.replace_class('A')\nclass A:\n    k = 3\n")
    assert found(work) == []
