"""Findings that a project has recorded are held back, and new ones are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.checks.baseline import identify
from patchgen_core.errors import Problem
from tests.conftest import DEFECTS, SECOND_DEFECT, UPSTREAM_TEXT, Workspace

MODULE = "proj.models.toy.toy_gpu_patch_gen_config"


def command(work: Workspace, *arguments: str) -> tuple[int, list[str]]:
    done = work.patchgen(*arguments)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, (done.stdout + done.stderr).splitlines()


def recorded(work: Workspace) -> list[dict[str, Any]]:
    data = json.loads((work.root / "patchgen-baseline.json").read_text(encoding="utf-8"))
    findings: list[dict[str, Any]] = data["findings"]
    return findings


def test_what_is_recorded_is_held_back_and_the_last_line_says_how_much(defective: Workspace) -> None:
    assert command(defective, "check")[0] == 1
    code, lines = command(defective, "baseline", "--checks", "drift,contract")
    assert (code, lines[-2:]) == (0, ["wrote    patchgen-baseline.json", "2 findings: 2 new, 0 gone."])
    assert [(row["config"], row["item"], row["code"]) for row in recorded(defective)] == [
        (MODULE, "contract", "PG201"),
        (MODULE, "contract", "PG214"),
    ]
    for arguments in (["check"], ["gate", "--checks", "drift,contract"]):
        code, lines = command(defective, *arguments)
        assert (code, lines[-1]) == (0, "Baseline patchgen-baseline.json: 2 findings held back.")
    assert "held back: PG201" in "\n".join(command(defective, "check", "-v")[1])


def test_a_new_finding_is_red_alone_wherever_the_old_ones_move(defective: Workspace) -> None:
    command(defective, "baseline", "--checks", "drift,contract")
    defective.config("# lines\n# that move\n\n" + DEFECTS + SECOND_DEFECT)
    command(defective, "fix")
    code, lines = command(defective, "check")
    findings = [line for line in lines if ": error: " in line or ": warning: " in line]
    assert (code, len(findings), lines[-1]) == (1, 1, "Baseline patchgen-baseline.json: 2 findings held back.")
    assert "PG201 'Head.forward' drops upstream's parameter 'x'" in findings[0]


def test_one_more_of_a_known_kind_is_new(defective: Workspace) -> None:
    command(defective, "baseline", "--checks", "drift,contract")
    path = defective.root / "patchgen-baseline.json"
    path.write_text(path.read_text(encoding="utf-8").replace("Norm.forward", "Other.forward"), encoding="utf-8")
    code, lines = command(defective, "check")
    assert code == 1
    assert lines[-1] == "Baseline patchgen-baseline.json: 1 finding held back, 1 gone."


def test_what_is_gone_is_told_and_leaves_the_file_with_fix(defective: Workspace) -> None:
    command(defective, "baseline", "--checks", "drift,contract")
    defective.config(DEFECTS.partition("\n")[2])
    command(defective, "fix")
    code, lines = command(defective, "check")
    gone = f"gone     {MODULE}: contract: PG214 add_import: nothing in patched_modeling_toy_gpu.py uses 'math'"
    assert (code, lines[-3]) == (0, gone)
    assert lines[-2] == "Run 'patchgen check --fix' to take what is gone out of the baseline."
    assert len(recorded(defective)) == 2
    code, lines = command(defective, "check", "--fix")
    assert lines[-1] == "Baseline patchgen-baseline.json: 1 finding held back, 1 gone and taken out."
    assert [row["code"] for row in recorded(defective)] == ["PG201"]
    assert command(defective, "check")[1][-1] == "Baseline patchgen-baseline.json: 1 finding held back."


def test_what_did_not_run_stays_recorded(defective: Workspace) -> None:
    other = defective.config(DEFECTS, "toy/other_patch_gen_config.py")
    other.write_text(other.read_text(encoding="utf-8").replace("toy_gpu.py", "other.py"), encoding="utf-8")
    command(defective, "fix")
    command(defective, "baseline", "--checks", "contract")
    assert len(recorded(defective)) == 4
    defective.config("")
    other.write_text(other.read_text(encoding="utf-8").replace('config.add_import("math")\n', ""), encoding="utf-8")
    command(defective, "fix")
    command(defective, "gate", "--checks", "drift,contract", "--fix", str(other))
    assert len(recorded(defective)) == 3
    command(defective, "baseline", "--checks", "drift")
    assert len(recorded(defective)) == 3
    Path(other).unlink()
    command(defective, "check", "--fix")
    assert recorded(defective) == []


def test_drift_is_not_recorded(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(DEFECTS)
    code, lines = command(work, "baseline", "--checks", "drift,contract")
    assert code == 1
    assert lines[-1] == "No baseline holds back drift, or a config with errors: mend what is shown above."


def test_a_file_that_is_no_baseline_is_an_error(defective: Workspace) -> None:
    (defective.root / "patchgen-baseline.json").write_text("<<<<<<< HEAD\n", encoding="utf-8")
    code, lines = command(defective, "check")
    assert code == 2
    assert lines[0].startswith("patchgen-baseline.json: error: not a baseline: ") or "not a baseline" in lines[0]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (Problem("a: line 12 of b.py:3", code="PG201"), Problem("a: line 99 of b.py:4", code="PG201"), True),
        (Problem("'f' has 'x', not 'y'", code="PG201"), Problem("where 'f' has 'x' is 'y'", code="PG201"), True),
        (Problem("'f' has 'x', not 'y'", code="PG201"), Problem("'f' has 'x', not 'z'", code="PG201"), False),
        (Problem("'f' loses 'x'", code="PG201"), Problem("'f' loses 'x'", code="PG202"), False),
        (Problem("takes 2 values", code="PG201"), Problem("takes 3 values", code="PG201"), False),
        (Problem("off by 8.4e-2 at 'layers.0.mlp'"), Problem("off by 1.1e-01 at 'layers.0.mlp'"), True),
        (Problem("off by 8.4e-2 at 'layers.0.mlp'"), Problem("off by 8.4e-2 at 'layers.1.mlp'"), False),
    ],
)
def test_what_moves_is_no_part_of_a_finding(one: Problem, other: Problem, is_same: bool) -> None:
    assert (identify("a", "b", one) == identify("a", "b", other)) == is_same
