"""Edits that upstream has made by itself by now: they go where that is certain, and else a person decides."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from patchgen_core.report.upgrade.html import upgrade_page
from patchgen_core.report.upgrade.json import applied_data, upgrade_data
from patchgen_core.report.upgrade.steps import next_steps
from patchgen_core.report.upgrade.terminal import print_steps, print_upgrade
from patchgen_core.report.upgrade.texts import applied_summary, list_changes
from patchgen_core.upgrade.deciding.choices import list_questions
from patchgen_core.upgrade.package_configs import select_configs
from patchgen_core.upgrade.upgrading import upgrade
from patchgen_core.upgrade.writing.one_patch import merge_patch
from tests.conftest import CONFIG, UPSTREAM, Workspace, generated, settle
from tests.upgrade.applied import HEIR
from tests.upgrade.edit_releases import OLD, EditUpgrade, changed, upgrade_edits
from tests.upgrade.upgraded import Upgrading

SIGNATURE = "mask=None, **kwargs"
FACTOR = ("scaling=self.scaling, **kwargs", "scaling=self.scaling * factor, **kwargs")
GAINED = (SIGNATURE, "mask=None, factor=None, **kwargs")
COUNTED = """
# --- counted ---
# as agreed
config.add_parameter("Attention.forward", "factor: int = None", after="mask", description="counted")


@config.edit_method("Attention.forward", at="output = self.o_proj(scores)")
def count(self, output):
    ...
    # once
    output = output * self.config.count
"""
INSTEAD = """
config.add_import("kernels", names=["fused"])


@config.edit_method("Attention.forward", at="output = self.o_proj(scores)")
def use_kernel(self, scores):
    output = fused(self.o_proj, scores)
"""


def conflict_of(upgraded: EditUpgrade, kind: str = "parameter_addition") -> str:
    """Why an edit is for a person, which is the same in the report, and left by ``--apply``."""
    (patch,) = (patch for patch in upgraded.config.patches if patch.kind == kind)
    assert (patch.verdict, patch.risk, upgraded.report.exit_code) == ("place changed", "must change", 1)
    assert patch.rebase is not None
    (conflict,) = patch.rebase.merged.conflicts
    before = upgraded.text
    applied = upgraded.apply()
    assert conflict.reason in [rebase.merged.conflicts[0].reason for rebase, _ in applied.left]
    assert "add_parameter" not in before or "add_parameter" in upgraded.text
    return conflict.reason


class TestParameters:
    """Parameters that upstream's function has now, or has no more."""

    def test_the_same_one_goes_and_what_describes_the_other_edits_stays(self, work: Workspace) -> None:
        upgraded = upgrade_edits(work, COUNTED, changed(GAINED, FACTOR))
        (addition,) = (patch for patch in upgraded.config.patches if patch.kind == "parameter_addition")
        assert (addition.verdict, addition.risk, addition.problems) == ("now upstream", "safe", ())
        assert addition.findings[0].detail.startswith("upstream now has the parameter 'factor' itself: callers pass")
        assert (upgraded.config.risk, upgraded.report.exit_code) == ("safe", 0)
        applied = upgraded.apply()
        assert (len(applied.merged), applied.left, applied.problems) == (1, (), ())
        assert "add_parameter" not in upgraded.text
        assert (
            '# --- counted ---\n# as agreed\n@config.edit_method("Attention.forward", '
            'at="output = self.o_proj(scores)", description="counted")\n'
            "def count(self, output):\n    ...\n    # once\n"
        ) in upgraded.text
        assert "def forward(self, hidden_states, mask=None, factor=None, **kwargs):" in upgraded.code
        assert "scaling=self.scaling * factor" in upgraded.code
        assert "output = output * self.config.count" in upgraded.code
        assert "counted" in upgraded.code

    @pytest.mark.parametrize(
        ("gained", "reason"),
        [
            ("mask=None, factor=1, **kwargs", "whose default is 1 instead of None"),
            (
                "mask=None, *, factor=None, **kwargs",
                "which callers pass by name, and the edit's by",
            ),
            ("factor=None, mask=None, **kwargs", "calls by position begin with (self, hidden_states, mask, factor)"),
        ],
    )
    def test_another_default_kind_or_place_is_a_conflict(self, work: Workspace, gained: str, reason: str) -> None:
        assert reason in conflict_of(upgrade_edits(work, COUNTED, changed((SIGNATURE, gained), FACTOR)))

    def test_one_by_name_alone_may_stand_anywhere(self, work: Workspace) -> None:
        old = changed((SIGNATURE, "mask=None, *, causal=True, **kwargs"))
        new = changed((SIGNATURE, "mask=None, *, factor=None, causal=True, **kwargs"), FACTOR)
        config = COUNTED.replace('after="mask"', 'after="causal"')
        assert len(upgrade_edits(work, config, new, old).apply().merged) == 1

    def test_one_that_both_use_for_the_same_is_a_conflict(self, work: Workspace) -> None:
        config = COUNTED.replace("(self, output)", "(self, output, factor)").replace("self.config.count", "factor")
        assert "it may be used twice for the same" in conflict_of(upgrade_edits(work, config, changed(GAINED, FACTOR)))

    def test_one_that_upstream_does_not_use_yet_may_mean_something_else(self, work: Workspace) -> None:
        config = COUNTED.replace("(self, output)", "(self, output, factor)").replace("self.config.count", "factor")
        assert "whether it means in `output = output * factor`" in conflict_of(
            upgrade_edits(work, config, changed(GAINED))
        )

    def test_one_goes_with_the_edit_that_uses_it_as_upstream_does(self, work: Workspace) -> None:
        config = COUNTED + '\nconfig.replace_code("Attention.forward", "attention(query, mask, ...)", '
        config += '"attention(query, mask, scaling=self.scaling * factor, **kwargs)")\n'
        applied = (upgraded := upgrade_edits(work, config, changed(GAINED, FACTOR))).apply()
        assert (len(applied.merged), applied.left, applied.problems) == (2, (), ())
        assert "replace_code" not in upgraded.text
        assert upgraded.code.count("self.scaling * factor") == 1

    def test_one_that_a_decorator_names_is_a_conflict(self, work: Workspace) -> None:
        new = changed(GAINED, FACTOR, ("    def forward", '    @renamed("factor")\n    def forward'))
        new = new.replace("import math", "import math\nfrom .parts import renamed")
        assert "a decorator of upstream's names it" in conflict_of(upgrade_edits(work, COUNTED, new))

    def test_code_that_upstream_adds_elsewhere_as_well_is_a_conflict(self, work: Workspace) -> None:
        line = "        output = output * self.config.count\n"
        new = changed(GAINED, FACTOR, ("        return output, weights", f"{line}        return output, weights"))
        new = new.replace(line, f"        output = self.norm(output)\n{line}")
        assert "and an edit that stays adds it as well" in conflict_of(upgrade_edits(work, COUNTED, new))

    def test_one_beside_an_edit_that_moves_is_a_conflict_too(self, work: Workspace) -> None:
        config = COUNTED.replace("(self, output)", "(self, output, factor)").replace("self.config.count", "factor")
        new = changed(GAINED, FACTOR, ("output = self.o_proj(scores)", "output = self.mix(scores, weights)"))
        upgraded = upgrade_edits(work, config, new)
        before = upgraded.code
        assert "it may be used twice for the same" in conflict_of(upgraded)
        assert upgraded.code == before

    @pytest.mark.parametrize(("rest", "goes"), [("", True), ('        factor = kwargs.get("mask")\n', False)])
    def test_one_that_upstream_no_longer_has_need_not_be_taken_out(
        self, work: Workspace, rest: str, goes: bool
    ) -> None:
        config = 'config.remove_parameter("Attention.forward", "mask")\n'
        config += 'config.replace_code("Attention.forward", "attention(query, mask, ...)", '
        config += '"attention(query, None, scaling=self.scaling, **kwargs)")'
        old = changed(("        if mask is not None:\n            query = query + mask\n", ""))
        new = changed((" mask=None,", ""), ("        scores, w", f"{rest}        scores, w"), text=old)
        upgraded = upgrade_edits(work, config, changed(("(query, mask,", "(query, None,"), text=new), old)
        removal = next(patch for patch in upgraded.config.patches if patch.kind == "parameter_removal")
        assert removal.rebase is not None
        assert removal.rebase.is_deletion == goes


class TestCode:
    """Code that upstream's function has now."""

    NEW = (
        ("self.o_proj(scores)", "fused(self.o_proj, scores)"),
        ("import math", "import math\nfrom kernels import fused"),
    )

    def test_goes_and_with_it_the_import_that_it_needs(self, work: Workspace) -> None:
        config = """
from acme.models.toy.parts import attention


@config.edit_method("Attention.forward", at="scores, weights = attention(query, mask, ...)")
def scale(query, mask, kwargs):
    scores, weights = attention(query, mask, scaling=2, **kwargs)
"""
        new = changed(
            ("scaling=self.scaling", "scaling=2"), ("return output, weights", "return output, weights, None")
        )
        upgraded = upgrade_edits(work, config, new)
        assert (upgraded.patch.verdict, upgraded.patch.risk) == ("now upstream", "safe")
        assert "every name in it has the same value there" in upgraded.finding.detail
        applied = upgraded.apply()
        assert (len(applied.merged), applied.left, applied.problems) == (1, (), ())
        assert "def scale" not in upgraded.text
        assert "import attention" not in upgraded.text
        assert upgraded.code.count("attention(query, mask, scaling=2, **kwargs)") == 1

    def test_of_another_function_with_the_name_is_a_conflict(self, work: Workspace) -> None:
        upgraded = upgrade_edits(work, INSTEAD.replace('"kernels"', '"ours"'), changed(*self.NEW))
        assert "the config's 'fused' may be another than upstream's" in conflict_of(upgraded, "method_edit")

    def test_on_another_value_is_a_conflict(self, work: Workspace) -> None:
        new = changed(*self.NEW, ("scores = scores.reshape(-1)", "scores = scores.flatten(1)"))
        assert "'scores' comes from `scores = scores.flatten(1)`" in conflict_of(
            upgrade_edits(work, INSTEAD, new), "method_edit"
        )


class TestShared:
    """Edits that several targets share."""

    CONFIG = """
from patchgen import Edits

attention = Edits()
attention.add_parameter("factor=None", after="mask")


@attention.edit(at="output = self.o_proj(scores)")
def count(self, output):
    ...
    output = output * self.config.count


config.edit_method("Attention.forward", edit=attention, description="counted")
config.edit_method("TwinAttention.forward", edit=attention)
"""
    TWINS = f"{OLD}\n\nclass TwinAttention:{OLD.partition('class Attention:')[2]}"

    def test_go_where_no_target_needs_them(self, work: Workspace) -> None:
        upgraded = upgrade_edits(work, self.CONFIG, changed(GAINED, FACTOR, text=self.TWINS), self.TWINS)
        applied = upgraded.apply()
        assert (len(applied.merged), applied.left, applied.problems) == (1, (), ())
        assert "add_parameter" not in upgraded.text
        assert upgraded.code.count("mask=None, factor=None, **kwargs") == 2

    def test_stay_where_one_target_needs_them(self, work: Workspace) -> None:
        first, twin = self.TWINS.split("class TwinAttention:")
        new = changed(GAINED, FACTOR, text=first) + "class TwinAttention:" + twin
        upgraded = upgrade_edits(work, self.CONFIG, new, self.TWINS)
        (left,) = upgraded.apply().left
        assert "TwinAttention.forward in" in left[1]
        assert "needs it still" in left[1]
        assert "add_parameter" in upgraded.text

    def test_stay_where_a_config_that_is_not_upgraded_has_them(self, work: Workspace) -> None:
        upgrading = Upgrading(work, self.TWINS, changed(GAINED, FACTOR, text=self.TWINS))
        path = work.config(self.CONFIG.replace('config.edit_method("TwinAttention.forward", edit=attention)\n', ""))
        (work.models / HEIR).parent.mkdir()
        (work.models / HEIR).write_text(
            f"""
from patchgen import PatchConfig
from proj.models.toy.toy_gpu_patch_gen_config import attention

config = PatchConfig("{UPSTREAM}", "heir.py")
config.edit_method("TwinAttention.forward", edit=attention)
"""
        )
        upgrading.generate()
        selection = select_configs(work.project, [path], package="acme")
        upgraded = EditUpgrade(upgrading, upgrade(selection, upgrading.release, upgrading.releases))
        (left,) = upgraded.apply().left
        assert "heir_gpu_patch_gen_config has it as well, and is not part of this upgrade" in left[1]
        assert "add_parameter" in upgraded.text


@pytest.mark.parametrize(("used", "count"), [("self.config.angle", 1), ("factor", 0)])
def test_edits_that_become_others_together_do_not_use_it_twice_either(work: Workspace, used: str, count: int) -> None:
    config = f"""
config.add_parameter("Attention.forward", "factor=None", after="mask")
config.delete_code("Attention.forward", "query = rotate(query, 1)")


@config.edit_method("Attention.forward", at="query = self.q_proj(hidden_states)")
def turn(self, query{", factor" * (not count)}):
    ...
    if self.config.is_fused:
        query = query.turn({used})
    else:
        query = rotate(query, 1)
"""
    upgraded = upgrade_edits(work, config, changed(GAINED, FACTOR, ("rotate(query, 1)", "rotate(query, 2)")))
    applied = upgraded.apply()
    assert (len(applied.merged), bool(applied.left)) == (count, not count)
    assert ("            query = rotate(query, 2)" in upgraded.code) == bool(count)
    assert ("add_parameter" in upgraded.text) == (not count)


def test_what_declares_several_edits_stays(work: Workspace) -> None:
    config = 'for name in ("factor",):\n    config.add_parameter("Attention.forward", f"{name}=None", after="mask")\n'
    assert "declares it and nothing else" in conflict_of(upgrade_edits(work, config, changed(GAINED, FACTOR)))


def test_a_person_is_asked_as_about_every_clean_merge(work: Workspace) -> None:
    upgraded = upgrade_edits(work, COUNTED, changed(GAINED, FACTOR))
    (question,) = list_questions(upgraded.report)
    assert [choice.name for choice in question.choices] == ["accept"]
    assert question.text.startswith("# --- counted ---") or "config.add_parameter(" in question.text


def test_every_report_says_what_is_deleted(work: Workspace) -> None:
    upgraded = upgrade_edits(work, COUNTED, changed(GAINED, FACTOR))
    before = printed(upgraded, True, "upgrade --apply")
    assert "  deletes      " in before
    assert ": upstream has it now" in before
    assert '-config.add_parameter("Attention.forward", "factor: int = None", after="mask")' in before
    assert "it deletes 1 edit that upstream has now, generates the files" in before
    assert "by hand" not in before
    assert "It goes: upstream has it now" in upgrade_page(upgraded.report).sections[0].body
    (merge,) = (p["merge"] for p in upgrade_data(upgraded.report)["configs"][0]["patches"] if p["merge"])
    assert (merge["clean"], merge["how"], merge["text"]) == (True, "deleted", "")
    applied = upgraded.apply()
    assert [change.word for change in list_changes(applied)][-1] == "deleted"
    assert applied_summary(applied) == "Applied: 1 edit deleted, 2 files generated."
    assert next_steps(upgraded.report, applied) == []
    data = applied_data(applied)
    assert (len(data["deleted"]), data["merged"]) == (1, [])


def printed(upgraded: EditUpgrade, verbose: bool, command: str) -> str:
    """The report as a terminal has it, with the next steps."""
    stream = io.StringIO()
    console = Console(file=stream, width=200, highlight=False, markup=False)
    print_upgrade(console, upgraded.report, verbose)
    print_steps(console, upgraded.report, next_steps(upgraded.report), command, verbose)
    return stream.getvalue()


def test_the_editor_deletes_it_in_the_config_alone(work: Workspace) -> None:
    work.upstream(OLD)
    settle(work, COUNTED)
    before = generated(work).read_text()
    work.upstream(changed(GAINED, FACTOR), version="2.0")
    path = work.models / CONFIG
    (merge,) = merge_patch(work.project, path, "Attention.forward", "acme")
    assert merge.left == ()
    assert "add_parameter" not in merge.texts[path]
    assert 'description="counted")\ndef count' in merge.texts[path]
    assert ("add_parameter" in path.read_text(), generated(work).read_text()) == (True, before)
