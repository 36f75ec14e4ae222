"""What a run came to, as a forge has words for it."""

from __future__ import annotations

from patchgen_core.report.words import quantity
from patchgen_service.forges.client import StatusState
from patchgen_service.views.run import RunDetail

CONTEXT = "patchgen"
_STATES: dict[str, StatusState] = {
    "pending": "pending",
    "running": "pending",
    "passed": "success",
    "drifted": "failure",
    "broken": "failure",
    "flaky": "failure",
}
_CONCLUSIONS = {
    "pending": "",
    "running": "",
    "passed": "success",
    "cancelled": "cancelled",
    "superseded": "cancelled",
    "timed_out": "timed_out",
}
_WORDS = {"infrastructure_error": "could not run", "timed_out": "timed out", "pending": "waiting for a worker"}


def status_state(detail: RunDetail) -> StatusState:
    """The state of a commit for a run; ``error`` where the code was not judged."""
    return "failure" if is_red_already(detail) else _STATES.get(detail.line.status, "error")


def conclusion(status: str) -> str:
    """The conclusion of a check run; empty while it runs."""
    return _CONCLUSIONS.get(status, "failure")


def context(detail: RunDetail) -> str:
    """What the status is called. A pull request has its own beside that of a push of the same commit."""
    return f"{CONTEXT} (pull request)" if detail.line.pull_request else CONTEXT


def status_word(status: str) -> str:
    """A run's status in a word or two."""
    return _WORDS.get(status, status)


def is_red_already(detail: RunDetail) -> bool:
    """Whether a run that goes on will not become green any more."""
    return detail.line.status == "running" and any(result.is_red for result in detail.results)


def describe(detail: RunDetail) -> str:
    """What a run came to in a line: first what is new since the baseline."""
    line, counts = detail.line, detail.line.counts
    if line.status == "superseded":
        return "superseded: a newer push took its place"
    if line.status == "running":
        begun = f"{counts.total} of {line.expected} results so far" if line.expected else "running"
        return f"{counts.bad} red, {begun}" if is_red_already(detail) else begun
    if line.status not in ("passed", "drifted", "broken", "flaky"):
        return f"{status_word(line.status)}: {line.message}" if line.message else status_word(line.status)
    ok = f"{counts.total - counts.bad} ok"
    if not counts.bad:
        return ", ".join(
            [quantity(counts.total, "check"), "none red", *[f"{counts.fixed} fixed"] * bool(counts.fixed)]
        )
    if detail.baseline is None and not counts.new:
        return f"{status_word(line.status)}: {counts.bad} red, {ok}; no baseline to compare with"
    parts = [f"{counts.new} new", *[f"{counts.known} known"] * bool(counts.known)]
    parts += [f"{counts.fixed} fixed"] * bool(counts.fixed)
    return f"{status_word(line.status)}: {', '.join([*parts, ok])}"


def one_line(text: str, most: int = 200) -> str:
    """A text in one line, of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def run_address(base_url: str, run: str) -> str:
    """The address of a run's page."""
    return f"{base_url}/runs/{run}"
