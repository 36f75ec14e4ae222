"""Bodies of replacements in which something is renamed."""

from __future__ import annotations

import sys

from tests.conftest import Workspace

BASE = "toy/toy_base_patch_gen_config.py"


def renamed(work: Workspace, body: str) -> str:
    """What becomes of a body that refers to ``Fast``, which replaces upstream's ``Norm``."""
    work.upstream("def f(x):\n    return x\n\n\nclass Norm: ...\n")
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    head = "@config.replace_class('Norm')\nclass Fast:\n    size = 1\n\n    def m(self): ...\n\n\n"
    work.config(f"{head}@config.replace_function('f')\ndef fast_f(x):\n{lines}")
    text = work.raw()
    new = text[text.index("def f(x):\n") + 10 : text.index("# ====", text.index("def f(x):\n"))]
    return "".join(line.removeprefix("    ") for line in new.splitlines(keepends=True)).rstrip("\n")


if sys.version_info >= (3, 12):

    def test_a_rename_leaves_type_parameters(work: Workspace) -> None:
        body = "def g[Fast: Fast](y={0}) -> 'Fast':\n    type K = list[Fast]\n    return Fast\nreturn g[{0}]"
        assert renamed(work, body.format("Fast")) == body.format("Norm")
