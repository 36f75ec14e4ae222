"""What each carried patch of the replay comes to: right, conflict or wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.replay_records import PatchRecord, StepRecord

Outcome = Literal["right", "conflict", "wrong", "not judged"]
KINDS = {"class_replacement": "class replaced", "function_replacement": "function replaced"}
"""Kinds of patches by what declares them; of the others, overrides are methods, and the rest are edits."""

_UNCALLED = "PG301"
"""The rule that says of a slot that no batch calls it."""


@dataclass(frozen=True)
class Judged:
    """A patch at one step, and what it came to.

    Attributes:
        why: of a conflict, what a person was told; of what is wrong, what is red.
        by: what judged it: ``people``, whose own next version has the same code; ``parity``; or ``rules`` for
            generating and the contract.
    """

    record: PatchRecord
    outcome: Outcome
    why: str = ""
    by: str = "rules"

    @property
    def kind(self) -> str:
        """The kind of patch, as tables have it."""
        if self.record.change == "not there" and self.record.verdict in ("added", "unchanged"):
            return "added"
        override = "method replaced" if self.record.kind == "method_override" else "edit"
        return KINDS.get(self.record.kind, override)


def judge(step: StepRecord, red: Mapping[str, Sequence[str]], gated: Iterable[str] = ()) -> list[Judged]:
    """What each patch of a step came to.

    Args:
        red: by config, what the gate found that it did not find before the step; what goes no further is not judged
            by it.
        gated: the configs that the gate's parity ran for.
    """
    gated = {*gated}.difference(step.ended)
    red = {config: texts for config, texts in red.items() if config not in step.ended}
    return [_judge(record, step, red, "parity" if record.config in gated else "rules") for record in step.patches]


def _judge(record: PatchRecord, step: StepRecord, red: Mapping[str, Sequence[str]], by: str) -> Judged:
    if record.how == "conflict":
        return Judged(record, "conflict", record.reasons[0], by)
    if record.how == "fell":
        return Judged(record, "not judged", "left out with a patch that it needs", by)
    findings = _find_own(record.config, step, red)
    if not findings:
        if record.config in step.ended:
            why = step.ended[record.config]
            return Judged(record, "conflict" if record.target in why else "not judged", why, by)
        return Judged(record, "right", "", "people" if record.is_as_people_wrote else by)
    named = {
        r.target for r in step.patches if r.config == record.config and any(r.target in text for text in findings)
    }
    suspects = named or {r.target for r in step.patches if r.config == record.config and r.change != "none"}
    if suspects and record.target not in suspects:
        return Judged(record, "not judged", "another patch of its config is red", by)
    why = next((text for text in findings if record.target in text), findings[0])
    if record.asked:
        return Judged(record, "conflict", f"{record.asked[0]} ({why})", by)
    return Judged(record, "wrong", why, by)


def _find_own(config: str, step: StepRecord, red: Mapping[str, Sequence[str]]) -> list[str]:
    """What is red of a config, less what follows from leaving its conflicts out: a slot that only they call."""
    findings = [*step.broken.get(config, ()), *red.get(config, ())]
    has_conflict = any(record.config == config and record.how == "conflict" for record in step.patches)
    return [text for text in findings if not (has_conflict and _UNCALLED in text.split())]


def table(judged: Iterable[Judged], group: str) -> list[str]:
    """A Markdown table of outcomes by ``kind`` of patch or ``change`` of upstream."""
    counts: dict[str, Counter[str]] = {}
    for entry in judged:
        key = entry.kind if group == "kind" else entry.record.change
        counts.setdefault(key, Counter())[entry.outcome] += 1
        counts.setdefault("together", Counter())[entry.outcome] += 1
    total = counts.pop("together", Counter())
    outcomes = ("right", "conflict", "wrong", "not judged")
    lines = [f"| {group} | patches | {' | '.join(outcomes)} |", f"|{' --- |' * 6}"]
    for key, count in (*sorted(counts.items()), ("together", total)):
        lines.append(f"| {key} | {sum(count.values())} | {' | '.join(str(count[name]) for name in outcomes)} |")
    return lines
