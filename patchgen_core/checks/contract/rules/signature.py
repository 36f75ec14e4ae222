"""PG201: a replaced function takes what upstream's takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.checks.contract.rule import Example, Finding, Replaced, Rule, Severity, Subject
from patchgen_core.checks.contract.signature_changes import (
    SignatureChange,
    both_signatures,
    dropped_parameters,
    read_from_kwargs,
    signature_changes,
)
from patchgen_core.syntax.nodes import FUNCTIONS, Function, all_methods, last_name
from patchgen_core.syntax.scopes import Call
from patchgen_core.syntax.signatures import Signature, misfit, read_parameters

_HINT = "Callers outside of this module count on upstream's signature: keep it, if need be as a parameter unused."
_LAST_HINT = "Move it behind upstream's parameters: nothing passes so many by position here, but others may."
_KWARGS_HINT = "Its **kwargs are read for it, or handed on. Name it as a parameter all the same if you can."
_SAVING_HINT = "generate() passes it where a forward names it, to save work. Take it, for the memory that it saves."
_OWN_HINT = "Only the config's own code calls it here, but whoever counts on upstream's signature does not fit."
_FOR_CACHES = frozenset(["cache_position"])
"""What only ``generate()`` passes to a model."""
_UNSEEN_HINT = "No call is in sight that lacks it, but whoever counts on upstream's signature does not pass it."
_PREPARING = "prepare_inputs_for_generation"
_PREPARING_HINT = "generate() passes all but the ids by name, and what is left out here does not reach the forward."
_SAVING = frozenset(["logits_to_keep", "num_logits_to_keep"])
"""What generic code passes only to a forward that names it, and nothing but work depends on."""
_SAFE_HINT = "Every call in this module fits, but whoever counts on upstream's signature does not: keep it if you can."
_UPSTREAM = """
class Model:
    def get_placeholder_mask(self, input_ids, inputs_embeds, image_features=None, **kwargs):
        return input_ids == 7

    def forward(self, input_ids, inputs_embeds):
        return self.get_placeholder_mask(input_ids, inputs_embeds)
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Compare every replaced method and function with upstream's, and what differs with the calls of it."""
    for replaced in subject.replaced:
        if replaced.upstream is None:
            continue
        for change in _changes(subject, replaced, replaced.upstream):
            weight, hint = _judged(subject, replaced, replaced.upstream, change)
            if weight is not None:
                message = f"'{replaced.dotted}' {change.message}"
                yield Finding(message, hint, replaced.node, replaced.dotted, weight=weight)


def _changes(subject: Subject, replaced: Replaced, upstream: Function) -> Iterator[SignatureChange]:
    """The changes of a signature, and those of the parameters that it drops apart by how much they matter."""
    ours, theirs = both_signatures(replaced, upstream)
    dropped: list[str] = []
    for change in signature_changes(replaced, upstream):
        if change.kind == "dropped":
            dropped += change.names
        elif change.kind == "renamed" and _is_another(subject, replaced, change, ours, theirs):
            dropped.append(change.theirs)
        else:
            yield change
    dropped.sort(key=[parameter.name for parameter in theirs.parameters].index)
    handed_on = _handed_on(subject, replaced, ours) if dropped else set()
    groups = ({*dropped} - handed_on - _SAVING, handed_on - _SAVING, _SAVING)
    for group in groups:
        names = [name for name in dropped if name in group]
        if names:
            yield dropped_parameters(names, ours)


def _is_another(
    subject: Subject, replaced: Replaced, change: SignatureChange, ours: Signature, theirs: Signature
) -> bool:
    """Whether a parameter only happens to stand in the place of upstream's: it means something else.

    That is evident where both have defaults, and a function takes both of them or their names have no word in common;
    not where a call passes the place.
    """
    mine = change.names[0]
    if _reaching(subject, replaced, mine, ours, theirs):
        return False
    has_defaults = not any(p is None or p.required for p in (ours.find(mine), theirs.find(change.theirs)))
    is_alike = bool(set(mine.split("_")) & set(change.theirs.split("_")))
    return has_defaults and (not is_alike or _differ(subject, change.theirs, mine))


def _reaching(subject: Subject, replaced: Replaced, name: str, ours: Signature, theirs: Signature) -> list[Call]:
    """The calls that pass something by position where a parameter of ours stands."""
    place = [parameter.name for parameter in ours.positional].index(name)
    calls = subject.callers.calls_of(replaced.dotted)
    return [call for call in calls if _counts_on_upstream(subject, call, ours, theirs, place)]


def _judged(
    subject: Subject, replaced: Replaced, upstream: Function, change: SignatureChange
) -> tuple[Severity | None, str]:
    """How much a change matters to those who call the function, and what to do; None when nobody can notice."""
    if change.kind == "binding":
        return "error", _HINT
    callers = subject.callers
    ours, theirs = both_signatures(replaced, upstream)
    calls, are_known = callers.calls_of(replaced.dotted), callers.are_known(replaced.dotted)
    reaching = []
    if change.kind in ("inserted", "moved", "renamed"):
        reaching = _reaching(subject, replaced, change.names[0], ours, theirs)
    if change.kind == "inserted" or (change.kind == "moved" and are_known):
        if not reaching:
            return "warning", _LAST_HINT
        return "error", f"'{reaching[0].owner}' passes so many by position. {_HINT}"
    named = {change.theirs} if change.kind == "renamed" else set(change.names)
    if change.kind in ("renamed", "dropped") and not reaching:
        if named <= _handed_on(subject, replaced, ours):
            return "warning", _KWARGS_HINT
        is_needless = named <= _SAVING or (
            named <= _FOR_CACHES and (ours.takes_kwargs or _is_left_out(subject, replaced.dotted, named))
        )
        if is_needless and not any(named & {keyword.arg for keyword in call.node.keywords} for call in calls):
            return "warning", _SAVING_HINT
    lost = {p.name for p in theirs.parameters if ours.find(p.name) is None}
    is_fitting = not reaching and not any(misfit(call.node, ours) for call in calls)
    if change.kind != "limited" and is_fitting and callers.are_own(replaced.dotted):
        return (None, "") if change.kind in ("required", "star") else ("warning", _OWN_HINT)
    fit = all(_fits(subject, call, ours, change, lost) for call in calls)
    is_safe = are_known and fit
    if change.kind in ("required", "star") and fit and not is_safe and not callers.are_outside(replaced.dotted):
        return "warning", _UNSEEN_HINT
    if ours.takes_kwargs and change.kind in ("dropped", "moved") and replaced.dotted.endswith(f".{_PREPARING}"):
        return "warning", _PREPARING_HINT
    if not is_safe or (change.kind == "renamed" and reaching and _differ(subject, change.theirs, change.names[0])):
        return "error", _HINT
    return (None, "") if change.kind in ("required", "star") else ("warning", _SAFE_HINT)


def _handed_on(subject: Subject, replaced: Replaced, ours: Signature) -> set[str]:
    """The parameters that a function reads from its ``**kwargs``, or hands on in them to others that take them.

    ``generate()`` refuses what a model with a head takes so, unless the class prepares it.
    """
    names = read_from_kwargs(replaced.node, ours.kwargs_name) if ours.kwargs_name else set()
    for call, callees in subject.callers.evident if ours.kwargs_name else ():
        stars = [keyword.value for keyword in call.node.keywords if keyword.arg is None]
        if call.owner == replaced.dotted and ours.kwargs_name in map(last_name, stars):
            taken = [{parameter.name for parameter in callee.signature.parameters} for callee in callees]
            taken += [] if callees else _taken_elsewhere(subject, call, replaced)
            passed = {keyword.arg for keyword in call.node.keywords}
            names |= (set.intersection(*taken) if taken else set()) - passed
    name, _, method = replaced.dotted.partition(".")
    if method != "forward" or not subject.callers.is_for_users(name):
        return names
    prepares = subject.generated.function(f"{name}.{_PREPARING}")
    return names & {parameter.name for parameter in read_parameters(prepares)} if prepares is not None else set()


def _is_left_out(subject: Subject, dotted: str, names: set[str]) -> bool:
    """Whether the config's own code prepares a head's inputs for ``generate()``, and names none of some parameters."""
    name, _, method = dotted.partition(".")
    prepares = subject.generated.function(f"{name}.{_PREPARING}")
    if prepares is None or method != "forward" or not subject.is_own(f"{name}.{_PREPARING}"):
        return False
    passed = {str(node.value) for node in ast.walk(prepares) if isinstance(node, ast.Constant)}
    passed |= {keyword.arg or "" for keyword in ast.walk(prepares) if isinstance(keyword, ast.keyword)}
    return not names & passed


def _taken_elsewhere(subject: Subject, call: Call, replaced: Replaced) -> list[set[str]]:
    """What an imported function takes by keyword: every parameter of upstream's where it hands on its ``**kwargs``."""
    imports = (
        subject.generated.index.imports.get(call.node.func.id, []) if isinstance(call.node.func, ast.Name) else []
    )
    statement, alias = imports[0] if len(imports) == 1 else (None, None)
    if not isinstance(statement, ast.ImportFrom) or alias is None:
        return []
    definition = subject.library.find(statement.module or "", alias.name)
    if definition is None or not isinstance(definition[1], FUNCTIONS):
        return []
    function, taken = definition[1], {parameter.name for parameter in read_parameters(definition[1])}
    kwargs = function.args.kwarg.arg if function.args.kwarg is not None else None
    stars = [k.value for c in ast.walk(function) if isinstance(c, ast.Call) for k in c.keywords if k.arg is None]
    if kwargs is not None and kwargs in map(last_name, stars) and replaced.upstream is not None:
        taken |= {parameter.name for parameter in read_parameters(replaced.upstream)}
    return [taken]


def _counts_on_upstream(subject: Subject, call: Call, ours: Signature, theirs: Signature, place: int) -> bool:
    """Whether a call passes an argument at a place of ours that is meant for upstream's parameter there."""
    arguments = call.node.args
    star = next((n for n, argument in enumerate(arguments) if isinstance(argument, ast.Starred)), None)
    if star is not None and star <= place:
        return True
    is_ours = len(arguments) > len(theirs.positional) or (
        len(arguments) > place and last_name(arguments[place]) == ours.positional[place].name
    )
    return len(arguments) > place and not (is_ours and subject.is_own(call.owner))


def _fits(subject: Subject, call: Call, ours: Signature, change: SignatureChange, lost: set[str]) -> bool:
    """Whether a call passes what ours takes, and nothing that only upstream's would look at."""
    node = call.node
    if misfit(node, ours) or lost & {keyword.arg for keyword in node.keywords}:
        return False
    has_stars = any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords)
    if change.kind == "required" and has_stars:
        names = [parameter.name for parameter in ours.positional]
        places = {name: names.index(name) if name in names else len(node.args) for name in change.names}
        return all(subject.callers.supplies(call, place, name) for name, place in places.items())
    if change.kind == "renamed" and subject.is_own(call.owner) and change.names[0] in {k.arg for k in node.keywords}:
        return True  # its author knows the name, whatever else the stars hold
    return not has_stars


def _differ(subject: Subject, theirs: str, ours: str) -> bool:
    """Whether two names stand for different things: some function has a parameter of each."""
    modules = (subject.generated, subject.upstream)
    nodes = [node for m in modules for definitions in m.index.definitions.values() for node in definitions]
    functions = [f for node in nodes for f in ([node] if isinstance(node, FUNCTIONS) else all_methods(node))]
    return any({theirs, ours} <= {parameter.name for parameter in read_parameters(f)} for f in functions)


RULE = Rule(
    code="PG201",
    name="signature",
    severity="error",
    reason=(
        "A method is called from more places than its own file: by transformers' generation and processors, by "
        "trainers, by upstream code in this module that no patch touches. An override that drops, renames or moves "
        "a parameter, or loses `**kwargs`, works in the one call its author had in mind. Elsewhere it raises, or "
        "worse: an argument passed by position lands in another parameter, and one that `**kwargs` swallows is "
        "never looked at. Where every caller stands in the module and fits, or is the config's own, a parameter that "
        "is renamed or dropped is a warning, and one more that is required is none; one that `**kwargs` hand on to "
        "what takes it is a warning too. A new parameter in front of upstream's is an error where a call passes so "
        "many by position, else a warning."
    ),
    failing=Example(
        """
@config.override_method("Model.get_placeholder_mask")
def get_placeholder_mask(self, input_ids, image_features=None, **kwargs):
    return input_ids == 8
""",
        _UPSTREAM.replace("(input_ids, inputs_embeds)\n", "(input_ids, inputs_embeds=inputs_embeds)\n"),
    ),
    passing=Example(
        """
@config.override_method("Model.get_placeholder_mask")
def get_placeholder_mask(self, input_ids, inputs_embeds, image_features=None, scale=1, **kwargs):
    return input_ids == 8
""",
        _UPSTREAM,
    ),
    check=check,
)
