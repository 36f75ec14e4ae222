"""Where a config may be written."""

from __future__ import annotations

from pathlib import Path

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.files import read_text
from patchgen_core.project.project import CONFIG_SUFFIX


def check_free(path: Path, force: bool) -> None:
    """A PatchgenError where a file has no name of a config, or is there already."""
    if not path.name.endswith(CONFIG_SUFFIX):
        raise PatchgenError(f"'{path.name}' is not a config's file name", hint=f"It must end in '{CONFIG_SUFFIX}'.")
    if not force and read_text(path) is not None:
        hint = "Name another file, or pass --force to overwrite it."
        raise PatchgenError("there is already a config", Location(str(path)), hint)
