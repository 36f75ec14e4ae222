"""A badge for a page of a repository: its state as a small picture."""

from __future__ import annotations

import html

from patchgen_service.posting.words import one_line, status_word

_COLOURS = {"passed": "#2e7d32", "drifted": "#c62828", "broken": "#c62828", "timed_out": "#c62828", "flaky": "#9a6700"}
_OTHER = "#57606a"
_LETTER, _PADDING = 7, 6
"""Pixels: of a letter on average, and beside a word."""


def draw_badge(status: str, label: str = "patchgen") -> str:
    """An SVG that says what a run's status is, in words as well; an empty status is that of no run."""
    left, right = one_line(label, 40), status_word(status) if status else "no run"
    widths = [_LETTER * len(word) + 2 * _PADDING for word in (left, right)]
    total = sum(widths)
    name = html.escape(f"{left}: {right}")
    texts = "".join(
        f'<text x="{x}" y="14" textLength="{width - 2 * _PADDING}">{html.escape(word)}</text>'
        for x, width, word in ((_PADDING, widths[0], left), (widths[0] + _PADDING, widths[1], right))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="20" role="img" aria-label="{name}">'
        f"<title>{name}</title>"
        f'<rect width="{widths[0]}" height="20" fill="#24292f"/>'
        f'<rect x="{widths[0]}" width="{widths[1]}" height="20" fill="{_COLOURS.get(status, _OTHER)}"/>'
        f'<g fill="#fff" font-family="Verdana,sans-serif" font-size="11">{texts}</g></svg>'
    )
