"""The generated modules that were made last, whose next versions take over what is the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.reparsing import ParsedText

MOST_MODULES = 1
"""How many are held: people type in one config at a time. The tree of another is made again when it is asked for."""


@dataclass(frozen=True)
class _Version:
    artifact: Artifact
    parsed: ParsedText
    module: Module


class GeneratedModules:
    """Parses what configs make; statements that a module had before are not parsed and looked at again."""

    def __init__(self) -> None:
        self._versions: dict[Path, _Version] = {}

    def read(self, artifact: Artifact) -> Module:
        """The module that a config makes now. The artifact that its config made before has to parse its own again."""
        last = self._versions.pop(artifact.path, None)
        if last is None or last.artifact is not artifact:
            last = self._parse(artifact, last)
        self._versions[artifact.path] = last
        while len(self._versions) > MOST_MODULES:
            self._versions.pop(next(iter(self._versions))).artifact.use_source(None)
        return last.module

    @staticmethod
    def _parse(artifact: Artifact, last: _Version | None) -> _Version:
        if last is None:
            return _Version(artifact, ParsedText(artifact.source), Module(artifact.source))
        last.artifact.use_source(None)
        parsed = last.parsed.parse(artifact.path, artifact.text)
        artifact.use_source(parsed.source)
        last.module.renew(parsed.source)
        return _Version(artifact, parsed, last.module)
