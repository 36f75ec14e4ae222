"""What a run of the gate found out: as a table, as JSON, as Markdown, and merged with other runs."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from patchgen_core.build.results import Cause
from patchgen_core.checks.result import (
    CheckResult,
    FileDifference,
    Status,
    pack,
    relative_to,
    retitled,
    unpack,
    with_paths,
)
from patchgen_core.cli.main import main
from patchgen_core.errors import Location, Problem, Snippet
from patchgen_core.report.gate.formats import write_report
from patchgen_core.report.gate.json import gate_json, read_report
from patchgen_core.report.gate.report import GateReport, merge_reports
from patchgen_core.report.gate.terminal import gate_lines, print_gate
from patchgen_core.syntax.diffs import unified_diff
from tests.report.gate_records import DIFF, STATUSES, record, shown


def full_record(root: Path) -> CheckResult:
    """A record with something in every place."""
    location, generated = (
        Location(str(root / "models/helper.py"), 7),
        Location(str(root / "models/generated/toy.py"), 9),
    )
    return CheckResult(
        "toy",
        str(root / "models/toy.py"),
        3,
        "drift",
        "error",
        (Cause("upstream moved", "Norm.forward changed", DIFF), Cause("missing")),
        (FileDifference(str(root / "models/generated/toy.py"), False, DIFF, DIFF),),
        (str(root / "models/written.py"),),
        (str(root / "models/removed.py"),),
        (
            Problem("wrong", location, "mend it", "> 7 | x", "PG201", Snippet(generated, "> 9 | x")),
            Problem("no place"),
        ),
        (Problem("mind", location), Problem("far", Location("/elsewhere/upstream.py"))),
        loading="imported",
        loading_reason="it reads a file",
        notes=("allowed: PG202 (because)",),
        reason="a reason",
        item="models/toy.py::drift",
    )


# --- records ---------------------------------------------------------------------------------------


def test_record_goes_to_a_machine_that_has_the_project_elsewhere(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    packed = json.loads(json.dumps(pack(with_paths(full_record(here), relative_to(here)))))
    assert str(here) not in json.dumps(packed)
    assert with_paths(unpack(packed), lambda path: str(there / path)) == full_record(there)


def test_diff_is_named_by_the_path_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "models/a.py")
    monkeypatch.chdir("/")
    diff = unified_diff("x\n", f"{path[1:]}\n", f"{path[1:]} (checked in)", f"{path[1:]} (generated now)")
    moved = with_paths(record(files=(FileDifference(path, False, diff, diff),)), relative_to(tmp_path))
    (file,) = retitled(moved).files
    assert file.diff.startswith("--- models/a.py (checked in)\n+++ models/a.py (generated now)\n")
    assert file.diff.endswith(f"+{path[1:]}\n")
    assert file.telling == file.diff


def test_record_of_text_that_is_not_utf8_can_be_sent() -> None:
    packed = pack(record(causes=(Cause("edited by hand", "caf\udce9"),)))
    assert packed["causes"][0]["detail"] == r"caf\udce9"
    json.dumps(packed, ensure_ascii=False).encode()


# --- the table -------------------------------------------------------------------------------------


def test_configs_that_are_clean_share_a_row_unless_verbose() -> None:
    moved = (Cause("upstream moved", "Norm changed"), Cause("edited by hand"), Cause("upstream moved"))
    report = GateReport(
        (
            record("b"),
            record("b", "import"),
            record("c"),
            record("a", "drift", "drifted", causes=moved),
            record("a", "import", "skipped"),
            record("d", warnings=(Problem("mind"),)),
        )
    )
    said = [
        ["config", "drift", "import"],
        ["a", "drifted: upstream moved, edited by hand", "skipped"],
        ["d", "ok, 1 warning", "-"],
    ]
    assert shown(report) == [*said, ["2 more", "2 ok", "1 ok"]]
    assert shown(report, verbose=True) == [*said[:2], ["b", "ok", "ok"], ["c", "ok", "-"], said[2]]
    assert shown(GateReport((record("a"), record("b")))) == [["config", "drift"], ["2 in all", "2 ok"]]


@pytest.mark.parametrize(
    ("status", "causes", "cell"),
    [
        ("clean", (), "ok, 2 warnings"),
        ("fixed", (Cause("upstream moved"),), "fixed: upstream moved, 2 warnings"),
        ("failed", (), "failed"),
        ("error", (), "error"),
    ],
)
def test_warnings_are_counted_where_nothing_worse_is_told(
    status: Status, causes: tuple[Cause, ...], cell: str
) -> None:
    warned = record("a", "contract", status, causes=causes, warnings=(Problem("mind"), Problem("look")))
    assert shown(GateReport((warned,))) == [["config", "contract"], ["a", cell]]


def test_codes_of_all_findings_are_known_once_and_in_order() -> None:
    first = record("a", errors=(Problem("x", code="PG202"), Problem("y")), warnings=(Problem("z", code="PG214"),))
    second = record("b", warnings=(Problem("z", code="PG201"), Problem("z", code="PG214")))
    assert GateReport((first, second)).codes == ("PG201", "PG202", "PG214")
    assert GateReport((record(),)).codes == ()


@pytest.mark.parametrize("place", range(len(STATUSES)))
def test_the_worst_record_of_a_cell_counts(place: int) -> None:
    records = [record(status=status) for status in STATUSES[: place + 1]]
    for order in (records, records[::-1]):
        [[config, cell]] = shown(GateReport(tuple(order)), verbose=True)[1:]
        assert (config, cell.partition(" ")[0]) == ("toy", STATUSES[place].replace("clean", "ok"))


def test_narrow_table_keeps_all_it_says() -> None:
    report = GateReport(
        (
            record("models.very_long_name.very_long_name_gpu_patch_gen_config", "drift", "error"),
            record("other", "import", "failed", causes=(Cause("missing"),)),
        )
    )
    cells = "".join(cell for row in shown(report, width=40) for cell in row)
    for part in ("error", "other", "failed:", "missing", "import"):
        assert part in cells
    first = "".join(row[0] for row in shown(report, width=40)[1:])
    assert "models.very_long_name.very_long_name_gpu_patch_gen_config" in first


@pytest.mark.parametrize("verbose", [False, True])
def test_plain_lines_are_those_of_the_table(verbose: bool) -> None:
    moved = (Cause("upstream moved", "Norm changed"),)
    records = [record("a", "drift", "drifted", causes=moved), record("日本", "parity[eager]", "skipped"), record("b")]
    console = Console(file=io.StringIO(), width=1000, color_system=None, markup=False)
    for some in (records, records[2:], []):
        report = GateReport(tuple(some))
        with console.capture() as capture:
            print_gate(console, report, verbose)
        assert gate_lines(report, verbose) == capture.get().splitlines()


def test_summary_counts_configs_and_checks() -> None:
    orphans = record("pyproject.toml", path="/project/pyproject.toml")
    records = (record("a"), record("a", "import", "error"), record("b", "drift", "drifted"), record("b", "import"))
    report = GateReport((*records, orphans), not_run=("c.py::drift",))
    assert report.summary() == "2 configs, 5 checks: 3 ok, 1 drifted, 1 error, 1 not run."
    assert GateReport((record("a"),)).summary() == "1 config, 1 check: 1 ok."
    assert GateReport(()).summary() == "0 configs, 0 checks: none ran."


@pytest.mark.parametrize(
    ("status", "code"), [("clean", 0), ("skipped", 0), ("fixed", 0), ("failed", 1), ("drifted", 1), ("error", 2)]
)
def test_exit_code_is_that_of_the_worst(status: Status, code: int) -> None:
    report = GateReport((record("a"), record("b", "drift", status), record("c", "drift", "fixed")))
    assert report.exit_code == code
    assert bool(report.bad) == bool(code)


# --- JSON ------------------------------------------------------------------------------------------


def test_json_report_reads_back(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    report = GateReport((full_record(here), record("b")), ("c.py::drift",), (str(here / "d.py"),))
    write_report(report, tmp_path / "new folder/report.json", here)
    expected = GateReport((full_record(there), record("b")), report.not_run, (str(there / "d.py"),))
    assert read_report(tmp_path / "new folder/report.json", there) == expected
    data = json.loads((tmp_path / "new folder/report.json").read_text())
    assert (data["exit_code"], data["results"][0]["path"]) == (2, "models/toy.py")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "not a report that 'pytest --patchgen-report' wrote"),
        ("[]", "not a report that 'pytest --patchgen-report' wrote"),
        ("{}", "not a report that 'pytest --patchgen-report' wrote"),
        ("3", "not a report that 'pytest --patchgen-report' wrote"),
        ('{"schema": 1, "exit_code": 0, "configs": []}', "not a report that 'pytest --patchgen-report' wrote"),
        ('{"schema": 1, "results": [null], "not_run": [], "not_collected": []}', "not a report that"),
        ('{"schema": 1, "results": [{"files": []}], "not_run": [], "not_collected": []}', "not a report that"),
        ('{"schema": 2}', "a report of schema 2, not 1"),
        ("\xff", "not a report that 'pytest --patchgen-report' wrote"),
    ],
)
def test_file_that_is_no_report_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, message: str
) -> None:
    path = tmp_path / "report.json"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    assert main(["report", str(path)]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith(f"{path}: error: {message}")
    assert error.count("\n") == 1


def test_report_with_a_status_of_another_version_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_text(gate_json(GateReport((record(),)), tmp_path).replace('"clean"', '"postponed"'))
    assert main(["report", str(path)]) == 2
    assert "not a report that 'pytest --patchgen-report' wrote" in capsys.readouterr().err


def test_report_command_merges_prints_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = []
    for number, status in enumerate(("drifted", "clean")):
        one = record(f"config{number}", "drift", status, path=str(tmp_path / f"config{number}.py"))  # type: ignore[arg-type]
        left = (f"config{1 - number}.py::drift",)
        paths.append(f"{number}.json")
        write_report(GateReport((one,), left), Path(paths[-1]), tmp_path)
    assert main(["report", *paths, "-o", "all.md", "-v"]) == 1
    assert "2 configs, 2 checks: 1 ok, 1 drifted.\n" in capsys.readouterr().out
    assert "| `config0` | drifted |" in (tmp_path / "all.md").read_text()
    assert main(["report", *paths, "--json"]) == 1
    assert [result["path"] for result in json.loads(capsys.readouterr().out)["results"]] == [
        "config0.py",
        "config1.py",
    ]
    assert main(["report", *paths, "-o", "all.txt"]) == 2
    assert "must end in .json, .md, .html or .sarif" in capsys.readouterr().err


# --- merging ---------------------------------------------------------------------------------------


def test_what_another_run_did_counts_as_done() -> None:
    first, second, orphans = record("a"), record("b"), replace(record("c"), item="pyproject.toml::orphans")
    left, right = ("b.py::drift", "b.py::import"), ("a.py::drift", "b.py::import", "pyproject.toml::orphans")
    merged = merge_reports(
        [
            GateReport((first, orphans), left, ("/project/b.py", "/project/d.py")),
            GateReport((second,), right, ("/project/d.py",)),
        ]
    )
    assert merged == GateReport((first, orphans, second), ("b.py::import",), ("/project/d.py",))


@pytest.mark.parametrize("place", range(1, len(STATUSES)))
def test_of_a_check_that_ran_twice_the_worse_verdict_counts(place: int) -> None:
    better, worse = (GateReport((record(status=status),)) for status in STATUSES[place - 1 : place + 1])
    assert merge_reports([better, worse]) == merge_reports([worse, better]) == worse
