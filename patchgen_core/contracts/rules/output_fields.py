"""PG205: an output carries what upstream's carries."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen_core.codegen.source import Function
from patchgen_core.contracts.inference import Class, Inference
from patchgen_core.contracts.module import Module, Scope, decorator_names
from patchgen_core.contracts.rule import Example, Finding, Replaced, Rule, Subject

_BRANCHED = frozenset(["loss", "logits"])
"""Fields that one way through a function may leave out when another one passes them: training, or generation."""

_MOST_MATCHED = 4
_SHOWN = 60
_UPSTREAM = """
from dataclasses import dataclass


@dataclass
class ModelOutput:
    last_hidden_state: object = None
    hidden_states: object = None
    router_logits: object = None


class Model:
    def forward(self, input_ids):
        outputs = self.language_model(input_ids)
        return ModelOutput(
            last_hidden_state=outputs[0],
            hidden_states=outputs.hidden_states,
            router_logits=outputs.router_logits,
        )
"""


@dataclass(frozen=True)
class _Construction:
    """A call that constructs an output.

    Attributes:
        name: the class.
        call: the call.
        fields: what it passes, by field; without what is None for sure.
        unnamed: how many arguments it passes by position to fields whose names are not known.
        is_open: whether stars pass what cannot be told.
    """

    name: str
    call: ast.Call
    fields: dict[str, ast.expr]
    unnamed: int
    is_open: bool


def check(subject: Subject) -> Iterator[Finding]:
    """Compare what every patched function constructs with what upstream's version constructs."""
    ours, theirs = _Reader(subject.generated, subject.inference), _Reader(subject.upstream, subject.upstream_inference)
    for replaced in subject.replaced:
        constructed = ours.constructions(replaced.node) if replaced.node.name != "__init__" else []
        if not constructed:
            continue
        compared = theirs.constructions(replaced.upstream) if replaced.upstream else []
        later = _set_later(replaced.node)
        groups = list(_pairs(constructed, compared))
        for mine, upstream in groups:
            if upstream:
                found = _lost_in_group(mine, upstream)
            else:
                usual = theirs.usual(mine[0].name)
                found = [(construction, usual, _lost(construction, usual)) for construction in mine if usual]
            for construction, model, fields in found:
                lost = [field for field in fields if field not in later]
                if lost:
                    yield _finding(replaced, construction, model, lost, is_usual=not upstream)


def _finding(
    replaced: Replaced, construction: _Construction, model: _Construction, lost: list[str], is_usual: bool
) -> Finding:
    names = ", ".join(f"'{name}'" for name in lost)
    other = f" for its '{model.name}'" if model.name != construction.name else ""
    passes = "upstream sets wherever it constructs one" if is_usual else f"upstream's version passes{other}"
    message = f"'{replaced.dotted}' constructs '{construction.name}' without {names}, which {passes}"
    value = ast.unparse(model.fields[lost[0]])
    shown = value if len(value) <= _SHOWN else "..."
    hint = f"Pass what upstream passes, such as '{lost[0]}={shown}': who reads the field gets None."
    return Finding(message, hint, construction.call, replaced.dotted)


class _Reader:
    """Finds what a module's functions construct."""

    def __init__(self, module: Module, inference: Inference) -> None:
        self.module, self._inference = module, inference

    def constructions(self, function: Function) -> list[_Construction]:
        """The outputs that a function constructs, in their order in the text."""
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and self._is_output(node)]
        calls.sort(key=lambda call: (call.lineno, call.col_offset))
        return [self._read(call, self.module.scope_of(function)) for call in calls]

    def usual(self, name: str) -> _Construction | None:
        """What every construction of a class of this module passes of the fields that the class declares here."""
        cls = self.module.cls(name)
        found = [c.node for c in self.module.calls if _called(c.node) == name] if cls else []
        read = [made for call in found if not (made := self._read(call, None)).is_open]
        if cls is None or not read:
            return None
        declared = self._declared(cls)
        fields = {
            field: value
            for field, value in read[0].fields.items()
            if field in declared and all(field in other.fields for other in read)
        }
        return _Construction(name, read[0].call, fields, 0, is_open=False)

    def _is_output(self, call: ast.Call) -> bool:
        name = _called(call)
        if not name[:1].isupper():
            return False
        cls = self.module.cls(name)
        if cls is None:
            return _is_output_name(name)
        bases = [base for base in self._inference.bases(Class(self.module, cls)) if base is not None]
        names = (ast.unparse(base).rpartition(".")[2] for found in bases for base in found.node.bases)
        return "dataclass" in decorator_names(cls) or any(map(_is_output_name, names))

    def _read(self, call: ast.Call, scope: Scope | None) -> _Construction:
        name = _called(call)
        cls = self.module.cls(name)
        order = self._inference.fields(Class(self.module, cls)) if cls is not None and call.args else None
        positions = [] if order is None else [field.name for field in order]
        passed = dict(zip(positions, call.args)) | {k.arg: k.value for k in call.keywords if k.arg is not None}
        is_open = any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)
        fields = {field: value for field, value in passed.items() if not _is_none(value, scope)}
        return _Construction(name, call, fields, 0 if positions else len(call.args), is_open)

    def _declared(self, cls: ast.ClassDef) -> set[str]:
        """The fields that a class or a base of it in this module declares."""
        bases = [base for base in self._inference.bases(Class(self.module, cls)) if base is not None]
        statements = (statement for base in bases for statement in base.node.body)
        targets = (statement.target for statement in statements if isinstance(statement, ast.AnnAssign))
        return {target.id for target in targets if isinstance(target, ast.Name)}


def _called(call: ast.Call) -> str:
    """The last name of what a call calls."""
    function = call.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _is_output_name(name: str) -> bool:
    """Whether a class is called as transformers calls its outputs, such as ``BaseModelOutputWithPast``."""
    _, output, after = name.rpartition("Output")
    return bool(output) and (not after or after.startswith("With"))


def _is_none(value: ast.expr, scope: Scope | None) -> bool:
    """Whether an expression is None for sure: the literal, or a local name that is never assigned anything else."""
    if isinstance(value, ast.Constant):
        return value.value is None
    bound = scope.bound.get(value.id, []) if scope is not None and isinstance(value, ast.Name) else []
    values = [binding.value for binding in bound]
    return bool(values) and all(isinstance(v, ast.Constant) and v.value is None for v in values)


def _set_later(function: Function) -> set[str]:
    """The fields that a function assigns, as attributes or items, on an object that it holds in a local name."""
    stores = (node for node in ast.walk(function) if isinstance(getattr(node, "ctx", None), ast.Store))
    found = set()
    for node in stores:
        holder = getattr(node, "value", None)
        if isinstance(holder, ast.Name) and holder.id != "self":
            key = node.slice if isinstance(node, ast.Subscript) else None
            found.add(node.attr if isinstance(node, ast.Attribute) else str(getattr(key, "value", "")))
    return found


def _pairs(
    ours: Sequence[_Construction], theirs: Sequence[_Construction]
) -> Iterator[tuple[list[_Construction], list[_Construction]]]:
    """What a function constructs of each class, with what upstream's version is to be compared.

    That is the same class, or the only other class of upstream's when it stands in the place of the only other one
    of ours; nothing when neither is evident.
    """
    mine, upstream = _by_class(ours), _by_class(theirs)
    only_mine, only_theirs = mine.keys() - upstream.keys(), upstream.keys() - mine.keys()
    other = upstream[next(iter(only_theirs))] if len(only_mine) == len(only_theirs) == 1 else []
    for name, constructions in mine.items():
        yield constructions, upstream.get(name, other)


def _by_class(constructions: Sequence[_Construction]) -> dict[str, list[_Construction]]:
    found: dict[str, list[_Construction]] = {}
    for construction in constructions:
        found.setdefault(construction.name, []).append(construction)
    return found


def _lost_in_group(
    ours: list[_Construction], theirs: list[_Construction]
) -> list[tuple[_Construction, _Construction, list[str]]]:
    """Our constructions that pass less than theirs, each with the one that it is nearest to.

    As many as upstream has are matched one to one. Otherwise each has to pass what one of upstream's passes.
    """
    if len(ours) == len(theirs) <= _MOST_MATCHED:
        orders = (list(zip(ours, order)) for order in itertools.permutations(theirs))
        matched = min(orders, key=lambda pairs: sum(len(_lost(a, b)) for a, b in pairs))
        return [(a, b, lost) for a, b in matched if (lost := _lost(a, b))]
    found = []
    for construction in ours:
        elsewhere = {field for other in ours if other is not construction for field in other.fields} & _BRANCHED
        losses = [(other, [f for f in _lost(construction, other) if f not in elsewhere]) for other in theirs]
        model, lost = min(losses, key=lambda entry: len(entry[1]))
        found += [(construction, model, lost)] if lost else []
    return found


def _lost(ours: _Construction, theirs: _Construction) -> list[str]:
    """The fields that one of upstream's constructions passes and one of ours does not."""
    if ours.is_open:
        return []
    by_position = max(0, ours.unnamed - theirs.unnamed)
    return [field for field in list(theirs.fields)[by_position:] if field not in ours.fields]


_PATCH = """
@config.override_method("Model.forward")
def forward(self, input_ids):
    outputs = self.language_model(input_ids)
    return ModelOutput(last_hidden_state=outputs[0] * 2, hidden_states=outputs.hidden_states)
"""

RULE = Rule(
    code="PG205",
    name="output fields",
    severity="error",
    reason=(
        "An output is a dataclass whose fields default to None, so a field that a hand-made return forgets raises "
        "nothing: `output_hidden_states=True` gives None, and a mixture of experts trained without `router_logits` "
        "adds a load-balancing loss of 0 until its router collapses. A dense model's forward that `name_map` reuses "
        "for its MoE sibling does that: the class gets the sibling's name, the arguments stay the dense model's. "
        "The rule asks for the fields that upstream's version of the method passes; where that constructs nothing, "
        "for those of the module's own classes that upstream sets wherever it constructs them."
    ),
    failing=Example(_PATCH, _UPSTREAM),
    passing=Example(
        _PATCH.replace(
            "hidden_states=outputs.hidden_states", "hidden_states=outputs.hidden_states, router_logits=outputs[-1]"
        ),
        _UPSTREAM,
    ),
    check=check,
)
