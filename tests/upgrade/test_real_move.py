"""What upgrade says of every patch of a real project, beside what people did when they moved it by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tools.truth import CARRIED, Row, make_rows, read_rows, tabulate_forms

TABLE = Path(__file__).parent / "real_move.txt"


def carried(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.merge in CARRIED[1:]]


def test_all_that_people_edited_is_flagged_and_little_else() -> None:
    rows = read_rows(TABLE)
    assert [row.key for row in rows if row.people == "edited" and not row.is_flagged] == []
    needless = [row for row in rows if row.needs_nobody and row.is_flagged]
    assert len(needless) <= 0.02 * sum(row.needs_nobody for row in rows), needless


def test_what_is_carried_over_otherwise_than_people_did_has_been_judged() -> None:
    rows = carried(read_rows(TABLE))
    assert [row.key for row in rows if row.result == "different" and row.note == "-"] == []
    assert [row.key for row in rows if row.note.startswith("wrong")] == []


def test_the_docs_have_the_counts_of_both_forms() -> None:
    text = (Path(__file__).parents[2] / "docs/upgrading.md").read_text(encoding="utf-8")
    assert "\n".join(tabulate_forms(read_rows(TABLE))) in text


@pytest.mark.slow
def test_upgrade_says_what_the_table_says(tmp_path: Path) -> None:
    expected = {row.key: replace(row, note="-") for row in read_rows(TABLE)}
    assert {row.key: row for row in make_rows(tmp_path)} == expected
