"""ruff over a batch of texts: ``ruff check --fix``, then ``ruff format``, each one process.

The texts are written into a temporary mirror of the folders they belong to and ruff is run from its root
with the settings that count at their real place, so that neither the temporary folder nor an output
folder given on the command line changes the result. Before that, a run of its own looks for syntax errors
and undefined names, which no setting and no ``noqa`` may hide.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.project import Project, read_toml


@dataclass(frozen=True)
class Text:
    """One text to normalize.

    Attributes:
        path: the file it is for; decides which ruff settings apply and is never written.
        text: its source.
    """

    path: Path
    text: str


@dataclass(frozen=True)
class Complaint:
    """A syntax error or an undefined name in a text, as it was before ruff's fixes.

    Attributes:
        line: 1-based.
        message: ruff's words.
        name: the undefined name; empty for a syntax error.
    """

    line: int
    message: str
    name: str = ""


@dataclass(frozen=True)
class Normalized:
    """A text after ruff, and what ruff found in it that must not be (then it is as it was)."""

    text: str
    complaints: tuple[Complaint, ...] = ()


def normalize(texts: Sequence[Text], project: Project) -> list[Normalized]:
    """Normalize texts with the project's ruff settings.

    Raises:
        PatchgenError: ruff is missing or cannot run with these settings.
    """
    results: list[Normalized | None] = [None] * len(texts)
    groups: dict[Path | None, list[int]] = {}
    for number, text in enumerate(texts):
        settings = None if project.ruff_isolated else _settings(text.path, project.base)
        groups.setdefault(settings, []).append(number)
    for settings, numbers in groups.items():
        batch = [texts[number] for number in numbers]
        for number, result in zip(numbers, _run_batch(batch, settings, project)):
            results[number] = result
    return [result for result in results if result is not None]


def _settings(path: Path, root: Path) -> Path | None:
    """The file ruff takes its settings from for ``path``: the nearest, up to the project's root."""
    for folder in path.parents:
        for name in (".ruff.toml", "ruff.toml"):
            if (folder / name).is_file():
                return folder / name
        pyproject = folder / "pyproject.toml"
        if pyproject.is_file() and _ruff_table(pyproject):
            return pyproject
        if folder == root:
            break
    return None


def _run_batch(texts: Sequence[Text], settings: Path | None, project: Project) -> list[Normalized]:
    with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
        mirror = Path(folder).resolve()
        base = settings.parent if settings else project.base
        paths = []
        for text in texts:
            below = text.path.relative_to(base) if text.path.is_relative_to(base) else Path(text.path.name)
            path = mirror / below
            while path in paths:
                path = path.with_name(f"_{path.name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.text.encode())
            paths.append(path)
        complaints = _inspect(list(map(str, paths)), mirror)
        broken = {path for path, found in complaints.items() if not all(c.name for c in found)}
        whole = [str(path) for path in paths if str(path) not in broken]
        options = ["--no-cache", "--quiet", *(["--config", str(settings)] if settings else ["--isolated"])]
        options += ["--config", _source_roots(settings, base)]
        ignore = [f"--extend-ignore={','.join(project.ruff_extra_ignore)}"] if project.ruff_extra_ignore else []
        if whole:
            _ruff(["check", "--fix", "--exit-zero", *options, *ignore, *whole], mirror)
            _ruff(["format", *options, *whole], mirror)
        return [Normalized(path.read_bytes().decode(), tuple(complaints.get(str(path), ()))) for path in paths]


def _source_roots(settings: Path | None, base: Path) -> str:
    """ruff's ``src`` setting with absolute folders: the mirror has none of the project's own modules.

    Import sorting looks there for what is first-party.
    """
    roots = [base, base / "src"]
    while settings is not None:
        table = _ruff_table(settings)
        if "src" in table:
            roots = [settings.parent / root for root in table["src"]]
            break
        settings = settings.parent / os.path.expanduser(table["extend"]) if "extend" in table else None
    return f"src={json.dumps([str(root) for root in roots])}"


def _ruff_table(path: Path) -> dict[str, Any]:
    """The ruff settings of a file; empty when it has none."""
    data = read_toml(path)
    if path.name == "pyproject.toml":
        tool = data.get("tool", {})
        data = tool.get("ruff", {}) if isinstance(tool, dict) else {}
    return data if isinstance(data, dict) else {}


def _inspect(paths: list[str], folder: Path) -> dict[str, list[Complaint]]:
    """Syntax errors and undefined names, whatever the project's settings and comments ignore."""
    arguments = ["check", "--isolated", "--select=F821", "--ignore-noqa", "--no-cache", "--quiet"]
    output = _ruff([*arguments, "--exit-zero", "--output-format=json", *paths], folder)
    found: dict[str, list[Complaint]] = {}
    for entry in json.loads(output):
        message, name = entry["message"], ""
        if entry.get("code") == "F821":
            name = message.split("`")[1]
        found.setdefault(entry["filename"], []).append(Complaint(entry["location"]["row"], message, name))
    return found


def _ruff(arguments: list[str], folder: Path) -> str:
    try:
        from ruff.__main__ import find_ruff_bin  # type: ignore[import-untyped]

        command = [os.fsdecode(find_ruff_bin()), *arguments]
        env = {name: value for name, value in os.environ.items() if not name.startswith("RUFF_")}
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8")
    except (ImportError, OSError) as error:
        raise PatchgenError(f"ruff cannot be run: {error}", None, "Install it: pip install ruff.") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().replace(str(folder) + os.sep, "")
        raise PatchgenError("ruff failed on the generated modules", excerpt=said)
    return done.stdout
