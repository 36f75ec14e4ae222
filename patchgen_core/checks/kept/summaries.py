"""Summaries of texts, each made once for all runs in which the text is the same."""

from __future__ import annotations

import sys
from functools import cached_property
from pathlib import Path

from patchgen_core.checks.kept import source_summary
from patchgen_core.checks.kept.entries import EntryStore
from patchgen_core.checks.kept.source_summary import SourceSummary, summarize_source
from patchgen_core.files import digest, file_digest


class Summaries:
    """The summaries that a project's cache has, and those that are to come into it."""

    def __init__(self, store: EntryStore) -> None:
        self._store = store
        self._new: dict[str, SourceSummary] = {}

    def of(self, text: str, state: str) -> SourceSummary:
        """The summary of a text whose hash is ``state``; a SyntaxError or ValueError where it is not Python."""
        key = digest(f"{state} {self._maker}".encode())
        summary = self._store.source(key)
        if summary is None:
            summary = self._new[key] = summarize_source(text)
        return summary

    @cached_property
    def _maker(self) -> str:
        """What decides about a summary beside the text: what Python's grammar is, and how it is looked at."""
        return f"{sys.version} {file_digest(Path(source_summary.__file__))}"

    def keep(self) -> None:
        """Keep the new ones; a PatchgenError where they cannot be written."""
        self._store.keep_sources(self._new)
        self._new = {}
