"""``patchgen upgrade --interactive``: somebody at a real terminal decides what the merge cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.cli.main import main
from tests.cli.test_upgrade_command import OLD, TO, Upgraded
from tests.conftest import Workspace, generated
from tests.terminal import Terminal

PROMPT = "\n> "
OURS = "scaled = kept * 3"
THEIRS = "scaled = kept * 2 + offset"
SECOND = """
@config.override_method("Head.forward")
def head_forward(self, x):
    # ours
    return x + 1
"""


class Deciding(Upgraded):
    """An upgrade with one conflict, in ``Norm.forward``, and one clean merge, in ``Head.forward``."""

    def __init__(self, work: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(work, monkeypatch)
        text = self.config.read_text().replace("scaled = kept * 1", OURS)
        self.config.write_text(text + SECOND)
        fix(work.check())
        self.commit()
        theirs = f"offset = 0\n        {THEIRS}"
        self.release(OLD.replace("scaled = kept * 1", theirs).replace("return x + 1", "return x + 1 + 0"))

    def terminal(self, *arguments: str, **environment: str) -> Terminal:
        command = [*TO, "--source", str(self.next), "--interactive", *arguments]
        return Terminal(command, self.work.root, **environment)


@pytest.fixture
def deciding(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> Deciding:
    return Deciding(work, monkeypatch)


def test_side_is_taken_and_the_rest_accepted(deciding: Deciding) -> None:
    terminal = deciding.terminal()
    shown = terminal.until("[m] mine")
    assert "1 of 2" in shown
    assert "upstream's own change of Norm.forward:" in shown
    marked = ["<<<<<<< ours", f"    {OURS}", "||||||| base", "    scaled = kept * 1", "=======", f"    {THEIRS}"]
    assert "\n".join([*marked, ">>>>>>> theirs"]) in shown
    assert "take mine   fits: nothing new is wrong in 1 config" in shown
    assert "take theirs fits: nothing new is wrong in 1 config" in shown
    terminal.type("x")
    terminal.until("'x' is none of them")
    terminal.type("t")
    assert "2 of 2" in terminal.until("[a] accept")
    terminal.type("accept")
    terminal.until("2 of 2 decisions are made.")
    assert deciding.changed() == [], "nothing is written before the end"
    terminal.until(PROMPT)
    terminal.type("w")
    assert terminal.end() == 0, terminal.text
    text = deciding.config.read_text()
    assert f"    {THEIRS}\n    total = scaled\n    count(total)  # ours" in text
    assert "return x + 1 + 0" in text
    assert "acme==2.0" in generated(deciding.work).read_text()
    assert max(map(len, terminal.text[: terminal.text.index("Applied")].splitlines())) <= 80 + 60


def test_session_that_stops_goes_on_later_and_leaves_files_as_they_were(deciding: Deciding) -> None:
    first = deciding.terminal()
    first.until(PROMPT)
    first.type("m")
    first.until("[a] accept")
    first.interrupt()
    assert first.end() == 1
    assert "Nothing is written. 1 of 2 decisions is kept" in first.text
    assert "Traceback" not in first.text
    assert deciding.changed() == []
    assert main(["cache", "clear"]) == 0
    second = deciding.terminal("--no-gate")
    assert "decided before: mine  Norm.forward" in second.until("[a] accept")
    second.until(PROMPT)
    second.type("s")
    second.until("1 of 2 decisions is made")
    second.until(PROMPT)
    second.type("w")
    assert second.end() == 1, "a replacement is left"
    assert "it was skipped" in second.text
    assert "return x + 1\n" in deciding.config.read_text()


EDITOR = """
import pathlib, sys
path = pathlib.Path(sys.argv[1])
lines = path.read_text().splitlines()
if "<<<<<<< ours" in lines:
    lines.remove("<<<<<<< ours")
else:
    others = ("kept * 1", "kept * 2", "||||||| ", "=======", ">>>>>>> ")
    lines = [line for line in lines if not any(text in line for text in others)]
path.write_text("\\n".join(lines).replace("kept * 3", "kept * 6"))
"""


def test_text_is_edited_until_it_is_one(deciding: Deciding, tmp_path: Path) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text(EDITOR)
    terminal = deciding.terminal("--no-gate", EDITOR=f"{sys.executable} {editor}", VISUAL="")
    terminal.until(PROMPT)
    terminal.type("e")
    terminal.until("Not taken: conflict markers are left in it.")
    terminal.until(PROMPT)
    terminal.type("e")
    terminal.until("edited      fits")
    terminal.until(PROMPT)
    terminal.type("w")
    assert terminal.end() == 1, "the other one is left"
    assert "    scaled = kept * 6\n    total" in deciding.config.read_text()


@pytest.mark.slow
def test_editor_that_is_not_there_is_told_and_asks_again(deciding: Deciding) -> None:
    terminal = deciding.terminal(EDITOR="no-such-editor", VISUAL="")
    terminal.until(PROMPT)
    terminal.type("e")
    terminal.until("the editor 'no-such-editor' cannot be used")
    terminal.until(PROMPT)
    terminal.type("q")
    assert terminal.end() == 1
    assert deciding.changed() == []


@pytest.mark.slow
def test_gate_judges_choices_in_a_copy(deciding: Deciding) -> None:
    terminal = deciding.terminal()
    terminal.until(PROMPT)
    terminal.type("g")
    shown = terminal.until("[m] mine")
    assert "take mine   gate " in shown
    assert "take theirs gate " in shown
    assert "with acme 2.0" in " ".join(shown.split())
    assert deciding.changed() == []
    terminal.type("q")
    assert terminal.end() == 1


def test_nobody_to_ask_is_an_error(deciding: Deciding, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in ((["--interactive"], "no terminal"), (["--interactive", "--json"], "is for machines")):
        with pytest.raises(SystemExit) as end:
            main([*TO, "--source", str(deciding.next), *arguments])
        assert end.value.code == 2
        assert said in capsys.readouterr().err


def test_conflict_that_was_solved_once_is_proposed_for_its_sibling(deciding: Deciding) -> None:
    work = deciding.work
    text = deciding.config.read_text()
    work.config(text.replace("modeling_toy_gpu", "modeling_second_gpu"), "toy/second_gpu_patch_gen_config.py", "")
    fix(work.check())
    deciding.commit()
    shared = work.root.parent / "solved.json"
    terminal = deciding.terminal("--no-gate", "--resolutions", str(shared))
    assert "once more" not in terminal.until(PROMPT)
    terminal.type("t")
    shown = terminal.until(PROMPT)
    assert "2 of 4" in shown
    assert "once more   chosen before, in proj.models.toy." in shown
    assert f"      {THEIRS}\n" in shown
    assert "once more   fits: nothing new is wrong in 1 config" in shown
    terminal.type("o")
    terminal.until(PROMPT)
    terminal.type("all")
    terminal.until("4 of 4 decisions are made.")
    terminal.until(PROMPT)
    terminal.type("w")
    assert terminal.end() == 0, terminal.text
    for name in ("toy_gpu", "second_gpu"):
        config = deciding.config.with_name(f"{name}_patch_gen_config.py")
        assert f"    {THEIRS}\n    total = scaled\n    count(total)  # ours" in config.read_text()
    assert f'"{THEIRS}"' in shared.read_text()
