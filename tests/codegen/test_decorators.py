"""Taking decorators off, and what is said of those that stay."""

from __future__ import annotations

import pytest

from tests.conftest import Workspace

UPSTREAM = """
from hub import mark, take
from torch import jit, no_grad


@mark("rotary")
def rotate(x):
    return x


# takes rotate up
@take(rotate)
@jit.script
class Attention:
    @no_grad()
    def forward(self, x):
        return rotate(x)
"""
REPLACE = "@config.replace_function('rotate')\ndef fast(x):\n    return -x\n"
WARNING = "upstream's @take(rotate) on 'Attention' gets a 'rotate' without its @mark('rotary')"


@pytest.fixture(autouse=True)
def _upstream(work: Workspace) -> None:
    work.upstream(UPSTREAM)


def test_decorators_are_dropped_by_name_and_listed(work: Workspace) -> None:
    work.config(
        "config.drop_decorators('Attention', 'take', 'script')\nconfig.drop_decorators('Attention.forward', 'no_grad')"
    )
    text = work.text()
    assert "class Attention:\n    def forward(self, x):\n" in text
    assert "# takes rotate up\nclass Attention" in text
    dropped = ("@jit.script of Attention", "@no_grad() of Attention.forward", "@take(rotate) of Attention")
    assert "#  Decorators dropped:\n" + "".join(f"#    - {name}\n" for name in dropped) in text


def test_dropped_decorator_of_an_overridden_method(work: Workspace) -> None:
    work.config(
        "config.drop_decorators('Attention.forward', 'no_grad')\n"
        "@config.override_method('Attention.forward')\ndef forward(self, x):\n    return 2\n"
    )
    assert "    def forward(self, x):\n        return 2\n" in work.raw()
    assert "no_grad()" not in work.raw()


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("('Atention', 'take')", "upstream has no 'Atention'\n  Did you mean 'Attention'?"),
        ("('Attention', 'tak')", "'Attention' has no decorator 'tak'\n  It has: @take, @jit.script."),
        ("('Attention.foward', 'take')", "upstream has no 'Attention.foward'\n  Did you mean 'Attention'?"),
    ],
)
def test_what_cannot_be_dropped_is_an_error(work: Workspace, declaration: str, message: str) -> None:
    work.config(f"config.drop_decorators{declaration}\n")
    assert work.errors() == f"toy/toy_gpu_patch_gen_config.py:5: drop_decorators: {message}"


def test_decorator_of_what_is_replaced_is_an_error(work: Workspace) -> None:
    work.config(REPLACE + "config.drop_decorators('rotate', 'mark')\n")
    assert "drop_decorators: 'rotate' is replaced or excluded" in work.errors()
