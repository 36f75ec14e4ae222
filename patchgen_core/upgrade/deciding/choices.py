"""What a person can choose for a patch that an upgrade cannot, or should not, decide."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from patchgen_core.errors import Location
from patchgen_core.syntax.diffs import unified_diff
from patchgen_core.syntax.source import is_python
from patchgen_core.upgrade.deciding.sides import has_markers, split_marked, take_side
from patchgen_core.upgrade.results import (
    ConfigVerdict,
    Finding,
    Merged,
    PatchVerdict,
    Rebase,
    StatementChange,
    UpgradeReport,
)


@dataclass(frozen=True)
class Choice:
    """A text that a patch's replacement can become.

    Attributes:
        name: ``accept`` the clean merge, ``mine``, ``theirs``, ``edit``, or ``again`` what was chosen elsewhere.
        text: the replacement with it.
        origin: where the text is from, of one that was chosen elsewhere.
    """

    name: str
    text: str
    origin: str = ""


@dataclass(frozen=True)
class Question:
    """A definition in the project that has to become another, or may: its merge with upstream's change.

    Attributes:
        rebase: the merge.
        patches: the patches that it is the replacement of, each with its config.
    """

    rebase: Rebase
    patches: tuple[tuple[ConfigVerdict, PatchVerdict], ...]

    @property
    def location(self) -> Location:
        """Where the definition stands."""
        return self.rebase.location

    @property
    def target(self) -> str:
        """The target of the first of its patches."""
        return self.patches[0][1].target

    @property
    def changes(self) -> tuple[Finding, ...]:
        """Upstream's own changes that it is about."""
        findings = (finding for _, patch in self.patches for finding in patch.findings)
        return tuple({f.about: f for f in findings if f.diff and f.relation == "target"}.values())

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What can be chosen without writing anything: the clean merge, or either side of all conflicts; of an edit
        with a conflict, that it goes."""
        rebase = self.rebase
        if rebase.merged.is_clean:
            return (Choice("accept", rebase.merged.text),)
        return (Choice("theirs", ""),) if rebase.is_edit else tuple(_sides(rebase))

    @property
    def text(self) -> str:
        """What a person edits; empty where that is not possible."""
        rebase = self.rebase
        if rebase.is_edit:
            return rebase.declaration
        return rebase.marked or rebase.merged.text if rebase.ours else ""


def _sides(rebase: Rebase) -> Iterator[Choice]:
    parts = split_marked(rebase.marked)
    yield Choice("mine", rebase.merged.text)
    if parts and all(conflict.base or conflict.theirs for conflict in rebase.merged.conflicts):
        text = take_side(parts, "theirs")
        if text != rebase.merged.text and is_python(text):
            yield Choice("theirs", text)


def list_questions(report: UpgradeReport) -> list[Question]:
    """What a person has to decide, or to agree to: conflicts first, then clean merges."""
    groups: dict[Location, list[tuple[ConfigVerdict, PatchVerdict, Rebase]]] = {}
    for config in report.configs:
        for patch in config.patches:
            rebase = patch.rebase
            if rebase is None or (rebase.is_edit and not rebase.merged.is_clean and not rebase.declaration):
                continue
            if rebase.diff or patch.new_name or not rebase.merged.is_clean:
                groups.setdefault(rebase.location, []).append((config, patch, rebase))
    questions = []
    for group in groups.values():
        texts = {(rebase.merged.text, rebase.marked) for _, _, rebase in group}
        if len(texts) == 1:
            questions.append(Question(group[0][2], tuple((config, patch) for config, patch, _ in group)))
    return sorted(questions, key=lambda question: question.rebase.merged.is_clean)


def why_no_text(question: Question, text: str) -> str:
    """Why a text cannot stand in the place of a replacement; empty when it can."""
    if has_markers(text):
        return "conflict markers are left in it"
    if not is_python(text):
        return "it is not valid Python"
    return ""


def decide(rebase: Rebase, choice: Choice, needs: tuple[str, ...]) -> Rebase:
    """A merge as a person decided it, which `needs` imports; a clean merge that was accepted stays as it is."""
    if choice.name == "accept":
        return rebase
    note = f"a person chose: {choice.name}" if not choice.origin else f"a person chose what {choice.origin} has"
    merged = Merged(choice.text, "decided", (), (*rebase.merged.notes, note))
    if rebase.is_edit:
        diff = unified_diff(f"{rebase.declaration}\n", f"{choice.text}\n", "edit", "edit (decided)")
        change = StatementChange(rebase.location, split_statements(choice.text))
        return replace(rebase, merged=merged, diff=diff, marked="", needs=needs, statements=(change,))
    diff = unified_diff(f"{rebase.ours}\n", f"{choice.text}\n", "replacement", "replacement (decided)")
    return replace(rebase, merged=merged, diff=diff, marked="", needs=needs)


def split_statements(text: str) -> tuple[str, ...]:
    """The statements of a text, each with its decorators."""
    lines = text.split("\n")
    nodes = ast.parse(text).body
    starts = [min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]) for node in nodes]
    return tuple("\n".join(lines[start - 1 : node.end_lineno]) for start, node in zip(starts, nodes))


def settle_report(report: UpgradeReport, decided: dict[Location, Rebase]) -> UpgradeReport:
    """A report whose conflicts are what a person made of them; what is about their targets has been looked at."""

    def settle(patch: PatchVerdict) -> PatchVerdict:
        rebase = decided.get(patch.rebase.location) if patch.rebase is not None else None
        if rebase is None or rebase == patch.rebase:
            return patch
        must = [f for f in patch.findings if f.relation != "target" and f.risk == "must change"]
        is_open = bool(must or patch.problems)
        return replace(patch, rebase=rebase, risk="must change" if is_open else "review")

    configs = (replace(config, patches=tuple(map(settle, config.patches))) for config in report.configs)
    return replace(report, configs=tuple(configs))
