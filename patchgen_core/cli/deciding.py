"""``patchgen upgrade --interactive``: one question at a time, in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from patchgen_core.cli.editing import edit_text
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.report.upgrade.question import print_gate, print_question, print_verdict
from patchgen_core.report.words import quantity
from patchgen_core.upgrade.deciding.choices import Choice, Question, list_questions, settle_report, why_no_text
from patchgen_core.upgrade.deciding.decisions import Decisions
from patchgen_core.upgrade.deciding.resolutions import Resolutions
from patchgen_core.upgrade.deciding.trials import Trials, Verdict
from patchgen_core.upgrade.results import UpgradeReport

_KEYS = {
    "a": "accept",
    "all": "accept all that merge",
    "m": "mine",
    "t": "theirs",
    "o": "once more",
    "e": "edit",
    "s": "skip",
    "g": "gate",
    "p": "parity too",
    "d": "details",
    "b": "back",
    "w": "write",
    "q": "quit",
    "?": "help",
}
_HELP = {
    "a": "take the merge as it is",
    "all": "take every open merge that has no new problem",
    "m": "keep your side of each conflict; what merges is merged",
    "t": "take upstream's side of each conflict; what merges is merged",
    "o": "solve the conflicts as the same ones were solved before",
    "e": "edit the text in $VISUAL or $EDITOR",
    "s": "leave it as it is for now",
    "g": "run the gate with each choice in a copy of the project: drift, import, contract",
    "p": "the same with all checks, parity too; Ctrl-C stops it",
    "d": "show all of the question: whole diffs and texts, and the problems that are counted",
    "b": "go back to the question before, and forget what was decided there",
    "w": "write what is decided, and leave the rest as it is",
    "q": "stop without writing; the same command goes on later",
}
_CHOICES = {"a": "accept", "m": "mine", "t": "theirs", "o": "again"}
_DECIDING = ("a", "all", "m", "t", "o", "e", "s")
_IMPORTING = ("drift", "import", "contract")


@dataclass(frozen=True)
class Outcome:
    """What came of a session.

    Attributes:
        report: the report as it was decided.
        skipped: the places that stay as they are for now.
        is_written: whether the person wants the decisions written.
    """

    report: UpgradeReport
    skipped: tuple[Location, ...]
    is_written: bool


@dataclass
class _Asked:
    """A question with its choices, as far as they were tried."""

    question: Question
    choices: dict[str, Choice]
    verdicts: dict[str, Verdict] = field(default_factory=dict)


class Session:
    """Asks what a person has to decide, and keeps each answer at once."""

    def __init__(
        self, console: Console, report: UpgradeReport, trials: Trials, decisions: Decisions, resolutions: Resolutions
    ) -> None:
        self.console, self.report, self.trials = console, report, trials
        self.decisions, self.resolutions = decisions, resolutions
        self.questions = list_questions(report)
        self.chosen: dict[int, Choice] = {}
        self.at = 0

    def run(self) -> Outcome:
        """Ask until the person writes or stops; Ctrl-C and the end of input stop."""
        self._recall()
        try:
            is_written = self._ask_all()
        except (KeyboardInterrupt, EOFError):
            self.console.print()
            is_written = False
        if not is_written:
            kept = f" {self._state()} kept; the same command goes on with the rest." if self.chosen else ""
            self._tell(f"Nothing is written.{kept}", "yellow")
        pairs = [(self.questions[number], choice) for number, choice in self.chosen.items()]
        decided = {question.location: self.trials.decide(question, choice) for question, choice in pairs}
        open_numbers = [number for number in range(len(self.questions)) if number not in self.chosen]
        skipped = tuple(self.questions[number].location for number in open_numbers)
        return Outcome(settle_report(self.report, decided), skipped, is_written)

    def _recall(self) -> None:
        """Take up what was decided in an earlier session."""
        for number, question in enumerate(self.questions):
            choice = self.decisions.find(question)
            if choice is not None:
                self.chosen[number] = choice
                self._tell(f"decided before: {choice.name}  {question.target}  {question.location}", "dim")

    def _state(self) -> str:
        verb = "is" if len(self.chosen) == 1 else "are"
        return f"{len(self.chosen)} of {quantity(len(self.questions), 'decision')} {verb}"

    def _ask_all(self) -> bool:
        """Go through the questions; returns whether to write."""
        while True:
            while self.at in self.chosen:
                self.at += 1
            if self.at >= len(self.questions):
                self._tell(f"\n{self._state()} made.", "bold")
                answer = self._read("w", "b", "q")
            else:
                answer = self._ask(self.at)
            if answer in ("w", "q"):
                return answer == "w"
            if answer == "b":
                self.at = max(min(self.at, len(self.questions)) - 1, 0)
                if self.chosen.pop(self.at, None) is not None:
                    self.decisions.keep(self.questions[self.at], None)
                    self.resolutions.forget(self.questions[self.at])
            else:
                self.at += 1

    def _ask(self, number: int) -> str:
        """Ask one question until it is decided or left; returns the key that did it."""
        question = self.questions[number]
        before = self.resolutions.propose(question)
        choices = [*question.choices, *([before] if before is not None else [])]
        asked = _Asked(question, {choice.name: choice for choice in choices})
        self._show(asked, number)
        while True:
            possible = [key for key, name in _CHOICES.items() if name in asked.choices]
            all_key = ["all"] if "a" in possible else []
            edit_key = ["e"] if question.text else []
            back_key = ["b"] if number else []
            answer = self._read(*possible, *all_key, *edit_key, "s", "g", "p", "d", *back_key, "w", "q")
            if answer in _CHOICES and self._take(asked, asked.choices[_CHOICES[answer]], number):
                return answer
            if answer == "all":
                self._accept_all()
                return answer
            if answer == "e" and self._edit(asked, number):
                return answer
            if answer in ("g", "p"):
                self._gate(asked, () if answer == "p" else _IMPORTING)
            elif answer == "d":
                self._show(asked, number, is_whole=True)
            elif answer in ("s", "b", "w", "q"):
                return answer

    def _show(self, asked: _Asked, number: int, is_whole: bool = False) -> None:
        print_question(self.console, asked.question, number + 1, len(self.questions), is_whole)
        self.console.print()
        for choice in asked.choices.values():
            print_verdict(self.console, choice, self._verdict(asked, choice), is_whole)

    def _verdict(self, asked: _Asked, choice: Choice) -> Verdict:
        if choice.text not in asked.verdicts:
            asked.verdicts[choice.text] = self.trials.try_choice(asked.question, choice)
        return asked.verdicts[choice.text]

    def _take(self, asked: _Asked, choice: Choice, number: int) -> bool:
        """Decide; what has new problems only when asked again."""
        verdict = self._verdict(asked, choice)
        if verdict.reason:
            self._tell(f"That cannot be written: {verdict.reason}.", "red")
            return False
        if verdict.new:
            self._tell("It has new problems. Take it all the same? [y/N]", "yellow")
            if input("> ").strip().lower() not in ("y", "yes"):
                return False
        self._decide(number, choice)
        return True

    def _decide(self, number: int, choice: Choice) -> None:
        self.decisions.keep(self.questions[number], choice)
        self.resolutions.keep(self.questions[number], choice.text)
        self.chosen[number] = choice

    def _accept_all(self) -> None:
        """Accept each open clean merge that has no new problem."""
        for number, question in enumerate(self.questions):
            if number in self.chosen or not question.rebase.merged.is_clean:
                continue
            (choice,) = question.choices
            verdict = self.trials.try_choice(question, choice)
            if verdict.is_good:
                self._decide(number, choice)
            print_verdict(self.console, choice, verdict)
            self.console.print(Text(f"{' ' * 12}{question.target}  {question.location}", "dim"), soft_wrap=True)

    def _edit(self, asked: _Asked, number: int) -> bool:
        """Have the text edited, from the last edit on or from the merge with its markers; true where that decides."""
        before = asked.choices.get("edit")
        text = before.text if before is not None else asked.question.text
        try:
            edited = edit_text(text, f"{asked.question.target.replace('.', '_')}.py")
        except PatchgenError as error:
            self._tell(str(error), "red")
            return False
        choice = Choice("edit", edited)
        asked.choices["edit"] = choice
        if why := why_no_text(asked.question, edited):
            self._tell(f"Not taken: {why}. 'e' goes on with your text.", "red")
            return False
        print_verdict(self.console, choice, self._verdict(asked, choice))
        return self._take(asked, choice, number)

    def _gate(self, asked: _Asked, checks: tuple[str, ...]) -> None:
        """Run the gate over a copy of the project with each choice that can be written, until Ctrl-C."""
        try:
            self._tell("The gate runs in a copy of the project. Ctrl-C stops it.", "dim")
            for choice in asked.choices.values():
                if not why_no_text(asked.question, choice.text) and not self._verdict(asked, choice).reason:
                    self._gate_choice(asked.question, choice, checks)
        except KeyboardInterrupt:
            self._tell("\nThe gate was stopped.", "yellow")

    def _gate_choice(self, question: Question, choice: Choice, checks: tuple[str, ...]) -> None:
        try:
            print_gate(self.console, choice, self.trials.run_gate(question, choice, checks))
        except PatchgenError as error:
            self._tell(str(error), "red")

    def _read(self, *keys: str) -> str:
        """One of some keys, or the word that it stands for."""
        words = {_KEYS[key]: key for key in (*keys, "?")}
        self._tell_keys(keys)
        while True:
            answer = input("> ").strip().lower()
            answer = words.get(answer, answer)
            if answer in keys:
                return answer
            if answer == "?":
                for key in keys:
                    self._tell(f"{key:<4}{_HELP[key]}", "cyan")
            elif answer:
                self._tell(f"'{answer}' is none of them: {', '.join(keys)}", "yellow")
            else:
                self._tell_keys(keys)

    def _tell_keys(self, keys: Sequence[str]) -> None:
        for row in (_DECIDING, [key for key in _KEYS if key not in _DECIDING]):
            if any(key in keys for key in row):
                self._tell("  ".join(f"[{key}] {_KEYS[key]}" for key in row if key in (*keys, "?")), "cyan")

    def _tell(self, text: str, style: str) -> None:
        self.console.print(Text(text, style))
