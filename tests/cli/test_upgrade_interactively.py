"""``patchgen upgrade --interactive``: somebody at a real terminal decides what the merge cannot."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.cli.main import main
from tests.cli.test_upgrade_command import COPIED, OLD, TO, Upgraded
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

    def drop_gain(self) -> None:
        """Write a patch whose one conflict is about what upstream's next release has not any more."""
        call = "scaled = widen(kept) * gain"
        old = OLD.replace("def forward(self, x):", "def forward(self, x, gain=1):", 1)
        helper = "\n\ndef widen(x):\n    return x\n"
        self.work.upstream(old.replace("scaled = kept * 1", call) + helper)
        text = COPIED.replace("def norm_forward(self, x):", "def norm_forward(self, x, gain=1):")
        self.work.config(text.replace("scaled = kept * 1", "scaled = widen(gain)"))
        fix(self.work.check())
        self.commit()
        self.release(OLD.replace("scaled = kept * 1", "scaled = kept * 2"))

    def terminal(self, *arguments: str, **environment: str) -> Terminal:
        command = [*TO, "--source", str(self.next), "--interactive", *arguments]
        return Terminal(command, self.work.root, **environment)


@pytest.fixture
def deciding(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> Deciding:
    return Deciding(work, monkeypatch)


def answer(terminal: Terminal, *keys: str) -> None:
    """Answer the next questions."""
    for key in keys:
        terminal.until(PROMPT)
        terminal.type(key)


@pytest.mark.slow
def test_side_is_taken_and_the_rest_accepted(deciding: Deciding) -> None:
    terminal = deciding.terminal()
    shown = terminal.until("[m] mine")
    assert "1 of 2" in shown
    assert "upstream's own change of Norm.forward:" in shown
    marked = ["<<<<<<< ours", f"    {OURS}", "||||||| base", "    scaled = kept * 1", "=======", f"    {THEIRS}"]
    assert "\n".join([*marked, ">>>>>>> theirs"]) in shown
    assert "take mine   fits: nothing new is wrong in 1 config" in shown
    assert "take theirs fits: nothing new is wrong in 1 config" in shown
    assert "[b] back" not in terminal.until(PROMPT), "nothing is before the first question"
    terminal.type("x")
    terminal.until("'x' is none of them")
    terminal.until(PROMPT)
    terminal.type("?")
    assert "t   take upstream's side of each conflict" in terminal.until(PROMPT)
    terminal.type("")
    assert "[m] mine  [t] theirs" in terminal.until(PROMPT)
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
    line = int(re.findall(r"^merged .*:(\d+)", terminal.text, re.MULTILINE)[0])
    assert text.splitlines()[line - 1].startswith("def "), "the line that it has now"


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


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("editor", "told"),
    [
        ("no-such-editor", "the editor 'no-such-editor' cannot be used"),
        ("false", "the editor 'false' ended with exit code 1: its text is not taken"),
    ],
)
@pytest.mark.slow
def test_editor_that_ends_without_a_text_is_told_and_asks_again(deciding: Deciding, editor: str, told: str) -> None:
    terminal = deciding.terminal(EDITOR=editor, VISUAL="")
    terminal.until(PROMPT)
    terminal.type("e")
    terminal.until(told)
    terminal.until(PROMPT)
    terminal.type("q")
    assert terminal.end() == 1
    assert "Nothing is written.\n" in terminal.text, "there is nothing to go on with"
    assert deciding.changed() == []


@pytest.mark.slow
def test_decision_that_does_not_generate_is_told_in_the_end_and_not_gated(deciding: Deciding) -> None:
    deciding.drop_gain()
    terminal = deciding.terminal()
    terminal.until(PROMPT)
    terminal.type("m")
    terminal.until("It has new problems.")
    terminal.type("y")
    terminal.until("1 of 1 decision is made.")
    terminal.until(PROMPT)
    terminal.type("w")
    assert terminal.end() == 1, terminal.text
    end = terminal.text[terminal.text.index("Applied: ") :]
    assert "\ngate         not run for 1 config file that has something left\n" in end
    steps = end[end.index("Change these patches: they no longer fit:") :]
    assert re.search(r"Norm.forward: .* does not generate with it: .*'(gain|widen)'", steps), end
    assert "drift" not in end
    assert deciding.changed() == []


@pytest.mark.slow
def test_what_a_decision_settles_is_not_to_be_looked_at_any_more(deciding: Deciding) -> None:
    deciding.drop_gain()
    assert deciding.run() == 1
    terminal = deciding.terminal("--no-gate")
    answer(terminal, "t", "w")
    assert terminal.end() == 0, terminal.text
    assert "widen" not in deciding.config.read_text()
    assert terminal.text.endswith("Applied: 1 replacement merged, 2 files generated.\n"), "nothing is left to do"


@pytest.mark.slow
def test_decision_that_leaves_nothing_but_upstreams_code_leads_to_the_patch_going(deciding: Deciding) -> None:
    deciding.drop_gain()
    deciding.config.write_text(deciding.config.read_text().replace("    count(total)  # ours\n", ""))
    fix(deciding.work.check())
    deciding.commit()
    terminal = deciding.terminal("--no-gate")
    answer(terminal, "t", "w")
    assert terminal.end() == 0, terminal.text
    steps = terminal.text[terminal.text.index("Applied: ") :]
    assert "Delete these patches: upstream does the same now:\n" in steps
    assert "Norm.forward: now upstream" in steps


@pytest.mark.slow
def test_long_replacement_is_shown_around_its_conflicts_until_all_is_asked_for(deciding: Deciding) -> None:
    lines = "".join(f"    count({number})\n" for number in range(40))
    deciding.config.write_text(deciding.config.read_text().replace("    kept = x\n", f"    kept = x\n{lines}"))
    fix(deciding.work.check())
    deciding.commit()
    terminal = deciding.terminal("--no-gate")
    shown = terminal.until(PROMPT)
    assert "def norm_forward(self, x):\n[" in shown
    assert "more lines; 'd' shows them]\n    count(" in shown
    assert ("    count(10)\n" in shown, "    count(39)\n" in shown, f"    {OURS}\n" in shown) == (False, True, True)
    terminal.type("d")
    assert "    count(10)\n" in terminal.until(PROMPT)
    terminal.type("q")
    assert terminal.end() == 1


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
    terminal.type("g")
    terminal.until("Ctrl-C stops it.")
    terminal.interrupt()
    assert "The gate was stopped." in terminal.until("[m] mine")
    terminal.type("q")
    assert terminal.end() == 1
    assert "Traceback" not in terminal.text


def test_nobody_to_ask_is_an_error(deciding: Deciding, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in ((["--interactive"], "no terminal"), (["--interactive", "--json"], "is for machines")):
        with pytest.raises(SystemExit) as end:
            main([*TO, "--source", str(deciding.next), *arguments])
        assert end.value.code == 2
        assert said in capsys.readouterr().err


@pytest.mark.slow
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
    terminal.type("b")
    assert "once more" not in terminal.until(PROMPT), "what was taken back is forgotten"
    terminal.type("t")
    terminal.until(PROMPT)
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


EDIT = """
@config.edit_method("Norm.forward", at="scaled = kept * 1", description="Thrice")
def thrice(kept):
    scaled = kept * 3  # ours


config.replace_code("Head.forward", "x + 1", "x + 3")
"""


@pytest.fixture
def editing(deciding: Deciding) -> Deciding:
    """Two edits whose places upstream changes."""
    deciding.work.upstream(OLD)
    deciding.work.config(EDIT)
    fix(deciding.work.check())
    deciding.commit()
    new = OLD.replace("scaled = kept * 1", "offset = 0\n        scaled = kept * 2 + offset")
    deciding.release(new.replace("x + 1", "x + 2"))
    return deciding


@pytest.mark.slow
def test_edit_with_a_conflict_is_edited_or_goes(editing: Deciding, tmp_path: Path) -> None:
    editor = tmp_path / "editor.py"
    code = "path.write_text(path.read_text().replace('kept * 1', 'kept * 2 + offset').replace('kept * 3', 'kept * 6'))"
    editor.write_text(f"import pathlib, sys\npath = pathlib.Path(sys.argv[1])\n{code}\n")
    terminal = editing.terminal("--no-gate", EDITOR=f"{sys.executable} {editor}", VISUAL="")
    shown = terminal.until(PROMPT)
    assert EDIT.strip().partition("\n\n")[0] in shown, "the edit as it stands there"
    sides = ["<<<<<<< ours", "scaled = kept * 3  # ours", "||||||| base", "scaled = kept * 1"]
    assert "\n".join([*sides, "=======", "scaled = kept * 2 + offset", ">>>>>>> theirs", ""]) in shown
    assert "take theirs fits" in shown
    assert "[m] mine" not in shown
    terminal.type("e")
    answer(terminal, "t", "w")
    assert terminal.end() == 0, terminal.text
    assert terminal.text.endswith("Applied: 2 edits merged, 2 files generated.\n"), "nothing is left to do"
    text = editing.config.read_text()
    kept = EDIT.strip().partition("\n\n")[0].replace("kept * 1", "kept * 2 + offset").replace("kept * 3", "kept * 6")
    assert kept in text
    assert "replace_code" not in text
    made = generated(editing.work).read_text()
    assert "scaled = kept * 6  # ours" in made
    assert "return x + 2" in made
