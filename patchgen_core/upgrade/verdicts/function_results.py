"""What functions return: how many values, and what each is made by."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from patchgen_core.syntax.forms import listed
from patchgen_core.syntax.nodes import Definition, Function, inside, last_name
from patchgen_core.syntax.signatures import read_parameters
from patchgen_core.upgrade.merging.flow import find_uses
from patchgen_core.upgrade.results import Risk

_DEPTH = 12
_CASTS = frozenset(["to", "type", "type_as", "float", "half", "bfloat16", "double"])
_SAME = {"reshape": "view", "contiguous": "", "clone": ""}
"""Methods that make the same values as another one, or as none."""


def returned_values(node: Definition) -> int:
    """How many values a function's tuples have; 0 when it returns anything else, or tuples of several lengths."""
    if isinstance(node, ast.ClassDef):
        return 0
    lengths = {_length(child.value) for child in inside(node) if isinstance(child, ast.Return)}
    return lengths.pop() if len(lengths) == 1 else 0


def _length(value: ast.expr | None) -> int:
    is_fixed = isinstance(value, ast.Tuple) and not any(isinstance(entry, ast.Starred) for entry in value.elts)
    return len(value.elts) if is_fixed and isinstance(value, ast.Tuple) else 0


def results_change(old: Function, new: Function) -> tuple[Risk, str] | None:
    """What its callers get otherwise from a function than they did, as the end of a sentence; None for nothing that
    can be told."""
    counts = returned_values(old), returned_values(new)
    if counts[0] != counts[1] and all(counts):
        return "must change", f"it returns {counts[1]} values instead of {counts[0]}"
    before, after = _Results(old).parts(), _Results(new).parts()
    if not after or not before:
        return None
    if any(name not in after for name in before):
        return "review", f"it returns {listed([*after])} instead of {listed([*before])}"
    phrases = [_difference(name, before[name], after[name]) for name in before if before[name] != after[name]]
    return ("review", "; ".join(phrases)) if phrases else None


def _difference(name: str, old: frozenset[str], new: frozenset[str]) -> str:
    was, now = (" or ".join(sorted(one - other or one)) for one, other in ((old, new), (new, old)))
    return f"{name} that it returns is {now} instead of {was}"


@dataclass
class _Results:
    """What a function returns, and where the values come from."""

    function: Function
    sources: dict[tuple[object, str], set[object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for use in find_uses(self.function, lambda node: node, ()):
            self.sources.setdefault((use.target, use.name), set()).add(use.source)

    def parts(self) -> Mapping[str, frozenset[str]]:
        """By a name for each value that is returned, what makes it."""
        results: dict[str, set[str]] = {}
        for node in inside(self.function):
            if not isinstance(node, ast.Return) or node.value is None:
                continue
            for name, value in _parts_of(node.value).items():
                results.setdefault(name, set()).update(self._made_by(value, node, 0))
        return {name: frozenset(makers) for name, makers in results.items()}

    def _made_by(self, value: ast.expr, at: ast.stmt, depth: int) -> set[str]:
        """What makes a value that a statement uses: calls, operators, parameters, attributes."""
        if depth > _DEPTH:
            return {"..."}
        if isinstance(value, ast.Name):
            return self._assigned(value.id, at, depth + 1)
        if isinstance(value, ast.Call):
            return self._call(value, at, depth)
        if isinstance(value, ast.BinOp):
            return {f"a value of {type(value.op).__name__}"}
        if isinstance(value, ast.IfExp):
            return self._made_by(value.body, at, depth + 1) | self._made_by(value.orelse, at, depth + 1)
        if isinstance(value, ast.Subscript):
            return {f"a part of {maker}" for maker in self._made_by(value.value, at, depth + 1)}
        if isinstance(value, ast.Attribute):
            return {f"'.{value.attr}'"}
        return {repr(value.value)} if isinstance(value, ast.Constant) else {type(value).__name__}

    def _call(self, call: ast.Call, at: ast.stmt, depth: int) -> set[str]:
        name = last_name(call.func)
        if isinstance(call.func, ast.Attribute) and name in _CASTS:
            return self._cast(call, call.func.value, at, depth)
        if isinstance(call.func, ast.Attribute) and name in _SAME and not _SAME[name]:
            return self._made_by(call.func.value, at, depth + 1)
        return {f"'{_SAME.get(name, name)}(...)'"}

    def _cast(self, call: ast.Call, value: ast.expr, at: ast.stmt, depth: int) -> set[str]:
        """A value in another dtype: that of what, if that is another value's."""
        kinds = []
        for argument in (*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "dtype")):
            is_dtype = isinstance(argument, ast.Attribute) and argument.attr == "dtype"
            if is_dtype and isinstance(argument, ast.Attribute):
                kinds += sorted(self._made_by(argument.value, at, depth + 1))
        makers = self._made_by(value, at, depth + 1)
        return {f"{maker} in the dtype of {kind}" for maker in makers for kind in kinds} if kinds else makers

    def _assigned(self, name: str, at: ast.stmt, depth: int) -> set[str]:
        results: set[str] = set()
        for source in self.sources.get((at, name), {(name,)}):
            if isinstance(source, (ast.Assign, ast.AnnAssign)) and source.value is not None:
                results |= self._bound(name, source, source.value, depth)
            elif isinstance(source, ast.AugAssign):
                results.add(f"a value of {type(source.op).__name__}")
            elif isinstance(source, tuple):
                results.add(f"the parameter '{self._place(name)}'")
            elif isinstance(source, ast.stmt):
                results.add(f"a value of {type(source).__name__}")
        return results or {f"'{name}'"}

    def _place(self, name: str) -> str:
        return name if any(parameter.name == name for parameter in read_parameters(self.function)) else f"*{name}"

    def _bound(self, name: str, source: ast.Assign | ast.AnnAssign, value: ast.expr, depth: int) -> set[str]:
        target = source.targets[-1] if isinstance(source, ast.Assign) else source.target
        if isinstance(target, ast.Tuple):
            names = [getattr(element, "id", "") for element in target.elts]
            if isinstance(value, ast.Tuple) and len(value.elts) == len(names) and name in names:
                return self._made_by(value.elts[names.index(name)], source, depth)
            number = names.index(name) if name in names else 0
            return {f"value {number + 1} of {maker}" for maker in self._made_by(value, source, depth)}
        if isinstance(target, ast.Name) and target.id == name:
            return self._made_by(value, source, depth)
        return {f"'{name}'"}


def _parts_of(value: ast.expr) -> dict[str, ast.expr]:
    """The single values of what is returned, by what a sentence calls them."""
    if isinstance(value, ast.Tuple):
        return {f"value {number}": entry for number, entry in enumerate(value.elts, 1)}
    is_object = isinstance(value, ast.Call) and last_name(value.func)[:1].isupper() and not value.args
    if isinstance(value, ast.Call) and is_object and all(keyword.arg for keyword in value.keywords):
        return {f"'{keyword.arg}'": keyword.value for keyword in value.keywords}
    return {"the value": value}
