"""The gate's report in Markdown, whatever stands in it."""

from __future__ import annotations

import random
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from patchgen_core.build.results import Cause
from patchgen_core.checks.result import (
    CheckResult,
    FileDifference,
)
from patchgen_core.errors import Location, Problem, Snippet
from patchgen_core.report.gate.formats import write_report
from patchgen_core.report.gate.json import gate_json, read_report
from patchgen_core.report.gate.markdown import gate_markdown
from patchgen_core.report.gate.report import GateReport, merge_reports
from tests.report.gate_records import DIFF, STATUSES, record, shown

# --- Markdown --------------------------------------------------------------------------------------


def parsed(report: GateReport) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(gate_markdown(report))


class Words(HTMLParser):
    """The text of a page as a browser shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.open = "", [""]

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def words(report: GateReport) -> str:
    page = Words()
    page.feed(MarkdownIt("commonmark").enable("table").render(gate_markdown(report)))
    assert page.open == [""]
    return page.text


def table_cells(tokens: list[Token]) -> list[list[str]]:
    assert sum(token.type == "table_open" for token in tokens) == 1
    rows: list[list[str]] = []
    for token, inner in pairwise(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            rows[-1].append("".join(child.content for child in inner.children or ()))
    return rows


def test_markdown_has_the_table_and_what_was_found() -> None:
    drifted = record("a|b", status="drifted", causes=(Cause("missing", "it"),), files=(_file(DIFF),))
    report = GateReport((drifted, record("c"), record("c", "x|y")), not_collected=("left_out.py",))
    tokens = parsed(report)
    assert table_cells(tokens) == [
        ["config", "drift", "x|y"],
        ["a|b", "drifted: missing", "-"],
        ["1 more", "1 ok", "1 ok"],
    ]
    assert [(token.info, token.content) for token in tokens if token.type == "fence"] == [("diff", DIFF)]
    shown = words(report)
    for part in ("patchgen: red", report.summary(), "a|b: drift", "missing: it", "Not collected: left_out.py"):
        assert part in shown
    green = words(GateReport((record(),)))
    assert "patchgen: green" in green
    assert "1 more" in green or "1 in all" in green


def test_markdown_has_findings_with_both_places_and_the_warnings_of_what_is_clean() -> None:
    snippet = Snippet(Location("/project/generated/toy.py", 9), ">     9 | forward(x)")
    finding = Problem("misfit", Location("/project/toy.py", 3), "mend it", ">     3 | forward(x)", "PG202", snippet)
    warning = Problem("no effect", Location("/project/b.py", 5), "drop it", code="PG214")
    failed = record("a", "contract", "failed", errors=(finding,), warnings=(warning,))
    report = GateReport((failed, record("b", "contract", warnings=(warning,)), record("c", "contract")))
    tokens = parsed(report)
    assert [token.content for token in tokens if token.type == "fence"] == [
        f"{finding}\nwarning: {warning}\n",
        f"warning: {warning}\n",
    ]
    for line in ("PG202 misfit", ">     3 | forward(x)", "generated/toy.py:9:", ">     9 | forward(x)", "mend it"):
        assert line in words(report)
    assert table_cells(tokens)[1:] == [["a", "failed"], ["b", "ok, 1 warning"], ["1 more", "1 ok"]]


def _file(diff: str) -> FileDifference:
    return FileDifference("/project/generated.py", False, diff, diff)


@pytest.mark.parametrize("mark", ["```", "````diff", "~~~", "</details>", "  ```"])
def test_fences_hold_whatever_is_in_them(mark: str) -> None:
    diff = f"--- a.py\n+++ b.py\n@@ -1 +1,2 @@\n {mark}\n+{mark}\n"
    errors = (Problem(mark, None, f"{mark}\n# no heading"),)
    report = GateReport((record(status="error", errors=errors, files=(_file(diff),)),))
    tokens = parsed(report)
    assert [token.content for token in tokens if token.type == "fence"] == [f"{errors[0]}\n", diff]
    assert sum(token.type == "heading_open" for token in tokens) == 1


@pytest.mark.parametrize(
    "detail", ["Norm.__init__ changed", "f.<locals>.g changed", "*args* and `code`", "a [link](x)", "a <b> & c"]
)
def test_causes_are_shown_as_they_are_written(detail: str) -> None:
    report = GateReport((record(status="drifted", causes=(Cause("upstream moved", detail),)),))
    assert f"upstream moved: {detail}" in words(report)


# --- anything at all -------------------------------------------------------------------------------


def random_text(rng: random.Random, letters: str = "ab |`<>&*_[]()\n\\#-+~\t\x1bü日\udcff'\"{}") -> str:
    return "".join(rng.choices(letters, k=rng.randint(0, 30)))


def random_record(rng: random.Random) -> CheckResult:
    def problems() -> tuple[Problem, ...]:
        place = rng.choice([None, Location("/project/x.py", rng.randint(0, 5))])
        snippet = rng.choice([None, Snippet(Location("/project/y.py", 3), random_text(rng))])
        texts = [random_text(rng) for _ in range(3)]
        code = rng.choice(["", "PG201"])
        return (Problem(texts[0], place, *texts[1:], code, snippet),) * rng.randint(0, 2)

    diffs = [DIFF, "", DIFF.replace("x = 1", random_text(rng, "`~|-+ <")), DIFF * 3]
    kinds = ("upstream moved", "config changed", "edited by hand", "generator changed", "missing", "orphan")
    return record(
        rng.choice("abc") + random_text(rng, "ab.|_- "),
        rng.choice(["drift", "import", "a|b"]),
        rng.choice(STATUSES),
        causes=tuple(
            Cause(rng.choice(kinds), random_text(rng), rng.choice(diffs))  # type: ignore[arg-type]
            for _ in range(rng.randint(0, 2))
        ),
        files=tuple(_file(rng.choice(diffs)) for _ in range(rng.randint(0, 2))),
        errors=problems(),
        warnings=problems(),
        notes=(random_text(rng),) * rng.randint(0, 2),
    )


@pytest.mark.parametrize("count", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_any_records_can_be_reported(tmp_path: Path, count: int) -> None:
    rng = random.Random(count)
    for _ in range(count):
        records = tuple(random_record(rng) for _ in range(rng.randint(1, 6)))
        report = GateReport(records, (random_text(rng),), ("/project/left.py",))
        (tmp_path / "report.json").write_text(gate_json(report, Path("/project")))
        again = read_report(tmp_path / "report.json", Path("/project"))
        assert gate_json(again, Path("/project")) == gate_json(report, Path("/project"))
        assert merge_reports([again, report]).exit_code == report.exit_code
        write_report(report, tmp_path / "report.md", tmp_path)
        cells = table_cells(parsed(report))
        assert {len(row) for row in cells} == {len(report.checks) + 1}
        shown(report, rng.choice([30, 80]), rng.random() < 0.5)
