"""Summaries of texts that a project's cache keeps: the same as new ones, or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen_core.checks.kept.entries import EntryStore
from patchgen_core.checks.kept.source_summary import Body, SourceSummary, summarize_source
from patchgen_core.checks.kept.summaries import Summaries
from patchgen_core.errors import PatchgenError
from patchgen_core.files import text_digest
from tests.spoils import IN_THE_WAY, SPOILS, body_of, write_signed

QWEN3 = Path(__file__).parents[2] / "examples/zoo/qwen3"
ONE = "import os\n\n\ndef first():\n    return os.getcwd()\n"
OTHER = "from .near import far\n\n\nclass Last:\n    def end(self):\n        return far(self)\n"


@pytest.fixture
def store(tmp_path: Path) -> EntryStore:
    """A store that has summaries of two texts."""
    store = EntryStore(tmp_path / "cache")
    keep(store, ONE, OTHER)
    return store


def keep(store: EntryStore, *texts: str) -> None:
    summaries = Summaries(store)
    for text in texts:
        find(summaries, text)
    summaries.keep()


def find(summaries: Summaries, text: str) -> SourceSummary:
    return summaries.of(text, text_digest(text))


def written(store: EntryStore) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in store.files.paths()}


def test_a_summary_tells_what_runs_by_which_name() -> None:
    summary = summarize_source(OTHER)
    end = Body(frozenset({"far", "self"}), first=5)
    assert summary.imports == {(1, "near", "far")}
    assert dict(summary.named()) == {"Last": [end], "end": [end]}
    assert summarize_source(ONE).bodies == (Body(frozenset({"os", "getcwd"}), "os.getcwd", 5, first=4),)


def test_a_kept_summary_is_that_of_the_text(tmp_path: Path) -> None:
    texts = [file.read_text(encoding="utf-8") for file in sorted(QWEN3.rglob("*.py"))]
    store = EntryStore(tmp_path)
    keep(store, *texts)
    files, summaries = written(store), Summaries(store)
    assert texts
    assert [find(summaries, text) for text in texts] == [summarize_source(text) for text in texts]
    summaries.keep()
    assert written(store) == files


@pytest.mark.parametrize("name", SPOILS)
def test_a_spoilt_summary_is_not_there_and_is_replaced(store: EntryStore, name: str) -> None:
    first, *_ = store.files.paths()
    SPOILS[name](first)
    summaries = Summaries(store)
    assert [find(summaries, text) for text in (ONE, OTHER)] == [summarize_source(text) for text in (ONE, OTHER)]
    if name in IN_THE_WAY:
        with pytest.raises(PatchgenError):
            summaries.keep()
        return
    summaries.keep()
    files = written(store)
    keep(store, ONE, OTHER)
    assert written(store) == files


def test_summaries_that_changed_places_are_not_believed(store: EntryStore) -> None:
    one, other = store.files.paths()
    first, second = body_of(one), body_of(other)
    write_signed(one, second)
    write_signed(other, first)
    summaries = Summaries(store)
    assert find(summaries, ONE) == summarize_source(ONE)
    assert find(summaries, OTHER) == summarize_source(OTHER)


def test_what_is_not_python_is_not_kept(store: EntryStore) -> None:
    files = written(store)
    with pytest.raises(SyntaxError):
        keep(store, "def")
    assert written(store) == files
