"""What a patch relies on, and what another release does to it."""

from __future__ import annotations

import pytest

from tests.conftest import UPSTREAM, Workspace
from tests.upgrade.two_releases import PACKAGE, compared, relied, verdict

CONFIGURATION = f"{PACKAGE}.configuration_toy"
OLD = """
from dataclasses import dataclass
from .configuration_toy import ToyConfig
from .masks import make_mask
import math


@dataclass
class ToyOutput:
    loss: float = None
    logits: float = None
    aux: float = None


def rotate(x, size, scale=1):
    return x * size, x + scale


class Base:
    def prepare(self, x):
        return x

    def finish(self, x):
        return x - 1


class Attention(Base):
    def __init__(self, config: ToyConfig, size=2):
        self.config = config
        self.scaling = size**-0.5
        self.proj = Linear(size)

    def split(self, x, parts):
        return x

    def forward(self, x, mask=None):
        return x


class Layer:
    def __init__(self, config):
        self.attention = Attention(config)

    def forward(self, x):
        return self.attention(x, mask=None)
"""
FORWARD = """
@config.override_method("Attention.forward")
def attention_forward(self, x, mask=None):
"""


def changed(*pairs: tuple[str, str], text: str = OLD) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def patch(*lines: str) -> str:
    return FORWARD + "".join(f"    {line}\n" for line in lines)


def said(work: Workspace, config: str, *pairs: tuple[str, str], **options: object) -> list[tuple[str, str, str]]:
    """The findings beside the target's: risk, relation with kind and name, detail."""
    found = verdict(work, config, OLD, changed(*pairs), **options).findings[1:]
    return [(f.risk, f"{f.relation} {f.about} {f.kind}", f.detail) for f in found]


def test_nothing_is_said_of_what_is_unchanged(work: Workspace) -> None:
    config = patch("y, z = rotate(x, 1)", "self.prepare(math.pi)", "return ToyOutput(loss=self.scaling, logits=y)")
    assert said(work, config, ("return x - 1", "return x - 2")) == []


def test_a_name_that_the_module_no_longer_binds_must_change(work: Workspace) -> None:
    config = patch("return math.exp(x) + len(make_mask(x))")
    assert said(work, config, ("import math\n", ""), ("from .masks import make_mask\n", "")) == [
        ("must change", f"import {PACKAGE}.masks.make_mask gone", "the module no longer imports 'make_mask'"),
        ("safe", "import math gone", "the module no longer imports 'math': the config has to"),
    ]
    assert said(work, f"config.add_import('math')\n{config}", ("import math\n", "")) == []
    local = patch("import math", "return math.exp(x)")
    assert said(work, local, ("import math\n", "")) == []


def test_what_is_imported_from_elsewhere_is_looked_up_there(work: Workspace) -> None:
    old = {f"{PACKAGE}.masks": "def make_mask(x, length):\n    return x\n"}
    new = {f"{PACKAGE}.masking": "def make_mask(x, *, width):\n    return x\n"}
    moved = ("from .masks", "from .masking")
    detail = f"the module imports it from {PACKAGE}.masking now"
    about = f"import {PACKAGE}.masks.make_mask moved"
    same = {f"{PACKAGE}.masking": old[f"{PACKAGE}.masks"]}
    config = patch("return make_mask(x, 1)")
    assert said(work, config, moved, others=(old, same)) == [("safe", about, detail)]
    assert said(work, config, moved, others=(old, new)) == [
        (
            "must change",
            f"used {PACKAGE}.masks.make_mask signature changed",
            "it adds 'width' and drops 'length'; the replacement passes 2 arguments by position where 1 fit",
        )
    ]


@pytest.mark.parametrize(
    ("signature", "why"),
    [
        ("x, scale, size=1", "passes 'size' by position, where 'scale' is now"),
        ("x", "passes 2 arguments by position where 1 fit"),
        ("x, size, base", "does not pass 'base'"),
    ],
)
def test_a_function_whose_signature_a_call_no_longer_fits(work: Workspace, signature: str, why: str) -> None:
    (found,) = said(work, patch("return rotate(x, 1)"), ("x, size, scale=1", signature))
    assert found[:2] == ("must change", "used rotate signature changed")
    assert found[2].endswith(f"the replacement {why}")


def test_a_parameter_that_was_only_renamed_may_be_passed_by_position(work: Workspace) -> None:
    rename = ("rotate(x, size, scale=1):\n    return x * size", "rotate(x, sizes, scale=1):\n    return x * sizes")
    assert [f[0] for f in said(work, patch("return rotate(x, 1)"), rename)] == ["safe"]
    assert [f[0] for f in said(work, patch("return rotate(x, size=1)"), rename)] == ["must change"]


def test_a_function_that_still_fits_is_no_work_unless_it_returns_other_values(work: Workspace) -> None:
    config = patch("y, z = rotate(x, 1)", "return y")
    (found,) = said(work, config, ("x, size, scale=1", "x, size, scale=1, base=2"))
    assert found[0] == "safe"
    (found,) = said(work, config, ("return x * size, x + scale", "return x * size, x + scale, size"))
    assert found == ("must change", "used rotate changed", "it returns 3 values instead of 2")


def test_what_the_config_patches_itself_is_not_reported_again(work: Workspace) -> None:
    config = patch("return rotate(x, 1)") + "\n@config.replace_function('rotate')\ndef rotate(x, size):\n    pass\n"
    found = compared(work, config, OLD, changed(("x, size, scale=1", "x")))
    attention = next(patch for patch in found.patches if patch.target == "Attention.forward")
    assert attention.risk == "safe"


def test_fields_of_an_output_that_are_gone_or_elsewhere(work: Workspace) -> None:
    config = patch("return ToyOutput(loss=1, aux=2)")
    aux = ("    aux: float = None\n", "")
    assert said(work, config, aux) == [
        ("must change", "output ToyOutput changed", "it no longer has the field 'aux', which the replacement passes")
    ]
    assert said(work, patch("return ToyOutput(loss=1)"), aux) == []
    (found,) = said(work, patch("return ToyOutput(1)"), ("    loss: float", "    first: float = 0\n    loss: float"))
    assert found[2] == "its first fields, passed by position, are 'first' instead of 'loss'"
    plain = ("@dataclass\nclass ToyOutput:", "class ToyOutput:")
    assert said(work, config, plain) == [("must change", "output ToyOutput changed", "it is no longer a dataclass")]


def test_attributes_that_the_class_no_longer_sets_or_sets_otherwise(work: Workspace) -> None:
    config = patch("return self.proj(x) * self.scaling")
    assert said(work, config, ("        self.scaling = size**-0.5\n", "")) == [
        (
            "must change",
            "used Attention.scaling gone",
            "'Attention' no longer sets it, and the replacement reads it",
        )
    ]
    assert said(work, config, ("size**-0.5", "size**-1")) == [
        ("review", "used Attention.scaling changed", "'Attention' sets it to size ** (-1) instead of size ** (-0.5)")
    ]
    (found,) = said(work, config, ("Linear(size)", "Linear(size, 3)"))
    assert found[0] == "safe"


def test_attributes_that_a_base_or_another_patch_sets_are_there(work: Workspace) -> None:
    config = patch("return self.scaling")
    moved = ("        self.scaling = size**-0.5\n", ""), ("class Base:\n", "class Base:\n    scaling = 1\n\n")
    assert said(work, config, *moved) == []
    init = "\n@config.modify_init('Attention')\ndef init(original_init, self, config):\n"
    init += "    original_init(self, config)\n    self.scaling = 1\n"
    for change in (moved[0], ("size**-0.5", "size**-1")):
        found = compared(work, config + init, OLD, changed(change))
        assert [patch.risk for patch in found.patches if patch.target == "Attention.forward"] == ["safe"]


def test_methods_of_the_class_and_of_its_bases(work: Workspace) -> None:
    config = patch("x = self.split(self.prepare(x), 2)", "return super().finish(x)")
    assert [f[:2] for f in said(work, config, ("def split(self, x, parts)", "def split(self, x)"))] == [
        ("must change", "used Attention.split signature changed")
    ]
    assert [f[:2] for f in said(work, config, ("def prepare", "def get_ready"))] == [
        ("must change", "used Attention.prepare gone")
    ]
    assert [f[:2] for f in said(work, config, ("return x - 1", "return x - 2"))] == [
        ("review", "base Base.finish changed")
    ]


def test_the_call_of_upstreams_init_in_modify_init(work: Workspace) -> None:
    config = "@config.modify_init('Attention')\ndef init(original_init, self, config, size=2):\n"
    config += "    original_init(self, config, size)\n"
    found = verdict(work, config, OLD, changed(("config: ToyConfig, size=2", "config: ToyConfig")))
    assert found.risk == "must change"
    assert "passes 3 arguments by position where 2 fit" in relied(found, "used")[0].detail


def test_callers_that_pass_something_else(work: Workspace) -> None:
    config = patch("return x if mask is None else mask")
    assert said(work, config, ("self.attention(x, mask=None)", "self.attention(x)")) == [
        ("review", "caller Layer.forward changed", "no longer passes 'mask'")
    ]
    assert said(work, config, ("self.attention(x, mask=None)", "self.attention(x + 1, mask=None)")) == [
        ("review", "caller Layer.forward changed", "passes x + 1 as 'x' instead of x")
    ]
    renamed = (
        "def forward(self, x):\n        return self.attention(x, m",
        "def forward(self, h):\n        return self.attention(h, m",
    )
    assert said(work, config, renamed) == []
    by_place = ("self.attention(x, mask=None)", "self.attention(x, None)")
    assert said(work, config, by_place) == []


def test_callers_that_are_patched_themselves_are_not_reported(work: Workspace) -> None:
    config = patch("return x") + "\n@config.override_method('Layer.forward')\ndef layer_forward(self, x):\n    pass\n"
    found = compared(work, config, OLD, changed(("self.attention(x, mask=None)", "self.attention(x + 1)")))
    assert not [f for f in found.patches if relied(f, "caller")]


def test_long_arguments_are_shown_where_they_differ(work: Workspace) -> None:
    long = f"self.attention({' + '.join(['x'] * 40)}, mask=None)"
    old = changed(("self.attention(x, mask=None)", long))
    found = verdict(work, patch("return x"), old, changed(("x, mask=None)\n", "x - y, mask=None)\n"), text=old))
    (caller,) = relied(found, "caller")
    assert caller.detail == "passes ...+ x + x + x + x + x + x - y as 'x' instead of ...+ x + x + x + x + x + x"


def test_a_caller_that_does_not_fit_a_replacement_of_its_own_signature(work: Workspace) -> None:
    config = "@config.override_method('Attention.forward')\ndef attention_forward(self, x, *, mask=None):\n    pass\n"
    (found,) = said(work, config, ("self.attention(x, mask=None)", "self.attention(x, None)"))
    assert found[0] == "must change"
    assert "the replacement does not fit" in found[2]


def test_a_function_that_nothing_uses_any_more(work: Workspace) -> None:
    old = "def rotate(x):\n    return x\n\n\ndef run(x):\n    return rotate(x)\n"
    config = "@config.replace_function('rotate')\ndef rotate(x):\n    return 1\n"
    found = verdict(work, config, old, old.replace("return rotate(x)", "return x"))
    assert [(f.kind, f.detail, f.risk) for f in relied(found, "caller")] == [
        ("gone", "nothing in the module uses it now", "review")
    ]


def test_the_bases_of_a_patched_methods_class(work: Workspace) -> None:
    (found,) = said(work, patch("return x"), ("class Attention(Base)", "class Attention"))
    assert found == ("review", "base Attention changed", "the bases of 'Attention' are () instead of (Base)")


def configurations(new: str, old: str = "    width: int = 8\n    part = 1\n") -> tuple[dict[str, str], dict[str, str]]:
    text = "class Base:\n    gap = 1\n\n\nclass ToyConfig(Base):\n{}"
    return {CONFIGURATION: text.format(old)}, {CONFIGURATION: text.format(new)}


@pytest.mark.parametrize(
    ("lines", "new", "expected"),
    [
        (["return self.config.width"], "    part = 1\n", "gone"),
        (["config = self.config", "return config.width"], "    part = 1\n", "gone"),
        (["return self.config.width"], "    width: int = 9\n", "changed"),
        (["return self.config.width"], "    attribute_map = {'width': 'w'}\n    w: int = 8\n", ""),
        (["return self.config.width"], "    def __init__(self, width=8):\n        self.width = width\n", ""),
        (["return getattr(self.config, 'width', 1)"], "    part = 1\n", ""),
        (["config = other()", "return config.width"], "    part = 1\n", ""),
        (["return self.config.gap + self.config.unknown"], "    part = 1\n", ""),
    ],
)
def test_fields_of_the_configuration(work: Workspace, lines: list[str], new: str, expected: str) -> None:
    found = verdict(work, patch(*lines), OLD, OLD + "\n", others=configurations(new))
    fields = relied(found, "field")
    assert [finding.kind for finding in fields] == ([expected] if expected else [])
    assert [finding.about for finding in fields] == (["ToyConfig.width"] if expected else [])
    risks = {"gone": "must change", "changed": "review", "": "safe"}
    assert found.risk == risks[expected]


@pytest.mark.parametrize(("line", "kinds"), [("pass", ["gone"]), ("config = other()", [])])
def test_a_configuration_that_is_a_parameter(work: Workspace, line: str, kinds: list[str]) -> None:
    config = "from upstream import ToyConfig\n\n@config.override_method('Attention.split')\n"
    config += f"def split(self, config: ToyConfig, parts):\n    {line}\n    return config.width\n"
    found = verdict(work, config, OLD, OLD + "\n", others=configurations("    part = 1\n"))
    assert [finding.kind for finding in relied(found, "field")] == kinds


def test_fields_of_a_configuration_in_another(work: Workspace) -> None:
    text = "class PartConfig:\n    {}: int = 1\n\n\nclass ToyConfig:\n    part = None\n"
    text += "    sub_configs = {{'part': PartConfig}}\n"
    others = {CONFIGURATION: text.format("depth")}, {CONFIGURATION: text.format("layers")}
    found = verdict(work, patch("return self.config.part.depth"), OLD, OLD + "\n", others=others)
    assert [(f.kind, f.about) for f in relied(found, "field")] == [("gone", "PartConfig.depth")]


def test_what_cannot_be_looked_up_is_a_note_and_no_finding(work: Workspace) -> None:
    others = configurations("    part = 1\n")
    found = compared(work, patch("return self.config.width"), OLD, OLD, others=others, recorded=True)
    assert [patch.risk for patch in found.patches] == ["safe"]
    assert len(found.notes) == 1


def test_the_worst_comes_first_after_the_target(work: Workspace) -> None:
    config = patch("return rotate(x, 1) + self.scaling + make_mask(x)")
    new = changed(("from .masks import make_mask\n", ""), ("size**-0.5", "size**-1"), ("x + scale", "x - scale"))
    found = verdict(work, config, OLD, new)
    assert [finding.relation for finding in found.findings] == ["target", "import", "used", "used"]
    assert [finding.risk for finding in found.findings] == ["safe", "must change", "review", "review"]
    assert UPSTREAM
