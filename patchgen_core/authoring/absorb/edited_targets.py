"""Hand edits inside a function that a config makes by edits: those of an edit's own lines, and the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from patchgen_core.authoring.absorb.carried_lines import with_own_names
from patchgen_core.codegen.targets import ComposedLine, PlannedPatch
from patchgen_core.config.replacement import Replacement
from patchgen_core.errors import Location
from patchgen_core.syntax.source import shift


@dataclass(frozen=True)
class SplitChange:
    """A change of a generated function.

    Attributes:
        texts: new texts of the functions of edits, by the places of these.
        text: the generated function with these alone; the rest of the change is about lines of upstream's.
    """

    texts: Mapping[Location, str]
    text: str


@dataclass(frozen=True)
class _Line:
    """The place of an edit's function, and one of its lines, from 0."""

    place: Location
    number: int


def split_change(
    lines: Sequence[ComposedLine],
    own: Mapping[Location, tuple[Replacement, PlannedPatch]],
    generated: str,
    edited: str,
) -> SplitChange:
    """A change of what edits make, from ``generated`` to ``edited``, by the edits that it is about.

    What stands beside a line of an edit is the edit's.

    Args:
        lines: what edits make of upstream's function.
        own: the functions of edits, as their configs have them, by their places.
    """
    before, after = generated.split("\n"), edited.split("\n")
    origins = _find_origins(lines, own, before)
    texts: dict[Location, list[str]] = {}
    rest = list(before)
    for kind, i, j, k, m in reversed(SequenceMatcher(None, before, after, autojunk=False).get_opcodes()):
        span = _find_span(origins, i, j) if kind != "equal" else None
        if span is None:
            continue
        like, (place, first), count = span
        replacement, planned = own[place]
        text = texts.setdefault(place, replacement.text.split("\n"))
        names = planned.patch.name_map
        new = [with_own_names(line, names) for line in after[k:m]]
        text[first : first + count] = _moved(new, before[like], text[origins[like].number])
        rest[i:j] = after[k:m]
    return SplitChange({place: "\n".join(text) for place, text in texts.items()}, "\n".join(rest))


def _find_origins(
    lines: Sequence[ComposedLine], own: Mapping[Location, tuple[Replacement, PlannedPatch]], generated: Sequence[str]
) -> dict[int, _Line]:
    """The lines of edits' functions that lines of a generated function are, which has a layout of its own."""
    origins = {}
    keys = [_without_spaces(line.text) for line in lines], [*map(_without_spaces, generated)]
    for block in SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks():
        for number in range(block.size):
            at = lines[block.a + number].location
            for place, (replacement, _) in own.items() if at is not None else ():
                line = at.line - place.line if at is not None and at.file == place.file else 0
                if 0 < line <= replacement.text.count("\n"):
                    origins[block.b + number] = _Line(place, line)
    return origins


def _without_spaces(line: str) -> str:
    return "".join(line.split())


def _find_span(origins: Mapping[int, _Line], first: int, end: int) -> tuple[int, tuple[Location, int], int] | None:
    """What of an edit's function lines from ``first`` to ``end`` of the generated one are: a line of this that is the
    edit's, the place with the line of the function, and how many lines; None where they are not one edit's."""
    if first < end:
        lines = [origins.get(number) for number in range(first, end)]
        start = lines[0]
        if start is None or lines != [_Line(start.place, start.number + n) for n in range(end - first)]:
            return None
        return first, (start.place, start.number), end - first
    for like, behind in ((first - 1, 1), (first, 0)):
        if like in origins:
            return like, (origins[like].place, origins[like].number + behind), 0
    return None


def _moved(lines: Sequence[str], like: str, own: str) -> list[str]:
    """Lines of a generated function as deep as an edit's function has them, which has ``like`` as ``own``.

    Lines that are not as deep as ``like`` stay that much above it.
    """
    depths = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    old, new = (len(text) - len(text.lstrip()) for text in (like, own))
    above = max(0, old - min([old, *depths]))
    return shift(lines, " " * (old - above), " " * max(0, new - above), ())
