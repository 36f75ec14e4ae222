"""Problems that stop a run, and where in the user's files they come from.

One bad config usually has more than one thing wrong with it, so stages collect :class:`Problem`
values and raise them together in one :class:`PatchgenError`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """A line of a file, 1-based; 0 when the problem concerns the file as a whole."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        path = display_path(self.file)
        return f"{path}:{self.line}" if self.line else path


@dataclass(frozen=True)
class Snippet:
    """A place in a file and the lines around it, as they should be printed."""

    location: Location
    text: str


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        message: what is wrong, naming the name that is wrong. One sentence.
        excerpt: source lines that show the problem, as they should be printed.
        code: the contract rule that found it; empty for what is no rule's.
        generated: where it shows in the generated module.
        target: what it is about, for allowances: a class, method or function; empty where nothing asks.
    """

    message: str
    location: Location | None = None
    hint: str = ""
    excerpt: str = ""
    code: str = ""
    generated: Snippet | None = None
    target: str = ""

    @property
    def title(self) -> str:
        """The message, with the rule's code."""
        return f"{self.code} {self.message}".lstrip()

    def __str__(self) -> str:
        first = f"{self.location}: {self.title}" if self.location else self.title
        body = [f"  {self.hint}"] if self.hint else []
        body += [f"  {line}" for line in self.excerpt.splitlines()]
        if self.generated is not None:
            body.append(f"  {self.generated.location}:")
            body += [f"  {line}" for line in self.generated.text.splitlines()]
        return "\n".join([first, *body])


class PatchgenError(Exception):
    """A run cannot go on; ``str()`` of it is what a front end prints: no traceback is needed to act on it."""

    def __init__(
        self, message: str, location: Location | None = None, hint: str = "", excerpt: str = "", code: str = ""
    ) -> None:
        self.problems: tuple[Problem, ...] = (Problem(message, location, hint, excerpt, code),)
        super().__init__(message)

    @classmethod
    def from_problems(cls, problems: Sequence[Problem]) -> PatchgenError:
        """One error that carries all of ``problems`` (at least one)."""
        error = cls(problems[0].message)
        error.problems = tuple(problems)
        return error

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


def display_path(path: str | os.PathLike[str]) -> str:
    """``path`` relative to the working directory when it lies below it, with forward slashes."""
    text = os.fspath(path)
    if not os.path.isabs(text):
        return text.replace(os.sep, "/")
    try:
        relative = os.path.relpath(text)
    except (OSError, ValueError):  # no working directory, or another drive
        return text.replace(os.sep, "/")
    place = text if relative.startswith("..") else relative
    return place.replace(os.sep, "/")


def excerpt(text: str, line: int) -> str:
    """Two lines before and one after a 1-based line of ``text``, with their numbers and a mark."""
    lines = text.split("\n")
    numbers = range(max(line - 2, 1), min(line + 1, len(lines)) + 1)
    return "\n".join(f"{'>' if n == line else ' '} {n:5} | {lines[n - 1]}" for n in numbers)


def list_some(texts: Sequence[str], most: int) -> str:
    """The first few of some texts, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def quote_some(names: Sequence[str], most: int) -> str:
    """:func:`list_some` of names in quotes."""
    return list_some([f"'{name}'" for name in names], most)


def closest(name: str, names: Iterable[str]) -> str | None:
    """The member of ``names`` nearest to ``name``, or None when nothing is near."""
    import difflib

    candidates = sorted(set(names))
    lowered = {candidate.lower(): candidate for candidate in reversed(candidates)}
    near = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6) or [
        lowered[match] for match in difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    ]
    return near[0] if near else None


class NameHint(str):
    """A hint about a name of the user's, which an editor can act on without reading it.

    Attributes:
        name: the name, as it is written.
        nearest: the right one that it may be meant for; empty where none is near.
    """

    name: str
    nearest: str

    def __new__(cls, text: str, name: str = "", nearest: str = "") -> NameHint:
        """The hint as a text, which knows what it is about."""
        hint = super().__new__(cls, text)
        hint.name, hint.nearest = name, nearest
        return hint

    def followed_by(self, more: str) -> NameHint:
        """The hint with more text, about the same name."""
        return NameHint(f"{self} {more}".strip(), self.name, self.nearest)


def did_you_mean(name: str, names: Iterable[str]) -> NameHint:
    """A hint that names the nearest known name, or nothing."""
    match = closest(name, names)
    return NameHint(f"Did you mean '{match}'?" if match else "", name, match or "")


def summarize_error(error: BaseException) -> str:
    """The type of an error and the first line of what it says."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def install_hint(package: str) -> str:
    """What to do about a module that cannot be found."""
    name = package.partition(".")[0]
    return f"Install it; if only some machines have it, add '{name}' to optional_packages in [tool.patchgen]."
