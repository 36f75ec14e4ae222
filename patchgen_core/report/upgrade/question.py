"""A question of an upgrade to a person, as text for a terminal: what both sides did, and what each choice leads to."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from patchgen_core.report.terminal import print_diff
from patchgen_core.report.words import quantity
from patchgen_core.upgrade.deciding.choices import Choice, Question
from patchgen_core.upgrade.deciding.trials import Verdict
from patchgen_core.upgrade.writing.gating import GateRun

_MARKS = {"<<<<<<< ": "green", "||||||| ": "yellow", "=======": "cyan", ">>>>>>> ": "cyan"}
_MOST_PROBLEMS = 3
_WORDS = {"accept": "accept", "mine": "take mine", "theirs": "take theirs", "edit": "edited", "again": "once more"}


def print_question(console: Console, question: Question, number: int, total: int, is_whole: bool = False) -> None:
    """Print where a question is in its row, what upstream changed, what the patch is, and what merging makes of it."""
    console.print()
    console.rule(Text(f"{number} of {total}", "bold"), align="left")
    for config, patch in question.patches:
        console.print(Text.assemble((patch.target, "bold"), f"  {patch.kind} of {config.config}: {patch.verdict}"))
        if patch.description:
            console.print(Text(f"  {patch.description}", "dim"))
    console.print(Text(str(question.location), "dim"), soft_wrap=True)
    for finding in question.changes:
        for commit in finding.commits:
            console.print(Text.assemble(("by ", "cyan"), str(commit)))
        _title(console, f"upstream's own change of {finding.about}")
        print_diff(console, finding.diff, folded=not is_whole)
    rebase = question.rebase
    if rebase.merged.is_clean:
        _title(console, f"the {rebase.noun}, carried over")
        print_diff(console, rebase.diff, folded=not is_whole)
        for change in rebase.arguments:
            console.print(Text(f"  {change.name} '{change.old}' to '{change.new}'"), soft_wrap=True)
        return
    for conflict in rebase.merged.conflicts:
        console.print(Text.assemble(("conflict: ", "red"), conflict.reason))
    _title(console, f"the {rebase.noun}, with what merges; the markers hold yours, upstream's before and now")
    _print_marked(console, rebase.marked)


def _title(console: Console, text: str) -> None:
    console.print(Text(f"{text}:", "yellow"))


def _print_marked(console: Console, text: str) -> None:
    style = ""
    for line in text.split("\n"):
        mark = next((mark for mark in _MARKS if line.startswith(mark)), "")
        style = _MARKS[mark] if mark else style
        console.print(Text(line, f"bold {style}" if mark else style), soft_wrap=True)
        style = "" if mark == ">>>>>>> " else style


def print_verdict(console: Console, choice: Choice, verdict: Verdict) -> None:
    """Print what a choice leads to: whether its configs generate and keep their contracts, compared with before."""
    name = f"{_WORDS[choice.name]:<12}"
    if choice.origin:
        console.print(Text.assemble((name, "bold"), f"chosen before, in {choice.origin}:"))
        for line in choice.text.split("\n"):
            console.print(Text(f"  {line}", "dim"), soft_wrap=True)
    if verdict.reason:
        console.print(Text.assemble((name, "bold"), ("cannot be written: ", "red"), verdict.reason))
        return
    more = f"; mends {quantity(len(verdict.mended), 'problem')}" if verdict.mended else ""
    more += f"; {quantity(len(verdict.staying), 'problem')} of before left" if verdict.staying else ""
    if not verdict.new:
        configs = quantity(verdict.configs, "config")
        console.print(Text.assemble((name, "bold"), ("fits", "green"), f": nothing new is wrong in {configs}{more}"))
        return
    count = quantity(len(verdict.new), "new problem")
    console.print(Text.assemble((name, "bold"), (count, "red"), more))
    for problem in verdict.new[:_MOST_PROBLEMS]:
        place = f"{problem.location}: " if problem.location else ""
        console.print(Text.assemble(" " * 12, (place, "dim"), problem.title))
    if len(verdict.new) > _MOST_PROBLEMS:
        console.print(Text(f"{' ' * 12}and {len(verdict.new) - _MOST_PROBLEMS} more", "dim"))


def print_gate(console: Console, choice: Choice, run: GateRun | str) -> None:
    """Print what the gate says of a choice, run over a copy of the project; or why it could not run."""
    lines: Iterable[str] = (run,) if isinstance(run, str) else run.lines
    is_red = isinstance(run, str) or run.exit_code != 0
    name, word = (f"{_WORDS[choice.name]:<12}", "bold"), ("gate ", "red" if is_red else "green")
    for line in lines:
        console.print(Text.assemble(name, word, line))
