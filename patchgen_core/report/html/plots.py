"""Errors by layer as a picture in the page: inline SVG that a screen reader can read out in one sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from patchgen_core.checks.tables import Table
from patchgen_core.report.html.markup import Markup, joined, tag
from patchgen_core.report.parity_plot import Layer, layers_of, limits

_WIDTH, _HEIGHT = 760, 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 22, 34
_FLOOR = _HEIGHT - _BOTTOM
_MOST_GRID_LINES = 9
_GROUP = re.compile(r"(?:^|\.)(\w+\.\d+)(?=\.|$)")
_LABEL_WIDTH = 64
_CHARACTER = 6.2
"""Width of a character of a label."""


def layers_plot(table: Table, title: str, name: str) -> Markup:
    """The relative error of every layer of a table beside what is allowed, on a logarithmic axis.

    Args:
        table: figures of layers.
        title: what they are of.
        name: beginning of the ids of its elements.
    """
    layers = layers_of(table)
    if not layers:
        return Markup()
    first = next((number for number, layer in enumerate(layers) if not layer.is_right), None)
    drawing = _Drawing(layers)
    parts = [
        tag("title", title, id=f"{name}-t"),
        tag("desc", _told(layers, first), id=f"{name}-d"),
        *drawing.axis(),
        *drawing.groups(),
        *drawing.allowed(),
        *(() if first is None else drawing.parting(first)),
        *drawing.points(),
    ]
    picture = tag(
        "svg",
        *parts,
        role="img",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        aria_labelledby=f"{name}-t",
        aria_describedby=f"{name}-d",
    )
    scrolled = tag("div", picture, class_="scroll", tabindex=0, role="group", aria_label=f"Plot: {title}")
    return tag("figure", scrolled, tag("figcaption", *_legend(layers)), class_="plot")


def _told(layers: Sequence[Layer], first: int | None) -> str:
    count = f"{len(layers)} modules in the order in which they run"
    if first is None:
        return f"{count}; all agree."
    wrong, layer = sum(not layer.is_right for layer in layers), layers[first]
    allowed = f"{layer.allowed:.2e} is allowed" if layer.allowed else "the same bits are asked for"
    return f"{count}; {wrong} differ, first {layer.name}: its relative error is {layer.error:.2e} where {allowed}."


def _legend(layers: Sequence[Layer]) -> Iterator[Markup]:
    has_limits = any(layer.allowed for layer in layers)
    for name, text in (
        ("right", "agrees"),
        ("wrong", "differs"),
        ("allowed", "allowed" if has_limits else "allowed: the same bits"),
    ):
        yield tag("span", _sample(name), f" {text}")
    yield tag("span", "zero lies on the floor, what is no number at the top")


def _sample(name: str) -> Markup:
    shapes = {
        "right": tag("circle", cx=7, cy=6, r=3.2, class_="right"),
        "wrong": tag("rect", x=3.6, y=2.6, width=6.8, height=6.8, class_="wrong"),
        "allowed": tag("path", d="M0 6H14", class_="allowed"),
    }
    return tag("svg", shapes[name], viewBox="0 0 14 12", width=14, height=12, aria_hidden="true")


class _Drawing:
    """Layers from left to right, powers of ten from the floor up."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = layers
        self.low, self.high = (round(math.log10(limit)) for limit in limits(layers))
        self.step = (_WIDTH - _LEFT - _RIGHT) / len(layers)

    def _x(self, number: float) -> str:
        return _figure(_LEFT + self.step * (number + 0.5))

    def _y(self, value: float) -> float:
        if value <= 0:
            return _FLOOR
        place = math.log10(value) if math.isfinite(value) else self.high
        share = (min(max(place, self.low), self.high) - self.low) / (self.high - self.low)
        return _FLOOR - share * (_FLOOR - _TOP)

    def axis(self) -> Iterator[Markup]:
        """A line and a label for the powers of ten."""
        every = max(1, math.ceil((self.high - self.low) / _MOST_GRID_LINES))
        for power in range(self.low, self.high + 1, every):
            y = _figure(self._y(10.0**power))
            yield tag("path", d=f"M{_LEFT} {y}H{_WIDTH - _RIGHT}", class_="grid")
            yield tag("text", f"1e{power}", x=_LEFT - 8, y=y, dy="0.32em", text_anchor="end")
        yield tag("text", "relative error", x=_LEFT, y=10, class_="axis")

    def groups(self) -> Iterator[Markup]:
        """A tick where a numbered block of the model begins, with its name where there is room."""
        last, room = "", 0.0
        for number, layer in enumerate(self.layers):
            found = _GROUP.search(layer.name)
            name = found[1] if found else ""
            if name != last and name:
                x = _LEFT + self.step * number
                yield tag("path", d=f"M{_figure(x)} {_TOP}V{_FLOOR + 6}", class_="grid")
                if x >= room:
                    yield tag("text", name, x=_figure(x + 3), y=_FLOOR + 14)
                    room = x + max(_LABEL_WIDTH, _CHARACTER * len(name) + 8)
            last = name
        yield tag("text", "modules, in the order in which they run", x=_LEFT, y=_HEIGHT - 4, class_="axis")

    def allowed(self) -> Iterator[Markup]:
        """The limits as steps."""
        if not any(layer.allowed for layer in self.layers):
            yield tag("path", d=f"M{_LEFT} {_FLOOR}H{_WIDTH - _RIGHT}", class_="allowed")
            return
        d, last = [f"M{_LEFT} {_figure(self._y(self.layers[0].allowed))}"], self.layers[0].allowed
        for number, layer in enumerate(self.layers):
            if layer.allowed != last:
                d.append(f"H{_figure(_LEFT + self.step * number)}V{_figure(self._y(layer.allowed))}")
            last = layer.allowed
        yield tag("path", d=f"{''.join(d)}H{_WIDTH - _RIGHT}", class_="allowed")

    def parting(self, first: int) -> Iterator[Markup]:
        """A line before the first layer that differs, with its name."""
        x = _LEFT + self.step * first
        yield tag("path", d=f"M{_figure(x)} {_TOP - 6}V{_FLOOR}", class_="parting")
        text, is_left = f"they part at {self.layers[first].name}", x < _WIDTH / 2
        place = _figure(x + 4 if is_left else x - 4)
        yield tag("text", text, x=place, y=_TOP - 8, text_anchor="start" if is_left else "end", class_="parting")

    def points(self) -> Iterator[Markup]:
        """A mark for every layer: round where it agrees, square where it differs, hollow for zero."""
        for number, layer in enumerate(self.layers):
            x, y = self._x(number), self._y(layer.error)
            kind = ("right" if layer.is_right else "wrong") + (" zero" if layer.error == 0 else "")
            said = tag("title", f"{layer.label}: {layer.error:.2e}, allowed {layer.allowed:.2e}")
            if layer.is_right:
                yield tag("circle", said, cx=x, cy=_figure(y), r=3.2, class_=kind)
            else:
                corner = _figure(float(x) - 3.4), _figure(y - 3.4)
                yield tag("rect", said, x=corner[0], y=corner[1], width=6.8, height=6.8, class_=kind)


def _figure(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def share_bar(parts: Sequence[tuple[str, int]]) -> Markup:
    """Counts as parts of one bar, each with its tone; for the eye only."""
    total = sum(count for _, count in parts)
    if not total:
        return Markup()
    found, start = [], 0
    for tone, count in parts:
        found.append(tag("rect", x=start, width=count, y=0, height=1, class_=f"t-{tone}"))
        start += count
    return tag(
        "svg",
        joined(found),
        viewBox=f"0 0 {total} 1",
        preserveAspectRatio="none",
        class_="share",
        aria_hidden="true",
    )
