"""What ``patchgen --check`` says last. Where that is all it says, it says it without rich, whose import would take
longer than the check.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from patchgen_core.report.words import ABSORB, quantity, state_count

if TYPE_CHECKING:
    from patchgen_core.build.results import DriftReport

_FORCED = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables that tell rich what the stream does not."""
_DUMB = ("dumb", "unknown")


def drift_summary(report: DriftReport, fix: str = "patchgen --check --fix") -> Iterator[tuple[str, str]]:
    """The lines of a summary, each with its style; ``fix`` is the command that rewrites what drifted."""
    statuses = [result.status for result in report.results]
    counts = {status: statuses.count(status) for status in ("clean", "drifted", "fixed", "error")}
    parts = [state_count(count, status) for status, count in counts.items() if count]
    if report.orphans:
        parts.append(quantity(len(report.orphans), "orphaned file"))
    yield f"{quantity(len(report.results), 'config')}: {', '.join(parts)}.", "red" if report.exit_code else "green"
    if counts["drifted"]:
        yield f"Run '{fix}' to rewrite what drifted.", "cyan"
        if any(cause.kind == "edited by hand" for result in report.results for cause in result.causes):
            yield ABSORB, "cyan"
    if report.orphans:
        yield f"Run '{fix} --prune' to remove orphans.", "cyan"


def print_clean(report: DriftReport, no_color: bool) -> bool:
    """Print the summary of a report that holds nothing else, as rich would; False where there is more to print, or
    only rich can tell how."""
    if report.orphans or report.removed or any(result.status != "clean" for result in report.results):
        return False
    is_green = _is_coloured(sys.stdout, no_color)
    if is_green is None:
        return False
    for text, _ in drift_summary(report):
        print(f"\x1b[32m{text}\x1b[0m" if is_green else text, flush=True)
    return True


def _is_coloured(stream: TextIO, no_color: bool) -> bool | None:
    """Whether rich prints colours to a stream; None where more decides than what is looked at here."""
    if stream is not sys.__stdout__ or any(name in os.environ for name in _FORCED):
        return None
    is_plain = no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM", "").strip().lower() in _DUMB
    if is_plain or not stream.isatty():
        return False
    return True if os.name == "posix" else None
