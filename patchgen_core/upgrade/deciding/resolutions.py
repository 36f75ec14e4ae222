"""Conflicts that were solved once, so that the same ones in siblings and forks can be solved the same way."""

from __future__ import annotations

import io
import json
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from patchgen_core.files import read_text, write_files
from patchgen_core.project.cache_folder import cache_folder, prepare_folder
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import is_python
from patchgen_core.upgrade.deciding.choices import Choice, Question
from patchgen_core.upgrade.deciding.sides import Sides, split_marked

FILE = "upgrade-resolutions.json"
"""The file of the cache that holds solved conflicts."""
_FORMAT = 1
_LAYOUT = (tokenize.NL, tokenize.COMMENT, tokenize.ENDMARKER)
_CLASS = re.compile(r"_*[A-Z]\w*")
_WORD = re.compile(r"\w+")

Lines = tuple[str, ...]


@dataclass(frozen=True)
class Resolution:
    """A conflict and what became of it, each moved to column 0, and the config and target where that was."""

    ours: Lines
    base: Lines
    theirs: Lines
    result: Lines
    origin: str

    @property
    def tokens(self) -> list[list[str]]:
        """The code of each side, without comments and layout."""
        return [list(_tokens(side)) for side in (self.ours, self.base, self.theirs)]

    def fits(self, conflict: Sides) -> Lines | None:
        """What the same conflict becomes, at its own indentation and with its own names of classes; None for another
        one."""
        indent = _indentation(conflict)
        sides = [_moved(side, indent) for side in (conflict.ours, conflict.base, conflict.theirs)]
        names = _renamed(self.tokens, [list(_tokens(side)) for side in sides])
        if names is None:
            return None
        text = _WORD.sub(lambda match: names.get(match[0], match[0]), "\n".join(self.result))
        return tuple(" " * indent + line if line else line for line in text.split("\n")) if self.result else ()


class Resolutions:
    """The solved conflicts of a project's cache, or of a file that people share."""

    def __init__(self, project: Project, file: Path | None = None) -> None:
        self._folder = cache_folder(project)
        self.path = file or self._folder / FILE
        self._is_shared = file is not None

    def propose(self, question: Question) -> Choice | None:
        """What a replacement becomes if its conflicts are solved as the same ones were; None where one is new."""
        parts = split_marked("" if question.rebase.is_edit else question.rebase.marked)
        entries = _read(self.path) if any(part.is_conflict for part in parts) else []
        lines: list[str] = []
        origins: dict[str, None] = {}
        for part in parts:
            if not part.is_conflict:
                lines += part.ours
                continue
            fitting = ((entry.fits(part), entry.origin) for entry in reversed(entries))
            result, origin = next(((result, origin) for result, origin in fitting if result is not None), (None, ""))
            if result is None:
                return None
            lines += result
            origins[origin] = None
        text = "\n".join(lines)
        return Choice("again", text, ", ".join(origins)) if origins and is_python(text) else None

    def keep(self, question: Question, text: str) -> None:
        """Remember how the conflicts of a question were solved, as far as the text around them is as it was."""
        solved = _solved("" if question.rebase.is_edit else question.rebase.marked, text)
        new = [_resolution(part, result, _origin(question)) for part, result in solved]
        if new:
            self._write([*_without(_read(self.path), new), *new])

    def forget(self, question: Question) -> None:
        """Remember no more how the conflicts of a question were solved in its own place."""
        conflicts = [part for part in split_marked(question.rebase.marked) if part.is_conflict]
        own = [_resolution(part, (), _origin(question)) for part in conflicts]
        known = _read(self.path)
        left = _without(known, own)
        if left != known:
            self._write(left)

    def _write(self, entries: Iterable[Resolution]) -> None:
        if not self._is_shared:
            prepare_folder(self._folder)
        data = {"format": _FORMAT, "resolutions": [asdict(entry) for entry in entries]}
        write_files([(self.path, json.dumps(data, indent=1) + "\n")])


def _origin(question: Question) -> str:
    config, patch = question.patches[0]
    return f"{config.config}: {patch.target}"


def _without(entries: Iterable[Resolution], others: Iterable[Resolution]) -> list[Resolution]:
    """The entries about other conflicts, or other places, than some."""
    known = [(entry.ours, entry.base, entry.theirs, entry.origin) for entry in others]
    return [e for e in entries if (e.ours, e.base, e.theirs, e.origin) not in known]


def _read(path: Path) -> list[Resolution]:
    """The solved conflicts of a file; none of one that is not there, or not what was written."""
    try:
        data = json.loads(read_text(path) or "{}")
        entries = data["resolutions"] if data["format"] == _FORMAT else []
        return [_entry(entry) for entry in entries]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _entry(entry: dict[str, list[str]]) -> Resolution:
    ours, base, theirs, result = (tuple(map(str, entry[side])) for side in ("ours", "base", "theirs", "result"))
    return Resolution(ours, base, theirs, result, str(entry["origin"]))


def _solved(marked: str, text: str) -> Iterator[tuple[Sides, Lines]]:
    """The conflicts of a text with what stands in their places; none where the text around them is not the same."""
    parts, lines = split_marked(marked), text.split("\n")
    at, results = 0, []
    for number, part in enumerate(parts):
        if not part.is_conflict:
            if lines[at : at + len(part.ours)] != [*part.ours]:
                return
            at += len(part.ours)
            continue
        after = parts[number + 1].ours
        is_last = number + 2 == len(parts)
        starts = [len(lines) - len(after)] if is_last else range(at, len(lines)) if after else []
        end = next((start for start in starts if start >= at and lines[start : start + len(after)] == [*after]), None)
        if end is None:
            return
        results.append((part, tuple(lines[at:end])))
        at = end
    if at == len(lines):
        yield from results


def _resolution(conflict: Sides, result: Lines, origin: str) -> Resolution:
    indent = _indentation(conflict)
    ours, base, theirs = (_moved(side, indent) for side in (conflict.ours, conflict.base, conflict.theirs))
    return Resolution(ours, base, theirs, _moved(result, indent), origin)


def _indentation(conflict: Sides) -> int:
    lines = (line for side in (conflict.ours, conflict.base, conflict.theirs) for line in side if line.strip())
    return min((len(line) - len(line.lstrip()) for line in lines), default=0)


def _moved(lines: Iterable[str], indent: int) -> Lines:
    return tuple(line[min(indent, len(line) - len(line.lstrip())) :] for line in lines)


def _tokens(lines: Sequence[str]) -> Iterator[str]:
    """The tokens of some code, which may be a part of a statement."""
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join([*lines, ""])).readline):
            if token.type not in _LAYOUT:
                yield tokenize.tok_name[token.type] if not token.string.strip() else token.string
    except (tokenize.TokenError, IndentationError):
        yield "..."


def _renamed(old: Sequence[Sequence[str]], new: Sequence[Sequence[str]]) -> dict[str, str] | None:
    """What classes of one conflict are called in another that is else the same: all differ by one prefix; None where
    something else differs."""
    names: dict[str, str] = {}
    prefixes: set[tuple[str, str]] = set()
    for one, other in zip(old, new):
        if len(one) != len(other):
            return None
        for before, after in zip(one, other):
            if before != after:
                pair = _prefixes(before, after)
                if pair is None or names.setdefault(before, after) != after:
                    return None
                prefixes.add(pair)
    same = {token for side, others in zip(old, new) for token, other in zip(side, others) if token == other}
    return names if len(prefixes) < 2 and not same & names.keys() else None


def _prefixes(one: str, other: str) -> tuple[str, str] | None:
    """What two names of classes start with, before what they share; None where they are no such names."""
    if not (_CLASS.fullmatch(one) and _CLASS.fullmatch(other)):
        return None
    for number in range(1, len(one)):
        suffix = one[number:]
        if suffix[0].isupper() and other.endswith(suffix) and len(other) > len(suffix):
            return one[:number], other[: -len(suffix)]
    return None
