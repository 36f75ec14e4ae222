"""What the code of a project says anywhere, and what rules have asked of it, which their findings depend on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from patchgen_core.config.input_recording import Input, input_name
from patchgen_core.errors import PatchgenError
from patchgen_core.files import read_text
from patchgen_core.project.file_tree import walk_files
from patchgen_core.project.project import Project
from patchgen_core.workers.opened_files import is_installed

SPEC = "KernelSpec"
"""What a module makes that registers a kernel."""
_ASSIGNED = re.compile(r"(?<!\bself)\.(\w+)(?=\s*(?::[^=\n]+)?=(?!=))")
_SETATTR = re.compile(r"setattr\(([^\n]*)")
_QUOTED = re.compile(r"[\"'](\w+)(?=[\"'])")


class ProjectCode:
    """Answers about all files of a project, each of which is read once.

    Attributes:
        asked: the inputs (:mod:`patchgen_core.build.inputs`) that came up since somebody emptied it.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self.asked: set[Input] = set()

    def assigns(self, name: str) -> bool:
        """Whether some file assigns an attribute of a name to something that is not ``self``, or names it in a call of
        ``setattr``."""
        self.asked.add(("assigned", name))
        return name in self.assigned

    @cached_property
    def assigned(self) -> frozenset[str]:
        """The names of all such attributes."""
        try:
            paths = [path for path in walk_files(self._project.base) if path.suffix == ".py"]
            return frozenset(name for path in paths for name in find_assigned(read_text(path) or ""))
        except PatchgenError:  # a folder or file that cannot be read
            return frozenset()

    def note_registering(self, top: Path) -> None:
        """Note that it counted what :func:`list_registering` finds."""
        self._note("registering", top)

    def note_module(self, name: str, path: Path | None) -> None:
        """Note that a module was looked for, and where it was found."""
        if path is None or not is_installed(str(path)):
            self.asked.add(("module", name))
        if path is not None:
            self._note("file", path)

    def note_folder(self, folder: Path) -> None:
        """Note that it counted which files there are in a folder."""
        self._note("tree", folder)

    def _note(self, kind: str, path: Path) -> None:
        if not is_installed(str(path)):  # which is part of the machine
            self.asked.add((kind, input_name(self._project, path)))


def find_assigned(text: str) -> Iterator[str]:
    """The attributes that a text assigns to something that is not ``self``, or names in a call of ``setattr``."""
    yield from _ASSIGNED.findall(text)
    for arguments in _SETATTR.findall(text):
        yield from _QUOTED.findall(arguments)


def list_registering(top: Path) -> list[Path]:
    """The modules of a package, given its folder, or one module alone, that register kernels."""
    paths: Iterable[Path] = (path for path in walk_files(top) if path.suffix == ".py") if top.is_dir() else [top]
    return [path for path in paths if SPEC.encode() in path.read_bytes()]
