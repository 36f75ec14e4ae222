"""What findings weigh: by rule, by check, by config and by folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen_core.build.results import Cause
from patchgen_core.checks.contract.run import EVERY_RULE, Contracts
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.checks.severity import check_severity
from patchgen_core.checks.verdicts import judge_results
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.project.table import load_project
from patchgen_core.syntax.source import SourceCache
from tests.conftest import CONFIG, UPSTREAM_TEXT, Workspace

MODULE = "proj.models.toy.toy_gpu_patch_gen_config"


def settle(work: Workspace, *lines: str) -> None:
    path = work.root / "pyproject.toml"
    text = path.read_text(encoding="utf-8").rstrip("\n")
    path.write_text("\n".join([text, "[tool.patchgen.severity]", *lines, ""]), encoding="utf-8")


def weights(work: Workspace) -> dict[str, str]:
    """What each rule's findings weigh in the check of contracts."""
    project = load_project(work.root)
    artifact = work.outcome().artifact
    assert artifact is not None
    result = Contracts(project, SourceCache()).examine(artifact, work.models / CONFIG)
    return {problem.code: kind for kind in ("errors", "warnings") for problem in getattr(result, kind)}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], {"PG201": "errors", "PG214": "warnings"}),
        (['PG201 = "warning"'], {"PG201": "warnings", "PG214": "warnings"}),
        (['PG2 = "error"', 'PG201 = "off"'], {"PG214": "errors"}),
        (['contract = "warning"', 'PG214 = "error"'], {"PG201": "warnings", "PG214": "errors"}),
        ([f'"{MODULE}" = "off"'], {}),
        (['"proj.models.*" = { PG201 = "warning" }', 'PG201 = "off"'], {"PG201": "warnings", "PG214": "warnings"}),
        (['"proj/models/toy/" = "warning"'], {"PG201": "warnings", "PG214": "warnings"}),
        (['"proj/models/toy" = { ALL = "warning", PG201 = "error" }'], {"PG201": "errors", "PG214": "warnings"}),
    ],
)
def test_what_the_project_says_counts(defective: Workspace, lines: list[str], expected: dict[str, str]) -> None:
    settle(defective, *lines)
    assert weights(defective) == expected


def test_a_table_of_its_own_for_a_folder(defective: Workspace) -> None:
    settle(defective, '[tool.patchgen.severity."proj/models/toy"]', 'PG201 = "off"')
    assert weights(defective) == {"PG214": "warnings"}


def test_upstreams_own_stays_a_warning(work: Workspace) -> None:
    work.upstream(f"{UPSTREAM_TEXT}\n\ndef caller():\n    return rotate(1, 2)\n")
    work.config("")
    before = weights(work)
    assert before == {"PG202": "warnings"}
    settle(work, 'PG2 = "error"')
    assert weights(work) == before


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ('PG241 = "off"', "there is no rule or check 'PG241'", "Did you mean 'PG2"),
        ('partiy = "off"', "there is no rule or check 'partiy'", "Did you mean 'parity'?"),
        ('"proj/models/tyo/" = "off"', "'proj/models/tyo/' fits no config or folder", "'proj/models/toy/'"),
        ('"proj/models/toy" = { PG999 = "off" }', "there is no rule or check 'PG999'", "patchgen rule"),
        ('PG201 = "warn"', "[tool.patchgen.severity] PG201: 'warn' is no level", "Did you mean 'warning'?"),
    ],
)
def test_what_is_not_there_is_an_error_at_its_line(defective: Workspace, line: str, message: str, hint: str) -> None:
    settle(defective, 'PG214 = "warning"', line)
    with pytest.raises(PatchgenError) as error:
        check_severity(load_project(defective.root), [rule.code for rule in EVERY_RULE])
    problem = error.value.problems[0]
    assert message in problem.message
    assert hint in problem.hint
    assert problem.location is not None
    lines = Path(problem.location.file).read_text(encoding="utf-8").splitlines()
    assert lines[problem.location.line - 1] == line
    done = defective.patchgen("check")
    assert done.returncode == 2
    assert message in done.stderr


# --- checks without rules --------------------------------------------------------------------------


def judged(work: Workspace, result: CheckResult, *lines: str) -> CheckResult:
    settle(work, *lines)
    project = load_project(work.root)
    session = Session(project, Settings())
    return judge_results([result], result.check, session)[0]


def failed(work: Workspace, check: str, *problems: Problem, **more: tuple[Cause, ...]) -> CheckResult:
    return CheckResult(MODULE, str(work.models / CONFIG), 3, check, "failed", errors=problems, **more)


def test_a_check_without_rules_weighs_what_is_said_of_it(defective: Workspace) -> None:
    result = judged(defective, failed(defective, "parity", Problem("loss differs")), 'parity = "warning"')
    assert (result.status, result.errors, result.warnings) == ("clean", (), (Problem("loss differs"),))


def test_what_is_off_is_noted(defective: Workspace) -> None:
    result = judged(defective, failed(defective, "import", Problem("no")), '"proj/models/toy/" = { import = "off" }')
    assert (result.status, result.notes) == ("clean", ("off in [tool.patchgen.severity]: no",))


def test_rules_of_parity_become_errors(defective: Workspace) -> None:
    warned = CheckResult(MODULE, str(defective.models / CONFIG), 3, "parity", warnings=(Problem("x", code="PG302"),))
    result = judged(defective, warned, 'PG302 = "error"')
    assert (result.status, [problem.code for problem in result.errors]) == ("failed", ["PG302"])


def test_drift_is_not_weighed(defective: Workspace) -> None:
    drifted = CheckResult(MODULE, str(defective.models / CONFIG), 3, "drift", "drifted")
    assert judged(defective, drifted, 'drift = "off"').status == "drifted"
