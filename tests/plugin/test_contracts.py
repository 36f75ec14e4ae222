"""The item ``contract``: what it finds, how that is shown and reported, and when it is skipped."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from markdown_it import MarkdownIt

from patchgen_core.checks.checked_in.compare import fix
from tests.conftest import PATCH, UPSTREAM_TEXT, Workspace, generated
from tests.plugin.conftest import CONFIG, run
from tests.plugin.support import edit, section

DRIFT, IMPORT, CONTRACT = (f"{CONFIG}::{check}" for check in ("drift", "import", "contract"))
NAME = "proj.models.toy.toy_gpu_patch_gen_config"
MODULE = "proj/models/toy/generated/patched_modeling_toy_gpu.py"
MISFIT = """\
@config.override_method("Head.forward")
def head_forward(self, x):
    return rotate() + x
"""
NEEDLESS = 'config.add_import("math")\n'
SAID = "PG202 'Head.forward' calls 'rotate' and does not pass 'x': it takes (x)"
HINT = "Change the call, or give 'rotate' the parameters that its callers pass."
FINDING = f"""\
{CONFIG}:7: error: {SAID}
  {HINT}
        5 | @config.override_method("Head.forward")
        6 | def head_forward(self, x):
  >     7 |     return rotate() + x
        8 | 
  {MODULE}:26:
       24 | class Head:
       25 |     def forward(self, x):
  >    26 |         return rotate() + x
       27 | """
WARNING = f"""\
{CONFIG}:5: warning: PG214 add_import: nothing in patched_modeling_toy_gpu.py uses 'math'
  Remove it: ruff leaves the import out.
        3 | 
        4 | config = PatchConfig("acme.models.toy.modeling_toy", "patched_modeling_toy_gpu.py")
  >     5 | config.add_import("math")
        6 | """
both = pytest.mark.parametrize("workers", ["0", "1"])


def settle(work: Workspace, config: str) -> None:
    """Write the config and what it makes."""
    work.config(config)
    assert fix(work.check()).exit_code == 0


def settings(work: Workspace, line: str) -> None:
    path = work.root / "pyproject.toml"
    path.write_text(f"{path.read_text()}{line}\n")


def shown(result: pytest.RunResult, name: str) -> str:
    """A section of a run's output, without the rulers of its items and of workers."""
    lines = section(str(result.stdout), name)
    return "\n".join(line.rstrip(" ") for line in lines if not line.startswith(("___", "[gw")))


def plain(text: str) -> str:
    return "\n".join(line.rstrip(" ") for line in text.splitlines())


# --- what is found ---------------------------------------------------------------------------------


@both
def test_finding_fails_the_item_with_both_places_and_what_to_do(
    gated: Workspace, pytester: pytest.Pytester, workers: str
) -> None:
    settle(gated, MISFIT)
    result = run(pytester, gated, "--patchgen", "-n", workers)
    result.assert_outcomes(failed=1, passed=3)
    assert plain(FINDING) in shown(result, "FAILURES")
    result.stdout.fnmatch_lines(
        [
            "*_ toy_gpu_patch_gen_config::contract _*",
            "config *  drift  import  contract",
            f"{NAME}  ok     ok      failed",
            "1 config, 4 checks: 3 ok, 1 failed.",
            "Run 'patchgen rule PG202' for an explanation of the findings.",
            f"FAILED {CONTRACT} - PG202 'Head.forward' *",
        ]
    )
    for line in ("*Traceback*", "*--patchgen-fix*", "*def examine*"):
        result.stdout.no_fnmatch_line(line)


@both
@pytest.mark.mostly_slow(1)
def test_warnings_are_shown_and_leave_the_item_green(
    gated: Workspace, pytester: pytest.Pytester, workers: str
) -> None:
    settle(gated, NEEDLESS)
    result = run(pytester, gated, "--patchgen", "-n", workers)
    result.assert_outcomes(passed=4)
    assert result.ret == pytest.ExitCode.OK
    said = shown(result, "patchgen")
    assert "\n1 config, 4 checks: 4 ok.\nRun 'patchgen rule PG214' for an explanation of the findings.\n" in said
    assert plain(WARNING) in said
    result.stdout.fnmatch_lines([f"{NAME}  ok     ok      ok, 1 warning"])
    quiet = run(pytester, gated, "--patchgen", "-q", "-n", workers)
    assert plain(WARNING) in plain(str(quiet.stdout))


def test_failure_shows_the_warnings_beside_the_errors(gated: Workspace, pytester: pytest.Pytester) -> None:
    settle(gated, NEEDLESS + MISFIT)
    result = run(pytester, gated, CONTRACT)
    result.assert_outcomes(failed=1)
    said = shown(result, "FAILURES")
    assert f":8: error: {SAID}" in said
    assert WARNING.splitlines()[0] in said
    result.stdout.fnmatch_lines(["Run 'patchgen rule PG202 PG214' for an explanation of the findings."])


def test_allowances_are_told_in_a_verbose_run(gated: Workspace, pytester: pytest.Pytester) -> None:
    settle(gated, f'config.allow("PG202", "it is given another way")\n{MISFIT}')
    note = f"{NAME}: allowed: {SAID} (it is given another way)"
    result = run(pytester, gated, "--patchgen", "-v")
    result.assert_outcomes(passed=4)
    assert note in result.outlines
    result = run(pytester, gated, "--patchgen")
    result.assert_outcomes(passed=4)
    assert note not in result.outlines
    result.stdout.no_fnmatch_line("*patchgen rule*")


def test_every_config_of_a_file_is_examined(gated: Workspace, pytester: pytest.Pytester) -> None:
    second = 'second = PatchConfig(config.source_module, "patched_second.py")\n'
    settle(gated, f"{second}{MISFIT.replace('config.', 'second.')}")
    result = run(pytester, gated, CONTRACT)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"failed   {NAME}:second  contract", f"{CONFIG}:8: error: {SAID}", "2 configs, 2 checks: 1 ok, 1 failed."]
    )


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ('select = ["PG201"]', "passed"),
        ('ignore = ["PG20"]', "passed"),
        ('per_config_ignore = { "*_gpu_patch_gen_config" = ["PG202"] }', "passed"),
        ('[tool.patchgen.per_config_ignore]\n"proj/models/toy/*" = ["PG2"]', "passed"),
        ('per_config_ignore = { "*_npu_patch_gen_config" = ["PG202"] }', "failed"),
        ('select = ["PG202"]', "failed"),
    ],
)
@pytest.mark.mostly_slow(2)
def test_project_chooses_rules(gated: Workspace, pytester: pytest.Pytester, line: str, outcome: str) -> None:
    settle(gated, MISFIT)
    settings(gated, line)
    run(pytester, gated, CONTRACT).assert_outcomes(**{outcome: 1})


@pytest.mark.parametrize(
    "arguments", [["--patchgen"], ["--patchgen-checks=contract"], [CONTRACT], ["--patchgen", "-n", "1"]], ids=" ".join
)
@pytest.mark.mostly_slow(1)
def test_settings_that_name_no_rule_are_a_usage_error_before_anything_runs(
    gated: Workspace, pytester: pytest.Pytester, arguments: list[str]
) -> None:
    settings(gated, 'select = ["PG201", "PG2O2"]')
    result = run(pytester, gated, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        "ERROR: patchgen: pyproject.toml:5: [tool.patchgen] select: there is no rule 'PG2O2'",
        "  Did you mean 'PG202'? 'patchgen rule' lists the rules.",
    ]
    run(pytester, gated, "--patchgen-checks=drift").assert_outcomes(passed=2)


def test_settings_of_another_project_fail_its_items(gated: Workspace, pytester: pytest.Pytester) -> None:
    """Run from above, where there is no project and no settings are known before the first item."""
    settings(gated, 'select = ["PG2O2"]')
    above = gated.root.parent
    result = run(pytester, gated, "--patchgen", "work", f"--rootdir={above}", cwd=above)
    result.assert_outcomes(failed=1, passed=3)
    result.stdout.fnmatch_lines(["work/pyproject.toml:5: error: [[]tool.patchgen] select: there is no rule 'PG2O2'"])


@pytest.mark.torch
@pytest.mark.slow
def test_kernels_that_are_nowhere_fail_the_item(gated: Workspace, pytester: pytest.Pytester) -> None:
    settings(gated, 'kernels = ["proj.kernels"]')
    result = run(pytester, gated, "--patchgen")
    result.assert_outcomes(failed=2, passed=3)
    result.stdout.fnmatch_lines(
        [
            "pyproject.toml:5: error: [[]tool.patchgen] kernels: there is no module 'proj.kernels'",
            "*the modules that register kernels raises ModuleNotFoundError: No module named 'proj.kernels'",
        ]
    )


# --- what is not there to examine ------------------------------------------------------------------


@both
def test_config_that_does_not_generate_is_skipped_where_its_drift_is_checked(
    gated: Workspace, pytester: pytest.Pytester, workers: str
) -> None:
    gated.config("config.exclude_from_output('Nrom')\n")
    result = run(pytester, gated, DRIFT, CONTRACT, "-rs", "-n", workers)
    result.assert_outcomes(failed=1, skipped=1)
    result.stdout.fnmatch_lines([f"SKIPPED * {CONFIG}:1: there is nothing to check; the drift check says why"])
    result = run(pytester, gated, CONTRACT, "-n", workers)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"{CONFIG}:5: error: exclude_from_output: upstream defines no 'Nrom'", f"{NAME}  error"]
    )


def test_names_that_nothing_binds_fail_the_drift_check_with_their_code(
    gated: Workspace, pytester: pytest.Pytester
) -> None:
    gated.config(MISFIT.replace("rotate()", "fused()"))
    result = run(pytester, gated, "--patchgen")
    result.assert_outcomes(failed=1, skipped=2, passed=1)
    result.stdout.fnmatch_lines([f"{CONFIG}:?: error: PG204 *", f"FAILED {DRIFT} - PG204 *"])


def test_what_the_config_makes_is_examined_and_not_what_is_checked_in(
    gated: Workspace, pytester: pytest.Pytester
) -> None:
    text = generated(gated).read_text()
    generated(gated).write_text(text.replace("return x + 1", "return rotate() + x"))
    run(pytester, gated, CONTRACT).assert_outcomes(passed=1)
    gated.config(MISFIT)
    generated(gated).unlink()
    run(pytester, gated, CONTRACT).assert_outcomes(failed=1)


def test_nothing_is_imported(gated: Workspace, pytester: pytest.Pytester) -> None:
    """Upstream's packages raise when they are imported, and the module's own import does not work here."""
    patch = PATCH.replace("x * 2", "acme_npu.twice(x)")
    gated.config(f"config.add_import('acme_npu', is_from_import=False)\nimport acme_npu\n{patch}")
    assert fix(gated.check()).exit_code == 0
    result = run(pytester, gated, "--patchgen")
    result.assert_outcomes(failed=1, passed=3)
    result.stdout.fnmatch_lines([f"{NAME}  ok     failed  ok"])


# --- mending ---------------------------------------------------------------------------------------


@both
def test_fixing_writes_what_breaks_a_contract_and_fails(
    gated: Workspace, pytester: pytest.Pytester, workers: str
) -> None:
    gated.config(MISFIT)
    result = run(pytester, gated, "--patchgen-fix", "-n", workers)
    result.assert_outcomes(failed=1, passed=3)
    assert plain(FINDING) in shown(result, "FAILURES")
    result.stdout.fnmatch_lines([f"rewrote  {MODULE}", "1 config, 4 checks: 2 ok, 1 fixed, 1 failed."])
    assert "return rotate() + x" in generated(gated).read_text()


MOVED = "PG215 upstream changed 'Norm.forward', which this config replaces (acme 1.0 -> 2.0)"


@both
@pytest.mark.parametrize("order", [[DRIFT, CONTRACT], [CONTRACT, DRIFT]], ids=["drift first", "contract first"])
@pytest.mark.slow
def test_fixing_tells_what_upstream_changed_under_the_patches(
    gated: Workspace, pytester: pytest.Pytester, workers: str, order: list[str]
) -> None:
    """By the item that overwrites what tells it, whichever item runs first or elsewhere."""
    gated.upstream(UPSTREAM_TEXT.replace("return x\n", "return 3 * x\n"), version="2.0")
    result = run(pytester, gated, "--patchgen")
    result.assert_outcomes(failed=1, passed=3)
    result.stdout.fnmatch_lines([f"{NAME}  drifted: upstream moved  ok      ok, 1 warning"])
    result = run(pytester, gated, "--patchgen-fix", "-n", workers, *order)
    result.assert_outcomes(passed=2)
    assert [line.partition(": warning: ")[2] for line in result.outlines if ": warning: " in line] == [MOVED]
    result.stdout.fnmatch_lines([f"{NAME}  fixed: upstream moved, 1 warning  ok"])
    result = run(pytester, gated, "--patchgen")
    result.assert_outcomes(passed=4)
    result.stdout.no_fnmatch_line("*PG215*")


@pytest.mark.parametrize(
    ("config", "arguments"),
    [
        (f'config.allow("PG215", "compared by hand")\n{PATCH}', [DRIFT, CONTRACT]),
        (PATCH, ["--patchgen-checks=drift"]),
    ],
    ids=["allowed", "not checked"],
)
@pytest.mark.mostly_slow(1)
def test_fixing_is_silent_of_what_is_allowed_or_not_checked(
    gated: Workspace, pytester: pytest.Pytester, config: str, arguments: list[str]
) -> None:
    gated.upstream(UPSTREAM_TEXT.replace("return x\n", "return 3 * x\n"), version="2.0")
    gated.config(config)
    result = run(pytester, gated, "--patchgen-fix", *arguments)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*PG215*")


# --- reports ---------------------------------------------------------------------------------------


def record_of(work: Workspace, check: str = "contract") -> dict[str, Any]:
    data = json.loads((work.root / "report.json").read_text())
    (found,) = (entry for entry in data["results"] if entry["check"] == check and entry["path"] == CONFIG)
    return dict(found)


@both
@pytest.mark.mostly_slow(1)
def test_report_as_json_has_findings_with_both_places(
    gated: Workspace, pytester: pytest.Pytester, workers: str
) -> None:
    settle(gated, f'config.allow("PG214", "for later")\n{NEEDLESS}{MISFIT}')
    run(pytester, gated, "--patchgen-report=report.json", "-n", workers)
    found = record_of(gated)
    assert (found["status"], found["item"], found["line"]) == ("failed", CONTRACT, 4)
    (error,) = found["errors"]
    assert (error["code"], error["message"], error["hint"]) == ("PG202", SAID.partition(" ")[2], HINT)
    assert error["location"] == {"file": CONFIG, "line": 9}
    assert error["generated"]["location"] == {"file": MODULE, "line": 26}
    assert ">     9 |     return rotate() + x" in error["excerpt"]
    assert ">    26 |         return rotate() + x" in error["generated"]["text"]
    assert found["warnings"] == []
    assert found["notes"] == [
        "allowed: PG214 add_import: nothing in patched_modeling_toy_gpu.py uses 'math' (for later)"
    ]


@both
@pytest.mark.mostly_slow(1)
def test_report_as_markdown_has_findings_and_warnings(
    gated: Workspace, pytester: pytest.Pytester, workers: str
) -> None:
    settle(gated, MISFIT)
    other = gated.config(NEEDLESS, "other/toy_npu_patch_gen_config.py")
    run(pytester, gated, "--patchgen-fix", "--patchgen-report=report.md", "-n", workers, other.parent, CONFIG)
    text = (gated.root / "report.md").read_text()
    assert "| `proj.models.other.toy_npu_patch_gen_config` | fixed: missing | ok | ok, 1 warning |" in text
    assert f"| `{NAME}` | ok | ok | failed |" in text
    fences = [token.content for token in MarkdownIt().parse(text) if token.type == "fence"]
    assert f"{plain(FINDING).replace(' error: ', ' ', 1)}\n" in [f"{plain(fence)}\n" for fence in fences]
    assert any(
        fence.startswith("warning: proj/models/other/toy_npu_patch_gen_config.py:5: PG214 ") for fence in fences
    )


@both
@pytest.mark.mostly_slow(1)
def test_github_shows_findings_at_the_configs_line(gated: Workspace, pytester: pytest.Pytester, workers: str) -> None:
    settle(gated, f"{MISFIT}\n{NEEDLESS}")
    environment = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(gated.root)}
    result = run(pytester, gated, "--patchgen", "-n", workers, **environment)
    title = f"title=patchgen contract%3A {NAME}"
    place = f"%0Ain {MODULE}, line 26%0A"
    warning = WARNING.splitlines()[0].partition(": warning: ")[2]
    assert [line for line in result.outlines if line.startswith("::")] == [
        f"::error file={CONFIG},line=7,{title}::{SAID}{place}{HINT}",
        f"::warning file={CONFIG},line=9,{title}::{warning}%0ARemove it: ruff leaves the import out.",
    ]


@pytest.mark.slow
def test_reports_of_two_jobs_merge_to_one_with_the_findings(gated: Workspace, pytester: pytest.Pytester) -> None:
    settle(gated, f"{MISFIT}\n{NEEDLESS}")
    run(pytester, gated, "--patchgen-report=1.json", "-k", "contract")
    run(pytester, gated, "--patchgen-report=2.json", "-k", "not contract")
    done = gated.patchgen("report", "1.json", "2.json", "-o", "report.json")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "1 config, 4 checks: 3 ok, 1 failed.")
    found = record_of(gated)
    assert ([e["code"] for e in found["errors"]], [w["code"] for w in found["warnings"]]) == (["PG202"], ["PG214"])


@pytest.mark.slow
def test_record_of_a_run_has_the_finding(gated: Workspace, pytester: pytest.Pytester) -> None:
    settle(gated, MISFIT)
    texts = []
    for workers in ("0", "1"):
        record = gated.root / f"record_{workers}.xml"
        run(pytester, gated, "--patchgen", "-n", workers, f"--junitxml={record}", CONFIG)
        failure = next(ET.parse(record).iter("failure"))
        texts.append((failure.get("message"), plain(failure.text or "")))
    assert texts == [(SAID, plain(FINDING))] * 2


def test_line_for_each_failure_names_the_configs_line(gated: Workspace, pytester: pytest.Pytester) -> None:
    settle(gated, MISFIT)
    edit(generated(gated))
    result = run(pytester, gated, "--patchgen", "--tb=line")
    result.stdout.fnmatch_lines([f"{CONFIG}:4: edited by hand: rotate changed", f"{CONFIG}:7: {SAID}"])
