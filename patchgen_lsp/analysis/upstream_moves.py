"""What upstream has changed below patches since their generated file was made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.checks.checked_in.definitions import compare_definitions
from patchgen_core.errors import PatchgenError
from patchgen_core.files import read_text, short_hash
from patchgen_core.syntax.header import Fingerprint, read_fingerprint
from patchgen_core.upstream.module import find_upstream
from patchgen_core.upstream.recorded import recorded_upstream
from patchgen_core.upstream.releases import Releases


@dataclass(frozen=True)
class UpstreamMove:
    """How upstream's module differs from the one that a checked-in file was made of.

    Attributes:
        versions: the two, such as ``5.2.0 -> 5.23.0``.
        names: the classes, methods and functions that differ; None where that is not known.
    """

    versions: str
    names: frozenset[str] | None = None

    def may_concern(self, target: str) -> bool:
        """Whether a target has changed, or may have."""
        if self.names is None:
            return True
        return any(name == target or name.startswith(f"{target}.") for name in self.names)

    def describe(self, target: str) -> str:
        """What has become of a target, in words."""
        if not self.may_concern(target):
            return "unchanged upstream"
        return f"{'upstream moved' if self.names is None else 'changed upstream'}, {self.versions}"


def find_move(artifact: Artifact, releases: Path) -> UpstreamMove | None:
    """How upstream has moved under what a config makes; None where no checked-in file tells.

    ``releases`` is the folder of those that are at hand, where the old text is looked for that no diff holds.
    """
    try:
        text = read_text(artifact.path)
    except PatchgenError:
        return None
    mark = read_fingerprint(text.replace("\r\n", "\n")) if text is not None else None
    upstream = artifact.plan.upstream
    if mark is None or mark.source != upstream.module:
        return None
    if mark.upstream == artifact.plan.source.short_hash:
        return UpstreamMove("", frozenset())
    versions = f"{mark.version} -> {upstream.version}" if mark.version != upstream.version else "in the same version"
    recorded = recorded_upstream(artifact.path)
    if recorded is not None:
        changes = compare_definitions(recorded.text, artifact.base)
    elif (old := _text_at_hand(Releases(releases, upstream.distribution, offline=True), mark)) is not None:
        changes = compare_definitions(old, artifact.plan.source.text)
    else:
        return UpstreamMove(versions)
    return UpstreamMove(versions, frozenset((*changes.changed, *changes.added, *changes.removed)))


def _text_at_hand(releases: Releases, mark: Fingerprint) -> str | None:
    """The text that a generated file was made of, from a release that was downloaded before."""
    try:
        release = releases.cached(mark.version)
        text = read_text(find_upstream(mark.source, (release.folder,)).path) if release is not None else None
    except PatchgenError:
        return None
    return text if text is not None and short_hash(text) == mark.upstream else None
