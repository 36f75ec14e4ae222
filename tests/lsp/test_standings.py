"""What the server shows of checks that have run, and running them from the editor."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls", reason="needs the extra lsp")

from lsprotocol import types

from patchgen_core.checks.kept.asking import SWITCH
from tests.conftest import Workspace
from tests.lsp.editor import Editor

CONFIG = "proj/models/toy/toy_gpu_patch_gen_config.py"
CHECK = '''
import os
import time
from pathlib import Path
from typing import Any

from patchgen_core.checks.check import Check
from patchgen_core.errors import Location, Problem


class LengthCheck(Check):
    """Generated modules stay short."""

    name = "length"

    def inputs(self, path):
        return ()

    def run(self, path, item):
        for made in self.session.results(path):
            text = made.outcome.artifact.text
            error = Problem("it is too long", Location(str(path), 5), "Write less.")
            yield self.result(made, "failed", errors=(error,)) if "* 99" in text else self.result(made, "clean")


class SlowCheck(LengthCheck):
    """It takes long."""

    name = "slow"

    def run(self, path, item):
        Path("slow.pid").write_text(str(os.getpid()))
        time.sleep(300)
        yield from ()
'''
ENTRY_POINTS = "[patchgen.checks]\nlength = lengths:LengthCheck\nslow = lengths:SlowCheck\n"


@pytest.fixture
def checked(gated: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A clean project with two checks of its own, whose results are kept."""
    monkeypatch.setenv(SWITCH, "1")
    (gated.site / "lengths.py").write_text(CHECK)
    info = gated.site / "lengths-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lengths\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return gated


def title(editor: Editor) -> str:
    """What stands above the one patch."""
    return list(editor.lenses(CONFIG).values())[-1]


def hover(editor: Editor) -> str:
    """What is told of a config's checks."""
    place = editor.place(CONFIG, "PatchConfig(")
    return str(editor.ask(types.TEXT_DOCUMENT_HOVER, types.HoverParams(**place)).contents.value)


@pytest.mark.slow
def test_a_kept_result_is_shown_with_its_age_and_never_as_ok_once_something_changed(
    checked: Workspace, typist: Editor
) -> None:
    done = checked.patchgen("gate", "--checks", "length", CONFIG, HOME="/another/shell")
    assert done.returncode == 0, done.stdout + done.stderr
    typist.open(CONFIG)
    ok = r"unchanged upstream · length ok \d+ s ago"
    typist.wait_for(lambda: re.fullmatch(ok, title(typist)))
    assert typist.refreshes, "the editor was told to ask for its lenses again"

    text = typist.read(CONFIG)
    typist.change(CONFIG, f"{text}# a remark\n")
    assert title(typist) == "unchanged upstream · length not current"
    typist.save(CONFIG)
    assert title(typist).endswith("length not current")
    rows = typist.wait_for(lambda: (table := hover(typist)) and f"changed: {CONFIG}" in table and table)
    assert "| `length` | not current |" in rows

    typist.change(CONFIG, text)
    typist.save(CONFIG)
    typist.wait_for(lambda: re.fullmatch(ok, title(typist)))
    (checked.site / "new_package.py").touch()
    checked.write("proj/models/other.py", "")
    typist.save(CONFIG)
    typist.wait_for(lambda: title(typist).endswith("length not current"))


def test_a_check_runs_from_the_editor_and_what_it_finds_is_shown(checked: Workspace, typist: Editor) -> None:
    text = typist.read(CONFIG)
    typist.open(CONFIG)
    typist.change(CONFIG, text.replace("* 2", "* 99"))
    typist.run("patchgen.runChecks", typist.uri(CONFIG), "length")
    assert "unsaved changes" in typist.messages[-1]
    typist.save(CONFIG)
    typist.run("patchgen.regenerate", typist.uri(CONFIG))

    typist.run("patchgen.runChecks", typist.uri(CONFIG), "length")
    assert "1 check ran; red: length" in typist.messages[-1]
    kinds = [
        params.value.kind if hasattr(params.value, "kind") else params.value["kind"] for params in typist.progress
    ]
    assert kinds == ["begin", "report", "end"]
    [found] = typist.wait_for(lambda: typist.wait(typist.uri(CONFIG)))
    assert re.match(r"it is too long \(length, \d+ s ago\)\nWrite less.", found.message)
    assert (found.range.start.line, found.severity, found.code) == (4, types.DiagnosticSeverity.Error, "length")
    assert re.search(r"length red \d+ s ago", title(typist))
    assert "Run length again" in typist.actions(CONFIG, "PatchConfig(", [found])

    typist.change(CONFIG, text)
    typist.save(CONFIG)
    remarks = [d for d in typist.wait(typist.uri(CONFIG)) if d.code == "length"]
    assert [d.severity for d in remarks] == [types.DiagnosticSeverity.Information]
    assert "before the last change" in remarks[0].message
    typist.run("patchgen.regenerate", typist.uri(CONFIG))
    typist.run("patchgen.runChecks", typist.uri(CONFIG), "length")
    assert typist.messages[-1].endswith("1 check ran; all ok")
    assert re.search(r"length ok \d+ s ago", title(typist))


@pytest.mark.slow
def test_what_was_red_in_another_run_is_told_as_long_as_nothing_ran_since(checked: Workspace, typist: Editor) -> None:
    path = checked.root / CONFIG
    path.write_text(path.read_text().replace("* 2", "* 99"))
    assert checked.patchgen("fix", CONFIG).returncode == 0
    assert checked.patchgen("gate", "--checks", "length", CONFIG).returncode == 1
    typist.open(CONFIG)
    [found] = typist.wait_for(lambda: typist.wait(typist.uri(CONFIG)))
    assert found.message.startswith("length was red when it ran last")
    assert title(typist).endswith("length red in the last run")


@pytest.mark.slow
def test_a_run_is_cancelled_with_all_its_processes(checked: Workspace, typist: Editor) -> None:
    typist.open(CONFIG)
    params = types.ExecuteCommandParams("patchgen.runChecks", arguments=[typist.uri(CONFIG), "slow"])
    typist.send(types.WORKSPACE_EXECUTE_COMMAND, params)
    pid = int(typist.wait_for(lambda: _read(checked.root / "slow.pid")))
    token = typist.wait_for(lambda: typist.progress)[0].token
    typist.notify(types.WINDOW_WORK_DONE_PROGRESS_CANCEL, types.WorkDoneProgressCancelParams(token))
    typist.wait_for(lambda: any("cancelled" in message for message in typist.messages))
    end = time.monotonic() + 30
    while _is_running(pid):
        assert time.monotonic() < end
        time.sleep(0.1)


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]


def _kind_of(value: Any) -> str:
    return str(value["kind"] if isinstance(value, dict) else value.kind)
