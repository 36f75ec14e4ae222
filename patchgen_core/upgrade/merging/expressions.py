"""Three-way merge of expressions."""

from __future__ import annotations

import ast
from collections.abc import Container
from dataclasses import dataclass

from patchgen_core.upgrade.merging.edits import Edits
from patchgen_core.upgrade.merging.lists import Element, merge_elements, read_elements
from patchgen_core.upgrade.merging.passed_on import is_passed_on, only_reads
from patchgen_core.upgrade.merging.text import DefinitionText

_ATOMS = (ast.Name, ast.Constant, ast.JoinedStr, ast.FormattedValue)
_LISTS = (ast.List, ast.Set, ast.Tuple, ast.Dict)
_OPERATIONS = (ast.BinOp, ast.BoolOp, ast.Compare, ast.UnaryOp)
_LOOSE = (*_OPERATIONS, ast.IfExp, ast.Lambda, ast.Await, ast.NamedExpr, ast.Tuple)


@dataclass(frozen=True)
class Spot:
    """A part of a syntax tree and the offsets that its brackets may reach to."""

    text: DefinitionText
    node: ast.AST
    low: int
    high: int

    @property
    def dump(self) -> str:
        """Its syntax."""
        return self.text.dump(self.node)

    @property
    def span(self) -> tuple[int, int]:
        """Its offsets, with the brackets around it."""
        assert isinstance(self.node, ast.expr)
        return self.text.outer(self.node, self.low, self.high)

    @property
    def words(self) -> list[str]:
        """Its tokens."""
        return [token.string for token in self.text.tokens_in(*self.span)]

    def part(self, node: ast.AST) -> Spot:
        """A part of it."""
        if isinstance(self.node, ast.expr):
            return Spot(self.text, node, self.text.source.start(self.node), self.text.source.end(self.node))
        return Spot(self.text, node, self.low, self.high)

    def inside(self, node: ast.AST) -> Spot:
        """A part of it that is within its last brackets."""
        assert isinstance(self.node, ast.expr)
        return Spot(self.text, node, *self.text.brackets(self.text.source.end(self.node)))


def merge_expression(edits: Edits, base: Spot, ours: Spot, theirs: Spot) -> bool:
    """Apply upstream's change of an expression to ours; False where it cannot be decided, after some edits perhaps."""
    if theirs.dump in (base.dump, ours.dump):
        return True
    if ours.dump != base.dump:
        state = edits.state
        if _merge_parts(edits, base, ours, theirs):
            return True
        edits.go_back(state)
        return _merge_wrapped(edits, base, ours, theirs)
    if not isinstance(ours.node, ast.expr):
        return False
    state = edits.state
    if base.words == ours.words or not _merge_parts(edits, base, ours, theirs):
        edits.go_back(state)
        edits.replace(*ours.span, theirs.text.moved(*theirs.span, _indent(ours)))
    return True


def _merge_wrapped(edits: Edits, base: Spot, ours: Spot, theirs: Spot) -> bool:
    """One side has the old expression as a part of a new one, and the other another in its place."""
    if isinstance(base.node, _ATOMS) or not isinstance(base.node, ast.expr):
        return False
    changed = ours if any(theirs.text.dump(node) == base.dump for node in ast.walk(theirs.node)) else theirs
    if type(changed.node) is not type(base.node) or _called(changed.node) != _called(base.node):
        return False  # not that expression with a change, but another one
    inside = [[node for node in ast.walk(s.node) if s.text.dump(node) == base.dump] for s in (ours, theirs)]
    if [len(nodes) for nodes in inside] == [1, 0]:
        source = ours.text.source
        old, text = inside[0][0], _bracketed(theirs.text.moved(*theirs.span, _indent(ours)), theirs.node)
        assert isinstance(old, ast.expr)
        edits.replace(source.start(old), source.end(old), text)
        return True
    if [len(nodes) for nodes in inside] == [0, 1]:
        source, span, old = theirs.text.source, theirs.span, inside[1][0]
        assert isinstance(old, ast.expr)
        before, after = source.text[span[0] : source.start(old)], source.text[source.end(old) : span[1]]
        if "\n" in before + after:
            return False
        mine = _bracketed(ours.text.source.text[slice(*ours.span)], ours.node)
        edits.replace(*ours.span, f"{before}{mine}{after}")
        return True
    return False


def _called(node: ast.AST) -> str:
    return ast.dump(node.func) if isinstance(node, ast.Call) else ""


def _bracketed(text: str, node: ast.AST) -> str:
    """An expression's text, in brackets where it may need them inside another one."""
    return f"({text})" if isinstance(node, _LOOSE) and not text.startswith("(") else text


def _indent(spot: Spot) -> str:
    return spot.text.source.indent(spot.text.line_of(spot.span[0]))


def _merge_parts(edits: Edits, base: Spot, ours: Spot, theirs: Spot) -> bool:
    kind = type(ours.node)
    if not type(base.node) is kind is type(theirs.node) or isinstance(ours.node, _ATOMS):
        return False
    if isinstance(ours.node, ast.Call):
        return _merge_call(edits, base, ours, theirs)
    if isinstance(ours.node, _LISTS) and len({_length(spot.node) for spot in (base, ours, theirs)}) > 1:
        return _merge_list(edits, base, ours, theirs)
    if isinstance(ours.node, ast.Attribute):
        return _merge_attribute(edits, base, ours, theirs)
    if isinstance(ours.node, ast.Subscript) and _differ_apart(base, ours, theirs, "value", "slice"):
        return False  # another part of another thing
    if isinstance(ours.node, ast.Tuple) and len({_length(spot.node) for spot in (base, ours, theirs)}) > 2:
        return False  # which one is which is decided by their number
    return all(merge_field(edits, name, base, ours, theirs) for name in ours.node._fields)


def _differ_apart(base: Spot, ours: Spot, theirs: Spot, first: str, second: str) -> bool:
    """Whether one side changed one field and the other side another."""
    return any(
        _differ(base.node, one.node, first, ours) and _differ(base.node, other.node, second, ours)
        for one, other in ((ours, theirs), (theirs, ours))
    )


def _differ(one: ast.AST, other: ast.AST, name: str, spot: Spot) -> bool:
    return spot.text.dump(getattr(one, name)) != spot.text.dump(getattr(other, name))


def _length(node: ast.AST) -> int:
    parts: list[ast.expr] = getattr(node, "elts", []) or getattr(node, "values", [])
    return len(parts)


def merge_field(edits: Edits, name: str, base: Spot, ours: Spot, theirs: Spot) -> bool:
    """Apply upstream's change of one field of a node, whatever is in it; whether that can be decided."""
    values = [getattr(spot.node, name) for spot in (base, ours, theirs)]
    if all(isinstance(value, list) for value in values):
        if len({len(value) for value in values}) > 1:
            dumps = [[ours.text.dump(node) for node in value] for value in values]
            return dumps[2] in dumps[:2]
        return all(_merge_values(edits, list(row), base, ours, theirs) for row in zip(*values))
    return _merge_values(edits, values, base, ours, theirs)


def _merge_values(edits: Edits, values: list[object], base: Spot, ours: Spot, theirs: Spot) -> bool:
    old, mine, new = values
    if isinstance(old, ast.AST) and isinstance(mine, ast.AST) and isinstance(new, ast.AST):
        if isinstance(mine, (ast.operator, ast.unaryop, ast.boolop, ast.cmpop)):
            return type(old) is type(mine) is type(new)  # brackets depend on it
        if isinstance(mine, ast.arguments):
            return ast.dump(new) in (ast.dump(old), ast.dump(mine))
        inner = "slice" if isinstance(ours.node, ast.Subscript) and mine is ours.node.slice else ""
        spots = [(s.inside if inner else s.part)(node) for s, node in zip((base, ours, theirs), (old, mine, new))]
        return merge_expression(edits, *spots)
    if isinstance(new, ast.AST):
        return any(isinstance(value, ast.AST) and ast.dump(value) == ast.dump(new) for value in (old, mine))
    return new in (old, mine)


def _merge_attribute(edits: Edits, base: Spot, ours: Spot, theirs: Spot) -> bool:
    nodes = [spot.node for spot in (base, ours, theirs)]
    old, mine, new = (node for node in nodes if isinstance(node, ast.Attribute))
    if old.attr == mine.attr == new.attr:
        return merge_expression(edits, *(s.part(n.value) for s, n in zip((base, ours, theirs), (old, mine, new))))
    dumps = [ours.text.dump(node.value) for node in (old, mine, new)]
    if len(set(dumps)) > 1 or mine.attr != old.attr:
        return False
    end = ours.text.source.end(mine)
    edits.replace(end - len(mine.attr), end, new.attr)
    return True


def _merge_call(edits: Edits, base: Spot, ours: Spot, theirs: Spot) -> bool:
    """Arguments are merged for calls of the same function only: another one takes others."""
    calls = [spot.node for spot in (base, ours, theirs)]
    old, mine, new = (call for call in calls if isinstance(call, ast.Call))
    changed = [_arguments(spot, call) != _arguments(base, old) for spot, call in ((ours, mine), (theirs, new))]
    dumps = [spot.text.dump(call.func) for spot, call in ((base, old), (ours, mine), (theirs, new))]
    for function, dump, other_changed in ((mine.func, dumps[1], changed[1]), (new.func, dumps[2], changed[0])):
        if dump != dumps[0] and other_changed and not _is_same_method(old.func, function):
            return False
    if not merge_expression(edits, base.part(old.func), ours.part(mine.func), theirs.part(new.func)):
        return False
    counts = [len(call.args) for call in (old, mine, new)]
    if counts[0] not in counts[1:] and changed[0] and changed[1]:
        return False  # what a place stands for is decided by those before it
    given = _given_by_theirs(ours, theirs, mine, new)
    if _collide(edits, old, mine, new, given):
        return False
    lists = [_call_elements(spot, call) for spot, call in ((base, old), (ours, mine), (theirs, new))]
    lists[1] = [element for element in lists[1] if element.key.removesuffix("=") not in given]
    edits.notes += [f"`**{starred}`, which upstream passes now, has `{key}`" for key, starred in given.items()]
    return merge_elements(edits, ours.text.brackets(ours.text.source.end(mine)), lists, _merge_element)


def _given_by_theirs(ours: Spot, theirs: Spot, mine: ast.Call, new: ast.Call) -> dict[str, str]:
    """The keywords of our call whose values are in what upstream's alone passes with ``**``, each with its name."""
    starred = [{ast.unparse(k.value) for k in call.keywords if not k.arg} for call in (mine, new)]
    named = {k.arg for k in new.keywords}
    return {
        keyword.arg: name
        for name in sorted(starred[1] - starred[0])
        for keyword in mine.keywords
        if keyword.arg
        and keyword.arg not in named
        and only_reads(theirs.text.definition, name)
        and is_passed_on(ours.text.definition, mine, keyword, name)
    }


def _collide(edits: Edits, old: ast.Call, mine: ast.Call, new: ast.Call, given: Container[str]) -> bool:
    """Whether an argument that one side names is in what the other side passes with ``**``, as far as can be seen;
    those that are `given` by it are not passed twice."""
    named = [{k.arg for k in call.keywords if k.arg} - {k.arg for k in old.keywords} for call in (mine, new)]
    named[0] = {key for key in named[0] if key not in given}
    starred = [{ast.unparse(k.value) for k in call.keywords if not k.arg} for call in (old, mine, new)]
    added = [starred[1] - starred[0], starred[2] - starred[0]]
    if added[0] and named[1] - named[0]:
        return True
    if added[1] - added[0] and any(_reads_entry(edits, x, key) for x in added[1] for key in named[0]):
        return True
    if added[0] and added[1] and added[0] != added[1]:
        both = " and ".join(f"`**{name}`" for name in sorted(added[0] | added[1]))
        edits.notes.append(f"{both} are now passed to `{ast.unparse(mine.func)}`: no name may be in both")
    return False


def _reads_entry(edits: Edits, name: str, key: str | None) -> bool:
    """Whether our text reads an entry of a dict and leaves it there."""
    for node in ast.walk(edits.text.source.tree):
        entry = getattr(node, "slice", None)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            entry = node.args[0] if node.args and ast.unparse(node.func.value) == name else None
        elif not isinstance(node, ast.Subscript) or ast.unparse(node.value) != name:
            continue
        if isinstance(entry, ast.Constant) and entry.value == key:
            return True
    return False


def _is_same_method(one: ast.expr, other: ast.expr) -> bool:
    """Whether two functions are one method of what two calls make, such as ``self.q_proj(x).view``."""
    if not isinstance(one, ast.Attribute) or not isinstance(other, ast.Attribute) or one.attr != other.attr:
        return False
    return isinstance(one.value, ast.Call) and isinstance(other.value, ast.Call)


def _arguments(spot: Spot, call: ast.Call) -> list[str]:
    return [spot.text.dump(argument) for argument in (*call.args, *call.keywords)]


def _call_elements(spot: Spot, call: ast.Call) -> list[Element]:
    parts: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    nodes = sorted(parts, key=lambda node: (node.lineno, node.col_offset))
    return read_elements(spot.text, spot.text.brackets(spot.text.source.end(call)), nodes)


def _merge_list(edits: Edits, base: Spot, ours: Spot, theirs: Spot) -> bool:
    lists = []
    for spot in (base, ours, theirs):
        assert isinstance(spot.node, ast.expr)
        if spot.text.source.segment(spot.node)[-1] not in ")]}":
            return False
        limits = spot.text.brackets(spot.text.source.end(spot.node))
        nodes: list[ast.AST] = list(getattr(spot.node, "elts", ()))
        if isinstance(spot.node, ast.Dict):
            if None in spot.node.keys:
                return False
            nodes = [ast.Tuple([key, value]) for key, value in zip(spot.node.keys, spot.node.values)]  # type: ignore[list-item]
        lists.append((limits, read_elements(spot.text, limits, nodes)))
    return merge_elements(edits, lists[1][0], [elements for _, elements in lists], _merge_element)


def _merge_element(edits: Edits, base: Element, ours: Element, theirs: Element) -> bool:
    nodes = [_value(element.node) for element in (base, ours, theirs)]
    spots = [Spot(e.text, n, e.start, e.end) for e, n in zip((base, ours, theirs), nodes) if n is not None]
    return len(spots) == 3 and merge_expression(edits, *spots)


def _value(node: ast.AST | None) -> ast.AST | None:
    """What an element with a name is worth; both of a dict's pairs have the same key."""
    if isinstance(node, ast.Tuple) and not hasattr(node, "lineno"):
        return node.elts[1]
    return node.value if isinstance(node, (ast.keyword, ast.Starred)) else node
