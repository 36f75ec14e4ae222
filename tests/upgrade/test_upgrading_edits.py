"""What a release does to an edit: nothing where upstream changed its function elsewhere, else at its place alone."""

from __future__ import annotations

import pytest

from tests.conftest import CONFIG, Workspace
from tests.upgrade.edit_releases import OLD, changed, upgrade_edits

AFTER = """
@config.edit_method("Attention.forward", at="output = self.o_proj(scores)")
def count(self, output):
    ...
    output = output * self.config.factor
"""
INSTEAD = """
config.add_import("kernels", names=["fused"])


@config.edit_method("Attention.forward", at="output = self.o_proj(scores)")
def use_kernel(self, scores):
    output = fused(self.o_proj, scores)
"""
GUARD = """
@config.edit_method("Attention.forward")
def guard(self, hidden_states):
    if hidden_states.is_empty:
        return hidden_states
    ...
"""
ARGUMENT = """
config.replace_code("Attention.forward", "attention(..., scaling=$S)", "attention(..., scaling=$S * 2, sink=query)")
"""
DOUBLED = 'config.replace_code("Attention.forward", "self.q_proj(hidden_states)", "self.q_proj(hidden_states) * 2")'
DELETED = 'config.delete_code("Attention.forward", "query = rotate(query, 1)")'
PARAMETER = 'config.add_parameter("Attention.forward", "scale=1", after="mask")'
TURN = "def turn(query):\n    query = rotate(query, 1)\n    return query\n"
LINE = "output = self.o_proj(scores)"


class TestElsewhere:
    """Upstream changed the function elsewhere than at the place."""

    def test_nothing_is_to_do_and_the_names_that_mean_the_same_are_told(self, work: Workspace) -> None:
        upgraded = upgrade_edits(work, AFTER, changed(("rotate(query, 1)", "rotate(query, 2)")))
        assert (upgraded.patch.verdict, upgraded.patch.risk) == ("changed elsewhere", "safe")
        assert upgraded.finding.detail == (
            "every name that the edit uses means the same there: 'output' and 'self.config'"
        )
        assert upgraded.patch.rebase is None
        assert upgraded.report.exit_code == 0

    def test_a_guard_on_top_does_not_mind_what_the_body_does(self, work: Workspace) -> None:
        upgraded = upgrade_edits(work, GUARD, changed(("query = rotate(query, 1)\n", "query = query * 3\n")))
        assert (upgraded.patch.verdict, upgraded.patch.risk) == ("changed elsewhere", "safe")

    def test_arguments_that_the_place_leaves_open_may_change(self, work: Workspace) -> None:
        upgraded = upgrade_edits(work, ARGUMENT, changed(("scaling=self.scaling,", "scaling=self.scale, dropout=0,")))
        assert (upgraded.patch.verdict, upgraded.patch.risk) == ("changed elsewhere", "safe")

    def test_an_item_of_a_dict_may_stay_as_well(self, work: Workspace) -> None:
        old = changed(("return output, weights", 'return {"output": output, "weights": weights}'))
        edit = """config.replace_code("Attention.forward", '"weights": weights', '"weights": mask')"""
        upgraded = upgrade_edits(work, edit, changed(("rotate(query, 1)", "rotate(query, 2)"), text=old), old)
        assert (upgraded.patch.verdict, upgraded.patch.risk) == ("changed elsewhere", "safe")

    def test_a_local_name_with_another_value_is_told(self, work: Workspace) -> None:
        config = AFTER.replace("self.config.factor", "weights")
        upgraded = upgrade_edits(work, config, changed(("attention(query, mask,", "attention(query, None,")))
        assert (upgraded.patch.verdict, upgraded.patch.risk) == ("changed elsewhere", "review")
        (value,) = upgraded.patch.findings[:1]
        assert (value.about, value.relation) == ("Attention.forward", "target")
        assert [finding.about for finding in upgraded.patch.findings if finding.risk == "review"] == ["weights"]
        assert "'output' means the same there" in value.detail

    def test_a_local_name_that_nothing_binds_before_the_edit_any_more(self, work: Workspace) -> None:
        config = AFTER.replace("self.config.factor", "weights")
        new = changed(
            ("scores, weights = attention", "scores, _ = attention"), ("return output, weights", "return output")
        )
        upgraded = upgrade_edits(work, config, new)
        assert [(f.about, f.kind) for f in upgraded.patch.findings if f.risk == "must change"] == [("weights", "gone")]

    def test_a_value_that_nothing_reads_any_more_is_told(self, work: Workspace) -> None:
        upgraded = upgrade_edits(work, AFTER, changed(("return output, weights", "return scores, weights")))
        (finding,) = [finding for finding in upgraded.patch.findings if finding.risk == "review"]
        assert (
            str(finding)
            == "used output changed: upstream's code no longer reads the value that the edit assigns to it"
        )

    def test_an_attribute_that_the_class_no_longer_sets(self, work: Workspace) -> None:
        new = changed(
            ("self.config = config\n", "self.size = config.size\n"), ("rotate(query, 1)", "rotate(query, 2)")
        )
        upgraded = upgrade_edits(work, AFTER, new)
        assert [(f.about, f.kind) for f in upgraded.patch.findings if f.risk == "must change"] == [
            ("Attention.config", "gone")
        ]

    def test_names_of_code_in_quotes_are_looked_at_too(self, work: Workspace) -> None:
        config = 'config.replace_code("Attention.forward", "scores.reshape(-1)", "rotate(scores, 1).reshape(-1)")'
        new = changed(
            ("def rotate(x, angle):", "def rotate(x, angle, axis):"), ("rotate(query, 1)", "rotate(query, 1, 0)")
        )
        upgraded = upgrade_edits(work, config, new)
        assert [(f.about, f.kind) for f in upgraded.patch.findings if f.risk == "must change"] == [
            ("rotate", "signature changed")
        ]


class TestRenamed:
    """The same code with other names: the place and the edit are rewritten."""

    @pytest.mark.parametrize(
        ("config", "names", "place", "code"),
        [
            (AFTER, ("self.o_proj", "self.out_proj"), 'at="output = self.out_proj(scores)"', "output * self.config"),
            (AFTER, ("output", "result"), 'at="result = self.o_proj(scores)"', "result = result * self.config.factor"),
            (INSTEAD, ("scores", "attn"), 'at="output = self.o_proj(attn)"', "output = fused(self.o_proj, attn)"),
            (GUARD, ("hidden_states", "x"), 'edit_method("Attention.forward")', "if x.is_empty:\n        return x"),
            (DELETED, ("query", "q"), '"q = rotate(q, 1)"', "delete_code"),
            (DELETED, ("rotate", "turn"), '"query = turn(query, 1)"', "delete_code"),
            (PARAMETER, ("mask", "bias"), 'after="bias"', "add_parameter"),
        ],
    )
    @pytest.mark.mostly_slow(4)
    def test_place_and_code_have_the_new_names(
        self, work: Workspace, config: str, names: tuple[str, str], place: str, code: str
    ) -> None:
        upgraded = upgrade_edits(work, config, changed(names))
        assert upgraded.patch.verdict == "place moved"
        assert upgraded.finding.detail == f"'{names[0].split('.')[-1]}' is called '{names[1].split('.')[-1]}' now"
        applied = upgraded.apply()
        assert (len(applied.merged), applied.left, applied.problems) == (1, (), ())
        assert place in upgraded.text
        assert code in upgraded.text
        assert "acme==2.0" in upgraded.code

    def test_a_name_that_other_code_still_has_is_not_taken_for_renamed(self, work: Workspace) -> None:
        old = changed(("return x\n", "return self.o_proj(x)\n"))
        new = changed(("output = self.o_proj", "output = self.out_proj"), text=old)
        upgraded = upgrade_edits(work, INSTEAD, new, old)
        assert upgraded.patch.verdict == "place changed"


class TestMoved:
    """The same code elsewhere."""

    def test_into_a_method_that_the_function_calls(self, work: Workspace) -> None:
        finish = f"def finish(self, scores):\n        {LINE}\n        return output\n"
        new = changed((LINE, "output = self.finish(scores)"), ("def project(self, x):\n        return x\n", finish))
        upgraded = upgrade_edits(work, AFTER, new)
        assert (upgraded.patch.verdict, upgraded.patch.new_name) == ("place moved", "Attention.finish")
        assert not upgraded.apply().problems
        assert '@config.edit_method("Attention.finish", at="output = self.o_proj(scores)")' in upgraded.text

    def test_into_a_function_of_the_module(self, work: Workspace) -> None:
        config = AFTER.replace(LINE, "query = rotate(query, 1)").replace("self, output", "query")
        config = config.replace("output = output * self.config.factor", "query = -query")
        new = changed(
            ("        query = rotate(query, 1)\n", "        query = turn(query)\n"),
            (
                "class Attention:",
                "def turn(query):\n    query = rotate(query, 1)\n    return query\n\n\nclass Attention:",
            ),
        )
        upgraded = upgrade_edits(work, config, new)
        assert (upgraded.patch.verdict, upgraded.patch.new_name) == ("place moved", "turn")
        assert not upgraded.apply().problems
        assert '@config.edit_function("turn", at="query = rotate(query, 1)")' in upgraded.text

    def test_into_two_functions_is_gone(self, work: Workspace) -> None:
        finish = f"def finish(self, scores):\n        {LINE}\n        return output\n"
        new = changed(
            (LINE, "output = self.finish(scores) + self.end(scores)"),
            ("def project(self, x):\n        return x\n", finish + "\n    " + finish.replace("finish", "end")),
        )
        upgraded = upgrade_edits(work, INSTEAD, new)
        assert upgraded.patch.new_name == ""
        assert upgraded.patch.verdict != "place moved"

    def test_what_stood_beside_it_no_longer_does(self, work: Workspace) -> None:
        config = AFTER.replace('at="output', 'at="scores = scores.reshape(-1)\\noutput')
        new = changed((f"        {LINE}\n", f"        scores = scores * 2\n        {LINE}\n"))
        upgraded = upgrade_edits(work, config, new)
        assert upgraded.patch.verdict == "place moved"
        assert not upgraded.apply().problems
        assert f'at="{LINE}"' in upgraded.text


class TestChanged:
    """Upstream changed the code at the place."""

    def test_an_edit_that_leaves_the_code_upstreams_goes_with_it(self, work: Workspace) -> None:
        upgraded = upgrade_edits(work, AFTER, changed(("self.o_proj(scores)", "self.o_proj(scores, hidden_states)")))
        assert upgraded.patch.verdict == "place changed"
        assert "`output = self.o_proj(scores)` is `output = self.o_proj(scores, hidden_states)` now" in (
            upgraded.finding.detail
        )
        assert not upgraded.apply().problems
        assert 'at="output = self.o_proj(...)"' in upgraded.text
        assert "output = self.o_proj(scores, hidden_states)\n        output = output *" in upgraded.code

    def test_a_statement_that_assigns_to_other_names_is_another_one(self, work: Workspace) -> None:
        new = changed(("output = self.o_proj(scores)", "output, scores = self.o_proj(scores), None"))
        assert upgrade_edits(work, AFTER, new).patch.verdict == "place gone"

    def test_changes_that_do_not_meet_are_merged(self, work: Workspace) -> None:
        upgraded = upgrade_edits(
            work, DOUBLED, changed(("self.q_proj(hidden_states)", "self.q_proj(hidden_states, 1)"))
        )
        assert upgraded.patch.verdict == "place changed"
        assert not upgraded.apply().problems
        assert "query = self.q_proj(hidden_states, 1) * 2" in upgraded.code

    def test_changes_that_do_not_meet_are_merged_into_the_function_of_an_edit(self, work: Workspace) -> None:
        config = """
        @config.edit_method("Attention.forward", at="scores, weights = attention(...)")
        def pass_sink(self, query, mask, kwargs):
            # a sink of ours
            scores, weights = attention(query, mask, scaling=self.scaling, sink=query, **kwargs)
        """
        upgraded = upgrade_edits(work, config, changed(("attention(query, mask,", "attention(query, None,")))
        assert (upgraded.patch.verdict, upgraded.patch.risk) == ("place changed", "review")
        assert not upgraded.apply().problems
        assert (
            "    # a sink of ours\n    scores, weights = attention(query, None, scaling=self.scaling, sink=query"
            in (upgraded.text)
        )

    @pytest.mark.parametrize(
        ("config", "pair", "ours"),
        [
            (INSTEAD, ("self.o_proj(scores)", "self.o_proj(scores).clone()"), "output = fused(self.o_proj, scores)"),
            (DELETED, ("rotate(query, 1)", "rotate(query, 2)"), ""),
        ],
    )
    def test_changes_that_meet_are_a_conflict_with_all_texts(
        self, work: Workspace, config: str, pair: tuple[str, str], ours: str
    ) -> None:
        upgraded = upgrade_edits(work, config, changed(pair))
        assert (upgraded.patch.verdict, upgraded.patch.risk) == ("place changed", "must change")
        assert upgraded.patch.rebase is not None
        (conflict,) = upgraded.patch.rebase.merged.conflicts
        assert pair[0] in conflict.base
        assert pair[1] in conflict.theirs
        assert conflict.ours == ours
        before = upgraded.text, upgraded.code
        applied = upgraded.apply()
        assert len(applied.left) == 1
        assert (upgraded.text, upgraded.code) == before

    def test_conflicts_are_written_with_markers(self, work: Workspace) -> None:
        upgraded = upgrade_edits(work, INSTEAD, changed(("self.o_proj(scores)", "self.o_proj(scores).clone()")))
        assert len(upgraded.apply(conflicts=True).marked) == 1
        assert (
            "<<<<<<< ours\n    output = fused(self.o_proj, scores)\n||||||| base\n    output = self.o_proj(scores)\n"
            "=======\n    output = self.o_proj(scores).clone()\n>>>>>>> theirs"
        ) in upgraded.text


class TestTogether:
    """Edits of one target of which one cannot be carried over by itself."""

    APART = (
        DELETED
        + """


# Fused where it can be
@config.edit_method("Attention.forward", at="query = self.q_proj(hidden_states)", description="fused")
def turn(self, query):
    ...
    # --- fused ---
    if self.config.is_fused:
        query = query.turn(1)
    else:
        query = rotate(query, 1)


def other():
    return 1
"""
    )

    def test_are_carried_over_as_one(self, work: Workspace) -> None:
        upgraded = upgrade_edits(work, self.APART, changed(("rotate(query, 1)", "rotate(query, 2)")))
        assert {patch.verdict for patch in upgraded.config.patches} == {"place changed", "changed elsewhere"}
        applied = upgraded.apply()
        assert (len(applied.merged), applied.left, applied.problems) == (1, (), ())
        assert (
            "            query = query.turn(1)\n        else:\n            query = rotate(query, 2)\n" in upgraded.code
        )
        assert "rotate(query, 1)" not in upgraded.text
        assert "def other():\n    return 1\n" in upgraded.text

    def test_are_left_where_that_conflicts_too(self, work: Workspace) -> None:
        new = changed(("rotate(query, 1)", "rotate(query, 2)"))
        upgraded = upgrade_edits(work, self.APART.replace("rotate(query, 1)\n\n", "rotate(query, 3)\n\n"), new)
        before = upgraded.text
        assert len(upgraded.apply().left) == 1
        assert upgraded.text == before


class TestGone:
    """The place is not there, or not once."""

    def test_a_place_that_is_gone_comes_with_the_nearest_code(self, work: Workspace) -> None:
        new = changed((f"        {LINE}\n        return output,", "        return self.o_proj(scores),"))
        upgraded = upgrade_edits(work, AFTER, new)
        assert (upgraded.patch.verdict, upgraded.patch.risk) == ("place gone", "must change")
        assert upgraded.finding.detail == (
            "upstream's 'Attention.forward' has no 'output = self.o_proj(scores)'; "
            "nearest: line 20: query = self.q_proj(hidden_states); line 26: return (self.o_proj(scores), weights)"
        )
        assert upgraded.report.exit_code == 1

    def test_a_place_that_is_there_twice_comes_with_its_lines(self, work: Workspace) -> None:
        upgraded = upgrade_edits(work, AFTER, changed((f"        {LINE}\n", f"        {LINE}\n        {LINE}\n")))
        assert (upgraded.patch.verdict, upgraded.patch.risk) == ("place ambiguous", "must change")
        assert "is there 2 times, in upstream's lines 26 and 27" in upgraded.finding.detail

    def test_a_parameter_beside_one_that_is_gone(self, work: Workspace) -> None:
        new = changed(("hidden_states, mask=None,", "hidden_states,"), ("if mask is not None:", "if query.any():"))
        upgraded = upgrade_edits(
            work, PARAMETER, changed(("+ mask", "+ 1"), ("attention(query, mask,", "attention(query,"), text=new)
        )
        assert upgraded.patch.verdict == "place gone"
        assert "it no longer has a parameter 'mask'" in upgraded.finding.detail


class TestWriting:
    """What is written, and what is not."""

    def test_a_place_that_is_no_text_is_left_with_the_reason(self, work: Workspace) -> None:
        config = AFTER.replace('"output = self.o_proj(scores)"', '"output = " + "self.o_proj(scores)"')
        upgraded = upgrade_edits(work, config, changed(("self.o_proj", "self.out_proj")))
        before = upgraded.text
        ((_, reason),) = upgraded.apply().left
        assert "'at' of edit_method is not a literal" in reason
        assert upgraded.text == before

    def test_all_declarations_of_a_shared_function_are_rewritten(self, work: Workspace) -> None:
        twin = OLD.partition("class Attention:")[2]
        old = f"{OLD}\n\nclass TwinAttention:{twin}"
        config = AFTER + (
            'config.edit_method("TwinAttention.forward", at="output = self.o_proj(scores)", edit=count)\n'
        )
        upgraded = upgrade_edits(work, config, changed(("self.o_proj", "self.out_proj"), text=old), old)
        assert {patch.verdict for patch in upgraded.config.patches} == {"place moved"}
        assert not upgraded.apply().problems
        assert upgraded.text.count('at="output = self.out_proj(scores)"') == 2

    def test_quotes_and_layout_stay(self, work: Workspace) -> None:
        config = AFTER.replace('at="output = self.o_proj(scores)"', "at='output = self.o_proj(scores)',  # counted\n")
        upgraded = upgrade_edits(work, config, changed(("self.o_proj", "self.out_proj")))
        assert not upgraded.apply().problems
        assert "at='output = self.out_proj(scores)',  # counted\n" in upgraded.text

    def test_places_of_several_lines(self, work: Workspace) -> None:
        lines = "scores = scores.reshape(-1)\n    output = self.o_proj(scores)"
        config = AFTER.replace('"output = self.o_proj(scores)"', f'"""\n    {lines}\n    """')
        upgraded = upgrade_edits(work, config, changed(("scores", "attn")))
        assert not upgraded.apply().problems
        assert f'at="""\n    {lines.replace("scores", "attn")}\n    """' in upgraded.text


def test_what_is_wrong_at_an_argument_of_a_call_over_several_lines_is_its_patchs(work: Workspace) -> None:
    forward = "def forward(self, hidden_states, mask=None, **kwargs):\n    return hidden_states, mask\n"
    config = """
from proj.models.toy.forwards import forward

config.override_method(
    "Attention.forward",
    replacement=forward,
)
"""
    (work.models / CONFIG).parent.mkdir(parents=True, exist_ok=True)
    (work.models / CONFIG).with_name("forwards.py").write_text(forward)
    upgraded = upgrade_edits(work, config, changed(("mask=None, **kwargs", "mask=None, scale=None, **kwargs")))
    (problem,) = upgraded.config.problems
    assert problem.location is not None
    assert problem.location.line == upgraded.patch.location.line + 1
    assert (upgraded.patch.problems, upgraded.patch.risk) == ((problem,), "must change")
