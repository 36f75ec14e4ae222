from __future__ import annotations

import pytest

from tests.conftest import UPSTREAM_TEXT, Workspace
from tests.contract.support import examine, found

HELPERS = {
    "base class": "class Fused(Norm):\n    kind = 'fused'\n",
    "default": "def fused(x, norm=Norm):\n    return norm(x)\n",
    "annotation": "def fused(x: Norm):\n    return x\n",
    "class body": "class Fused:\n    parts = [Norm]\n",
    "annotation of a method": "class Fused:\n    def forward(self, norm: Norm):\n        return norm\n",
}


@pytest.mark.parametrize("helper", HELPERS.values(), ids=HELPERS)
def test_helper_above_what_it_needs_at_import(work: Workspace, helper: str) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(f"from acme import Norm\n@config.add_helper\n{helper}")
    (problem,) = work.outcome().problems
    assert problem.code == "PG204"
    assert "'Norm' is not defined yet" in problem.message
    assert "add_helper_after" in problem.hint
    work.config(f"from acme import Norm\nconfig.allow('PG204', 'a test')\n@config.add_helper\n{helper}")
    assert ["when it is imported, but line" in note for note in examine(work).notes] == [True]


@pytest.mark.parametrize(
    "config",
    [
        "@config.add_helper_after('Norm')\nclass Fused(Norm):\n    kind = 'fused'\n",
        "@config.add_helper\ndef fused(x):\n    return Norm(x)\n",
        "@config.add_helper\ndef fused(x: 'Norm'):\n    y: Norm = x\n    return y\n",
        "config.add_import('__future__', names=['annotations'])\n@config.add_helper\ndef f(x: Norm):\n    return x\n",
        "@config.add_helper\nclass Fused:\n    make = lambda self: Norm()\n",
    ],
    ids=["below it", "when it is called", "quoted", "not evaluated", "in a lambda"],
)
def test_helper_that_needs_nothing_at_import(work: Workspace, config: str) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(f"from acme import Norm\n{config}")
    assert found(work, "PG204") == []


def test_undefined_name_stops_the_generation_with_its_code(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config("@config.override_method('Norm.forward')\ndef f(self, x):\n    return fused(x)\n")
    (problem,) = work.outcome().problems
    assert problem.code == "PG204"


def test_undefined_name_that_is_allowed_is_told_and_of_another_place_is_not(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    patch = "@config.override_method('{}.forward')\ndef f(self, x):\n    return fused(x)\n"
    work.config("config.allow('PG204', 'set by the trainer', 'Norm.forward')\n" + patch.format("Norm"))
    assert "return fused(x)" in work.text()
    assert found(work) == []
    work.config("config.allow('PG204', 'set by the trainer', 'Norm.forward')\n" + patch.format("Head"))
    assert "nothing defines 'fused'" in work.errors()


NAMES = """
import os as system
from math import *
try:
    import fast
except ImportError as error:
    fast = None
    reason = str(error)
with open(__file__) as text:
    LINES = [line for line in text if (size := len(line))]
for NUMBER, (A, *B) in ():
    pass
if (found := system.getcwd()):
    HERE = found


def late():
    global COUNT
    COUNT = 1


def user(x, *args, y=LINES, **kwargs):
    def inner():
        nonlocal x
        x = COUNT, NUMBER, A, B, size
        return x, __class__, __name__

    match x:
        case {"k": value, **rest}:
            return value, rest, [z for z in args], {k: v for k, v in kwargs.items()}
        case [first, *others] as whole:
            return first, others, whole
    del inner
    try:
        return lambda q: (q, y, fast, reason, HERE)
    except* (OSError, ValueError) as caught:
        print(caught)
"""


def test_every_way_of_binding_a_name_is_known(work: Workspace) -> None:
    text = NAMES.replace("from math import *\n", "").replace("except* (", "except (")
    work.upstream(text + "\n\nclass A2:\n    k = 1\n    n = [len(_) for _ in [k]]\n")
    work.config("")
    assert found(work) == []


def test_undefined_name_of_upstreams_own_is_a_warning(work: Workspace) -> None:
    work.upstream("def use(x):\n    return nowhere(x)\n")
    work.config("")
    assert found(work) == ["PG204 upstream's own: nothing defines 'nowhere', which 'use' uses"]


def test_nothing_is_said_where_a_star_may_bind_anything(work: Workspace) -> None:
    work.upstream("from math import *\n\n\ndef use(x):\n    return sqrt(x)\n")
    work.config("")
    assert found(work) == []
