"""An Atom feed of runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone
from xml.etree import ElementTree

from patchgen_service.posting.words import one_line, run_address, status_word
from patchgen_service.views.lines import RunLine

_ATOM = "http://www.w3.org/2005/Atom"
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONG_AGO = datetime(2000, 1, 1, tzinfo=timezone.utc)


def write_feed(title: str, address: str, base_url: str, runs: Sequence[RunLine]) -> bytes:
    """The feed at ``address`` with ended runs, newest first, as XML in UTF-8.

    An entry's id is that of its run, so that a reader shows it once.
    """
    feed = ElementTree.Element("feed", xmlns=_ATOM)
    ended = [run for run in runs if run.ended is not None]
    moments = [run.ended for run in ended if run.ended is not None]
    _add(feed, "id", address)
    _add(feed, "title", title)
    _add(feed, "updated", _moment(max(moments, default=_LONG_AGO)))
    ElementTree.SubElement(feed, "link", rel="self", href=_clean(address))
    for run in ended:
        _add_run(feed, run, base_url)
    text: bytes = ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True)
    return text


def _add_run(feed: ElementTree.Element, run: RunLine, base_url: str) -> None:
    entry = ElementTree.SubElement(feed, "entry")
    link, counts = run_address(base_url, run.id), run.counts
    _add(entry, "id", link)
    _add(entry, "title", one_line(f"{run.repository} {run.branch}: {status_word(run.status)}"))
    _add(entry, "updated", _moment(run.ended or run.created))
    ElementTree.SubElement(entry, "link", href=_clean(link))
    _add(ElementTree.SubElement(entry, "author"), "name", run.author or run.repository)
    changes = f"{counts.new} new, {counts.known} known, {counts.fixed} fixed of {counts.total}"
    _add(entry, "summary", f"{run.sha[:10]} {one_line(run.subject)}: {changes}")


def _add(parent: ElementTree.Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, name).text = _clean(text)


def _clean(text: str) -> str:
    """A text that XML can hold."""
    return _FORBIDDEN.sub("\ufffd", text)


def _moment(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="seconds")
