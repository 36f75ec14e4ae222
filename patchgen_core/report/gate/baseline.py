"""What a run says of baselines, last of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from patchgen_core.checks.baseline_use import BaselineUse
from patchgen_core.errors import display_path
from patchgen_core.report.gate.terminal import Line
from patchgen_core.report.words import quantity


def baseline_lines(uses: Iterable[BaselineUse], fix: str) -> Iterator[Line]:
    """The known findings that are gone, and how many are held back; ``fix`` is what takes those out that are gone."""
    for use in uses:
        for known, number in sorted(use.gone.items()):
            yield ("gone     ", "green"), (f"{known}{f' ({number} times)' if number > 1 else ''}", "")
        if use.gone and not use.is_shrunk:
            yield ((f"Run '{fix}' to take what is gone out of the baseline.", "cyan"),)
        yield ((held_text(use), "yellow" if use.held else "green"),)


def held_text(use: BaselineUse) -> str:
    """How many findings a baseline holds back, and how many of it are gone."""
    gone = sum(use.gone.values())
    after = f", {gone} gone{' and taken out' if use.is_shrunk else ''}" if gone else ""
    return f"Baseline {display_path(use.path)}: {quantity(use.held, 'finding')} held back{after}."
