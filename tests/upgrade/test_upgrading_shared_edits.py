"""What a release does to edits that targets share."""

from __future__ import annotations

from tests.conftest import Workspace
from tests.upgrade.edit_releases import OLD, changed, upgrade_edits

TWINS = f"{OLD}\n\nclass TwinAttention:{OLD.partition('class Attention:')[2]}"
SHARED = """
from patchgen import Edits

attention = Edits()


@attention.edit(at="output = self.o_proj(scores)")
def count(self, output):
    ...
    output = output * self.config.factor


attention.replace_code("rotate(query, 1)", "rotate(query, 1) * 2")

config.edit_method("Attention.forward", edit=attention, description="counted")
config.edit_method("TwinAttention.forward", edit=attention, name_map={"Attention": "TwinAttention"})
"""
APART = """
from patchgen import Edits

attention = Edits()
attention.delete_code("query = rotate(query, 1)")


@attention.edit(at="query = self.q_proj(hidden_states)")
def turn(self, query):
    ...
    # --- fused ---
    if self.config.is_fused:
        query = query.turn(1)
    else:
        query = rotate(query, 1)


config.edit_method("Attention.forward", edit=attention)
config.edit_method("TwinAttention.forward", edit=attention)
"""


def test_places_and_code_are_rewritten_once_for_all_targets(work: Workspace) -> None:
    new = changed(("self.o_proj", "self.out_proj"), ("rotate(query, 1)", "rotate(query, angle=1)"), text=TWINS)
    upgraded = upgrade_edits(work, SHARED, new, TWINS)
    assert {patch.verdict for patch in upgraded.config.patches} == {"place moved", "place changed"}
    applied = upgraded.apply()
    assert (len(applied.merged), applied.left, applied.problems) == (2, (), ())
    assert '@attention.edit(at="output = self.out_proj(scores)")' in upgraded.text
    assert upgraded.code.count("query = rotate(query, angle=1) * 2") == 2


def test_a_class_with_another_name_is_named_in_the_call_that_gives_it_edits(work: Workspace) -> None:
    new = changed(("class TwinAttention:", "class SecondAttention:"), text=TWINS)
    upgraded = upgrade_edits(work, SHARED, new, TWINS)
    assert not upgraded.apply().problems
    assert 'config.edit_method("SecondAttention.forward", edit=attention' in upgraded.text


def test_what_cannot_be_carried_over_one_by_one_is_written_anew_for_all_targets(work: Workspace) -> None:
    upgraded = upgrade_edits(work, APART, changed(("rotate(query, 1)", "rotate(query, 2)"), text=TWINS), TWINS)
    applied = upgraded.apply()
    assert (len(applied.merged), applied.left, applied.problems) == (1, (), ())
    assert upgraded.code.count("query = query.turn(1)\n        else:\n            query = rotate(query, 2)\n") == 2
    assert upgraded.text.count("attention = Edits()") == 1


def test_a_target_that_upstream_left_alone_keeps_its_code(work: Workspace) -> None:
    first, twin = TWINS.split("class TwinAttention:")
    new = first.replace("rotate(query, 1)", "rotate(query, 2)") + "class TwinAttention:" + twin
    upgraded = upgrade_edits(work, APART, new, TWINS)
    assert not upgraded.apply().problems
    assert [upgraded.code.count(f"            query = rotate(query, {number})\n") for number in (1, 2)] == [1, 1]


def test_edits_go_where_upstreams_function_is_what_they_made_of_it(work: Workspace) -> None:
    config = 'config.remove_parameter("Attention.forward", "mask")\n'
    config += 'config.delete_code("Attention.forward", "if mask is not None:")\n'
    config += 'config.replace_code("Attention.forward", "attention(query, mask, ...)", "attention(query, None, ...)")'
    new = changed(
        (" mask=None,", ""),
        ("        if mask is not None:\n            query = query + mask\n", ""),
        ("(query, mask,", "(query, None,"),
    )
    upgraded = upgrade_edits(work, config, new)
    assert [patch.verdict for patch in upgraded.config.patches] == ["now upstream"] * 3
    assert upgraded.report.exit_code == 0
    applied = upgraded.apply()
    assert (len(applied.merged), applied.left, applied.problems) == (3, (), ())
    assert "Attention.forward" not in upgraded.text
