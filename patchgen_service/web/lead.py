"""What a run's page says first, and last: what it came to, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from patchgen_core.report.words import quantity
from patchgen_service.views.run import RunDetail

_WAITING = "Waiting for a worker."


@dataclass(frozen=True)
class Hint:
    """Something to do: a sentence, and a command to copy."""

    sentence: str
    command: str = ""


def lead(detail: RunDetail) -> str:
    """What a run came to, in a sentence: first what is new."""
    run, counts = detail.line, detail.line.counts
    if run.status == "pending":
        return _WAITING
    if run.status == "running":
        begun = f"{counts.total} of {run.expected} results" if run.expected else quantity(counts.total, "result")
        return f"{begun} so far" + (f", {counts.bad} of them red." if counts.bad else ", none of them red.")
    if run.status == "superseded":
        return "A newer push of the branch took its place."
    if run.status == "cancelled":
        return "It was cancelled; what had come in until then is below." if counts.total else "It was cancelled."
    if not counts.total:
        return "There is no result."
    if not counts.bad:
        fixed = f" {counts.fixed} of them {'was' if counts.fixed == 1 else 'were'} red before." if counts.fixed else ""
        return f"{quantity(counts.total, 'check')}, none of them red.{fixed}"
    return _red(detail)


def _red(detail: RunDetail) -> str:
    counts = detail.line.counts
    if detail.baseline is None:
        return f"{quantity(counts.bad, 'check')} of {counts.total} red; there is no baseline to compare with."
    parts = [f"{counts.new} new since the baseline" if counts.new else "nothing new since the baseline"]
    parts += [f"{counts.known} red before as well"] * bool(counts.known)
    parts += [f"{counts.fixed} fixed"] * bool(counts.fixed)
    parts += [f"{counts.total - counts.bad} ok"]
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def hints(detail: RunDetail) -> tuple[Hint, ...]:
    """What to do about a red run, beside approving."""
    run = detail.line
    if run.status == "infrastructure_error":
        return (Hint("The gate itself could not be run; the code was not judged. Fix that, then run it again."),)
    if run.status == "timed_out":
        return (Hint("It took longer than a run may. Look at the checks that have no result."),)
    if run.status == "flaky":
        return (Hint("The same commit gave another result in the same environment earlier."),)
    bad = [result for result in detail.results if result.is_bad and result.check != "drift"]
    checks = sorted({result.check for result in bad})
    if not checks:
        return ()
    paths = sorted({result.path for result in bad})
    shown = " ".join(paths[:3]) if len(paths) <= 3 else ""
    command = f"patchgen gate {shown} --checks {','.join(checks)}".replace("  ", " ")
    return (Hint(f"To see {'it' if len(bad) == 1 else 'them'} at your desk:", command),)
