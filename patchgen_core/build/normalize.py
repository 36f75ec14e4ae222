"""ruff over a batch of texts: ``ruff check --fix``, then ``ruff format``, each one process.

The texts are written into a temporary mirror of the folders they belong to and ruff is run from its root
with the settings that count at their real place, so that neither the temporary folder nor an output
folder given on the command line changes the result. Beside that, a run of its own looks for syntax errors
and undefined names, which no setting and no ``noqa`` may hide, in a mirror that nothing is fixed in. A single
text goes through ruff's standard input, as a file of a mirror that is not written.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.build.aside_call import AsideCall
from patchgen_core.build.likely_texts import LikelyTexts
from patchgen_core.build.ruff_setup import RuffSettings, find_ruff, ruff_version, run_ruff
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


Meanwhile = Callable[[Normalized], object]


def normalize(
    texts: Sequence[RawText], project: Project, likely: LikelyTexts | None = None, meanwhile: Meanwhile | None = None
) -> list[Normalized]:
    """Normalize texts with the project's ruff settings; a PatchgenError when ruff cannot run with these.

    Args:
        likely: the last versions of texts that were normalized by themselves; gets this one.
        meanwhile: is called, while ruff is at work on a single text, with what will most likely become of it.
    """
    results: list[Normalized | None] = [None] * len(texts)
    ruff_settings = RuffSettings(project)
    groups: dict[Path | None, list[int]] = {}
    for number, text in enumerate(texts):
        groups.setdefault(ruff_settings.file(text.path.parent), []).append(number)
    for settings, numbers in groups.items():
        batch = [texts[number] for number in numbers]
        ruff = _Ruff(settings, ruff_settings)
        single = _Single(batch[0], ruff, likely or LikelyTexts()) if len(batch) == 1 else None
        for number, result in zip(numbers, [single.run(meanwhile)] if single is not None else _run_batch(batch, ruff)):
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


class _Ruff:
    """ruff as it works on generated modules by a file of settings."""

    def __init__(self, settings: Path | None, ruff_settings: RuffSettings) -> None:
        project = ruff_settings.project
        self.base = settings.parent if settings else project.base
        self._settings, self._all_settings = settings, ruff_settings
        self._files = ruff_settings.chain(settings)
        self._options = ["--no-cache", "--quiet", *ruff_settings.arguments(settings)]
        roots = ruff_settings.source_roots(settings)
        self._options += ["--config", f"src={json.dumps(roots)}"]  # absolute: the mirror has none of these modules
        ignored = project.ruff_extra_ignore
        self._ignore = [f"--extend-ignore={','.join(ignored)}"] if ignored else []
        find_ruff()  # sysconfig, which it asks, must not be asked by two threads before it was by one

    def fix(self, arguments: list[str], folder: Path, files: int = 1, text: str | None = None) -> str:
        """What ``ruff check --fix-only`` prints about these files, or the one that ``text`` is."""
        command = ["check", "--fix-only", "--exit-zero", *self._options, *self._ignore, *arguments]
        return run_ruff(command, folder, self._files, files, text)

    def format(self, arguments: list[str], folder: Path, files: int = 1, text: str | None = None) -> str:
        """What ``ruff format`` prints about these."""
        return run_ruff(["format", *self._options, *arguments], folder, self._files, files, text)

    @staticmethod
    def inspect(arguments: list[str], folder: Path, files: int = 1, text: str | None = None) -> str:
        """Syntax errors and undefined names in these, as JSON, whatever settings and comments ignore."""
        command = ["check", "--isolated", "--select=F821", "--ignore-noqa", "--no-cache", "--quiet"]
        command += ["--exit-zero", "--output-format=json", *arguments]
        return run_ruff(command, folder, (), files, text)

    def version(self, folder: Path) -> str:
        """ruff's version, where the settings make the result hang on that; else empty."""
        return ruff_version(folder) if self._all_settings.hangs_on_version(self._settings) else ""


def _run_batch(texts: Sequence[RawText], ruff: _Ruff) -> list[Normalized]:
    with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
        inspected, fixed = (Path(folder).resolve() / name for name in ("inspected", "fixed"))
        inspected.mkdir()
        copies = [inspected / f"{number}.py" for number in range(len(texts))]
        for path, text in zip(copies, texts):
            path.write_bytes(text.text.encode())
        inspection = AsideCall(lambda: ruff.inspect(list(map(str, copies)), inspected, len(copies)))
        paths = write_mirror(texts, ruff.base, fixed)
        ruff.fix(list(map(str, paths)), fixed, len(paths))
        by_file = _read_complaints(inspection.result())
        complaints = [tuple(by_file.get(str(path), ())) for path in copies]
        is_whole = list(map(_is_whole, complaints))
        if any(is_whole):
            whole = [str(path) for path, fine in zip(paths, is_whole) if fine]
            ruff.format(whole, fixed, len(whole))
        version = ruff.version(fixed)
        return [
            Normalized(path.read_bytes().decode() if fine else text.text, of_text, version)
            for path, text, of_text, fine in zip(paths, texts, complaints, is_whole)
        ]


class _Single:
    """The same for one text. What its fixes come to most likely is laid out beside them; where they come to something
    else, that is."""

    def __init__(self, raw: RawText, ruff: _Ruff, likely: LikelyTexts) -> None:
        self._raw, self._ruff, self._likely = raw, ruff, likely
        path = raw.path.relative_to(ruff.base) if raw.path.is_relative_to(ruff.base) else Path(raw.path.name)
        self._arguments = ["--stdin-filename", str(path), "-"]

    def run(self, meanwhile: Meanwhile | None) -> Normalized:
        """Normalize it."""
        with tempfile.TemporaryDirectory(prefix="patchgen-") as name:
            folder, text = Path(name).resolve(), self._raw.text
            inspection = AsideCall(lambda: self._ruff.inspect(["--stdin-filename", "0.py", "-"], folder, text=text))
            laid_out = AsideCall(lambda: self._lay_out(folder))
            version = self._ruff.version(folder)
            final = self._likely.foresee_final(self._raw.path, text) if meanwhile is not None else None
            if meanwhile is not None and final is not None:
                meanwhile(Normalized(final, ruff=version))
            complaints = tuple(c for of_file in _read_complaints(inspection.result()).values() for c in of_file)
            if not _is_whole(complaints):
                laid_out.join()
                return Normalized(text, complaints, version)
            return Normalized(laid_out.result(), complaints, version)

    def _lay_out(self, folder: Path) -> str:
        text, likely = self._raw.text, self._likely.foresee_fixed(self._raw.path, self._raw.text)
        ahead = AsideCall(lambda: self._format(folder, likely)) if likely is not None else None
        fixed = self._ruff.fix(self._arguments, folder, text=text)
        final = ahead.result() if ahead is not None and fixed == likely else self._format(folder, fixed)
        self._likely.note(self._raw.path, text, fixed, final)
        return final

    def _format(self, folder: Path, text: str) -> str:
        return self._ruff.format(self._arguments, folder, text=text)


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


def _read_complaints(output: str) -> dict[str, list[Complaint]]:
    """What an inspection has to say of each file."""
    by_file: dict[str, list[Complaint]] = {}
    for entry in json.loads(output):
        message = entry["message"]
        name = message.split("`")[1] if entry.get("code") == "F821" else ""
        by_file.setdefault(entry["filename"], []).append(Complaint(entry["location"]["row"], message, name))
    return by_file


def _is_whole(complaints: Iterable[Complaint]) -> bool:
    """Whether a text has no syntax error."""
    return all(complaint.name for complaint in complaints)
