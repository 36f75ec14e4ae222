"""Three-way merge of what commas separate: arguments, parameters, elements."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from patchgen_core.upgrade.merging.edits import Edits
from patchgen_core.upgrade.merging.text import DefinitionText

REST = "**"
"""What a signature's last parameter is known by if it takes all other keywords."""


@dataclass(frozen=True)
class Element:
    """One of several things that commas separate.

    Attributes:
        node: its syntax; None for the ``*`` and ``/`` of a signature.
        key: its name; empty when it is known by its place.
        dump: its syntax, however it is laid out.
        lead, start, end: where the text behind the comma before it, and where its own starts; and where that ends.
    """

    text: DefinitionText
    node: ast.AST | None
    key: str
    dump: str
    lead: int
    start: int
    end: int

    @property
    def source_text(self) -> str:
        """Its text."""
        return self.text.source.text[self.start : self.end]


Merge = Callable[[Edits, Element, Element, Element], bool]


def read_elements(text: DefinitionText, limits: tuple[int, int], nodes: Sequence[ast.AST]) -> list[Element]:
    """The elements between two brackets, in their order."""
    chunks = text.chunks(*limits)
    if len(nodes) == 1 and isinstance(nodes[0], ast.GeneratorExp):
        limits = limits[0] - 1, limits[1] + 1
    assert len(chunks) == len(nodes), "every element has its chunk"
    return [
        Element(text, node, _element_key(text, node), text.dump(node), chunk.lead, chunk.start, chunk.end)
        for chunk, node in zip(chunks, nodes)
    ]


def _element_key(text: DefinitionText, node: ast.AST) -> str:
    if isinstance(node, ast.keyword):
        return f"{node.arg}=" if node.arg else f"**{text.dump(node.value)}"
    if isinstance(node, ast.Starred):
        return f"*{text.dump(node.value)}"
    if isinstance(node, ast.Tuple) and not hasattr(node, "lineno"):
        return f"{text.dump(node.elts[0])}:"
    return ""


def merge_elements(
    edits: Edits,
    limits: tuple[int, int],
    sides: Sequence[list[Element]],
    merge: Merge,
    differs: Callable[[Element, Element], bool] | None = None,
) -> bool:
    """Apply upstream's changes of a list to ours; returns whether they can be decided.

    Args:
        limits: offsets of what is between the brackets of ours.
        sides: the elements of base, ours and theirs.
        differs: whether an element that one side deleted is another one on the other side.
    """
    differs = differs or _differ
    base, ours, theirs = _keyed(*sides)
    by_key = [{element.key: element for element in side} for side in (base, ours, theirs)]
    if any(len(keys) < len(side) for keys, side in zip(by_key, (base, ours, theirs))):
        return False  # a name twice
    old, mine, new = by_key
    for key in old:
        sides_with = [side for side in (mine, new) if key in side]
        if len(sides_with) == 1 and differs(old[key], sides_with[0][key]):
            return False
    for key in (key for key in mine if key in new):
        if key in old:
            if not merge(edits, old[key], mine[key], new[key]):
                return False
        elif mine[key].dump != new[key].dump:
            return False
    order = _order(base, ours, theirs)
    if order is None:
        return False
    if order != [element.key for element in ours]:
        _rewrite(edits, limits, ours, theirs, order)
    return True


def _differ(one: Element, other: Element) -> bool:
    return one.dump != other.dump


def _keyed(*sides: list[Element]) -> list[list[Element]]:
    """The elements with a key each: the place in the base for those that have no name."""
    base = [element for element in sides[0] if not element.key]
    keyed = []
    for number, side in enumerate(sides):
        bare = [element for element in side if not element.key]
        names = iter(_places(base, bare, "bot"[number]))
        keyed.append([e if e.key else replace(e, key=next(names)) for e in side])
    return _joined(keyed)


def _places(base: list[Element], side: list[Element], mark: str) -> list[str]:
    names = [f"{mark}{number}" for number in range(len(side))]
    matcher = SequenceMatcher(None, [e.dump for e in base], [e.dump for e in side], autojunk=False)
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal" or (kind == "replace" and end - start == last - first):
            names[first:last] = [f"b{number}" for number in range(start, end)]
    return names


def _joined(keyed: list[list[Element]]) -> list[list[Element]]:
    """What both sides added alike has one key."""
    mine = {e.dump: e.key for e in keyed[1] if e.key.startswith("o") and not e.key.endswith("=")}
    keys = {element.key for element in keyed[0]}
    theirs = []
    for element in keyed[2]:
        is_added = element.key not in keys and element.key[0] == "t" and not element.key.endswith("=")
        theirs.append(replace(element, key=mine.get(element.dump, element.key)) if is_added else element)
    return [keyed[0], keyed[1], theirs]


def _order(base: list[Element], ours: list[Element], theirs: list[Element]) -> list[str] | None:
    """The keys of the result in order; None when that cannot be decided."""
    old, mine, new = ([element.key for element in side] for side in (base, ours, theirs))
    common = [key for key in old if key in mine and key in new]
    ranks = [[key for key in side if key in common] for side in (mine, new)]
    result = [key for key in mine if key not in old or key in new]
    if [k for k in ranks[1] if not _is_free(k)] != [k for k in common if not _is_free(k)]:
        if ranks[0] not in (common, ranks[1]):
            return None
        if ranks[0] == common:
            places = iter(ranks[1])
            result = [next(places) if key in common else key for key in result]
    for number, key in enumerate(new):
        if key in old or key in result:
            continue
        before = next((result.index(k) + 1 for k in reversed(new[:number]) if k in result), None)
        following = next((result.index(k) for k in new[number + 1 :] if k in result), len(result))
        at = following if before is None else before
        rivals = [k for k in result[at : at + 1] if k not in old and k not in new]
        if rivals and not all(_is_free(k) or k.endswith("@") for k in (key, *rivals)):
            return None
        result.insert(at, key)
    if REST in result:
        result = [*(key for key in result if key != REST), REST]
    return result


def _is_free(key: str) -> bool:
    """Whether it does not matter where an element stands."""
    return key.endswith(("=", ":")) or key.startswith("**")


@dataclass(frozen=True)
class _Written:
    """An element as it is written: what is before it, itself, and a comment behind its comma."""

    lead: str
    content: str
    remark: str = ""


def _rewrite(
    edits: Edits, limits: tuple[int, int], ours: list[Element], theirs: list[Element], order: list[str]
) -> None:
    """Write the list with the elements in this order."""
    new = {element.key: element for element in theirs}
    if not ours:
        edits.replace(*limits, ", ".join(new[key].source_text for key in order))
        return
    text, source = edits.text, edits.text.source.text
    last = text.chunks(*limits)[-1]
    has_comma = last.comma is not None
    tail = source[last.end if last.comma is None else last.comma + 1 : limits[1]]
    mine, tail = _written(edits, ours, tail)
    first_lead = mine[ours[0].key].lead
    leads = [mine[element.key].lead for element in ours[1:]] or [first_lead]
    break_ = "\n" + text.source.indent(text.line_of(ours[0].start))
    between = break_ if any("\n" in lead for lead in leads) else " "
    mine[ours[0].key] = replace(mine[ours[0].key], lead=between)
    parts = [mine.get(key) or _taken(new[key], between, break_.lstrip("\n")) for key in order]
    result = ""
    for number, part in enumerate(parts):
        lead = part.lead if number else first_lead
        if number and parts[number - 1].remark and "\n" not in lead:
            lead = break_
        comma = "," if has_comma or number + 1 < len(parts) else ""
        result += f"{lead}{part.content}{comma}{part.remark}"
    if parts and parts[-1].remark and "\n" not in tail:
        tail = break_ + tail.lstrip()
    edits.replace(*limits, result + tail if parts else "")


def _taken(element: Element, lead: str, indent: str) -> _Written:
    """An element of upstream's as it is written in ours."""
    return _Written(lead, element.text.moved(element.start, element.end, indent))


def _written(edits: Edits, ours: list[Element], tail: str) -> tuple[dict[str, _Written], str]:
    """Our elements as they are written, and what follows the last one's comma."""
    source = edits.text.source.text
    leads = [source[element.lead : element.start] for element in ours] + [tail]
    remarks = []
    for number, lead in enumerate(leads):
        line, newline, _ = lead.partition("\n")
        remark = line if number and newline and line.strip().startswith("#") else ""
        remarks.append(remark)
        leads[number] = lead[len(remark) :]
    results = {}
    for number, element in enumerate(ours):
        content = edits.take(element.start, element.end)
        results[element.key] = _Written(leads[number], content, remarks[number + 1])
    return results, leads[-1]
