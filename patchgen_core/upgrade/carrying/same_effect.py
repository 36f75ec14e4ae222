"""Whether a function is the same without edits that upstream has made by itself by now. When in doubt it is not."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.forms import PROSE, contrasted, form, is_same_code
from patchgen_core.syntax.nodes import COMPOUND, Function, statements
from patchgen_core.syntax.signatures import read_parameters
from patchgen_core.upgrade.carrying.carried_edit import CarriedEdit, DeclaredEdit, compose_edits
from patchgen_core.upgrade.carrying.definitions import ReleaseDefinition
from patchgen_core.upgrade.carrying.parameters import PARAMETERS, parameter_name
from patchgen_core.upgrade.carrying.values import head_form, names_read_by
from patchgen_core.upgrade.merging.flow import find_uses


@dataclass(frozen=True)
class Sides:
    """A function with all edits of a config, and as it will be without those that upstream has made; and upstream's
    own, old and new, with the new one's decorators."""

    before: Function
    after: Function
    old: Function
    new: Function
    decorators: Sequence[ast.expr]


Releases = tuple[ReleaseDefinition, ReleaseDefinition]
"""The function that edits are of, in the old release and in the new one."""


def are_all_upstreams(edits: Sequence[DeclaredEdit], releases: Releases, is_upstreams: Callable[[str], bool]) -> bool:
    """Whether the new release's function is what all edits make of the old one's."""
    try:
        before, new = compose_edits(edits, releases[0]), compose_edits([], releases[1])
    except PatchgenError:
        return False
    names = {name for edit in edits for name in names_read_by(edit)}
    return is_same_code(before, new, ignore=PROSE) and all(map(is_upstreams, names))


def find_doubts(
    edits: Sequence[DeclaredEdit],
    carried: Sequence[CarriedEdit],
    releases: Releases,
    is_upstreams: Callable[[str], bool],
) -> dict[int, str]:
    """Why edits that upstream has made cannot just go, by their numbers; none where all of them can.

    Args:
        edits, carried: all edits of a function, in the config's order, and what becomes of each.
        is_upstreams: whether a name means the same to the generated module and to upstream's.
    """
    going = [number for number, one in enumerate(carried) if one.state == "now upstream"]
    staying = [one for one in carried if one.state != "now upstream"]
    if any(one.conflict is not None or one.state in ("gone", "ambiguous") for one in staying):
        return dict.fromkeys(going, "whether it can go shows once the function's other edits are carried over")
    try:
        after = compose_edits([one.edit for one in staying], releases[1])
    except PatchgenError as error:
        return dict.fromkeys(going, f"the function's other edits do not fit without it: {error.problems[0].message}")
    return find_doubts_of(after, edits, carried, releases, is_upstreams)


def find_doubts_of(
    after: Function,
    edits: Sequence[DeclaredEdit],
    carried: Sequence[CarriedEdit],
    releases: Releases,
    is_upstreams: Callable[[str], bool],
) -> dict[int, str]:
    """The same of a function that edits have become ``after``."""
    own = compose_edits([], releases[0]), compose_edits([], releases[1])
    sides = Sides(compose_edits(edits, releases[0]), after, *own, releases[1].node.decorator_list)
    doubts: dict[int, str] = {}
    for number, (edit, one) in enumerate(zip(edits, carried)):
        if one.state == "now upstream":
            doubt = _doubt(edit, one, sides, is_upstreams) or _made_twice(sides)
        else:
            is_other = one.conflict is not None and edit.patch.kind in PARAMETERS
            doubt = one.conflict.reason if is_other and one.conflict is not None else ""
        doubts |= {number: doubt} if doubt else {}
    return doubts


def _doubt(edit: DeclaredEdit, carried: CarriedEdit, sides: Sides, is_upstreams: Callable[[str], bool]) -> str:
    if edit.patch.kind in PARAMETERS:
        return _parameter_doubt(edit, sides)
    other = next((name for name in sorted(names_read_by(edit)) if not is_upstreams(name)), None)
    if other is not None:
        return f"upstream's code is the edit's, but the config's '{other}' may be another than upstream's"
    return _other_value(carried.theirs, sides)


# --- parameters ------------------------------------------------------------------------------------


def _parameter_doubt(edit: DeclaredEdit, sides: Sides) -> str:
    """Why an edit of a parameter cannot just go, though upstream's function has it, or has it no more; empty if it
    can."""
    name, is_removal = parameter_name(edit), edit.patch.kind == "parameter_removal"
    what = f"upstream {'no longer has a' if is_removal else 'now has the'} parameter '{name}'"
    order = _positional(sides.old if is_removal else sides.before)
    count = order.index(name) + 1 if name in order else 0
    ours, theirs = (_positional(function)[:count] for function in (sides.before, sides.after))
    if ours != theirs:
        both = f"({', '.join(ours)}) with the edit and ({', '.join(theirs)}) without it"
        return f"{what}, but calls by position begin with {both}"
    if any(_mentions(node, name) for decorator in sides.decorators for node in ast.walk(decorator)):
        return f"{what}, and a decorator of upstream's names it"
    (uses, texts), (own, own_texts) = _uses(sides.after, name), _uses(sides.new, name)
    if is_removal and own:
        return f"{what}, but its code has the name"
    if uses == own:
        return ""
    other = next((text for way, text in texts.items() if uses[way] > own[way]), "")
    if not other:
        return f"{what}, and an edit that stays takes out what upstream does with it"
    if not own:
        return f"{what}; whether it means in `{other}` what the edit meant cannot be told"
    theirs_text = next(iter(own_texts.values()))
    return f"{what} and uses it in `{theirs_text}`; with the edit's own `{other}`, it may be used twice for the same"


def _positional(function: Function) -> list[str]:
    """The parameters that callers can pass by position."""
    return [parameter.name for parameter in read_parameters(function) if parameter.kind != "keyword"]


def _uses(function: Function, name: str) -> tuple[Counter[str], dict[str, str]]:
    """How often a name is used in which way: as which argument of which function, or in which statement; and the first
    statement of each."""
    ways, texts = Counter[str](), dict[str, str]()
    for statement in statements(function.body):
        for way in _ways(statement, name, head_form(statement), isinstance(statement, COMPOUND)):
            ways[way] += 1
            texts.setdefault(way, ast.unparse(statement).split("\n")[0])
    return ways, texts


def _ways(node: ast.AST, name: str, way: str, is_head: bool) -> Iterator[str]:
    """How the nodes that mention a name use it, each time; of a statement with blocks, in its head alone."""
    if _mentions(node, name):
        yield way
    for child in ast.iter_child_nodes(node):
        if is_head and isinstance(child, ast.stmt):
            continue
        yield from _ways(child, name, _argument(node, child) or way, is_head)


def _argument(node: ast.AST, child: ast.AST) -> str:
    """Which argument of which function a part of an expression is; empty for none."""
    if not isinstance(node, ast.Call) or child is node.func:
        return ""
    place = child.arg if isinstance(child, ast.keyword) else next(n for n, a in enumerate(node.args) if a is child)
    return f"{form(node.func)} {place}"


def _mentions(node: ast.AST, name: str) -> bool:
    names = (getattr(node, "id", None), getattr(node, "arg", None), getattr(node, "value", None))
    return name in [one for one in names if isinstance(one, str)]


# --- code ------------------------------------------------------------------------------------------


def _other_value(code: str, sides: Sides) -> str:
    """Which value upstream's code at the place of an edit uses otherwise than the edit's; empty for none."""
    place = _Place(ast.parse(code))
    if not any(map(place.is_in, statements(sides.after.body))):
        return "upstream's code is the edit's, but cannot be told from other code of the function"
    before, after = (place.find_sources(function) for function in (sides.before, sides.after))
    for name in sorted(before.keys() | after.keys()):
        ours, theirs = before.get(name, {}), after.get(name, {})
        if ours.keys() != theirs.keys():
            was, now = (" or ".join(sorted(texts.values())) for texts in (ours, theirs))
            was, now = contrasted(was, now)
            return f"upstream's code is the edit's, but '{name}' comes from `{now}` there instead of `{was}`"
    return ""


@dataclass(frozen=True)
class _Place:
    """Code that both the edit and upstream have: some statements, or an expression."""

    code: ast.Module

    @cached_property
    def _forms(self) -> frozenset[str]:
        return frozenset(head_form(node) for node in ast.walk(self.code) if isinstance(node, ast.stmt))

    @cached_property
    def _expression(self) -> str:
        """The form of an expression; empty for statements."""
        (node, *others) = self.code.body
        return form(node.value) if isinstance(node, ast.Expr) and not others else ""

    def is_in(self, node: ast.stmt) -> bool:
        """Whether it is a statement, or stands in one, whatever is in this one's blocks."""
        if head_form(node) in self._forms:
            return True
        parts = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.stmt)]
        inner = (each for part in parts for each in ast.walk(part) if isinstance(each, ast.expr))
        return bool(self._expression) and any(form(each) == self._expression for each in inner)

    def find_sources(self, function: Function) -> dict[str, dict[str, str]]:
        """Where the values of the names in it come from: the form of each statement, with its first line."""
        texts: dict[object, str] = {}

        def label(node: ast.stmt) -> object:
            text = "" if self.is_in(node) else head_form(node)
            texts[text] = ast.unparse(node).split("\n")[0]
            return text

        names = {node.id for node in ast.walk(self.code) if isinstance(node, ast.Name)}
        results: dict[str, dict[str, str]] = {}
        for use in find_uses(function, label, ()):
            name = use.name.lstrip("*")
            if not use.target and name.partition(".")[0] in names:
                source = f"the parameter {use.source[0]}" if isinstance(use.source, tuple) else str(use.source)
                results.setdefault(name, {})[source] = texts.get(use.source, source)
        return results


def _made_twice(sides: Sides) -> str:
    """What upstream's new code does and an edit that stays does as well; empty for nothing."""
    old, new, after = (Counter(map(head_form, statements(f.body))) for f in (sides.old, sides.new, sides.after))
    for node in statements(sides.after.body):
        key = head_form(node)
        if new[key] and not old[key] and after[key] > new[key]:
            text = ast.unparse(node).split("\n")[0]
            return f"upstream now has `{text}` itself, and an edit that stays adds it as well"
    return ""
