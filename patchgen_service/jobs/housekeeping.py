"""What a process keeps in its own folder and can do without: removed when nothing needs it any more."""

from __future__ import annotations

from sqlalchemy import select

from patchgen_service.database.tables import Repository
from patchgen_service.environments import remove_unused
from patchgen_service.git.mirror import remove_tree
from patchgen_service.jobs.context import LOG, JobContext

_DAY = 86400


def tidy_folder(context: JobContext) -> None:
    """Remove environments that no run has used for long, and mirrors of repositories that were removed."""
    settings = context.settings
    days = settings.retention.environments
    environments = (
        remove_unused(settings.environments_folder, context.clock().timestamp() - days * _DAY) if days else []
    )
    repositories = {
        str(number) for number in context.change(lambda session: session.scalars(select(Repository.id)).all())
    }
    mirrors = [path for path in settings.mirrors_folder.glob("*") if path.is_dir() and path.name.isdigit()]
    gone = [path for path in mirrors if path.name not in repositories]
    for path in gone:
        remove_tree(path)
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
    if environments or gone:
        LOG.info("removed %d environments and %d mirrors that nothing needs", len(environments), len(gone))
