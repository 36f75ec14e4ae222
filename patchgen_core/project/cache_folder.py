"""The folder that a project keeps things in between runs: results, and releases of upstream."""

from __future__ import annotations

import os
from pathlib import Path

from patchgen_core.files import write_files
from patchgen_core.project.project import Project

ENVIRONMENT = "PATCHGEN_CACHE_DIR"
RELEASES = "releases"
"""The folder of a cache that holds other releases of upstream."""

_TAG = "CACHEDIR.TAG"
_NOTES = {
    ".gitignore": "*\n",
    _TAG: "Signature: 8a477f597d28d172789f06886806bc55\n# Results of patchgen, made again when gone.\n",
}


def prepare_folder(folder: Path) -> None:
    """Make a folder for what is kept, with notes for git and for backups; one that is there stays as it is."""
    if not folder.exists():
        write_files((folder / note, text) for note, text in _NOTES.items())


def is_prepared(folder: Path) -> bool:
    """Whether :func:`prepare_folder` made a folder."""
    try:
        return (folder / _TAG).read_text(encoding="utf-8") == _NOTES[_TAG]
    except (OSError, ValueError):
        return False


def cache_folder(project: Project) -> Path:
    """Where a project's results are kept."""
    return Path(os.path.abspath(project.base / (os.environ.get(ENVIRONMENT) or project.cache_dir)))
