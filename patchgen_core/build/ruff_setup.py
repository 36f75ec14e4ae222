"""Which ruff runs, and with which settings."""

from __future__ import annotations

import contextlib
import functools
import glob
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchgen_core.build.entry_folder import read_signed, sign
from patchgen_core.build.ruff_rules import hangs_on_version, own_options
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.files import FileState, file_state, read_text, write_files
from patchgen_core.project.project import Project
from patchgen_core.project.pyproject import read_toml

_HINT = "Install it: pip install ruff."


@functools.cache
def find_ruff() -> str:
    """The path of ruff's binary; a PatchgenError when it is not installed."""
    try:
        from ruff.__main__ import find_ruff_bin  # type: ignore[import-untyped]

        return os.fsdecode(find_ruff_bin())
    except (ImportError, OSError) as error:
        raise PatchgenError(f"ruff cannot be run: {error}", None, _HINT) from None


def run_ruff(
    arguments: list[str], folder: Path, settings: Sequence[Path] = (), files: int = 1, text: str | None = None
) -> str:
    """What ruff prints; a PatchgenError when it cannot be run, or fails.

    Args:
        text: what it reads from its standard input.
        settings: the files that it reads.
        files: how many files it works on, for each of which a thread is enough: it starts one for each core, which
            takes longer than a file.
    """
    import subprocess

    command = [find_ruff(), *arguments]
    env = {name: value for name, value in os.environ.items() if not name.startswith("RUFF_")}
    env["RAYON_NUM_THREADS"] = str(min(files, os.cpu_count() or 1))
    try:
        given = None if text is None else text.encode()
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, input=given)
    except OSError as error:
        raise PatchgenError(f"ruff cannot be run: {error}", None, _HINT) from None
    if done.returncode:
        message = (done.stderr or done.stdout).decode("utf-8", "replace").strip().replace(str(folder) + os.sep, "")
        _refuse_version(message, settings)
        raise PatchgenError("ruff failed on the generated modules", excerpt=message)
    return done.stdout.decode()


def ruff_version(folder: Path) -> str:
    """The version of the ruff that runs, such as ``0.17.5``."""
    return _ask_version(folder, find_ruff())[1].split()[1]


def kept_version(folder: Path, file: Path) -> str:
    """What ``ruff --version`` prints. A file, where its folder is there, keeps it for as long as the binary stays the
    same, because starting that takes a tenth of a check that finds nothing changed.

    Raises:
        PatchgenError: ruff cannot be run.
    """
    return _read_version(file) or _ask_and_keep(folder, file)


def _ask_and_keep(folder: Path, file: Path) -> str:
    import sysconfig

    binary = find_ruff()
    state, text = _ask_version(folder, binary)
    # one that stands elsewhere is used only for as long as there is none beside the interpreter
    if file.parent.is_dir() and os.path.dirname(binary) == sysconfig.get_path("scripts"):
        record = json.dumps([sys.prefix, binary, state, text])
        with contextlib.suppress(PatchgenError):
            write_files([(file, sign(record.encode()).decode())])
    return text


def _read_version(file: Path) -> str:
    signed = read_signed(file)
    try:
        prefix, binary, state, text = json.loads(signed[0]) if signed is not None else ("", "", (), "")
        is_same = prefix == sys.prefix and file_state(os.fspath(binary)) == tuple(state)
    except (ValueError, TypeError, RecursionError):
        return ""
    return text if is_same and isinstance(text, str) else ""


_VERSIONS: dict[tuple[str, FileState | None], str] = {}
"""What ruff's binaries said of their versions, as they were when they were asked."""


def _ask_version(folder: Path, binary: str) -> tuple[FileState | None, str]:
    """The state of a binary, and what it says of its version, of which it is asked once in that state."""
    state = file_state(binary)  # before it is asked: it may be replaced meanwhile
    text = _VERSIONS.get((binary, state)) if state is not None else None
    if text is None:
        text = _VERSIONS[binary, state] = run_ruff(["--version"], folder)
    return state, text


def _refuse_version(message: str, settings: Sequence[Path]) -> None:
    """Raise a PatchgenError where ruff says that the project's settings require another version of it."""
    versions = re.search(r"Required version `([^`]+)` does not match the running version `([^`]+)`", message)
    if versions is None:
        return
    raise PatchgenError(
        f"the project's settings require ruff {versions[1]}, and the installed one is {versions[2]}",
        next(filter(None, map(_find_required_version, settings)), None),
        f"Run: pip install 'ruff{versions[1]}'. Or change required-version.",
    )


def _find_required_version(settings: Path) -> Location | None:
    """Where a file of settings says which ruff it requires."""
    lines = (read_text(settings) or "").splitlines()
    numbers = (number for number, line in enumerate(lines, 1) if line.lstrip().startswith("required-version"))
    line = next(numbers, 0)
    return Location(str(settings), line) if line else None


class RuffSettings:
    """The ruff settings of a project's folders; each file is read once, and one that cannot be is a PatchgenError."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._tables: dict[Path, dict[str, Any]] = {}
        self._found: dict[Path, Path | None] = {}

    def file(self, folder: Path) -> Path | None:
        """The file with ruff's settings for a folder, the nearest up to the project's root; None for its defaults."""
        if self.project.ruff_isolated:
            return None
        if folder not in self._found:
            self._found[folder] = self._find(folder)
        return self._found[folder]

    def _find(self, folder: Path) -> Path | None:
        for name in (".ruff.toml", "ruff.toml"):
            if (folder / name).is_file():
                return folder / name
        pyproject = folder / "pyproject.toml"
        if pyproject.is_file() and self.table(pyproject):
            return pyproject
        return None if folder in (self.project.base, folder.parent) else self.file(folder.parent)

    def table(self, path: Path) -> dict[str, Any]:
        """The ruff settings that a file holds."""
        if path not in self._tables:
            data: Any = read_toml(path)
            for key in ("tool", "ruff") if path.name == "pyproject.toml" else ():
                data = data.get(key, {}) if isinstance(data, dict) else {}
            self._tables[path] = data if isinstance(data, dict) else {}
        return self._tables[path]

    def chain(self, settings: Path | None) -> list[Path]:
        """A settings file and the ones that it extends, one after the other."""
        files: list[Path] = []
        while settings is not None and settings not in files:
            files.append(settings)
            extended = self.table(settings).get("extend")
            settings = settings.parent / _expanded(extended) if isinstance(extended, str) else None
        return files

    def arguments(self, settings: Path | None) -> list[str]:
        """The arguments by which ruff reads a settings file, and leaves nothing to defaults that change with its
        version."""
        tables = [self.table(path) for path in self.chain(settings)]
        has_target = settings is not None and settings.name == "pyproject.toml" and _has_required_python(settings)
        return [*(["--config", str(settings)] if settings else ["--isolated"]), *own_options(tables, has_target)]

    def hangs_on_version(self, settings: Path | None) -> bool:
        """Whether what a settings file says makes another version of ruff likely to give another result."""
        return hangs_on_version([self.table(path) for path in self.chain(settings)])

    def line_length(self, settings: Path | None) -> int | None:
        """How long lines may be by a settings file; None where it does not say."""
        lengths = (self.table(path).get("line-length") for path in self.chain(settings))
        return next((length for length in lengths if isinstance(length, int)), None)

    def source_roots(self, settings: Path | None) -> list[str]:
        """Folders whose modules ruff's import sorting takes for the project's own: its ``src`` setting, absolute."""
        base = settings.parent if settings else self.project.base
        for path in self.chain(settings):
            listed = self.table(path).get("src")
            if isinstance(listed, list):  # ruff says what is wrong with anything else
                patterns = [pattern for pattern in listed if isinstance(pattern, str)]
                return [folder for pattern in patterns for folder in _folders(path.parent, pattern)]
        return [str(base), str(base / "src")]


def _has_required_python(pyproject: Path) -> bool:
    """Whether a project says which versions of Python it runs with, of which ruff takes the oldest."""
    project = read_toml(pyproject).get("project")
    return isinstance(project, dict) and "requires-python" in project


def _expanded(path: str) -> str:
    """A path of the settings with the user's folder and environment variables in it, as ruff reads it."""
    return os.path.expandvars(os.path.expanduser(path))


def _folders(base: Path, pattern: str) -> list[str]:
    if not glob.has_magic(pattern):
        return [str(base / _expanded(pattern))]
    return sorted(glob.glob(os.path.join(glob.escape(str(base)), _expanded(pattern)), recursive=True))
