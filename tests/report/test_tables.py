"""Tables of figures in terminals, logs, Markdown and pictures, and what several items say together."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from patchgen_core.checks.result import BACKWARD, LAYERS, TENSORS, CheckResult, Table
from patchgen_core.errors import Location, Problem
from patchgen_core.report.figures import find_layers, shorten, table_markdown, table_text
from patchgen_core.report.gate.details import print_details
from patchgen_core.report.gate.formats import with_pictures
from patchgen_core.report.gate.json import gate_json, read_report
from patchgen_core.report.gate.markdown import gate_markdown
from patchgen_core.report.gate.report import GateReport, merge_reports, with_unused

FIGURES = ("shape", "dtype", "absolute", "relative", "allowed", "verdict")
SVG = "{http://www.w3.org/2000/svg}"
ABOUT = "LlamaForCausalLM, batch 'rows', float32"
ITEM = "models/toy_patch_gen_config.py::parity[{}]"


def layers(count: int, first: int, kind: str = LAYERS, about: str = ABOUT) -> Table:
    """Layers of which all differ from one on."""
    rows = [
        (
            f"model.language_model.layers.{number}.post_attention_layernorm",
            "LlamaRMSNorm",
            "[2, 12, 96]",
            "float32",
            *(("1.25e-01", "3.00e-02", "4.77e-07", "differs") if number >= first else ("0", "0", "4.77e-07", "ok")),
        )
        for number in range(count)
    ]
    return Table(f"{about}: {kind}", ("module", "class", *FIGURES), tuple(rows))


def tensors(count: int, wrong: int, about: str = ABOUT) -> Table:
    whole = layers(count, 0)
    rows = [
        (f"gradient of {row[0]}.weight", *row[2:-1], "differs" if n < wrong else "ok")
        for n, row in enumerate(whole.rows)
    ]
    return Table(f"{about}: {TENSORS}", ("tensor", *FIGURES), tuple(rows))


def lines(table: Table, width: int | None = None, is_whole: bool = False) -> list[str]:
    return table_text(table, width, is_whole).plain.splitlines()


def failed(name: str = "eager", tables: tuple[Table, ...] = (), errors: int = 1, **more: object) -> CheckResult:
    location = Location("/project/models/toy_patch_gen_config.py", 3)
    problems = tuple(Problem(f"Head{n} parts", location, "Batch 'rows'.", "> 3 | patch") for n in range(errors))
    bare = CheckResult(
        "toy", location.file, 3, "parity", "failed", errors=problems, tables=tables, item=ITEM.format(name)
    )
    return replace(bare, **more)


# --- terminals and logs ----------------------------------------------------------------------------


def test_short_table_is_shown_whole_and_aligned() -> None:
    title, head, *rows = lines(layers(3, 2))
    assert title == f"{ABOUT}: layers"
    assert len(rows) == 3
    for column in ("shape", "verdict"):
        start = head.index(column)
        assert {row[start - 1] for row in rows} == {" "}
        assert " " not in {row[start] for row in rows}
    end = head.index("relative") + len("relative")
    assert [row[:end].split()[-1] for row in rows] == ["0", "0", "3.00e-02"]


def test_long_table_of_layers_is_shown_around_the_first_that_differs() -> None:
    shown = lines(layers(40, 20))
    named = [line.split()[0].split(".")[3] for line in shown if line.startswith("  model.")]
    assert named == [str(number) for number in range(17, 25)]
    assert "  ... 17 above" in shown
    assert "  ... 15 below" in shown
    assert shown[-1] == "  8 of 40 shown: -v or --patchgen-report shows all"


@pytest.mark.parametrize("first", [0, 1, 39, 40])
def test_as_many_layers_are_shown_wherever_they_part(first: int) -> None:
    assert sum(line.startswith("  model.") for line in lines(layers(40, first))) == 8


def test_worst_tensors_are_shown() -> None:
    shown = lines(tensors(40, 30))
    assert sum(line.startswith("  gradient") for line in shown) == 12
    assert shown[2].startswith("  gradient of model.language_model.layers.0.")
    assert shown[-2:] == ["  ... 28 below", "  12 of 40 shown: -v or --patchgen-report shows all"]


def test_whole_table_has_all_rows_and_says_nothing_of_more() -> None:
    shown = lines(layers(40, 20), is_whole=True)
    assert len(shown) == 42
    assert "shown" not in shown[-1]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160, 200])
@pytest.mark.parametrize("table", [layers(40, 20), tensors(40, 3)], ids=["layers", "tensors"])
def test_table_fits_the_terminal(table: Table, width: int) -> None:
    shown = lines(table, width)
    assert max(map(len, shown)) <= width
    head = next(line for line in shown if "verdict" in line)
    assert {"relative", "allowed", "verdict"} <= set(head.split())
    assert any("layernorm" in line for line in shown)  # the end of a name tells more than its beginning


def test_wide_terminal_has_all_columns() -> None:
    assert lines(layers(40, 20), 200) == lines(layers(40, 20))


def test_log_is_not_cut_to_a_width() -> None:
    assert all(name in " ".join(lines(layers(40, 20))) for name in ("class", "dtype", "absolute", "LlamaRMSNorm"))
    assert "…" not in "\n".join(lines(tensors(40, 3)))


def test_column_that_tells_something_wrong_is_never_left_out() -> None:
    table = tensors(3, 1)
    row = (*table.rows[0][:2], "float32 instead of bfloat16", *table.rows[0][3:])
    shown = lines(replace(table, rows=(row, *table.rows[1:])), 80)
    assert any("float32 instead of bfloat16" in line for line in shown)


@pytest.mark.parametrize("width", range(3, 30))
def test_shortened_name_has_both_ends(width: int) -> None:
    short = shorten("model.layers.0.mlp.down_proj", width)
    assert len(short) <= width
    if width < 28:
        assert (short[0], short[-1]) == ("m", "j")


def printed(record: CheckResult, is_whole: bool) -> str:
    console = Console(file=io.StringIO(), width=10_000, force_terminal=False)
    print_details(console, record, is_whole=is_whole)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_brief_failure_shows_what_tells_most_of_the_first_head() -> None:
    forward = (tensors(20, 5), layers(20, 9), layers(20, 9, BACKWARD))
    others = (tensors(20, 5, "Other"), layers(20, 9, about="Other"))
    said = printed(failed(tables=(*forward, *others), errors=3), is_whole=False)
    assert [line for line in said.splitlines() if line.endswith((": tensors", ": layers", "backward"))] == [
        f"{ABOUT}: tensors",
        f"{ABOUT}: layers",
    ]
    assert said.count("Batch 'rows'.") == said.count("> 3 | patch") == 1
    assert [said.count(f"Head{n} parts") for n in range(3)] == [1, 1, 1]


def test_brief_failure_of_the_backward_pass_shows_its_layers() -> None:
    said = printed(failed(tables=(tensors(9, 5), layers(9, 4, BACKWARD), layers(9, 99))), is_whole=False)
    assert f"{ABOUT}: {BACKWARD}" in said
    assert f"{ABOUT}: layers\n" not in said


def test_brief_failure_shows_nothing_of_other_heads() -> None:
    tables = (tensors(20, 5), layers(20, 99), tensors(20, 5, "Other"), layers(20, 9, about="Other"))
    said = printed(failed(tables=tables, errors=2), is_whole=False)
    assert f"{ABOUT}: tensors" in said
    assert ": layers" not in said
    assert "Other: " not in said


def test_whole_failure_shows_everything() -> None:
    tables = (tensors(40, 5), layers(40, 9), layers(40, 9, BACKWARD), tensors(40, 5, "Other"))
    said = printed(failed(tables=tables, errors=2), is_whole=True)
    assert said.count("layernorm") == 160
    assert said.count("Batch 'rows'.") == 2


# --- files -----------------------------------------------------------------------------------------


def test_markdown_has_every_row_folded_away() -> None:
    text = gate_markdown(GateReport((failed(tables=(tensors(40, 5), layers(40, 9))),)))
    assert "<summary>toy: parity[eager]</summary>" in text
    assert f"<summary>{ABOUT.replace(chr(39), '&#x27;')}: tensors (5 of 40 differ)</summary>" in text
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert rendered.count("<tr>") == 2 + 41 + 41
    assert rendered.count("<strong>differs</strong>") == 5 + 31
    assert text.count("<details>") == text.count("</details>") == 3


def test_summary_of_a_job_is_short() -> None:
    text = "\n".join(table_markdown(layers(400, 200), is_whole=False))
    assert text.count("LlamaRMSNorm") == 8
    assert "197 rows above and 195 below are left out here." in text


def test_cells_of_markdown_keep_their_bars() -> None:
    table = Table("a | b", ("name", "verdict"), (("x|y", "ok"),))
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render("\n".join(table_markdown(table)))
    assert "<td><code>x|y</code></td>" in rendered


def test_json_has_all_figures_and_reads_back(tmp_path: Path) -> None:
    record = failed(tables=(tensors(40, 5), layers(40, 9)), figures={"logits": 0.5}, picture="/project/out/a.png")
    text = gate_json(GateReport((record,)), Path("/project"))
    (result,) = json.loads(text)["results"]
    assert [len(table["rows"]) for table in result["tables"]] == [40, 40]
    assert result["picture"] == "out/a.png"
    (tmp_path / "gate.json").write_text(text)
    assert read_report(tmp_path / "gate.json", Path("/project")).results == (record,)


def test_merged_reports_keep_every_implementation() -> None:
    reports = [GateReport((failed("eager"),)), GateReport((failed("liger_kernel", status="clean", errors=0),))]
    assert [record.name for record in merge_reports(reports).results] == ["parity[eager]", "parity[liger_kernel]"]
    assert [record.name for record in merge_reports([reports[0]] * 2).results] == ["parity[eager]"]


# --- allowances ------------------------------------------------------------------------------------

IDLE = Problem("allow: PG302 finds nothing here", Location("/project/c.py", 2), code="PG300")
BOTH = ("parity[eager]", "parity[liger_kernel]")


def ran(name: str, *unused: Problem, siblings: tuple[str, ...] = BOTH) -> CheckResult:
    return failed(name, status="clean", errors=0, unused=unused, siblings=siblings if unused else ())


@pytest.mark.parametrize(
    ("records", "count"),
    [
        ([ran("eager", IDLE), ran("liger_kernel", IDLE)], 1),
        ([ran("liger_kernel", IDLE), ran("eager", IDLE)], 1),
        ([ran("eager", IDLE), ran("liger_kernel")], 0),
        ([ran("eager"), ran("liger_kernel", IDLE)], 0),
        ([ran("eager", IDLE)], 0),
        ([ran("patched", IDLE, siblings=("parity[patched]",))], 1),
        ([ran("eager", IDLE), replace(ran("liger_kernel", IDLE), path="/project/other.py")], 0),
    ],
)
def test_allowance_that_no_implementation_needs_is_told_once(records: list[CheckResult], count: int) -> None:
    report = with_unused(GateReport(tuple(records)))
    assert sum(record.warnings.count(IDLE) for record in report.results) == count
    assert report.codes == ("PG300",) * count
    assert with_unused(report) == report


def test_allowance_is_told_when_the_reports_of_all_implementations_are_merged() -> None:
    parts = [with_unused(GateReport((ran("eager", IDLE),))), GateReport((ran("liger_kernel", IDLE),))]
    assert merge_reports(parts).codes == ("PG300",)
    assert merge_reports(parts[:1]).codes == ()


# --- pictures --------------------------------------------------------------------------------------


def test_picture_shows_each_failed_record(tmp_path: Path) -> None:
    tables = (tensors(4, 2), layers(60, 20))
    records = (
        failed("eager", tables),
        failed("liger_kernel", status="clean", errors=0),
        failed("other", (tensors(4, 2),)),
    )
    report, said = with_pictures(GateReport(records), tmp_path / "made" / "gate.json")
    assert said == ""
    assert [Path(r.picture).name if r.picture else "" for r in report.results] == ["gate-parity-toy-eager.svg", "", ""]
    picture = tmp_path / "made" / "gate-parity-toy-eager.svg"
    first = picture.read_bytes()
    svg = ElementTree.fromstring(first)
    texts = [element.text for element in svg.iter(f"{SVG}text")]
    assert texts[:2] == ["toy: parity[eager]", tables[1].title]
    assert "they differ from model.language_model.layers.20.post_attention_layernorm" in texts
    assert sum(mark.find(f"{SVG}title") is not None for mark in svg.iter()) == 1 + 60  # of the drawing, of each layer
    with_pictures(GateReport(records), tmp_path / "made" / "gate.json")
    assert picture.read_bytes() == first
    assert "![errors by layer](<gate-parity-toy-eager.svg>)" in gate_markdown(report, tmp_path / "made")


def test_no_picture_is_drawn_beside_a_page(tmp_path: Path) -> None:
    report = GateReport((failed(tables=(layers(4, 2),)),))
    assert with_pictures(report, tmp_path / "gate.html") == (report, "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("count", "cells"),
    [(1, ("0", "0")), (5, ("inf", "0")), (5, ("1.00e-300", "inf")), (200, ("2.00e-02", "4.77e-07"))],
)
def test_any_figures_can_be_drawn(tmp_path: Path, count: int, cells: tuple[str, str]) -> None:
    table = layers(count, 3)
    rows = tuple((*row[:4], "0", *cells, row[-1]) for row in table.rows)
    report, _ = with_pictures(GateReport((failed("eager", (replace(table, rows=rows),)),)), tmp_path / "gate.md")
    svg = ElementTree.parse(report.results[0].picture).getroot()
    assert sum("relative error" in (element.text or "") for element in svg.iter(f"{SVG}desc")) == (count > 3)
    assert len([*svg.iter(f"{SVG}circle"), *svg.iter(f"{SVG}rect")]) == count + 3  # samples and the paper
    numbers = [
        value for element in svg.iter() for name, value in element.items() if name in ("x", "y", "cx", "cy", "d")
    ]
    assert not re.search("nan|inf", " ".join(numbers))


def test_table_of_no_layers_has_no_picture(tmp_path: Path) -> None:
    report = GateReport((failed(tables=(layers(0, 0),)),))
    assert with_pictures(report, tmp_path / "gate.json") == (report, "")


def test_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    report = GateReport((failed(tables=(layers(4, 2),)),))
    same, said = with_pictures(report, tmp_path / "out" / "gate.json")
    assert same == report
    assert said.startswith("No picture of the errors by layer: ")


def test_the_direction_that_tells_more_is_drawn() -> None:
    backward = layers(4, 2, BACKWARD)
    assert find_layers([tensors(4, 2), backward, layers(4, 9)]) is backward
    assert find_layers([tensors(4, 2)]) is None
