"""What another release does to a patch's target, and to what a config declares beside its patches."""

from __future__ import annotations

import pytest

from patchgen_core.config.loading import Loader
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.verdicts.comparing import compare_config, compare_target
from tests.conftest import CONFIG, UPSTREAM, Workspace
from tests.upgrade.two_releases import PACKAGE, compared, release, verdict

OLD = '''
import math


class Norm:
    """Root mean square."""

    def forward(self, x, scale=1):
        # by hand
        return x * scale


class Layer:
    def __init__(self):
        self.norm = Norm()

    def forward(self, x):
        return self.norm(x, 2)


def rotate(x):
    return -x
'''
PATCH = """
@config.override_method("Norm.forward", description="faster")
def norm_forward(self, x, scale=1):
    return fast(x, scale)
"""


def changed(*pairs: tuple[str, str], text: str = OLD) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_what_is_the_same_is_unchanged(work: Workspace) -> None:
    found = verdict(work, PATCH, OLD, changed(("import math", "import os")))
    assert (found.verdict, found.risk, found.description) == ("unchanged", "safe", "faster")
    assert [str(finding) for finding in found.findings] == ["Norm.forward unchanged"]


@pytest.mark.parametrize(
    ("old", "new", "detail"),
    [
        ("# by hand", "# by a loop", "only comments or layout differ"),
        (
            "def forward(self, x, scale=1)",
            "def forward(self, x: int, scale: int = 1) -> int",
            "only annotations differ",
        ),
        ("        # by hand\n", '        """Scale it."""\n', "only the docstring differs"),
    ],
)
def test_what_is_only_written_otherwise_is_cosmetic(work: Workspace, old: str, new: str, detail: str) -> None:
    found = verdict(work, PATCH, OLD, changed((old, new)))
    assert (found.verdict, found.risk, found.findings[0].detail) == ("cosmetic", "safe", detail)


def test_a_change_comes_with_upstreams_own_diff_at_column_0(work: Workspace) -> None:
    found = verdict(work, PATCH, OLD, changed(("return x * scale", "return x * scale / 2")))
    assert (found.verdict, found.risk) == ("changed", "review")
    diff = found.findings[0].diff.split("\n")
    assert diff[:2] == ["--- Norm.forward (1.0)", "+++ Norm.forward (2.0)"]
    assert "-    return x * scale" in diff
    assert "+    return x * scale / 2" in diff


def test_an_annotation_of_a_class_body_is_a_field_and_no_cosmetics(work: Workspace) -> None:
    config = "@config.replace_class('Out')\nclass Out:\n    y: int\n"
    old = "class Out:\n    x: int\n"
    found = verdict(work, config, old, "class Out:\n    x: str\n")
    assert (found.verdict, found.findings[0].detail) == ("changed", "it changes 'x'")


def test_decorators_that_came_and_went_are_named(work: Workspace) -> None:
    old = changed(("    def forward(self, x, scale=1)", "    @cached\n    def forward(self, x, scale=1)"))
    found = verdict(work, PATCH, old, changed(("@cached", "@timed(1)"), text=old))
    assert (found.verdict, found.risk) == ("decorators changed", "review")
    assert found.findings[0].detail == "loses @cached; gets @timed(1)"


@pytest.mark.parametrize(
    ("signature", "call", "detail", "risk"),
    [
        (
            "x, scale=1, bias=None",
            "x, 2",
            "adds 'bias' (with a default); the replacement does not take 'bias'",
            "review",
        ),
        (
            "x, scale=1, bias=None",
            "x, bias=2",
            "adds 'bias' (with a default); the replacement does not fit: 'Layer.forward' passes 'bias', which is "
            "not a "
            "parameter",
            "must change",
        ),
        (
            "x, bias, scale=1",
            "x, 2, 3",
            "adds 'bias'; the replacement does not fit: 'Layer.forward' passes 3 arguments by position where 2 fit",
            "must change",
        ),
        (
            "scale, x",
            "2, x",
            "has another order of parameters: self, scale, x; requires 'scale'; the replacement does not fit: "
            "'Layer.forward' passes 'scale' by position, which is 'x' in the replacement",
            "must change",
        ),
        (
            "x, scale=2",
            "x, 2",
            "has 2 as the default of 'scale' instead of 1; the replacement takes all of its parameters",
            "review",
        ),
        (
            "x, scales=1",
            "x, 2",
            "renames 'scale' to 'scales'; the replacement does not take 'scales'",
            "review",
        ),
        ("x", "x", "drops 'scale'; the replacement takes all of its parameters", "review"),
    ],
)
def test_a_changed_signature_is_described_and_held_against_the_replacement(
    work: Workspace, signature: str, call: str, detail: str, risk: str
) -> None:
    new = changed(("self, x, scale=1", f"self, {signature}"), ("self.norm(x, 2)", f"self.norm({call})"))
    found = verdict(work, PATCH, OLD, new)
    assert (found.verdict, found.risk) == ("signature changed", risk)
    assert found.findings[0].detail == detail


def test_what_the_old_release_passed_as_well_is_no_news(work: Workspace) -> None:
    old = changed(("self, x, scale=1)", "self, x, scale=1, bias=0)"), ("self.norm(x, 2)", "self.norm(x, bias=2)"))
    new = changed(("bias=0)", "bias=0, gain=1)"), ("bias=2)", "bias=3)"), text=old)
    found = verdict(work, PATCH, old, new)
    assert (found.verdict, found.risk) == ("signature changed", "review")


def test_a_renamed_class_is_found_by_its_code(work: Workspace) -> None:
    new = changed(("class Norm", "class RootNorm"), ("= Norm()", "= RootNorm()"))
    found = verdict(work, "@config.replace_class('Norm')\nclass Norm:\n    pass\n", OLD, new)
    assert (found.verdict, found.risk, found.new_name) == ("moved", "must change", "RootNorm")
    assert found.findings[0].detail == "it is RootNorm now: 100% alike"
    assert not [finding for finding in found.findings if finding.relation == "alike"]


def test_a_method_moved_to_a_base_or_renamed_is_found(work: Workspace) -> None:
    method = "    def forward(self, x):\n        return x.mul(x.mean()).add(1)\n"
    old = f"class Base:\n    pass\n\n\nclass Norm(Base):\n{method}"
    new = f"class Base:\n{method}\n\nclass Norm(Base):\n    pass\n"
    config = PATCH.replace(", scale=1", "").replace(", scale", "")
    found = verdict(work, config, old, new)
    assert (found.verdict, found.risk, found.new_name) == ("moved", "must change", f"{UPSTREAM}.Base")
    found = verdict(work, config, old, old.replace("def forward", "def normalize"))
    assert (found.verdict, found.new_name) == ("moved", "Norm.normalize")


def test_a_function_that_is_imported_now_is_named_with_its_module(work: Workspace) -> None:
    config = "@config.replace_function('rotate')\ndef rotate(x):\n    return x\n"
    new = changed(("def rotate(x):\n    return -x\n", ""), ("import math", "from .rotary import rotate"))
    found = verdict(work, config, OLD, new)
    assert (found.verdict, found.risk, found.new_name) == ("moved", "must change", f"{PACKAGE}.rotary.rotate")


def test_what_nothing_is_like_is_gone(work: Workspace) -> None:
    found = verdict(work, PATCH, OLD, "class Other:\n    pass\n")
    assert (found.verdict, found.risk, found.findings[0].detail) == ("gone", "must change", "'Norm' is gone")


def test_a_patch_that_upstream_does_now_can_be_deleted(work: Workspace) -> None:
    config = "def _rotate(x):\n    return x.neg()\n\nconfig.replace_function('rotate', _rotate)\n"
    new = changed(("    return -x", '    """Turn it."""\n    return x.neg()'))
    found = verdict(work, config, OLD, new)
    assert (found.verdict, found.risk) == ("now upstream", "review")
    assert found.findings[0].detail == "upstream now does what the patch does: delete it"
    assert verdict(work, config, OLD, changed(("-x", "x.neg() + 1"))).verdict == "changed"


def test_a_name_that_the_config_binds_otherwise_is_not_upstreams(work: Workspace) -> None:
    config = "config.add_import('kernels', names=['turn'])\n\n@config.replace_function('rotate')\ndef rotate(x):\n"
    config += "    return turn(x)\n"
    new = changed(("import math", "from .ops import turn"), ("-x", "turn(x)"))
    assert verdict(work, config, OLD, new).verdict == "changed"
    same = changed(("import math", "from kernels import turn"), ("-x", "turn(x)"))
    assert verdict(work, config, OLD, same).verdict == "now upstream"


def test_a_method_that_only_the_patch_has_is_added_until_upstream_has_it(work: Workspace) -> None:
    config = "@config.override_method('Layer.dummy_forward')\ndef dummy_forward(self):\n    return 0\n"
    found = verdict(work, config, OLD, OLD)
    assert (found.verdict, found.risk) == ("added", "safe")
    method = "class Layer:\n    def dummy_forward(self):\n        return {}\n"
    found = verdict(work, config, OLD, changed(("class Layer:\n", method.format(1))))
    assert (found.verdict, found.risk) == ("new code", "review")
    found = verdict(work, config, OLD, changed(("class Layer:\n", method.format(0))))
    assert (found.verdict, found.risk) == ("now upstream", "review")


def test_an_inherited_method_is_compared_where_the_class_has_it_from(work: Workspace) -> None:
    text = "from ..heads import Head\n\n\nclass Norm(Head):\n    pass\n"
    heads = "class Head:\n    def forward(self, x, scale=1):\n        return x{}\n"
    module = f"{PACKAGE.rpartition('.')[0]}.heads"
    old, new = ({module: heads.format(end)} for end in ("", " + 1"))
    found = verdict(work, PATCH, text, text.replace("\n\n\n", "\n\n"), others=(old, new))
    assert (found.verdict, found.risk) == ("changed", "review")
    assert found.findings[0].detail == f"the class inherits it from {module}.Head"
    assert verdict(work, PATCH, text, text, others=(old, old)).verdict == "unchanged"


def test_setters_and_definitions_in_both_branches_are_told_apart(work: Workspace) -> None:
    text = (
        "class Norm:\n    @property\n    def size(self):\n        return 1\n\n"
        "    @size.setter\n    def size(self, value):\n        self.x = value\n\n\n"
        "if A:\n    def rotate(x):\n        return x\nelse:\n    def rotate(x):\n        return -x\n"
    )
    setter = "@config.override_method('Norm.size.setter')\ndef size(self, value):\n    pass\n"
    assert verdict(work, setter, text, text.replace("return 1", "return 2")).verdict == "unchanged"
    assert verdict(work, setter, text, text.replace("= value", "= value + 1")).verdict == "changed"
    function = "@config.replace_function('rotate')\ndef rotate(x):\n    return x + 7\n"
    assert verdict(work, function, text, text.replace("return -x", "return 2")).verdict == "changed"
    once = "def rotate(x):\n    return x\n"
    found = verdict(work, function, text, once)
    assert found.findings[0].detail == "it is defined once instead of twice"


def test_only_the_syntax_tells_what_checked_in_files_say(work: Workspace) -> None:
    inside = "from {}rotary import turn\n        return (x * scale)"
    old = changed(("return x * scale", inside.format(f"{PACKAGE}.")))
    new = changed(("return x * scale", inside.format(".").replace("(x * scale)", "x * scale")), ("# by", "#  by"))
    found = compared(work, PATCH, old, new, recorded=True)
    assert [patch.verdict for patch in found.patches] == ["unchanged"]
    assert found.findings == ()
    assert len(found.notes) == 1
    assert "known from checked-in files only" in found.notes[0]


def test_what_checked_in_files_do_not_tell_is_no_change(work: Workspace) -> None:
    module = f"{PACKAGE.rpartition('.')[0]}.heads"
    text = f"from {module} import Head\n\n\nclass Norm(Head):\n    pass\n"
    heads = {module: "class Head:\n    def forward(self, x, scale=1):\n        return x\n"}
    found = compared(work, PATCH, text, text, others=(heads, heads), recorded=True)
    assert [(patch.verdict, patch.risk) for patch in found.patches] == [("added", "safe")]
    assert (
        found.patches[0].findings[0].detail == f"the class inherits it from {module}.Head, whose old text is not known"
    )


def test_with_the_module_every_patch_is_gone(work: Workspace) -> None:
    path = work.config(PATCH, CONFIG)
    sources = SourceCache()
    loaded = Loader(work.project, sources).load(path)[0]
    moved = f"{PACKAGE}2.{UPSTREAM.rpartition('.')[2]}"
    found = compare_config(loaded, release(work, "1.0", OLD), None, sources, [f"{PACKAGE}.other", moved])
    assert [(patch.verdict, patch.risk) for patch in found.patches] == [("gone", "must change")]
    (module,) = found.findings
    assert (module.kind, module.about, module.risk) == ("moved", UPSTREAM, "must change")
    assert module.detail == f"it is not there; it may have become {moved}"


def test_patches_come_in_upstreams_order(work: Workspace) -> None:
    config = "@config.replace_function('rotate')\ndef rotate(x):\n    return x\n" + PATCH
    found = compared(work, config, OLD, OLD)
    assert [patch.target for patch in found.patches] == ["Norm.forward", "rotate"]


def test_a_target_alone_can_be_compared(work: Workspace) -> None:
    work.config(PATCH, CONFIG)
    (patch,) = work.load().config.patches
    old, new = release(work, "1.0", OLD), release(work, "2.0", changed(("x * scale", "x")))
    assert compare_target(old, new, patch).finding.kind == "changed"
    assert compare_target(old, release(work, "3.0", "x = 1\n"), patch).finding.kind == "gone"


def test_what_a_config_declares_beside_its_patches_is_looked_up(work: Workspace) -> None:
    config = f"""
config.exclude_from_output("rotate")
config.drop_import_names("math")
config.drop_decorators("Layer", "cached")
config.add_import("{PACKAGE}.ops", names=["turn", "twist"])
config.add_import("kernels", names=["fuse"])

@config.add_helper_after("Norm")
def scaled(x):
    return x

@config.add_helper
def folded(x):
    return x + 1
"""
    old = changed(("class Layer", "@cached\nclass Layer"))
    new = "from kernels import fuse\n\n\nclass Layer:\n    pass\n\n\ndef folded(x):\n    return x + 1\n"
    ops = {f"{PACKAGE}.ops": "def turn(x): pass\ndef twist(x): pass\n"}, {f"{PACKAGE}.ops": "def turn(x): pass\n"}
    found = {(f.relation, f.about): f for f in compared(work, config, old, new, others=ops).findings}
    gone = {key for key, finding in found.items() if finding.kind == "gone" and finding.risk == "must change"}
    assert gone == {
        ("anchor", "Norm"),
        ("excluded", "rotate"),
        ("dropped", "math"),
        ("dropped", "@cached of Layer"),
        ("import", f"{PACKAGE}.ops.twist"),
    }
    assert (found["import", "kernels.fuse"].kind, found["import", "kernels.fuse"].risk) == ("now upstream", "safe")
    assert (found["helper", "folded"].kind, found["helper", "folded"].risk) == ("now upstream", "must change")
    assert len(found) == 7


def test_nothing_is_said_of_declarations_that_still_hold(work: Workspace) -> None:
    config = "config.exclude_from_output('rotate')\nconfig.drop_import_names('math')\n"
    assert compared(work, config, OLD, changed(("x * scale", "x"))).findings == ()
    assert compared(work, "config.exclude_from_output('unknown')\n", OLD, OLD).findings == ()


@pytest.mark.parametrize(
    ("decorators", "risk", "reason"),
    [
        ("@auto_docstring", "safe", "@auto_docstring only documents"),
        (
            '@accepts_precomputed_kwargs(modality="image")',
            "safe",
            "@accepts_precomputed_kwargs stays on the replacement, which has upstream's parameters",
        ),
        ("@can_return_tuple", "review", ""),
        ("@auto_docstring\n    @can_return_tuple", "review", ""),
    ],
)
def test_what_a_new_decorator_means_for_a_replaced_method(
    work: Workspace, decorators: str, risk: str, reason: str
) -> None:
    method = "    def forward(self, x, scale=1)"
    found = verdict(work, PATCH, OLD, changed((method, f"    {decorators}\n{method}")))
    assert (found.verdict, found.risk) == ("decorators changed", risk)
    assert found.findings[0].detail.partition("; ")[2] == reason


def test_a_decorator_that_looks_at_parameters_is_looked_at_where_the_replacement_has_others(work: Workspace) -> None:
    method = "    def forward(self, x, scale=1)"
    new = changed((method, f'    @accepts_precomputed_kwargs(modality="image")\n{method}'))
    assert verdict(work, PATCH.replace("scale=1", "factor=1"), OLD, new).risk == "review"
