"""Stored files of runs: each is kept as long as something uses it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from patchgen_service.database.statements import insert_once, lock_name
from patchgen_service.database.tables import Artifact, ArtifactUse
from patchgen_service.database.words import ArtifactKind
from patchgen_service.store import Store

_LOCK = "patchgen-store"


def keep_file(
    session: Session, store: Store, run_id: str, kind: ArtifactKind, name: str, data: bytes, now: datetime
) -> str:
    """Store a file of a run under a name, and return its digest; the same file again changes nothing.

    Another file of that kind and name takes the place of the one before. A StoreError when it cannot be stored; the
    transaction is then to be rolled back.
    """
    lock_name(session, _LOCK, shared=True)
    digest = store.put(data)
    insert_once(session, Artifact, digest=digest, size=len(data), created=now)
    if not insert_once(session, ArtifactUse, run_id=run_id, digest=digest, kind=kind, name=name):
        use = session.scalars(
            select(ArtifactUse).where(ArtifactUse.run_id == run_id, ArtifactUse.kind == kind, ArtifactUse.name == name)
        ).one()
        use.digest = digest
    return digest


def list_files(session: Session, run_id: str, *kinds: ArtifactKind) -> Sequence[ArtifactUse]:
    """The stored files of a run, of these kinds, by name."""
    uses = select(ArtifactUse).where(ArtifactUse.run_id == run_id, ArtifactUse.kind.in_(kinds))
    return session.scalars(uses.order_by(ArtifactUse.kind, ArtifactUse.name)).all()


def sweep_files(session: Session, store: Store) -> int:
    """Remove stored files that nothing uses, and return how many bytes that freed; nobody stores any meanwhile.

    Should the transaction be rolled back, rows of files may stay that are gone; the next sweep removes them.
    """
    lock_name(session, _LOCK)
    used = select(ArtifactUse.digest)
    session.execute(delete(Artifact).where(Artifact.digest.not_in(used)))
    digests = set(session.scalars(select(Artifact.digest)))
    return store.sweep(digests.__contains__)
