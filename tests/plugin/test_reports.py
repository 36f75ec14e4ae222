"""What a session of pytest reports of the gate: its section, its report files, and what GitHub Actions shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.conftest import Workspace, generated
from tests.plugin.conftest import CONFIG, run

BROKEN = "proj/models/broken/broken_gpu_patch_gen_config.py"
ORPHAN = "proj/models/toy/generated/left_over.py"
TOY_ERROR = f"::error file={CONFIG},line=4,title=patchgen drift%3A proj.models.toy.toy_gpu_patch_gen_config::"
UNKNOWN = "exclude_from_output: upstream defines no 'Nrom'"
HINT = "Did you mean 'Norm'?"


@pytest.fixture
def red(gated: Workspace) -> Workspace:
    """A project whose three items of drift are all red: a file that was edited, a broken config and an orphan."""
    text = generated(gated).read_text()
    generated(gated).write_text(text.replace("return x * 2", "return x * 3"))
    (gated.root / ORPHAN).write_text(text)
    path = gated.config("config.exclude_from_output('Nrom')\n", "broken/broken_gpu_patch_gen_config.py")
    path.write_text(path.read_text().replace("patched_modeling_toy", "patched_modeling_broken"))
    return gated


def section(result: pytest.RunResult) -> list[str]:
    """The lines of the section *patchgen*."""
    lines = [line.rstrip() for line in result.outlines]
    start = next(n for n, line in enumerate(lines) if line.strip("=") == " patchgen ")
    end = next(n for n, line in enumerate(lines) if n > start and re.match(r"==|\d+ (failed|passed)", line))
    return lines[start + 1 : end]


def verdicts(path: Path) -> dict[tuple[str, str], str]:
    data = json.loads(path.read_text())
    return {(result["path"], result["check"]): result["status"] for result in data["results"]}


RED = {
    (CONFIG, "drift"): "drifted",
    (CONFIG, "import"): "clean",
    (CONFIG, "contract"): "clean",
    (BROKEN, "drift"): "error",
    (BROKEN, "import"): "skipped",
    (BROKEN, "contract"): "skipped",
    ("pyproject.toml", "drift"): "failed",
}


# --- the section -----------------------------------------------------------------------------------


def test_section_has_the_table_the_counts_and_what_mends(red: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, red, "--patchgen")
    table = [line.split("  ") for line in section(result)[:4]]
    assert [[cell.strip() for cell in row if cell.strip()] for row in table] == [
        ["config", "drift", "import", "contract"],
        ["proj.models.broken.broken_gpu_patch_gen_config", "error", "skipped", "skipped"],
        ["proj.models.toy.toy_gpu_patch_gen_config", "drifted: edited by hand", "ok", "ok"],
        ["pyproject.toml", "failed: orphan", "-", "-"],
    ]
    summary, fix, absorb, prune = section(result)[4:]
    assert summary == "2 configs, 7 checks: 2 ok, 2 skipped, 1 failed, 1 drifted, 1 error."
    assert re.fullmatch(r"Run 'pytest --patchgen-fix\b.*' to rewrite what drifted\.", fix)
    assert absorb == "Run 'patchgen absorb' to turn what was edited by hand into patches instead."
    assert re.fullmatch(r"Run 'pytest --patchgen-prune\b.*' to remove orphans\.", prune)
    quiet = run(pytester, red, "--patchgen", "-q", "-n", "1")
    assert section(quiet)[0].startswith("2 configs, 7 checks: ")


def test_section_of_a_run_that_mends_says_what_it_wrote(red: Workspace, pytester: pytest.Pytester) -> None:
    lines = section(run(pytester, red, "--patchgen-fix", "--patchgen-prune", "--patchgen-report=r.md", "proj"))
    assert "rewrote  proj/models/toy/generated/patched_modeling_toy_gpu.py" in lines
    assert f"removed  {ORPHAN}" in lines
    assert "report: r.md" in lines
    assert not [line for line in lines if line.startswith("Run ")]


def test_section_says_what_a_stopped_run_did_not_do(red: Workspace, pytester: pytest.Pytester) -> None:
    lines = section(run(pytester, red, "--patchgen", "-x", "--patchgen-report=report.json"))
    assert any(line.endswith("1 check: 1 error, 6 not run.") for line in lines)
    left = json.loads((red.root / "report.json").read_text())["not_run"]
    rest = [f"{CONFIG}::{check}" for check in ("drift", "import", "contract")]
    assert left == [f"{BROKEN}::import", f"{BROKEN}::contract", *rest, "pyproject.toml::orphans"]


# --- report files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["serial", "xdist"])
@pytest.mark.mostly_slow(1)
def test_report_files(red: Workspace, pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    run(pytester, red, "--patchgen-report=../../new/report.json", *workers, cwd=red.models)
    path = red.root / "new/report.json"
    assert verdicts(path) == RED
    data = json.loads(path.read_text())
    assert (data["exit_code"], data["not_run"], data["not_collected"]) == (2, [], [])
    (drifted,) = (result for result in data["results"] if result["status"] == "drifted")
    assert "-        return x * 3\n+        return x * 2\n" in drifted["files"][0]["diff"]
    run(pytester, red, "--patchgen-report=report.md", *workers)
    html = MarkdownIt("commonmark").enable("table").render((red.root / "report.md").read_text())
    assert html.count("<table>") == 1
    assert html.count("<tr>") == 4
    assert "-        return x * 3\n+        return x * 2\n" in html


def test_report_as_a_page(red: Workspace, pytester: pytest.Pytester) -> None:
    said = section(run(pytester, red, "--patchgen-report=report.html"))
    assert "report: report.html" in said
    page = (red.root / "report.html").read_text()
    assert "<title>red: patchgen gate</title>" in page
    words = re.sub("<[^>]+>", "", page)
    assert "        return x * 3\n        return x * 2\n" in words
    assert f"{CONFIG}:" in words


def test_report_of_another_ending_is_refused_before_anything_runs(gated: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, gated, "--patchgen-report=report.txt")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines[0] == "ERROR: patchgen: report file 'report.txt' must end in .json, .md, .html or .sarif"


def test_listing_items_writes_no_report(gated: Workspace, pytester: pytest.Pytester) -> None:
    summary = gated.root / "summary.md"
    arguments = ("--patchgen-report=report.md", "--co")
    result = run(pytester, gated, *arguments, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    assert result.ret == 0
    assert not (gated.root / "report.md").exists()
    assert not summary.exists()


def test_report_that_cannot_be_written_is_one_error(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.write("file", "")
    result = run(pytester, gated, "--patchgen-report=file/report.json")
    said = str(result.stdout) + str(result.stderr)
    assert result.ret != 0
    assert "file/report.json" in said
    assert "Traceback" not in said
    assert "INTERNALERROR" not in said
    result.stdout.fnmatch_lines(["*4 passed*"])


def test_summary_of_a_job_that_cannot_be_written_is_no_crash(gated: Workspace, pytester: pytest.Pytester) -> None:
    summary = gated.root / "none" / "summary.md"
    result = run(pytester, gated, "--patchgen", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    assert "Traceback" not in str(result.stdout) + str(result.stderr)
    result.stdout.fnmatch_lines(["*4 passed*"])


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["serial", "xdist"])
@pytest.mark.mostly_slow(1)
def test_file_that_is_not_utf8_is_reported(
    gated: Workspace, pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    generated(gated).write_bytes(generated(gated).read_bytes().replace(b"return -x", b"return -x  # \xe9"))
    summary = gated.root / "summary.md"
    result = run(
        pytester,
        gated,
        "--patchgen-report=report.json",
        *workers,
        GITHUB_ACTIONS="true",
        GITHUB_STEP_SUMMARY=str(summary),
        PYTHONIOENCODING="utf-8",
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert verdicts(gated.root / "report.json")[CONFIG, "drift"] == "drifted"
    assert b"-    return -x  # " in summary.read_bytes()
    result.stdout.fnmatch_lines(["edited by hand*", "-    return -x  # *", "+    return -x"])


# --- several runs ----------------------------------------------------------------------------------


def test_reports_of_jobs_that_split_the_items_merge(red: Workspace, pytester: pytest.Pytester) -> None:
    for group in ("1", "2"):
        split = ("--splits=2", f"--group={group}", "-p", "no:cacheprovider")
        run(pytester, red, f"--patchgen-report={group}.json", *split)
        assert len(verdicts(red.root / f"{group}.json")) < len(RED)
    done = red.patchgen("report", "1.json", "2.json", "-o", "all.json")
    assert done.returncode == 2, done.stderr
    assert "2 configs, 7 checks: 2 ok, 2 skipped, 1 failed, 1 drifted, 1 error.\n" in done.stdout
    assert verdicts(red.root / "all.json") == RED


def test_what_one_run_left_and_another_did_counts_as_run(red: Workspace, pytester: pytest.Pytester) -> None:
    run(pytester, red, "--patchgen-report=1.json", "-x")
    run(pytester, red, "--patchgen-report=2.json")
    done = red.patchgen("report", "1.json", "2.json", "--json")
    assert json.loads(done.stdout)["not_run"] == []


def test_report_is_the_same_from_every_folder(red: Workspace, pytester: pytest.Pytester) -> None:
    found: list[dict[str, Any]] = []
    for name, folder in (("1.json", red.root), ("2.json", red.models / "toy")):
        path = red.root / name
        run(pytester, red, f"--patchgen-report={path}", f"--ignore={red.models / 'broken'}", cwd=folder)
        data = json.loads(path.read_text())
        results = {result["config"]: {**result, "seconds": None} for result in data["results"]}
        found.append(results | {"left": data["not_collected"]})
    assert found[0] == found[1]
    assert found[0].keys() == {"proj.models.toy.toy_gpu_patch_gen_config", "pyproject.toml", "left"}
    assert found[0]["left"] == [BROKEN]


# --- GitHub Actions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [(), ("-n", "1"), ("-q",), ("-qq", "-n", "1"), ("-v", "--color=yes"), ("--tb=no", "-s"), ("-x",)],
    ids=" ".join,
)
@pytest.mark.mostly_slow(2)
def test_github_gets_commands_at_the_beginning_of_a_line(
    red: Workspace, pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    summary = red.write("summary.md", "# Before\n")
    result = run(
        pytester,
        red,
        "--patchgen",
        *arguments,
        GITHUB_ACTIONS="true",
        GITHUB_WORKSPACE=str(red.root),
        GITHUB_STEP_SUMMARY=str(summary),
    )
    found = [line for line in result.outlines if line.startswith("::")]
    name = "proj.models.broken.broken_gpu_patch_gen_config"
    expected = [f"::error file={BROKEN},line=5,title=patchgen drift%3A {name}::{UNKNOWN}%0A{HINT}"]
    if "-x" not in arguments:
        expected += [
            f"{TOY_ERROR}edited by hand: Norm.forward changed",
            "::error file=pyproject.toml,title=patchgen drift%3A pyproject.toml::"
            f"orphan: {ORPHAN}: no config makes it now",
        ]
    assert sorted(found) == sorted(expected)
    assert summary.read_text().startswith("# Before\n### patchgen: red\n")
    assert summary.read_text().count("### patchgen") == 1


def test_github_gets_the_warnings_of_configs_that_pass(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.config("config.add_import('math')\n")
    result = run(pytester, gated, "--patchgen-fix", GITHUB_ACTIONS="true", GITHUB_WORKSPACE=str(gated.models))
    (found,) = (line for line in result.outlines if line.startswith("::"))
    assert found.startswith("::warning file=toy/toy_gpu_patch_gen_config.py,line=5,title=patchgen contract%3A ")
    assert "::PG214 " in found


@pytest.mark.parametrize("value", ["", "false"])
@pytest.mark.mostly_slow(1)
def test_elsewhere_there_are_no_commands_and_no_summary(red: Workspace, pytester: pytest.Pytester, value: str) -> None:
    summary = red.root / "summary.md"
    result = run(pytester, red, "--patchgen", GITHUB_ACTIONS=value, GITHUB_STEP_SUMMARY=str(summary))
    assert "::error" not in str(result.stdout)
    assert not summary.exists()
