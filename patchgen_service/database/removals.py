"""The table of what is gone and must not come back as something else."""

from __future__ import annotations

from sqlalchemy.orm import Mapped, mapped_column

from patchgen_service.database.base import Base


class RemovedRepository(Base):
    """The number of a repository that was removed, which no other one gets: badges, feeds and webhooks name it."""

    __tablename__ = "removed_repository"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
