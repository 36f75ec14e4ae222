"""What a run with a release of transformers told of patches: needless ones, and what upstream changed below them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
from sqlalchemy.orm import Session

from patchgen_service.records.files import list_files
from patchgen_service.store import Store, StoreError

STUDY_NAME = "upgrade.json"
"""What the file of a run is called that says it, below the folder of its project."""


@dataclass(frozen=True)
class NeedlessPatch:
    """A patch that upstream made needless, where it stands, and why."""

    config: str
    target: str
    path: str
    line: int
    reason: str


@dataclass(frozen=True)
class UpstreamChange:
    """Something of upstream that changed so that a config must."""

    config: str
    path: str
    kind: str
    about: str
    detail: str


@dataclass(frozen=True)
class ChangeGroup:
    """One change of upstream, and the configs that it concerns."""

    kind: str
    about: str
    detail: str
    configs: tuple[str, ...]


@dataclass(frozen=True)
class ReleaseStudy:
    """What is known of a release beside the gate's results.

    Attributes:
        groups: those with most configs first.
        notes: what could not be compared, and why.
    """

    needless: tuple[NeedlessPatch, ...] = ()
    groups: tuple[ChangeGroup, ...] = ()
    notes: tuple[str, ...] = ()


class _Report(msgspec.Struct):
    needless: list[NeedlessPatch]
    changes: list[UpstreamChange]
    notes: list[str]


def read_study(session: Session, store: Store, run_id: str) -> ReleaseStudy:
    """What a run's files say; what cannot be read any more, or is none, is left out."""
    reports = list(_read_reports(session, store, run_id))
    needless = {(patch.path, patch.line, patch.target): patch for report in reports for patch in report.needless}
    groups: dict[tuple[str, str, str], dict[str, None]] = {}
    for change in (change for report in reports for change in report.changes):
        groups.setdefault((change.kind, change.about, change.detail), {})[change.config] = None
    ordered = sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    patches = sorted(needless.values(), key=lambda patch: (patch.config, patch.line))
    notes = dict.fromkeys(note for report in reports for note in report.notes)
    return ReleaseStudy(
        tuple(patches), tuple(ChangeGroup(*name, tuple(configs)) for name, configs in ordered), tuple(notes)
    )


def _read_reports(session: Session, store: Store, run_id: str) -> Iterator[_Report]:
    for file in list_files(session, run_id, "report"):
        if file.name.rpartition("/")[2] == STUDY_NAME:
            try:
                yield msgspec.json.decode(store.get(file.digest), type=_Report)
            except (StoreError, msgspec.DecodeError):
                continue
