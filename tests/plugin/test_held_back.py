"""A recorded baseline holds findings back under pytest, in one process and in several."""

from __future__ import annotations

import json

import pytest

from patchgen_core.checks.checked_in.compare import fix
from tests.conftest import DEFECTS, SECOND_DEFECT, Workspace, settle
from tests.plugin.conftest import CONFIG, run

NAME = "proj.models.toy.toy_gpu_patch_gen_config"
BASELINE = "patchgen-baseline.json"
both = pytest.mark.parametrize("workers", ["0", "2"])


@pytest.fixture
def recorded(gated: Workspace) -> Workspace:
    """A project whose config has an error and a warning, both in its baseline."""
    settle(gated, DEFECTS)
    assert gated.patchgen("baseline", "--checks", "drift,contract").returncode == 0
    assert codes(gated) == ["PG201", "PG214"]
    return gated


def codes(work: Workspace) -> list[str]:
    findings = json.loads((work.root / BASELINE).read_text(encoding="utf-8"))["findings"]
    return [finding["code"] for finding in findings]


@both
@pytest.mark.mostly_slow(1)
def test_known_findings_are_held_back(recorded: Workspace, pytester: pytest.Pytester, workers: str) -> None:
    result = run(pytester, recorded, "--patchgen", "-n", workers)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        ["1 config, 4 checks: 4 ok, 2 findings held back.", f"Baseline {BASELINE}: 2 findings held back."]
    )
    result.stdout.no_fnmatch_line("*PG201*")


@both
@pytest.mark.mostly_slow(1)
def test_a_new_finding_fails_alone(recorded: Workspace, pytester: pytest.Pytester, workers: str) -> None:
    settle(recorded, f"# a line that moves the others\n{DEFECTS}{SECOND_DEFECT}")
    result = run(pytester, recorded, "--patchgen", "-n", workers)
    result.assert_outcomes(passed=3, failed=1)
    errors = [line for line in result.outlines if ": error: " in line]
    assert len(errors) == 1
    assert errors[0].startswith(f"{CONFIG}:13: error: PG201 'Head.forward' drops ")
    result.stdout.fnmatch_lines([f"Baseline {BASELINE}: 2 findings held back."])


@both
@pytest.mark.mostly_slow(1)
def test_what_is_gone_leaves_the_file_with_fix(recorded: Workspace, pytester: pytest.Pytester, workers: str) -> None:
    settle(recorded, DEFECTS.partition("\n")[2])
    result = run(pytester, recorded, "--patchgen", "-n", workers)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            f"gone     {NAME}: contract: PG214 *'math'*",
            "Run 'pytest --patchgen-fix*' to take what is gone out of the baseline.",
            f"Baseline {BASELINE}: 1 finding held back, 1 gone.",
        ]
    )
    assert codes(recorded) == ["PG201", "PG214"]
    result = run(pytester, recorded, "--patchgen-fix", "-n", workers)
    result.stdout.fnmatch_lines([f"Baseline {BASELINE}: 1 finding held back, 1 gone and taken out."])
    assert codes(recorded) == ["PG201"]


@both
@pytest.mark.mostly_slow(1)
def test_findings_of_a_deleted_config_leave_the_file(
    recorded: Workspace, pytester: pytest.Pytester, workers: str
) -> None:
    (recorded.root / CONFIG).unlink()
    recorded.config("", "other/other_gpu_patch_gen_config.py")
    fix(recorded.check())
    result = run(pytester, recorded, "--patchgen-fix", "-n", workers)
    result.stdout.fnmatch_lines([f"Baseline {BASELINE}: 0 findings held back, 2 gone and taken out."])
    assert codes(recorded) == []
