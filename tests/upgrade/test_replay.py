"""What the replay makes of a patch that was carried over: right, conflict or wrong."""

from __future__ import annotations

import ast
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks.replay import read_judged
from benchmarks.replay_figures import TABLES, Figure, read_figures, tabulate_outcomes, write_figures
from benchmarks.replay_gate import find_new, find_witnessed, gate_file
from benchmarks.replay_judge import Judged, judge, table
from benchmarks.replay_records import PatchRecord, StepRecord
from benchmarks.replay_steps import upstream_change
from benchmarks.replay_walks import RELEASES, Walk
from patchgen_core.files import write_files

CONFIG = "zoo.toy.toy_gpu_patch_gen_config"
CARRIED = PatchRecord(CONFIG, "Norm.forward", "method_override", "body", "changed", "lines")
UNTOUCHED = PatchRecord(CONFIG, "Attention.forward", "method_edit", "none", "unchanged", "nothing")
TOLD = PatchRecord(CONFIG, "rotate", "function_replacement", "body", "changed", "conflict", ("both changed this",))


def outcomes(judged: list[Judged]) -> dict[str, str]:
    return {entry.record.target: entry.outcome for entry in judged}


def step(*patches: PatchRecord, **parts: dict[str, object]) -> StepRecord:
    return StepRecord("1.0", "2.0", patches, parts.get("broken", {}), parts.get("ended", {}))  # type: ignore[arg-type]


class TestJudge:
    """One config with a patch that merged, one that upstream did not touch, and a conflict."""

    def test_what_is_green_is_right_and_what_was_told_is_a_conflict(self) -> None:
        judged = judge(step(CARRIED, UNTOUCHED, TOLD), {}, [CONFIG])
        assert outcomes(judged) == {"Norm.forward": "right", "Attention.forward": "right", "rotate": "conflict"}
        assert {entry.by for entry in judged} == {"parity"}
        assert [entry.why for entry in judged] == ["", "", "both changed this"]

    def test_code_that_people_wrote_too_is_judged_by_that(self) -> None:
        alike, unlike = (replace(CARRIED, is_as_people_wrote=is_same) for is_same in (True, False))
        assert [judge(step(record), {}, [CONFIG])[0].by for record in (alike, unlike)] == ["people", "parity"]
        assert judge(step(alike), {CONFIG: ["Norm.forward is red"]})[0].outcome == "wrong"

    def test_a_clean_merge_that_is_red_is_wrong(self) -> None:
        judged = judge(step(CARRIED, UNTOUCHED), {CONFIG: ["parity: other logits"]}, [CONFIG])
        assert outcomes(judged) == {"Norm.forward": "wrong", "Attention.forward": "not judged"}
        assert judged[0].why == "parity: other logits"

    def test_the_patch_that_the_gate_names_is_wrong(self) -> None:
        red = {CONFIG: ["parity: other values after Attention.forward"]}
        judged = judge(step(CARRIED, UNTOUCHED), red, [CONFIG])
        assert outcomes(judged) == {"Norm.forward": "not judged", "Attention.forward": "wrong"}

    def test_what_is_red_and_was_to_be_looked_at_is_a_conflict(self) -> None:
        asked = replace(CARRIED, asked=("used rotate changed",))
        assert judge(step(asked), {CONFIG: ["parity: other logits"]})[0].outcome == "conflict"
        assert judge(step(asked), {})[0].outcome == "right"

    def test_what_does_not_generate_is_wrong_unless_told(self) -> None:
        problem = "nothing defines 'Optional' in Norm.forward"
        broken = step(CARRIED, broken={CONFIG: (problem,)}, ended={CONFIG: problem})
        assert judge(broken, {})[0].outcome == "wrong"
        told = judge(step(CARRIED, UNTOUCHED, ended={CONFIG: problem}), {})
        assert outcomes(told) == {"Norm.forward": "conflict", "Attention.forward": "not judged"}

    def test_a_slot_that_only_a_conflict_calls_is_nobodys_fault(self) -> None:
        red = {CONFIG: ["parity[eager]: PG301 no toy batch calls 'slot_loss', which is bound to eager"]}
        assert outcomes(judge(step(CARRIED, TOLD), red)) == {"Norm.forward": "right", "rotate": "conflict"}
        assert outcomes(judge(step(CARRIED), red)) == {"Norm.forward": "wrong"}
        red[CONFIG].append("parity[eager]: other logits")
        assert outcomes(judge(step(CARRIED, TOLD), red))["Norm.forward"] == "wrong"

    def test_what_fell_with_a_conflict_is_not_judged(self) -> None:
        assert judge(step(replace(CARRIED, how="fell"), TOLD), {})[0].outcome == "not judged"


def test_what_the_gate_finds_before_a_step_or_without_what_it_left_out_is_not_of_the_step(tmp_path: Path) -> None:
    walk = Walk("zoo-5.9.0", "edits", "5.9.0", ("5.9.0", "5.13.1"))
    home = tmp_path / walk.name
    before = ["contract: PG201 Norm.forward drops a parameter"]
    steps = {
        "5.13.1.json": asdict(step(CARRIED)),
        "5.9.0.gate.json": {CONFIG: before},
        "5.13.1.gate.json": {CONFIG: before},
    }
    write_files([(home / name, json.dumps(value)) for name, value in steps.items()])
    assert [(entry.outcome, entry.by) for _, _, entry in read_judged(walk, tmp_path, RELEASES)] == [
        ("right", "parity")
    ]
    (home / "5.13.1.gate.json").write_text(json.dumps({CONFIG: [*before, "parity: other logits"]}))
    assert [(entry.outcome, entry.why) for *_, entry in read_judged(walk, tmp_path, RELEASES)] == [
        ("wrong", "parity: other logits")
    ]
    (home / "5.13.1.control.json").write_text(json.dumps({CONFIG: ["parity: it raises"]}))
    assert [(entry.outcome, entry.by) for *_, entry in read_judged(walk, tmp_path, RELEASES)] == [("right", "rules")]


@pytest.mark.parametrize(
    ("new", "change"),
    [
        ("def f(x):\n    'One.'\n    return  x", "none"),
        ("def f(x):\n    'Two.'\n    return x", "layout"),
        ("def f(x: int) -> int:\n    'One.'\n    return x", "annotations"),
        ("def f(x):\n    'One.'\n    return x + 1", "body"),
        ("@g\ndef f(x):\n    'One.'\n    return x", "decorators"),
        ("def f(x, y):\n    'One.'\n    return x", "signature"),
    ],
)
def test_what_upstream_changed(new: str, change: str) -> None:
    old = "def f(x):\n    'One.'\n    return x"
    assert upstream_change(*(ast.parse(text).body[0] for text in (old, new))) == change


def test_a_table_counts_by_kind() -> None:
    judged = judge(step(CARRIED, UNTOUCHED, TOLD), {})
    assert table(judged, "kind")[2:] == [
        "| edit | 1 | 1 | 0 | 0 | 0 |",
        "| function replaced | 1 | 0 | 1 | 0 | 0 |",
        "| method replaced | 1 | 1 | 0 | 0 | 0 |",
        "| together | 3 | 2 | 1 | 0 | 0 |",
    ]


def test_what_was_red_before_or_was_not_judged_then_is_nothing_new(tmp_path: Path) -> None:
    before, after = tmp_path / "1.0", tmp_path / "2.0"
    old, broken = "import: no module 'kernels'", "parity[eager]: 'logits' differs"
    ruled = "contract: PG201 'Norm.forward' drops 'x'"  # which is in the record of the step
    write_files([(gate_file(before), json.dumps({CONFIG: [old]}))])
    write_files([(gate_file(after), json.dumps({CONFIG: [old, broken, ruled], "zoo.other": [old]}))])
    assert find_new(after, before) == {CONFIG: [broken]}


def test_an_item_of_parity_that_was_red_before_hides_what_is_new(tmp_path: Path) -> None:
    before, after = tmp_path / "1.0", tmp_path / "2.0"
    write_files([(gate_file(before), json.dumps({CONFIG: ["parity[eager]: 'gate' differs"], "zoo.other": []}))])
    red = {CONFIG: ["parity[eager]: 'logits' differs", "parity[fused]: 'loss' differs"], "zoo.other": []}
    write_files([(gate_file(after), json.dumps(red))])
    assert find_new(after, before) == {CONFIG: ["parity[fused]: 'loss' differs"], "zoo.other": []}
    assert find_witnessed(after, before) == ["zoo.other"]


def test_figures_keep_those_of_other_steps_and_make_a_table_of_both_forms(tmp_path: Path) -> None:
    path = tmp_path / "figures.txt"
    judged = judge(step(CARRIED, UNTOUCHED, TOLD), {})
    write_figures(path, [("toy-replacements", "2.0", entry) for entry in judged])
    write_figures(path, [("toy-edits", "1.0", entry) for entry in judged[:1]])
    write_figures(path, [("toy-edits", "2.0", entry) for entry in judged[:2]])
    write_figures(path, [("toy-edits", "2.0", entry) for entry in judged[:1]])
    figures = read_figures(path)
    assert Figure("toy-edits", "2.0", "method replaced", "body", "right", "rules", 1) in figures
    assert tabulate_outcomes(figures, "step")[2:-1] == [
        "| toy, 1.0 | - | 1 / 0 / 0 / 0 |",
        "| toy, 2.0 | 2 / 1 / 0 / 0 | 1 / 0 / 0 / 0 |",
    ]
    assert tabulate_outcomes(figures, "change")[2:] == [
        "| body | 1 / 1 / 0 / 0 | 2 / 0 / 0 / 0 |",
        "| nothing | 1 / 0 / 0 / 0 | - |",
        "| **together** | 2 / 1 / 0 / 0 | 2 / 0 / 0 / 0 |",
    ]


def test_the_docs_have_the_tables_of_the_figures_and_nothing_is_wrong() -> None:
    text = (Path(__file__).parents[2] / "docs/upgrading.md").read_text(encoding="utf-8")
    for path, groups in TABLES.items():
        figures = read_figures(path)
        for group in groups:
            assert "\n".join(tabulate_outcomes(figures, group)) in text
        assert [figure for figure in figures if figure.outcome == "wrong"] == []
