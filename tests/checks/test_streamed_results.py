"""What a run of the gate in another process has told, whole or cut off."""

from __future__ import annotations

from patchgen_core.checks.streamed_results import StreamedResults
from tests.conftest import Workspace


def test_a_run_that_ends_before_its_end_is_not_done_whatever_it_told(gated: Workspace) -> None:
    *lines, end = gated.patchgen("gate", "--checks", "drift,contract", "--stream", "-").stdout.splitlines()
    told = StreamedResults(gated.root)
    for line in lines:
        told.read(line)
    # the third is about the project: files that no config makes
    assert {result.check for result in told.results} == {"contract", "drift"}
    assert not any(result.is_bad for result in told.results)
    assert told.find_failure(-9, "Killed\n") == "its process has ended with exit code -9, after 3 of 3 checks"
    told.read(end)
    assert told.find_failure(0, "") == ""


def test_a_run_that_could_not_be_done_says_why(gated: Workspace) -> None:
    told = StreamedResults(gated.root)
    for line in gated.patchgen("gate", "nowhere", "--stream", "-").stdout.splitlines():
        told.read(line)
    assert "nowhere" in told.find_failure(2, "")
    assert StreamedResults(gated.root).find_failure(1, "Traceback\nImportError: no rich\n") == "ImportError: no rich"
