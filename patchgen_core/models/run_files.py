"""Where kept runs of upstream's models lie: a file for each, which starts with the hash of the rest. Imports no torch.

What cannot be read, is cut off, was changed or belongs to another user counts as not there. Files are replaced as a
whole, so that any number of processes can use one folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.build.entry_folder import EntryFile, EntryFolder, is_old, read_signed, sign, touch
from patchgen_core.errors import PatchgenError
from patchgen_core.project.cache_folder import prepare_folder

FOLDER = "runs"
MOST_FILES = 32_768
MOST_BYTES = 2 << 30
"""How much is kept; what was used least recently goes."""
MOST_BYTES_OF_A_RUN = 64 << 20
_FILE = re.compile(r"[0-9a-f]{24}-[0-9a-f]{40}\.run(\.\d+)?")


@dataclass(frozen=True)
class RunPlace:
    """Where runs are kept.

    Attributes:
        cache_folder: the folder of the project's cache.
        context: 24 digits that stand for the machine and for what the project runs before models are compared.
    """

    cache_folder: str
    context: str


class RunFiles:
    """The kept runs in the folder of a project's cache; ``failure`` says why one could not be written."""

    def __init__(self, cache_folder: Path) -> None:
        self.cache_folder = cache_folder
        self.folder = cache_folder / FOLDER
        self.files = EntryFolder(self.folder, _FILE, MOST_FILES)
        self.failure = ""

    def read(self, name: str) -> bytes | None:
        """What is kept by a name; None where there is nothing that can be trusted."""
        file = self.folder / f"{name}.run"
        signed = read_signed(file, MOST_BYTES_OF_A_RUN)
        if signed is None or (hasattr(os, "geteuid") and signed[1].st_uid != os.geteuid()):
            return None
        body, status = signed
        if is_old(status.st_mtime):
            touch(file)
        return body

    def write(self, name: str, body: bytes) -> bool:
        """Keep something by a name, unless it is too large; whether a next one may be kept."""
        if len(body) > MOST_BYTES_OF_A_RUN // 2:
            return True
        file = self.folder / f"{name}.run"
        part = self.folder / f"{name}.run.{os.getpid()}"
        try:
            prepare_folder(self.cache_folder)
            self.folder.mkdir(exist_ok=True)
            part.write_bytes(sign(body))
            part.replace(file)
        except (OSError, PatchgenError) as error:
            self.failure = str(error)
            with suppress(OSError):
                part.unlink()
            return False
        return True

    def bound(self) -> None:
        """Remove the files that were used least recently, where they are too many or too large together; a
        PatchgenError when one cannot be removed."""
        self.files.bound()
        files = list(self.files.files())
        excess = sum(file.size for file in files) - MOST_BYTES
        if excess > 0:
            self.files.remove(_take(sorted(files, key=lambda file: file.used), excess + MOST_BYTES // 4))


def forget_runs(places: Iterable[RunPlace]) -> None:
    """Remove what is kept at some places; a PatchgenError when one cannot be removed."""
    for place in places:
        files = RunFiles(Path(place.cache_folder)).files
        files.remove(path for path in files.paths() if path.name.startswith(f"{place.context}-"))


def _take(files: list[EntryFile], size: int) -> list[Path]:
    """The first files that have a size together."""
    paths: list[Path] = []
    for file in files:
        if size <= 0:
            break
        paths.append(file.path)
        size -= file.size
    return paths
