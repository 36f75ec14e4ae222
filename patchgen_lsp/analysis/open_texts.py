"""Parsed files of a project, of which an editor may hold newer texts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from patchgen_core.syntax.source import SourceFile, parse_source
from patchgen_core.watch.sources import ParsedFiles


class OpenTexts(ParsedFiles):
    """Parses a file again only when it or its unsaved text has changed; an unsaved text stands for its file.

    ``revision`` counts how often the unsaved texts have changed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.revision = 0
        self._texts: dict[Path, str] = {}
        self._parsed: dict[Path, SourceFile] = {}

    def show(self, texts: Mapping[Path, str]) -> None:
        """Let these unsaved texts, and no others, stand for their files; files that were written are read again."""
        if texts == self._texts:
            self.forget_changed(())
            return
        self.revision += 1
        self._parsed = {path: parsed for path, parsed in self._parsed.items() if texts.get(path) == self._texts[path]}
        self._texts = dict(texts)
        self.forget_changed(self._texts)
        self.forget_oldest()

    def get(self, path: Path) -> SourceFile:
        """The parsed text or file; a PatchgenError when it cannot be read, decoded or parsed."""
        if path not in self._texts:
            return super().get(path)
        if path not in self._parsed:
            text = self._texts[path].replace("\r\n", "\n").replace("\r", "\n")
            text += "" if text.endswith("\n") or not text else "\n"
            self._parsed[path] = parse_source(path, text.removeprefix("\ufeff"))
        self._recorded[path] = self._parsed[path]
        return self._parsed[path]

    def has(self, path: Path) -> bool:
        """Whether there is such a file, or a text that stands for it."""
        return path in self._texts or super().has(path)

    def is_open(self, path: Path) -> bool:
        """Whether a text stands for a file."""
        return Path(os.path.abspath(path)) in self._texts

    def text(self, path: Path) -> str:
        """The text as it is now, valid Python or not; empty where there is none."""
        if path in self._texts:
            return self._texts[path]
        try:
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
