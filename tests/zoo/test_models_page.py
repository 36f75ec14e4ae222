"""docs/models.md says what the zoo is; what it measured is of the machine that it was made on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from patchgen_core.project.table import load_project
from tools.models_page import PAGE, ROOT, Row, find_rows, page


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return find_rows(load_project(ROOT))


def without_figures(text: str) -> str:
    return re.sub(r"\| [^|]* \| *\d+ \|$", "| | |", text, flags=re.MULTILINE)


@pytest.mark.slow
def test_the_page_is_current(rows: list[Row]) -> None:
    """`make models` writes it anew."""
    assert without_figures(PAGE.read_text(encoding="utf-8")) == without_figures(page(rows, []))


@pytest.mark.slow
def test_every_config_has_parity_and_figures(rows: list[Row]) -> None:
    lines = {match[1]: match[0] for match in re.finditer(r"^\| \[(\w+)\].*$", PAGE.read_text("utf-8"), re.MULTILINE)}
    assert len(lines) == len(rows)
    for row in rows:
        assert {"drift", "import", "contract", "parity[eager]", "parity[liger_kernel]"} <= set(row.items)
        is_moe = (row.loaded.path.parent / "parallel_plan.py").is_file()
        assert ("plan" in row.items) == is_moe
    for name, line in lines.items():
        *_, errors, seconds, _ = (cell.strip() for cell in line.split("|"))
        shares = [float(share) for share in re.findall(r"\d\.\d\d", errors)]
        assert shares, name
        assert all(share <= 1 for share in shares), name
        assert int(seconds) > 0


@pytest.mark.slow
def test_links_lead_to_the_configs(rows: list[Row]) -> None:
    links = re.findall(r"\]\((\.\./[^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert len(links) == len(rows)
    assert all((PAGE.parent / Path(link)).is_file() for link in links)
