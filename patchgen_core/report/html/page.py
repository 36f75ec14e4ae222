"""A report as one HTML page: what it shows, and how that is put together."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchgen_core.files import write_files
from patchgen_core.report.html.components import HeatMap, badge, config_name, fact_list, heat_cell
from patchgen_core.report.html.markup import Markup, join_markup, tag

_FOLDER = Path(__file__).parent
_ASSETS = ("style.css", "scrolling.js", "page.js")
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect width='16' height='16' rx='3' fill='%23{}'/%3E"
    "%3Cpath d='M4 5h8M4 8h5M4 11h8' stroke='white' stroke-width='1.6'/%3E%3C/svg%3E"
)
_ICON_COLORS = {"good": "1a7f37", "warn": "9a6700", "bad": "c21f2f", "none": "59636e"}


@dataclass(frozen=True)
class Facet:
    """What sections are filtered by; ``key`` is its name in the address.

    Attributes:
        values: the values that sections may have, in their order, each with its tone.
        is_chips: whether every value is a button of its own, and not an entry of a list.
    """

    key: str
    label: str
    values: tuple[tuple[str, str], ...]
    is_chips: bool = False


@dataclass(frozen=True)
class Section:
    """What a page says of one config.

    Attributes:
        place: its file and line.
        status: the verdict in a word or two.
        summary: the verdict in a line.
        values: for each facet, by its key, the values that the section has.
        words: what a text is looked for in, beside label, place and summary.
    """

    label: str
    place: str
    status: str
    tone: str
    summary: str
    body: Markup
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """A report.

    Attributes:
        kind: what made it, such as ``gate``.
        verdict: the verdict in a word or two.
        lead: the verdict in a sentence.
        facets: what can be filtered by. The first holds the status of each section.
        before: what is told before the configs, such as files that could not be read.
        sections: one for each config, in the order of the map's rows.
        after: what is told after the map.
    """

    kind: str
    verdict: str
    tone: str
    lead: str
    facts: tuple[tuple[str, str], ...]
    facets: tuple[Facet, ...]
    heat: HeatMap | None
    before: Markup
    sections: tuple[Section, ...]
    after: Markup | None = None


def render(page: Page) -> str:
    """The page as a file that needs no other one."""
    style, scrolling, view = (_FOLDER.joinpath(name).read_text(encoding="utf-8") for name in _ASSETS)
    script = scrolling + view
    title = f"{page.verdict}: patchgen {page.kind}"
    ids = _ids(page.sections)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("link", rel="icon", href=_ICON.format(_ICON_COLORS.get(page.tone, _ICON_COLORS["none"]))),
        tag("style", Markup(style)),
    )
    main = tag(
        "main",
        _overview(page),
        _heat(page, ids),
        page.after,
        _filters(page),
        _configs(page, ids),
        id="main",
    )
    skip = tag("a", "Skip to the results", href="#results", class_="skip")
    end = tag("footer", tag("p", "Made by patchgen. This file needs no network: you can save, send and archive it."))
    body = tag("body", skip, _header(page), main, end, tag("script", Markup(script)))
    return f'<!doctype html>\n<html lang="en">{head}\n{body}</html>\n'


def write_page(page: Page, path: Path) -> None:
    """Write a page; makes the folder."""
    write_files([(path, render(page))])


def _policy(style: str, script: str) -> str:
    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; style-src {source(style)}; script-src {source(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _ids(sections: Sequence[Section]) -> list[str]:
    """An id for each section that stays the same from report to report."""
    names: list[str] = []
    counts: Counter[str] = Counter()
    for section in sections:
        name = "c-" + re.sub(r"[^\w.]+", "-", section.label)
        counts[name] += 1
        names.append(name if counts[name] == 1 else f"{name}--{counts[name]}")
    return names


def _header(page: Page) -> Markup:
    theme = tag("button", "Colours: system", type="button", id="theme", hidden=True)
    brand = tag("p", tag("b", "patchgen"), f" {page.kind}", class_="brand")
    return tag("header", tag("div", brand, theme, class_="bar"), class_="top")


def _overview(page: Page) -> Markup:
    title = tag("h1", badge(page.verdict, page.tone), " ", tag("span", page.lead))
    facet = page.facets[0]
    counts = _value_counts(facet, page.sections)
    tiles = [tag("li", tag("b", counts[v]), " ", v, class_=f"tile t-{tone}") for v, tone in facet.values if counts[v]]
    return tag(
        "section",
        title,
        _share_bar([(tone, counts[value]) for value, tone in facet.values]),
        tag("ul", *tiles, class_="tiles", aria_label=f"How many by {facet.label.lower()}") if tiles else None,
        fact_list(page.facts),
        page.before,
        class_="overview",
    )


def _share_bar(parts: Sequence[tuple[str, int]]) -> Markup:
    """Counts as parts of one bar, each with its tone; for the eye only."""
    total = sum(count for _, count in parts)
    if not total:
        return Markup()
    bars, start = [], 0
    for tone, count in parts:
        bars.append(tag("rect", x=start, width=count, y=0, height=1, class_=f"t-{tone}"))
        start += count
    return tag(
        "svg",
        *bars,
        viewBox=f"0 0 {total} 1",
        preserveAspectRatio="none",
        class_="share",
        aria_hidden="true",
    )


def _value_counts(facet: Facet, sections: Sequence[Section]) -> Counter[str]:
    return Counter(value for section in sections for value in section.values.get(facet.key, ()))


def _heat(page: Page, ids: Sequence[str]) -> Markup:
    heat = page.heat
    if heat is None or not heat.columns:
        return Markup()
    heads = (tag("th", column, scope="col") for column in heat.columns)
    rows = (
        tag(
            "tr",
            tag("th", tag("a", config_name(section.label), href=f"#{name}"), scope="row"),
            *map(heat_cell, cells),
            data_of=name,
        )
        for section, name, cells in zip(page.sections, ids, heat.rows)
    )
    table = tag(
        "table",
        tag("caption", heat.title, class_="unseen"),
        tag("thead", tag("tr", tag("th", "config", scope="col"), *heads)),
        tag("tbody", *rows),
        id="heat",
    )
    classes = "scroll map newest" if heat.is_by_release else "scroll map"
    scrolled = tag("div", table, class_=classes, tabindex=0, role="region", aria_label=heat.title)
    return tag("section", tag("h2", heat.title, id="h-heat"), scrolled, aria_labelledby="h-heat")


def _filters(page: Page) -> Markup:
    search = tag(
        "label",
        tag("span", "Text"),
        tag("input", type="search", name="q", autocomplete="off", spellcheck="false", placeholder="name, patch, rule"),
        class_="text",
    )
    values = {facet: {section.values.get(facet.key, ()) for section in page.sections} for facet in page.facets}
    fields = (_facet(facet, page.sections) for facet in page.facets if len(values[facet]) > 1)
    reset = tag("button", "Clear", type="reset", id="clear")
    parts = (search, *fields, reset)
    return tag("form", *parts, id="filters", hidden=True, role="search", aria_label="Filter the results")


def _facet(facet: Facet, sections: Sequence[Section]) -> Markup:
    counts = _value_counts(facet, sections)
    if facet.is_chips:
        chips = (
            tag(
                "label",
                tag("input", type="checkbox", name=facet.key, value=value),
                tag("span", value, " ", tag("b", counts[value])),
                class_=f"chip t-{tone}",
            )
            for value, tone in facet.values
            if counts[value]
        )
        return tag("fieldset", tag("legend", facet.label), *chips)
    entries = (tag("option", f"{value} ({counts[value]})", value=value) for value, _ in facet.values if counts[value])
    select = tag("select", tag("option", "any", value=""), *entries, name=facet.key)
    return tag("label", tag("span", facet.label), select)


def _configs(page: Page, ids: Sequence[str]) -> Markup:
    total = len(page.sections)
    count = tag("output", f"{total} in all", id="count", aria_live="polite")
    unfold = tag("button", "Unfold all", type="button", id="unfold", hidden=True)
    title = tag("div", tag("h2", "Results", id="results", tabindex=-1), count, unfold, class_="bar")
    sections = join_markup(_section(section, name) for section, name in zip(page.sections, ids))
    none = tag("p", "Nothing matches these filters.", id="none", hidden=True)
    return tag("section", title, sections, none, aria_labelledby="results")


def _section(section: Section, name: str) -> Markup:
    words = " ".join((section.label, section.place, section.status, section.summary, *section.words)).lower()
    summary = tag(
        "summary",
        tag("h3", config_name(section.label)),
        " ",
        badge(section.status, section.tone),
        " ",
        tag("span", section.summary, class_="said"),
    )
    body = tag("div", tag("p", tag("code", section.place), class_="where"), section.body, class_="body")
    return tag(
        "details",
        summary,
        body,
        id=name,
        class_=f"config t-{section.tone}",
        data_values=json.dumps({key: list(values) for key, values in section.values.items() if values}),
        data_words=" ".join(dict.fromkeys(words.split())),
    )
