"""Plots of pages, as SVG that needs neither script nor style of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from patchgen_core.report.html.markup import Markup, as_markup, join_markup, tag
from patchgen_service.views.config import Point, Series

_WIDTH, _HEIGHT = 940, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 14, 34
_FLOOR = -5
"""Shares below ten to this power are drawn there."""
_SHAPES = ("circle", "square", "diamond", "triangle")


def share_plot(series: Sequence[Series], title: str) -> Markup:
    """Shares of what is allowed over time, a line for each series, below the line that they must not cross."""
    points = [point for one in series for point in one.points]
    if not points:
        return Markup()
    axes = _Axes(points)
    lines = join_markup(_line(axes, one, number) for number, one in enumerate(series))
    svg = tag(
        "svg",
        tag("title", title),
        tag("desc", _description(series)),
        axes.grid(),
        axes.limit(),
        lines,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=title,
    )
    legend = (tag("span", _sample(number), f" {one.device}, {one.dtype}") for number, one in enumerate(series))
    caption = tag("figcaption", tag("b", series[0].item), *legend)
    scrolled = tag("div", svg, class_="scroll", tabindex=0, role="group", aria_label=f"Plot: {title}")
    return tag("figure", scrolled, caption, class_="plot shares")


class _Axes:
    """Time from left to right; shares upwards, by powers of ten."""

    def __init__(self, points: Sequence[Point]) -> None:
        times = [point.created for point in points]
        self._first, last = min(times), max(times)
        self._span = max((last - self._first).total_seconds(), 1.0)
        shares = [point.share for point in points if 0 < point.share < math.inf]
        self._low = max(_FLOOR, min(-1, math.floor(math.log10(min(shares, default=0.1)))))
        self._high = max(1, math.ceil(math.log10(max(shares, default=1.0))))

    def x(self, moment: datetime) -> float:
        """Where a moment is."""
        part = (moment - self._first).total_seconds() / self._span
        return round(_LEFT + part * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, share: float) -> float:
        """Where a share is."""
        power = math.log10(share) if 0 < share < math.inf else -math.inf if share <= 0 else math.inf
        part = (min(max(power, self._low), self._high) - self._low) / (self._high - self._low)
        return round(_HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM), 1)

    def grid(self) -> Markup:
        """Lines and labels of both axes."""
        return join_markup([*self._powers(), *self._dates()])

    def limit(self) -> Markup:
        """The line that is allowed."""
        y = self.y(1.0)
        line = tag("path", d=f"M{_LEFT} {y}H{_WIDTH - _RIGHT}", class_="limit")
        return join_markup(
            [line, tag("text", "allowed", x=_WIDTH - _RIGHT, y=y - 5, text_anchor="end", class_="limit")]
        )

    def _powers(self) -> Iterator[Markup]:
        for power in range(self._low, self._high + 1):
            y = self.y(10.0**power)
            text = f"{100 * 10.0**power:g} %"
            yield tag("path", d=f"M{_LEFT} {y}H{_WIDTH - _RIGHT}", class_="grid")
            yield tag("text", text, x=_LEFT - 8, y=y + 3.5, text_anchor="end", class_="axis")

    def _dates(self) -> Iterator[Markup]:
        for number in range(5):
            moment = self._first + timedelta(seconds=self._span * number / 4)
            anchor = ("start", "middle", "middle", "middle", "end")[number]
            form = "%-d %b %Y" if self._span > 4 * 86400 else "%-d %b %H:%M"
            yield tag(
                "text", moment.strftime(form), x=self.x(moment), y=_HEIGHT - 10, text_anchor=anchor, class_="axis"
            )


def _line(axes: _Axes, series: Series, number: int) -> Markup:
    places = [(axes.x(point.created), axes.y(point.share)) for point in series.points]
    path = "M" + "L".join(f"{x} {y}" for x, y in places)
    name = as_markup(series.name)
    marks = [_link(name, point, _mark(number, x, y, point.share > 1)) for point, (x, y) in zip(series.points, places)]
    return tag("g", tag("path", d=path, class_="trace"), *marks, class_=f"series s{number % 4}")


def _link(name: Markup, point: Point, mark: Markup) -> Markup:
    """A mark that leads to its run; those within the limit are passed over by the keyboard.

    Written out, as marks are: a page has more than a thousand.
    """
    label = f"{name}, {point.created:%Y-%m-%d}: {percent(point.share)}"
    order = "" if point.share > 1 else ' tabindex="-1"'
    return Markup(f'<a href="/runs/{as_markup(point.run_id)}" aria-label="{label}"{order}>{mark}</a>')


def _mark(number: int, x: float, y: float, is_over: bool = False) -> Markup:
    shape = _SHAPES[number % 4]
    size = 4.5 if is_over else 3
    class_ = ' class="over"' if is_over else ""
    if shape == "circle":
        return Markup(f'<circle cx="{x}" cy="{y}" r="{size}"{class_}></circle>')
    if shape == "square":
        side = f'width="{2 * size}" height="{2 * size}"'
        return Markup(f'<rect x="{x - size}" y="{y - size}" {side}{class_}></rect>')
    turns = {
        "diamond": f"l{size} {size}l-{size} {size}l-{size} -{size}z",
        "triangle": f"l{size} {2 * size}h-{2 * size}z",
    }
    return Markup(f'<path d="M{x} {round(y - size, 1)}{turns[shape]}"{class_}></path>')


def _sample(number: int) -> Markup:
    return tag(
        "svg", tag("g", _mark(number, 7, 7), class_=f"series s{number % 4}"), width=14, height=14, aria_hidden="true"
    )


def _description(series: Sequence[Series]) -> str:
    parts = (f"{one.name}: {percent(one.points[-1].share)} of what is allowed in the last run" for one in series)
    return "; ".join(parts) + "."


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{100 * share:.3g} %"
