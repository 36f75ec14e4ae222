"""Parsed files of a project, of which an editor may hold newer texts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.project.project import CONFIG_SUFFIX
from patchgen_core.syntax.source import SourceFile, parse_source
from patchgen_core.watch.sources import ParsedFiles

MOST_LINES = 30_000
"""Lines of the files that are kept."""


class OpenTexts(ParsedFiles):
    """Parses a file again only when it or its unsaved text has changed; an unsaved text stands for its file.

    ``revision`` counts how often the unsaved texts have changed, ``epoch`` how often something else than a config has.
    """

    def __init__(self) -> None:
        super().__init__(MOST_LINES)
        self.revision = self.epoch = 0
        self._texts: dict[Path, str] = {}
        self._parsed: dict[Path, SourceFile] = {}
        self._valid: dict[Path, SourceFile] = {}

    def show(self, texts: Mapping[Path, str]) -> None:
        """Let these unsaved texts, and no others, stand for their files; files that were written are read again."""
        if texts != self._texts:
            changed = {path for path in {*texts, *self._texts} if texts.get(path) != self._texts.get(path)}
            self.revision += 1
            self.epoch += any(not path.name.endswith(CONFIG_SUFFIX) for path in changed)
            self._parsed = {path: parsed for path, parsed in self._parsed.items() if path not in changed}
            self._texts = dict(texts)
            self._valid = {path: source for path, source in self._valid.items() if path in texts}
        before = len(self._files)
        self.forget_changed(())
        self.epoch += len(self._files) < before
        self.forget_oldest()

    def get(self, path: Path) -> SourceFile:
        """The parsed text or file; a PatchgenError when it cannot be read, decoded or parsed."""
        if path not in self._texts:
            return super().get(path)
        if path not in self._parsed:
            text = self._texts[path].replace("\r\n", "\n").replace("\r", "\n")
            text += "" if text.endswith("\n") or not text else "\n"
            self._parsed[path] = self._valid[path] = parse_source(path, text.removeprefix("\ufeff"))
        self._recorded[path] = self._parsed[path]
        return self._parsed[path]

    def last_valid(self, path: Path) -> SourceFile | None:
        """The file as it is, or while it is half-typed as it last was; None where it never was valid Python."""
        try:
            return self.get(path)
        except PatchgenError:
            return self._valid.get(path)

    def holds(self, source: SourceFile) -> bool:
        """Whether this very object is the one that is held of its file, or of the text that stands for it."""
        return super().holds(source) or self._parsed.get(source.path) is source

    def has(self, path: Path) -> bool:
        """Whether there is such a file, or a text that stands for it."""
        return path in self._texts or super().has(path)

    def is_open(self, path: Path) -> bool:
        """Whether a text stands for a file."""
        return Path(os.path.abspath(path)) in self._texts

    def differs(self, path: Path) -> bool:
        """Whether an unsaved text stands for a file that holds another one."""
        return path in self._texts and self._texts[path] != _read(path)

    def has_unsaved(self) -> bool:
        """Whether an unsaved text stands for any file."""
        return any(map(self.differs, self._texts))

    def refuse_unsaved(self, path: Path) -> None:
        """Raise a PatchgenError about a file where an unsaved text stands for any."""
        if self.has_unsaved():
            message = "there are unsaved changes: save them first, because this is about what saved configs make"
            raise PatchgenError(message, Location(str(path)))

    def text(self, path: Path) -> str:
        """The text as it is now, valid Python or not; empty where there is none."""
        return self._texts[path] if path in self._texts else _read(path)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
