"""Pieces that several pages have: badges, problems, tables, the heat map."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchgen_core.errors import Location, Problem
from patchgen_core.project.project import CONFIG_SUFFIX
from patchgen_core.report.html.markup import Child, Markup, join_markup, tag


@dataclass(frozen=True)
class HeatCell:
    """A cell of the heat map.

    ``tone`` is its colour: ``good``, ``info``, ``warn``, ``bad`` or ``none``; empty for no colour. A pointer that
    rests on the cell shows ``more``.
    """

    text: str
    tone: str = "none"
    more: str = ""


@dataclass(frozen=True)
class HeatMap:
    """What became of each config, column by column: a row for each section of the page, in their order.

    Attributes:
        is_by_release: whether columns are releases, the newest last; where there is no room for all, it opens there.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[HeatCell, ...], ...]
    is_by_release: bool = False


def badge(text: str, tone: str) -> Markup:
    """A word with a colour."""
    return tag("span", text, class_=f"badge t-{tone}")


def config_name(label: str) -> Markup:
    """What reports call a config; what tells it from others stands out."""
    end = CONFIG_SUFFIX.removesuffix(".py")
    stem, suffix = (label[: -len(end)], end) if label.endswith(end) and label != end else (label, "")
    start, dot, name = stem.rpartition(".")
    return join_markup([tag("span", start + dot, class_="dim"), name, tag("span", suffix, class_="dim end")])


def location_code(location: Location | None) -> Markup:
    """A file and a line."""
    return tag("code", str(location), class_="place") if location is not None else Markup()


def problems_view(problems: Sequence[Problem], kind: str = "error") -> Markup:
    """Problems as a list, each with its place, its lines and what to do about it."""
    if not problems:
        return Markup()
    tone = "warn" if kind == "warning" else "bad"
    return tag("ul", *(_problem(problem, kind, tone) for problem in problems), class_="problems")


def _problem(problem: Problem, kind: str, tone: str) -> Markup:
    head = tag(
        "p",
        badge(f"{problem.code} {kind}".lstrip(), tone),
        " ",
        tag("span", problem.message, class_="message"),
        " ",
        location_code(problem.location),
    )
    snippet = problem.generated
    hint = [tag("p", problem.hint, class_="hint")] if problem.hint else []
    parts: list[Child] = [head, *hint, _excerpt(problem.excerpt)]
    if snippet is not None:
        parts += [tag("p", "In the generated module: ", location_code(snippet.location)), _excerpt(snippet.text)]
    return tag("li", *parts, class_=f"problem t-{tone}")


def _excerpt(text: str) -> Markup:
    return tag("pre", tag("code", text), class_="excerpt", tabindex=0) if text else Markup()


def bullet_list(lines: Iterable[str], class_: str = "notes") -> Markup:
    """Sentences as a list; empty for none."""
    items = [tag("li", line) for line in lines]
    return tag("ul", *items, class_=class_) if items else Markup()


def fact_list(facts: Iterable[tuple[str, Child]]) -> Markup:
    """Names and their values."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts), class_="facts")


def folded_list(title: str, lines: Sequence[str]) -> Markup:
    """Sentences that are folded away below a title and their number; empty for none."""
    if not lines:
        return Markup()
    return tag("details", tag("summary", f"{title}: {len(lines)}"), bullet_list(lines, "plain"))


def table_cell(text: Child, class_: str = "", is_head: bool = False, is_code: bool = False) -> Markup:
    """A cell of a table; the head of its row where it is one."""
    content = tag("code", text) if is_code else text
    name, scope = ("th", "row") if is_head else ("td", None)
    return tag(name, content, scope=scope, class_=class_ or None)


def scrolled_table(
    title: str, columns: Sequence[str], rows: Iterable[Markup], is_titled: bool = False, is_by_release: bool = False
) -> Markup:
    """A table that scrolls where it is too wide, and opens at the newest release where its columns are releases.

    Its title is shown, or only read by a screen reader.
    """
    heads = (tag("th", column, scope="col") for column in columns)
    caption = tag("caption", title, class_=None if is_titled else "unseen")
    table = tag("table", caption, tag("thead", tag("tr", *heads)), tag("tbody", *rows))
    classes = "scroll newest" if is_by_release else "scroll"
    return tag("div", table, class_=classes, tabindex=0, role="group", aria_label=f"Table: {title}")


def heat_cell(entry: HeatCell) -> Markup:
    """A cell of a table of states."""
    return tag("td", entry.text, class_=f"t-{entry.tone}" if entry.tone else "void", title=entry.more or None)
