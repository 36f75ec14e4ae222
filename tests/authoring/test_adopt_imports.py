"""Patches that are made when a module is imported, and functions that call the method whose place they take."""

from __future__ import annotations

import textwrap

import pytest

from patchgen_core.authoring.adopt import adopt
from patchgen_core.errors import PatchgenError
from tests.authoring.monkey_patches import adopted, generated_module, make, write
from tests.conftest import UPSTREAM, Workspace

IMPORTED = """
import functools

import kernels
from acme.models.toy import modeling_toy as toy

_forward = toy.Norm.forward


def forward(self, x):
    return _forward(self, kernels.helper(x))


toy.Norm.forward = forward
toy.rotate = kernels.fast_rotate
"""


@pytest.mark.slow
def test_what_importing_a_module_patches(site: Workspace) -> None:
    write(site, "patches.py", IMPORTED)
    result = adopt(site.project, UPSTREAM, imports=["patches"])
    assert result.patcher == "patches"
    assert result.changes == ("rotate = kernels.fast_rotate", "Norm.forward = patches.forward, around upstream's")
    assert not result.findings
    assert f"Written by 'patchgen adopt {UPSTREAM} --import patches'" in result.text
    module = generated_module(make(site, result))
    assert module.rotate(1) == 1001
    assert module.Norm().forward(8.5) == 3.0


@pytest.mark.slow
def test_a_module_that_still_patches_when_the_generated_one_imports_it_is_named(site: Workspace) -> None:
    text = "from acme.models.toy import modeling_toy as toy\n\n\ndef rotate(x, y=0):\n    return x\n\n\n"
    write(site, "patches.py", f"{text}toy.rotate = rotate\n")
    (note,) = adopt(site.project, UPSTREAM, imports=["patches"]).notes
    assert note.startswith("the generated module imports patches, which then patches upstream as well")
    assert adopt(site.project, UPSTREAM, imports=["patches"], inline=True, force=True).notes == ()


@pytest.mark.slow
def test_importing_what_patches_nothing_is_an_error(site: Workspace) -> None:
    write(site, "patches.py", "import kernels\n\n\ndef patch(): ...\n")
    with pytest.raises(PatchgenError, match="importing patches changes nothing") as caught:
        adopt(site.project, UPSTREAM, imports=["patches"])
    assert "--from package.module:function" in caught.value.problems[0].hint
    assert not list(site.models.rglob("*_patch_gen_config.py"))


@pytest.mark.slow
def test_importing_what_registers_patchers_names_them(site: Workspace) -> None:
    write(
        site,
        "patches.py",
        "from patchgen_core.monkey_patch import MONKEY_PATCHER\n\n\n"
        '@MONKEY_PATCHER.register("toy", "ours")\ndef patch(): ...\n',
    )
    with pytest.raises(PatchgenError, match="importing patches changes nothing") as caught:
        adopt(site.project, UPSTREAM, imports=["patches"])
    assert caught.value.problems[0].hint == "It registers 'ours': pass --from ours."


@pytest.mark.parametrize(
    ("patch", "call", "value"),
    [
        (
            "original = toy.Norm.forward\ndef forward(self, x):\n    return 2 * original(self, x)\n"
            "toy.Norm.forward = forward",
            'wrap_method("Norm.forward"',
            6.0,
        ),
        (
            "original = toy.Norm.forward\n@functools.wraps(original)\ndef forward(self, *args, **kwargs):\n"
            "    return original(self, *args, **kwargs) + 1\ntoy.Norm.forward = forward",
            'wrap_method("Norm.forward"',
            4.0,
        ),
        (
            "original = toy.Special.forward\ndef forward(self, x):\n    return -original(self, x)\n"
            "toy.Special.forward = forward",
            'wrap_method("Special.forward"',
            -3.0,
        ),
    ],
    ids=["closure", "wraps", "inherited"],
)
@pytest.mark.mostly_slow(1)
def test_a_function_around_upstreams_method_wraps_it(site: Workspace, patch: str, call: str, value: float) -> None:
    result = adopted(site, textwrap.dedent(patch))
    assert not result.findings
    assert call in result.text
    assert UPSTREAM not in result.changes[0]
    module = generated_module(make(site, result))
    cls = module.Special if "Special" in call else module.Norm
    assert cls().forward(9) == value


@pytest.mark.slow
def test_a_function_around_an_init_modifies_it(site: Workspace) -> None:
    patch = "original = toy.Sized.__init__\ndef init(self, size):\n    original(self, size)\n    self.size += 1\n"
    text = "class Sized:\n    def __init__(self, size):\n        self.size = size\n"
    site.upstream(text)
    for init in site.site.rglob("__init__.py"):
        init.write_text("")
    result = adopted(site, patch + "toy.Sized.__init__ = init")
    assert 'modify_init("Sized"' in result.text
    assert generated_module(make(site, result)).Sized(1).size == 2


def test_what_else_a_wrapper_needs_of_the_function_around_it_is_named(site: Workspace) -> None:
    patch = "scale = 2\noriginal = toy.Norm.forward\ndef forward(self, x):\n    return scale * original(self, x)\n"
    result = adopted(site, patch + "toy.Norm.forward = forward\ntoy.rotate = kernels.fast_rotate")
    [finding] = result.findings
    assert "uses 'original', 'scale' of the function" in finding.message


INLINED = """
from math import floor

from acme.models.toy import modeling_toy as toy

SCALE = 10


def scaled(x):
    return SCALE * shifted(x)


def shifted(x):
    return floor(x) + 0.5


# rounded, for the kernels
def rotate(x):
    return scaled(x)


def close(self, x):
    return scaled(x) + self.factor


class FastNorm:
    def forward(self, x):
        return shifted(x)


toy.rotate = rotate
toy.Head.close = close
toy.Norm = FastNorm
"""


@pytest.mark.slow
def test_inline_leaves_nothing_of_the_old_module(site: Workspace) -> None:
    write(site, "patches.py", INLINED)
    result = adopt(site.project, UPSTREAM, imports=["patches"], inline=True)
    assert not result.findings
    assert "\nimport patches" not in result.text
    assert "from patches" not in result.text
    assert "# rounded, for the kernels" in result.text
    (site.site / "patches.py").unlink()
    module = generated_module(make(site, result))
    assert module.rotate(2.7) == 25.0
    assert module.Head().close(1.2) == 16.0
    assert module.Norm().forward(1.2) == 1.5


@pytest.mark.slow
def test_what_cannot_be_inlined_is_named(site: Workspace) -> None:
    text = INLINED.replace("SCALE = 10", "SCALE = toy.Head()").replace("SCALE * ", "len(vars(SCALE)) + ")
    write(site, "patches.py", text)
    result = adopt(site.project, UPSTREAM, imports=["patches"], inline=True)
    assert [finding.message for finding in result.findings] == [
        "SCALE: the generated module still imports SCALE from patches"
    ]
