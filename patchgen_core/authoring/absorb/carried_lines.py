"""The text of a replacement with what was edited in the code that is generated from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher

from patchgen_core.config.replacement import HEAD


def carry_edit(replacement: str, generated: str, edited: str, name_map: Mapping[str, str]) -> str:
    """A replacement's text with the edit that makes ``edited`` of ``generated``; all from ``def`` or ``class`` on.

    Lines that the edit leaves alone stay as they are written in the replacement, where the generated code has them in
    the same layout; elsewhere all of the replacement becomes the edited text. Names that the config maps are the
    config's own again.
    """
    head = HEAD.match(replacement)
    assert head is not None
    base, theirs = (with_own_names(HEAD.sub(head[0], text), name_map) for text in (generated, edited))
    lines = carry_lines(base.split("\n"), replacement.split("\n"), theirs.split("\n"))
    return theirs if lines is None else "\n".join(lines)


def with_own_names(text: str, name_map: Mapping[str, str]) -> str:
    """A piece of generated code with the names that the config maps as the config has them."""
    for own, name in name_map.items():
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w)", own, text)
    return text


def carry_lines(base: list[str], ours: list[str], theirs: list[str]) -> list[str] | None:
    """``ours`` with the differences from ``base`` to ``theirs``; None where one has no place in it."""
    places: dict[int, int] = {-1: -1, len(base): len(ours)}
    for block in SequenceMatcher(None, base, ours, autojunk=False).get_matching_blocks():
        places.update((block.a + i, block.b + i) for i in range(block.size))
    lines = list(ours)
    for kind, i, j, k, m in reversed(SequenceMatcher(None, base, theirs, autojunk=False).get_opcodes()):
        if kind == "equal":
            continue
        if _are_together(places, range(i - 1, j)):
            start = places[i - 1] + 1
        elif _are_together(places, range(i, j + 1)):
            start = places[i]
        else:
            return None
        lines[start : start + j - i] = theirs[k:m]
    return lines


def _are_together(places: Mapping[int, int], numbers: range) -> bool:
    """Whether lines follow each other in the other text as well."""
    there = [places.get(number) for number in numbers]
    return there[0] is not None and there == list(range(there[0], there[0] + len(there)))
