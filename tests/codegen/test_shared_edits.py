"""Edits that are declared once, for targets of several configs."""

from __future__ import annotations

import pytest

from patchgen_core.codegen.generate import generate
from tests.codegen.editing import UPSTREAM
from tests.codegen.patching import unmarked
from tests.conftest import CONFIG, Workspace

SHARED = """
from patchgen import Edits

toy_forward = Edits()
toy_forward.add_parameter("causal=True", after="x")
toy_forward.remove_parameter("mask")
toy_forward.drop_decorators("no_grad")


@toy_forward.edit
def guard(self, x):
    if self.fused:
        return ToyLayer(x)
    ...


@toy_forward.edit(at="residual = x")
def note(residual):
    ...
    note(residual)


toy_forward.delete_code("if mask is None:")
toy_forward.replace_code("self.attn(..., mask=mask)", "self.attn(..., causal=causal)")
"""
USE = """
from proj.models.toy.shared import toy_forward

config.edit_method("Layer.forward", edit=toy_forward, name_map={"Toy": "My"}, description="Faster")
"""
EXPECTED = [
    "    def forward(self, x, causal=True, **kwargs):\n",
    "        if self.fused:\n            return MyLayer(x)\n        # kept above\n        residual = x\n"
    "        note(residual)\n",
    "            cache=None,\n            causal=causal, **kwargs,\n        )\n\n        x = residual + x\n"
    "        return x",
]


def shared(work: Workspace, text: str = SHARED, use: str = USE) -> Workspace:
    work.upstream(f"{UPSTREAM}\n\nclass MyLayer: ...\n")
    work.write("proj/models/toy/shared.py", text)
    work.config(use)
    return work


def test_a_target_gets_all_of_them_in_its_own_names(work: Workspace) -> None:
    text = unmarked(shared(work).raw())
    for part in EXPECTED:
        assert part in text
    assert "@torch.no_grad()" not in text


def test_the_reason_is_given_once(work: Workspace) -> None:
    header = generate(shared(work).plan()).text.partition("\nimport torch")[0]
    assert header.count("Faster") == 1


ERRORS = {
    "declared too late": (
        SHARED,
        f"{USE}toy_forward.delete_code('x = 1')\n",
        f"{CONFIG}:9: error: these edits are in use already, since {CONFIG}:8\n"
        "  Declare all of them before the first call that takes them.",
    ),
    "none": (
        "from patchgen import Edits\n\ntoy_forward = Edits()\n",
        USE,
        f"{CONFIG}:8: error: 'Layer.forward' gets edits, and there are none\n"
        "  Declare edits on what is made at toy/shared.py:3, such as edits.replace_code(old, new).",
    ),
    "one of them, without its place": (
        SHARED,
        "from proj.models.toy.shared import note\n\nconfig.edit_method('Layer.forward', edit=note)\n",
        f"{CONFIG}:7: error: 'note' edits the place 'residual = x' at toy/shared.py:17, and no place is given for it "
        "here\n  Pass at='residual = x' here too, or pass Edits, which keep their places. To edit the "
        "whole body, write another function.",
    ),
    "not finished": (
        f"{SHARED}toy_forward.edit(at='x = 1')\n",
        USE,
        "toy/shared.py:25: error: edit has no function\n  Use it as a decorator, or pass edit=.",
    ),
    "a place of their own": (
        SHARED,
        USE.replace("name_map=", "at='x = 1', name_map="),
        f"{CONFIG}:8: error: edit_method: at and count are for one edit, and each of shared edits has its own\n"
        "  Leave them out, or pass a function as the edit.",
    ),
    "another target": (
        SHARED,
        USE.replace("Layer.forward", "Layr.forward"),
        f"{CONFIG}:8: error: upstream acme.models.toy.modeling_toy has no class 'Layr'\n  Did you mean 'Layer'?",
    ),
    "another text": (
        SHARED.replace('at="residual = x"', 'at="residual = y"'),
        USE,
        "toy/shared.py:17: error: method_edit Layer.forward: upstream's 'Layer.forward' has no 'residual = y'\n"
        "  Nearest: line 23: residual = x",
    ),
    "no such parameter": (
        SHARED.replace('remove_parameter("mask")', 'remove_parameter("masks")'),
        USE,
        "toy/shared.py:6: error: parameter_removal Layer.forward: it has no parameter 'masks'\n  Did you mean 'mask'?",
    ),
}


@pytest.mark.parametrize(("text", "use", "message"), ERRORS.values(), ids=ERRORS)
def test_what_is_wrong_is_told_where_it_is(work: Workspace, text: str, use: str, message: str) -> None:
    shared(work, text, use)
    done = work.patchgen("--check")
    assert done.returncode == 2
    assert done.stdout.replace("proj/models/", "").count(f"{message}\n") == 1
