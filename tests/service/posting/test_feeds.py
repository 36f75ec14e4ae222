from __future__ import annotations

from xml.etree import ElementTree

import pytest
from posting_team import URL, PostingTeam
from service_samples import make_result

from patchgen_service.database.tables import Run
from patchgen_service.posting.badge import draw_badge
from patchgen_service.posting.feed import write_feed
from patchgen_service.views.lines import read_lines

_ATOM = {"a": "http://www.w3.org/2005/Atom"}


def test_the_feed_has_ended_runs_and_shows_names_as_they_are(posting_team: PostingTeam) -> None:
    subject = "</title><script>alert(1)</script>\x08 & more"
    ended = posting_team.run("a" * 40, make_result(), subject=subject, author="Ada & Bob")
    posting_team.team.begin("b" * 40)
    with posting_team.team.transactions() as session:
        feed = write_feed("acme <models>", f"{URL}/feed", URL, read_lines(session, Run.id.is_not(None)))
    root = ElementTree.fromstring(feed)
    (entry,) = root.findall("a:entry", _ATOM)
    assert entry.findtext("a:id", "", _ATOM) == f"{URL}/runs/{ended.id}"
    assert entry.findtext("a:title", "", _ATOM) == "acme/models main: passed"
    assert "</title><script>" in entry.findtext("a:summary", "", _ATOM)
    assert entry.findtext("a:author/a:name", "", _ATOM) == "Ada & Bob"
    assert root.findtext("a:updated", "", _ATOM) == entry.findtext("a:updated", "", _ATOM)


@pytest.mark.parametrize(
    ("status", "word"), [("passed", "passed"), ("", "no run"), ("infrastructure_error", "could not run")]
)
def test_a_badge_says_its_state_in_words(status: str, word: str) -> None:
    badge = ElementTree.fromstring(draw_badge(status, '<b>"models"'))
    assert badge.attrib["aria-label"] == f'<b>"models": {word}'
    assert [text.text for text in badge.iter("{http://www.w3.org/2000/svg}text")] == ['<b>"models"', word]
