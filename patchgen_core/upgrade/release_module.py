"""Upstream as one release has it: a module, and the other modules that it uses."""

from __future__ import annotations

from dataclasses import dataclass

from patchgen_core.checks.contract.library import Library
from patchgen_core.syntax.source import SourceFile
from patchgen_core.upstream.module import UpstreamModule
from patchgen_core.upstream.versions import Origin


@dataclass(frozen=True)
class ReleaseModule:
    """A config's upstream module in one release.

    Attributes:
        source: its text and syntax tree. From checked-in files, its imports are absolute and ruff has formatted it:
            then only the syntax tree tells what upstream changed.
        library: finds the other modules of the release; None when only this one is known.
    """

    upstream: UpstreamModule
    source: SourceFile
    library: Library | None
    origin: Origin

    @property
    def version(self) -> str:
        """The release's version."""
        return self.upstream.version

    @property
    def is_recorded(self) -> bool:
        """Whether the text comes from the project's own checked-in files."""
        return self.origin == "checked-in files"
