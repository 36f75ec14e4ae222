"""Which ruff runs, and with which settings."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.project.pyproject import read_toml

_HINT = "Install it: pip install ruff."


def find_ruff() -> str:
    """The path of ruff's binary; a PatchgenError when it is not installed."""
    try:
        from ruff.__main__ import find_ruff_bin  # type: ignore[import-untyped]

        return os.fsdecode(find_ruff_bin())
    except (ImportError, OSError) as error:
        raise PatchgenError(f"ruff cannot be run: {error}", None, _HINT) from None


def run_ruff(arguments: list[str], folder: Path) -> str:
    """What ruff prints; a PatchgenError when it cannot be run, or fails."""
    import subprocess

    command = [find_ruff(), *arguments]
    env = {name: value for name, value in os.environ.items() if not name.startswith("RUFF_")}
    try:
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8")
    except OSError as error:
        raise PatchgenError(f"ruff cannot be run: {error}", None, _HINT) from None
    if done.returncode:
        message = (done.stderr or done.stdout).strip().replace(str(folder) + os.sep, "")
        raise PatchgenError("ruff failed on the generated modules", excerpt=message)
    return done.stdout


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

    def source_roots(self, settings: Path | None) -> list[str]:
        """Folders whose modules ruff's import sorting takes for the project's own: its ``src`` setting, absolute."""
        base = settings.parent if settings else self.project.base
        for path in self.chain(settings):
            listed = self.table(path).get("src")
            if isinstance(listed, list):  # ruff says what is wrong with anything else
                patterns = [pattern for pattern in listed if isinstance(pattern, str)]
                return [folder for pattern in patterns for folder in _folders(path.parent, pattern)]
        return [str(base), str(base / "src")]


def _expanded(path: str) -> str:
    """A path of the settings with the user's folder and environment variables in it, as ruff reads it."""
    return os.path.expandvars(os.path.expanduser(path))


def _folders(base: Path, pattern: str) -> list[str]:
    if not glob.has_magic(pattern):
        return [str(base / _expanded(pattern))]
    return sorted(glob.glob(os.path.join(glob.escape(str(base)), _expanded(pattern)), recursive=True))
