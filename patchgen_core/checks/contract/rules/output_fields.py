"""PG205: an output carries what upstream's carries."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from patchgen_core.checks.contract.outputs import Construction, Outputs
from patchgen_core.checks.contract.rule import Example, Finding, Replaced, Rule, Subject
from patchgen_core.syntax.inference import Inference
from patchgen_core.syntax.nodes import Function

_BRANCHED = frozenset(["loss", "logits"])
"""Fields that one way through a function may leave out when another one passes them: training, or generation."""

_MOST_MATCHED = 4
_LONGEST_VALUE = 60
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


def check(subject: Subject) -> Iterator[Finding]:
    """Compare what every patched function constructs with what upstream's version constructs or hands on."""
    ours = Outputs(subject.generated, subject.inference, subject.library)
    theirs = Outputs(subject.upstream, subject.upstream_inference, subject.library)
    for replaced in subject.replaced:
        constructed = [] if replaced.node.name == "__init__" else ours.constructions(replaced.node)
        if not constructed:
            continue
        recorded = ours.recorded(replaced.dotted, replaced.node)
        set_later = {*recorded, *subject.generated.fact(_set_later, replaced.node)}
        compared, upstream_outputs = replaced, theirs
        elsewhere = subject.from_elsewhere(replaced.dotted) if replaced.upstream is None else None
        if elsewhere is not None:
            compared = replace(replaced, upstream=elsewhere[1])
            upstream_outputs = Outputs(elsewhere[0], Inference(elsewhere[0]), subject.library)
        for construction, model, fields in _compare(compared, constructed, ours, upstream_outputs):
            lost = [field for field in fields if field not in set_later]
            if lost:
                yield _describe_loss(replaced, construction, model, lost)


def _compare(
    replaced: Replaced, constructed: list[Construction], ours: Outputs, theirs: Outputs
) -> Iterator[tuple[Construction, Construction, list[str]]]:
    """The constructions of a patched function that lose fields, what each is compared with, and the fields."""
    upstream = replaced.upstream
    if upstream is None:
        compared = []
    elif ours.recorded(replaced.dotted, replaced.node):
        compared = theirs.constructions(upstream)
    else:
        compared = theirs.with_recorded(replaced.dotted, upstream)
    handed_on = theirs.handed_on(upstream) if upstream is not None and not compared else None
    for mine, like in _pairs(constructed, compared):
        if like:
            yield from _lost_in_group(mine, like)
            continue
        usual = theirs.usual(mine[0].name)
        for construction in mine:
            model = handed_on if ours.is_returned(replaced.node, construction.call) else None
            model = model or usual
            if model is not None and not construction.is_open:
                yield construction, model, _lost_fields(construction, model)


def _describe_loss(replaced: Replaced, construction: Construction, model: Construction, lost: list[str]) -> Finding:
    names = ", ".join(f"'{name}'" for name in lost)
    message = f"'{replaced.dotted}' constructs '{construction.name}' without {names}, which {model.passed_by}"
    value = ast.unparse(model.fields[lost[0]])
    value_text = value if len(value) <= _LONGEST_VALUE else "..."
    hint = f"Pass what upstream passes, such as '{lost[0]}={value_text}': code that reads the field gets None."
    return Finding(message, hint, construction.call, replaced.dotted)


def _set_later(function: Function) -> set[str]:
    """The fields that a function assigns, as attributes or items, on an object that it holds in a local name."""
    stores = (node for node in ast.walk(function) if isinstance(getattr(node, "ctx", None), ast.Store))
    names = set()
    for node in stores:
        holder = getattr(node, "value", None)
        if isinstance(holder, ast.Name) and holder.id != "self":
            key = node.slice if isinstance(node, ast.Subscript) else None
            names.add(node.attr if isinstance(node, ast.Attribute) else str(getattr(key, "value", "")))
    return names


def _pairs(
    ours: Sequence[Construction], theirs: Sequence[Construction]
) -> Iterator[tuple[list[Construction], list[Construction]]]:
    """What a function constructs of each class, with what upstream's version is to be compared.

    That is the same class, or the only other class of upstream's when it stands in the place of the only other one
    of ours; nothing when neither is evident.
    """
    mine, upstream = _by_class(ours), _by_class(theirs)
    only_mine, only_theirs = mine.keys() - upstream.keys(), upstream.keys() - mine.keys()
    is_other = len(only_mine) == len(only_theirs) == 1
    other = [_named_otherwise(c) for name in only_theirs for c in upstream[name]] if is_other else []
    for name, constructions in mine.items():
        yield constructions, upstream.get(name, other)


def _named_otherwise(construction: Construction) -> Construction:
    return replace(construction, passed_by=f"{construction.passed_by} for its '{construction.name}'")


def _by_class(constructions: Sequence[Construction]) -> dict[str, list[Construction]]:
    groups: dict[str, list[Construction]] = {}
    for construction in constructions:
        groups.setdefault(construction.name, []).append(construction)
    return groups


def _lost_in_group(
    ours: list[Construction], theirs: list[Construction]
) -> list[tuple[Construction, Construction, list[str]]]:
    """Our constructions that pass less than theirs, each with the one that it is nearest to.

    As many as upstream has are matched one to one. Otherwise each has to pass what one of upstream's passes. What
    passes stars is left out.
    """
    ours, theirs = [c for c in ours if not c.is_open], [c for c in theirs if not c.is_open]
    if not theirs:
        return []
    if len(ours) == len(theirs) <= _MOST_MATCHED:
        orders = (list(zip(ours, order)) for order in itertools.permutations(theirs))
        matched = min(orders, key=lambda pairs: sum(len(_lost_fields(a, b)) for a, b in pairs))
        return [(a, b, lost) for a, b in matched if (lost := _lost_fields(a, b))]
    groups = []
    for construction in ours:
        elsewhere = {field for other in ours if other is not construction for field in other.fields} & _BRANCHED
        losses = [(other, [f for f in _lost_fields(construction, other) if f not in elsewhere]) for other in theirs]
        model, lost = min(losses, key=lambda entry: len(entry[1]))
        groups += [(construction, model, lost)] if lost else []
    return groups


def _lost_fields(ours: Construction, theirs: Construction) -> list[str]:
    """The fields that one of upstream's constructions passes and one of ours does not."""
    keywords = [keyword.arg for keyword in theirs.call.keywords]
    by_position = keywords[: max(0, ours.unnamed - theirs.unnamed)]
    return [field for field in theirs.fields if field not in ours.fields and field not in by_position]


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
        "An output is a dataclass whose fields default to None, so a field that a patch forgets raises nothing. "
        "`output_hidden_states=True` returns None, and a mixture of experts trained without `router_logits` adds a "
        "load-balancing loss of 0 until its router collapses. This happens when `name_map` reuses a dense model's "
        "forward for its MoE sibling: the class gets the sibling's name, and the arguments stay the dense model's. "
        "The rule requires the fields that upstream's version of the method passes. If that version passes on another "
        "model's output, the rule requires that output's fields. Otherwise, if the class is one of the module's own, "
        "it requires the fields that upstream passes wherever it constructs the class."
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
