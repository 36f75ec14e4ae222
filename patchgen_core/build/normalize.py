"""ruff over a batch of texts: ``ruff check --fix``, then ``ruff format``, each one process.

The texts are written into a temporary mirror of the folders they belong to and ruff is run from its root
with the settings that count at their real place, so that neither the temporary folder nor an output
folder given on the command line changes the result. Beside that, a run of its own looks for syntax errors
and undefined names, which no setting and no ``noqa`` may hide, in a mirror that nothing is fixed in.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from patchgen_core.build.ruff_setup import RuffSettings, find_ruff, ruff_version, run_ruff
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project


@dataclass(frozen=True)
class RawText:
    """One text to normalize; its path decides which ruff settings apply and is never written."""

    path: Path
    text: str


@dataclass(frozen=True)
class Complaint:
    """A syntax error or an undefined name in a text, as it was before ruff's fixes; no ``name`` for a syntax error."""

    line: int
    message: str
    name: str = ""


@dataclass(frozen=True)
class Normalized:
    """A text after ruff, and what ruff found in it that must not be (then it is as it was).

    ``ruff`` is the version of ruff where the project's settings make the text hang on it; else empty.
    """

    text: str
    complaints: tuple[Complaint, ...] = ()
    ruff: str = ""


def normalize(texts: Sequence[RawText], project: Project) -> list[Normalized]:
    """Normalize texts with the project's ruff settings; a PatchgenError when ruff cannot run with these."""
    results: list[Normalized | None] = [None] * len(texts)
    ruff_settings = RuffSettings(project)
    groups: dict[Path | None, list[int]] = {}
    for number, text in enumerate(texts):
        groups.setdefault(ruff_settings.file(text.path.parent), []).append(number)
    for settings, numbers in groups.items():
        batch = [texts[number] for number in numbers]
        for number, result in zip(numbers, _run_batch(batch, settings, ruff_settings)):
            results[number] = result
    return [result for result in results if result is not None]


def format_texts(texts: Sequence[str], folder: Path, project: Project) -> list[str]:
    """Texts laid out as ``ruff format`` does with the settings of a folder; a PatchgenError when ruff cannot run."""
    if not texts:
        return []
    ruff_settings = RuffSettings(project)
    settings = ruff_settings.file(folder)
    with tempfile.TemporaryDirectory(prefix="patchgen-") as name:
        paths = write_mirror(
            [RawText(folder / f"{number}.py", text) for number, text in enumerate(texts)], folder, Path(name)
        )
        options = ["--no-cache", "--quiet", *ruff_settings.arguments(settings)]
        run_ruff(["format", *options, *map(str, paths)], Path(name), ruff_settings.chain(settings), len(paths))
        return [path.read_bytes().decode() for path in paths]


def _run_batch(texts: Sequence[RawText], settings: Path | None, ruff_settings: RuffSettings) -> list[Normalized]:
    project, files = ruff_settings.project, ruff_settings.chain(settings)
    with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
        inspected, fixed = (Path(folder).resolve() / name for name in ("inspected", "fixed"))
        inspected.mkdir()
        base = settings.parent if settings else project.base
        find_ruff()  # sysconfig, which it asks, must not be asked by two threads before it was by one
        inspection = _Inspection([inspected / f"{number}.py" for number in range(len(texts))], texts)
        inspection.start()  # it takes as long as the fixes do
        paths = write_mirror(texts, base, fixed)
        options = ["--no-cache", "--quiet", *ruff_settings.arguments(settings)]
        roots = ruff_settings.source_roots(settings)
        options += ["--config", f"src={json.dumps(roots)}"]  # absolute, because the mirror has none of these modules
        ignore = [f"--extend-ignore={','.join(project.ruff_extra_ignore)}"] if project.ruff_extra_ignore else []
        run_ruff(["check", "--fix", "--exit-zero", *options, *ignore, *map(str, paths)], fixed, files, len(paths))
        complaints = inspection.complaints()
        is_whole = [all(complaint.name for complaint in of_text) for of_text in complaints]
        if any(is_whole):
            whole = [str(path) for path, fine in zip(paths, is_whole) if fine]
            run_ruff(["format", *options, *whole], fixed, files, len(whole))
        version = ruff_version(fixed) if ruff_settings.hangs_on_version(settings) else ""
        return [
            Normalized(path.read_bytes().decode() if fine else text.text, of_text, version)
            for path, text, of_text, fine in zip(paths, texts, complaints, is_whole)
        ]


def write_mirror(texts: Sequence[RawText], base: Path, root: Path) -> list[Path]:
    """Write texts below a folder as their files lie below ``base``; returns where each of them is."""
    paths: list[Path] = []
    for text in texts:
        path = root / (text.path.relative_to(base) if text.path.is_relative_to(base) else text.path.name)
        while path in paths:
            path = path.with_name(f"_{path.name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.text.encode())
        paths.append(path)
    return paths


class _Inspection(Thread):
    """Looks for syntax errors and undefined names in texts at ``paths``, whatever settings and comments ignore."""

    def __init__(self, paths: Sequence[Path], texts: Sequence[RawText]) -> None:
        super().__init__(daemon=True)
        self._paths = paths
        for path, text in zip(paths, texts):
            path.write_bytes(text.text.encode())
        self._output = ""
        self._error: PatchgenError | None = None

    def run(self) -> None:
        """Run ruff."""
        arguments = ["check", "--isolated", "--select=F821", "--ignore-noqa", "--no-cache", "--quiet"]
        arguments += ["--exit-zero", "--output-format=json", *map(str, self._paths)]
        try:
            self._output = run_ruff(arguments, self._paths[0].parent, files=len(self._paths))
        except PatchgenError as error:
            self._error = error

    def complaints(self) -> list[tuple[Complaint, ...]]:
        """What it has found in each file; a PatchgenError when ruff cannot be run."""
        self.join()
        if self._error is not None:
            raise self._error
        by_file: dict[str, list[Complaint]] = {}
        for entry in json.loads(self._output):
            message = entry["message"]
            name = message.split("`")[1] if entry.get("code") == "F821" else ""
            by_file.setdefault(entry["filename"], []).append(Complaint(entry["location"]["row"], message, name))
        return [tuple(by_file.get(str(path), ())) for path in self._paths]
