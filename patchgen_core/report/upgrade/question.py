"""A question of an upgrade to a person, as text for a terminal: what both sides did, and what each choice leads to."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from patchgen_core.errors import Problem
from patchgen_core.report.terminal import print_diff
from patchgen_core.report.words import quantity
from patchgen_core.upgrade.deciding.choices import Choice, Question
from patchgen_core.upgrade.deciding.sides import split_marked
from patchgen_core.upgrade.deciding.trials import Verdict
from patchgen_core.upgrade.results import Conflict
from patchgen_core.upgrade.writing.gating import GateRun

_MARKS = {"<<<<<<< ": "green", "||||||| ": "yellow", "=======": "cyan", ">>>>>>> ": "cyan"}
_MOST_PROBLEMS = 3
_AROUND = 8
"""How many lines are shown before and after a conflict."""
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
        _title(console, f"the {rebase.noun}, {'deleted' if rebase.is_deletion else 'carried over'}")
        print_diff(console, rebase.diff, folded=not is_whole)
        for change in rebase.arguments:
            console.print(Text(f"  {change.name} '{change.old}' to '{change.new}'"), soft_wrap=True)
        return
    for conflict in rebase.merged.conflicts:
        console.print(Text.assemble(("conflict: ", "red"), conflict.reason))
    if rebase.is_edit:
        _title(console, "the edit")
        console.print(Text(rebase.declaration), soft_wrap=True)
        for conflict in rebase.merged.conflicts:
            _title(console, "what it makes of its place, upstream's code there before, and now, without the edit")
            _print_marked(console, _sides_text(conflict))
        return
    _title(console, f"the {rebase.noun}, with what merges; the markers hold yours, upstream's before and now")
    _print_marked(console, rebase.marked if is_whole else _fold(rebase.marked))


def _sides_text(conflict: Conflict) -> str:
    sides = ("<<<<<<< ours", conflict.ours), ("||||||| base", conflict.base), ("=======", conflict.theirs)
    return "\n".join([*(f"{mark}\n{text}" if text else mark for mark, text in sides), ">>>>>>> theirs"])


def _title(console: Console, text: str) -> None:
    console.print(Text(f"{text}:", "yellow"))


def _fold(text: str) -> str:
    """A text with conflict markers without the lines that are far from any."""
    parts = split_marked(text)
    if not parts:
        return text
    lines, results, last = text.split("\n"), list[str](), len(parts) - 1
    at = 0
    for number, part in enumerate(parts):
        size = len(part.ours) + len(part.base) + len(part.theirs) + 4 if part.is_conflict else len(part.ours)
        first = 1 if number == 0 else _AROUND
        hidden = size - first - (_AROUND if number != last else 0)
        if part.is_conflict or hidden < 2:
            results += lines[at : at + size]
        else:
            results += [*lines[at : at + first], f"[{hidden} more lines; 'd' shows them]"]
            results += lines[at + first + hidden : at + size]
        at += size
    return "\n".join(results)


def _print_marked(console: Console, text: str) -> None:
    style = ""
    for line in text.split("\n"):
        mark = next((mark for mark in _MARKS if line.startswith(mark)), "")
        style = _MARKS[mark] if mark else style
        console.print(Text(line, f"bold {style}" if mark else style), soft_wrap=True)
        style = "" if mark == ">>>>>>> " else style


def print_verdict(console: Console, choice: Choice, verdict: Verdict, is_whole: bool = False) -> None:
    """Print what a choice leads to: whether its configs generate and keep their contracts, compared with before; with
    ``is_whole``, all the problems that are counted."""
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
    else:
        count = quantity(len(verdict.new), "new problem")
        console.print(Text.assemble((name, "bold"), (count, "red"), more))
    shown = verdict.new if is_whole else verdict.new[:_MOST_PROBLEMS]
    _print_problems(console, shown, "")
    if len(shown) < len(verdict.new):
        console.print(Text(f"{' ' * 12}and {len(verdict.new) - len(shown)} more", "dim"))
    if is_whole:
        _print_problems(console, verdict.mended, "mended: ")
        _print_problems(console, verdict.staying, "of before: ")


def _print_problems(console: Console, problems: Iterable[Problem], word: str) -> None:
    for problem in problems:
        place = f"{problem.location}: " if problem.location else ""
        console.print(Text.assemble(" " * 12, (f"{word}{place}", "dim"), problem.title))


def print_gate(console: Console, choice: Choice, run: GateRun | str) -> None:
    """Print what the gate says of a choice, run over a copy of the project; or why it could not run."""
    lines: Iterable[str] = (run,) if isinstance(run, str) else run.lines
    is_red = isinstance(run, str) or run.exit_code != 0
    name, word = (f"{_WORDS[choice.name]:<12}", "bold"), ("gate ", "red" if is_red else "green")
    for line in lines:
        console.print(Text.assemble(name, word, line))
