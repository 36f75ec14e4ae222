"""Words, signs and colours of what columns hold, and times as people say them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True)
class Face:
    """How a state looks: a word, a sign that tells it apart without its colour, and its tone."""

    word: str
    sign: str
    tone: str


_FACES = {
    # runs
    "pending": Face("waiting", "\u2026", "none"),
    "running": Face("running", "\u25b6", "info"),
    "passed": Face("passed", "\u2713", "good"),
    "drifted": Face("drifted", "\u2260", "bad"),
    "broken": Face("broken", "\u2715", "bad"),
    "flaky": Face("flaky", "~", "warn"),
    "infrastructure_error": Face("could not run", "!", "warn"),
    "cancelled": Face("cancelled", "\u2013", "none"),
    "superseded": Face("superseded", "\u2013", "none"),
    "timed_out": Face("timed out", "\u29d6", "bad"),
    # results
    "clean": Face("ok", "\u2713", "good"),
    "failed": Face("failed", "\u2715", "bad"),
    "error": Face("error", "!", "bad"),
    "fixed": Face("fixed", "\u2713", "good"),
    "skipped": Face("skipped", "\u2013", "none"),
    # what a result is beside the baseline
    "new": Face("new", "+", "bad"),
    "known": Face("known", "=", "warn"),
    # posts and approvals
    "waiting": Face("waiting", "\u2026", "none"),
    "sent": Face("sent", "\u2713", "good"),
    "obsolete": Face("obsolete", "\u2013", "none"),
    "committed": Face("committed", "\u2713", "good"),
    "proposed": Face("proposed", "\u2713", "good"),
    "patch": Face("patch", "\u2713", "good"),
    "refused": Face("refused", "\u2715", "bad"),
}
_UNKNOWN = Face("unknown", "?", "none")
_STEPS = ((60, 1, "second"), (3600, 60, "minute"), (86400, 3600, "hour"), (86400 * 60, 86400, "day"))


def face(state: str) -> Face:
    """How a state looks."""
    return _FACES.get(state, Face(state, "?", "none") if state else _UNKNOWN)


def time_ago(moment: datetime, now: datetime) -> str:
    """How long ago a moment was, such as ``3 minutes ago``; a date beyond two months, and ``just now`` for now."""
    seconds = int((now - moment).total_seconds())
    if seconds < 0:
        return f"in {duration(-seconds)}"
    if seconds < 10:
        return "just now"
    for limit, unit, name in _STEPS:
        if seconds < limit:
            count = seconds // unit
            return f"{count} {name}{'s' * (count != 1)} ago"
    return moment.strftime("%-d %b %Y")


def duration(seconds: float) -> str:
    """A time in two units at most, such as ``1 min 20 s``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = timedelta(seconds=round(seconds))
    minutes, rest = divmod(int(whole.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
