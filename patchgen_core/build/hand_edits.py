"""What people changed in a generated file: found before it is written over, and kept."""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.errors import Location, Problem, display_path
from patchgen_core.files import read_text, short_hash
from patchgen_core.project.cache_folder import cache_folder, prepare_folder
from patchgen_core.project.project import Project
from patchgen_core.syntax.diffs import apply_diff
from patchgen_core.syntax.forms import is_same_syntax, listed
from patchgen_core.syntax.header import is_generated, is_of_another_generator, read_fingerprint

COPIES = "edited"
"""The folder beside what is kept between runs that holds files as people had edited them."""
_MOST_RANGES = 5
_LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


@dataclass(frozen=True)
class HandEdit:
    """A generated file that is not as it was written.

    Attributes:
        text: as it is on disk.
        written: its text when it was generated; None where that cannot be told.
        lines: ranges of its lines that differ from that, counted from 1; an empty range where lines are gone.
    """

    path: Path
    text: str
    written: str | None
    lines: tuple[range, ...] = ()

    def problem(self, config: str) -> Problem:
        """That it would be lost, and what to do; ``config`` is the file that declares what is generated."""
        at = Location(str(self.path), max(1, self.lines[0].start) if self.lines else 1)
        if not is_generated(self.text):
            message = "generating would overwrite this file, which no generator wrote"
            return Problem(message, at, "Move it away; --discard-edits overwrites it and keeps a copy.")
        where = _where(self.lines) if self.lines else "the place is unknown without its .diff"
        declare = f"'patchgen absorb {display_path(config)}' turns the edits into patches"
        hint = f"{declare}; --discard-edits overwrites it and keeps a copy."
        return Problem(f"this generated file was edited by hand: {where}", at, hint)


def find_hand_edit(artifact: Artifact) -> HandEdit | None:
    """What was edited in the module of an artifact since it was generated; None where nothing was but its layout.

    Raises:
        PatchgenError: the file cannot be read.
    """
    text = read_text(artifact.path)
    return find_edits_of(artifact, text) if text else None


def find_edits_of(artifact: Artifact, text: str) -> HandEdit | None:
    """The same for a text that stands for the module.

    Raises:
        PatchgenError: the diff cannot be read.
    """
    if not text.strip() or is_as_written(text) or is_of_another_generator(text):
        return None
    unix = text.replace("\r\n", "\n")
    written = as_written(artifact, unix, read_text(artifact.diff_path))
    if written is None:
        return HandEdit(artifact.path, text, None)
    if has_same_words(written, unix):
        return None
    return HandEdit(artifact.path, text, written, _changed_lines(written, unix))


def is_as_written(text: str) -> bool:
    """Whether a module is what a generator of this kind wrote, whatever its line ends."""
    mark = read_fingerprint(text.replace("\r\n", "\n"))
    return mark is not None and mark.sealed


def as_written(artifact: Artifact, text: str, diff: str | None) -> str | None:
    """An edited module as it was when it was generated; None where that cannot be told.

    It is what the config still makes, or upstream's text with the checked-in ``diff``, if the hash in the header of
    ``text`` is of that.
    """
    mark = read_fingerprint(text)
    now = read_fingerprint(artifact.text)
    if mark is not None and now is not None and mark.output == now.output:
        return artifact.text
    patched = apply_diff(artifact.base, diff) if diff else None
    patched_mark = read_fingerprint(patched) if patched else None
    return patched if patched_mark is not None and patched_mark.sealed else None


def copy_path(project: Project, path: Path, text: str) -> Path:
    """Where a copy of an edited file goes, beside what is kept between runs; the same text always goes to the same
    place, in a folder that is there afterwards.

    Raises:
        PatchgenError: the folder cannot be made.
    """
    folder = cache_folder(project)
    prepare_folder(folder)
    return folder / COPIES / f"{path.stem}-{short_hash(text)}{path.suffix}"


def has_same_words(one: str, other: str) -> bool:
    """Whether two sources differ in their layout alone; comments count, and so does what stands in a block."""
    try:
        return _words(one) == _words(other) and is_same_syntax(ast.parse(one), ast.parse(other))
    except (tokenize.TokenError, SyntaxError):
        return False


def _words(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type not in _LAYOUT]


def _changed_lines(old: str, new: str) -> tuple[range, ...]:
    matcher = difflib.SequenceMatcher(None, old.split("\n"), new.split("\n"), autojunk=False)
    return tuple(range(k + 1, m + 1) for kind, _, _, k, m in matcher.get_opcodes() if kind != "equal")


def _where(lines: tuple[range, ...]) -> str:
    """Ranges of lines as words."""
    names = [str(r.start) if len(r) < 2 else f"{r.start} to {r[-1]}" for r in lines[:_MOST_RANGES]]
    more = len(lines) - _MOST_RANGES
    names += [f"{more} more place{'s' * (more > 1)}"] if more > 0 else []
    return f"line{'s' * (len(names) > 1 or len(lines[0]) > 1)} {listed(names)}"
