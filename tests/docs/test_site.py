"""The pages as one site: every page is in its navigation, and every relative link leads somewhere."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from tools.docs_site import on_page_markdown

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]


class SettingsLoader(yaml.SafeLoader):
    """Reads the settings without the functions of Python that they name."""


SettingsLoader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def pages_of(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for value in entry.values():
            yield from pages_of(value)
    elif isinstance(entry, list):
        for value in entry:
            yield from pages_of(value)


@functools.cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    tokens = MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8"))
    headings = [tokens[i + 1] for i, token in enumerate(tokens) if token.type == "heading_open"]
    texts = ["".join(child.content for child in heading.children or ()) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in texts}


def links(page: Path) -> Iterator[str]:
    for token in MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8")):
        for child in token.children or ():
            target = child.attrGet("href") or child.attrGet("src")
            if target and "://" not in str(target):
                yield str(target)


def is_broken(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return not target.exists() or (bool(anchor) and anchor not in anchors(target))


def test_every_page_is_in_the_navigation() -> None:
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), SettingsLoader)
    assert sorted(pages_of(settings["nav"])) == [page.name for page in DOCS]


def test_start_page_leads_to_every_other() -> None:
    found = {link.partition("#")[0] for link in links(ROOT / "docs/index.md")}
    assert {page.name for page in DOCS} - {"index.md"} <= found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert [link for link in links(page) if is_broken(page, link)] == []


def test_headings_of_a_page_have_anchors_of_their_own() -> None:
    for page in DOCS:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert len(anchors(page)) == len(re.findall(r"^#{1,6} ", text, flags=re.MULTILINE)), page.name


def test_site_shows_names_of_files_and_no_link_out_of_the_pages() -> None:
    page = "```python file=acme/slots.py\n```\n```console exit=1\n```\n```toml\n```\n[a](../b.md) and [c](d.md#e)\n"
    assert on_page_markdown(page) == (
        '```python title="acme/slots.py"\n```\n```console\n```\n```toml\n```\na and [c](d.md#e)\n'
    )
