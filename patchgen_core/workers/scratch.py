"""The folder for what a worker writes for itself. Whoever started the worker removes it: a worker is killed."""

from __future__ import annotations

import shutil

_folder: str | None = None


def scratch_folder() -> str | None:
    """Where temporary folders of this process belong, as ``tempfile`` takes it: None, the system's place, unless this
    is a worker."""
    return _folder


def use_scratch_folder(folder: str) -> None:
    """Have this process, a worker, put its temporary folders there."""
    global _folder
    _folder = folder


def remove_scratch_folder() -> None:
    """Remove it with all that is in it, since whoever started this worker is gone."""
    if _folder is not None:
        shutil.rmtree(_folder, ignore_errors=True)
