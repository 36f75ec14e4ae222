"""The stream of a run: each result as soon as it is there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from patchgen_core.report.gate.stream import infer_device
from tests.checks.test_gate import install_check
from tests.conftest import CONFIG, PATCH, Workspace

COUNTING_CHECK = '''
from pathlib import Path

from patchgen_core.checks.check import Check


class LengthCheck(Check):
    """Counts the lines that a reader of the stream has by now."""

    name = "length"

    def run(self, path, item):
        for made in self.session.results(path):
            yield self.result(made, "skipped", reason=str(len(Path("stream.jsonl").read_text().splitlines())))
'''

UNUSED_CHECK = """
from dataclasses import replace

from patchgen_core.checks.check import Check
from patchgen_core.errors import Problem


class LengthCheck(Check):
    '''Has an allowance that is not needed.'''

    name = "length"

    def run(self, path, item):
        for made in self.session.results(path):
            yield replace(self.result(made, "clean"), unused=(Problem("nothing came of it"),), siblings=("length",))
"""


def read_lines(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The lines of a stream, each by its kind."""
    lines = []
    for line in text.splitlines():
        ((kind, value),) = json.loads(line).items()
        lines.append((kind, value))
    return lines


def test_results_are_told_as_they_come(gated: Workspace) -> None:
    install_check(gated)
    (gated.site / "acme_checks.py").write_text(COUNTING_CHECK)
    gated.config(PATCH, "other/other_gpu_patch_gen_config.py")
    done = gated.patchgen("gate", "--checks=drift,length", "--stream=stream.jsonl", "--report=gate.json")
    lines = read_lines((gated.root / "stream.jsonl").read_text())
    assert [kind for kind, _ in lines] == ["begin", *["result"] * 5, "end"]
    assert lines[0][1]["items"] == 5
    assert lines[0][1]["environment"]["packages"]["acme"] == "1.0"
    assert lines[-1][1] == {"exit_code": 1} == {"exit_code": done.returncode}
    assert [line["reason"] for _, line in lines[1:-1] if line["check"] == "length"] == ["2", "4"]
    report = json.loads((gated.root / "gate.json").read_text())["results"]
    for _, line in lines[1:-1]:
        for file in line["files"]:
            del file["telling"]  # which the report of a file has not
    assert [line for _, line in lines[1:-1]] == report


def test_standard_output_has_nothing_but_the_stream(gated: Workspace) -> None:
    """What a config prints, and what is shown to people, goes to standard error."""
    gated.config(PATCH + "\nimport os\nprint('a config prints')\nos.write(1, b'and writes')\n")
    done = gated.patchgen("gate", "--checks=drift,contract", "--stream=-")
    assert [kind for kind, _ in read_lines(done.stdout)] == ["begin", "result", "result", "result", "end"]
    assert "a config prints" in done.stderr
    assert "1 config, 3 checks" in done.stderr


def test_run_that_cannot_be_done_says_why(gated: Workspace) -> None:
    done = gated.patchgen("gate", "--checks=drfit", "--stream=-")
    assert done.returncode == 2
    ((kind, end),) = read_lines(done.stdout)
    assert (kind, end["exit_code"]) == ("end", 2)
    assert "there is no check 'drfit'" in end["errors"][0]["message"]


def test_result_that_the_whole_report_knows_more_of_is_told_again(gated: Workspace) -> None:
    """An allowance that no item needed is known at the end."""
    install_check(gated)
    (gated.site / "acme_checks.py").write_text(UNUSED_CHECK)
    done = gated.patchgen("gate", "--checks=length", "--stream=-")
    before, after = (line for kind, line in read_lines(done.stdout) if kind == "result")
    assert (before["warnings"], after["warnings"][0]["message"]) == ([], "nothing came of it")
    assert before["item"] == after["item"]


def test_stream_that_cannot_be_written(gated: Workspace) -> None:
    done = gated.patchgen("gate", "--stream=nowhere/stream.jsonl")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "error: the stream nowhere/stream.jsonl cannot be written: No such file or directory"
    )


def test_paths_are_from_the_projects_root(gated: Workspace) -> None:
    done = gated.patchgen("gate", "--checks=drift", "--stream=-")
    assert read_lines(done.stdout)[1][1]["path"] == f"proj/models/{CONFIG}"


@pytest.mark.parametrize(
    ("torch", "has_nvidia", "device"),
    [
        ("2.9.0+cpu", True, "cpu"),
        ("2.9.0", True, "cuda"),
        ("2.9.0+cu130", False, "cpu"),
        ("2.9.0+rocm7", False, "auto"),
    ],
)
def test_the_device_of_a_run_is_named_without_torch(torch: str, has_nvidia: bool, device: str) -> None:
    """Else runs on a GPU and on a CPU would be one history of errors, of a device called "auto"."""
    assert infer_device({"torch": torch}, has_nvidia) == device
