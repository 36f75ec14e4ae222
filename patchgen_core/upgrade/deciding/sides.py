"""The sides of a text with conflict markers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_OURS, _BASE, _THEIRS, _END = "<<<<<<< ", "||||||| ", "=======", ">>>>>>> "


@dataclass(frozen=True)
class Sides:
    """The lines that both sides of a merge agree on, or, in a conflict, what each side has."""

    ours: tuple[str, ...]
    base: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    is_conflict: bool = False


def split_marked(text: str) -> tuple[Sides, ...]:
    """The parts of a text between and inside of its markers; none when the markers are not in their order."""
    try:
        return tuple(_parts(text.split("\n")))
    except ValueError:
        return ()


def _parts(lines: list[str]) -> Iterator[Sides]:
    common: list[str] = []
    sides: list[list[str]] = []
    for line in lines:
        starts = line.startswith(_OURS), line.startswith(_BASE), line == _THEIRS, line.startswith(_END)
        if not any(starts):
            (sides[-1] if sides else common).append(line)
        elif starts.index(True) != len(sides):
            raise ValueError(line)
        elif starts[3]:
            ours, base, theirs = sides
            yield Sides(tuple(ours), tuple(base), tuple(theirs), True)
            sides = []
        else:
            if not sides:
                yield Sides(tuple(common))
                common = []
            sides.append([])
    if sides:
        raise ValueError("no end")
    yield Sides(tuple(common))


def has_markers(text: str) -> bool:
    """Whether a line of a text is a conflict marker."""
    return any(line.startswith((_OURS, _BASE, _END)) for line in text.split("\n"))


def take_side(parts: tuple[Sides, ...], side: str) -> str:
    """The text with one side of every conflict: ``ours`` or ``theirs``."""
    return "\n".join(line for part in parts for line in (getattr(part, side) if part.is_conflict else part.ours))
