"""How much a change of a signature matters to those who call the function."""

from __future__ import annotations

from patchgen_core.checks.contract.changed_function import PREPARING, ChangedFunction
from patchgen_core.checks.contract.rule import Severity
from patchgen_core.checks.contract.signature_changes import SignatureChange

SAVING = frozenset(["logits_to_keep", "num_logits_to_keep"])
"""What generic code passes only to a forward that names it, and nothing but work depends on."""
_FOR_CACHES = frozenset(["cache_position"])
"""What only ``generate()`` passes to a model."""

_HINT = "Callers outside this module rely on upstream's signature: keep it, even as an unused parameter."
_LAST_HINT = "Move it behind upstream's parameters: nothing here passes that many by position, but other code may."
_KWARGS_HINT = "The patch reads it from **kwargs, or passes them on. If you can, make it a parameter anyway."
_SAVING_HINT = "generate() passes it to a forward that names it, to save work and memory. Keep it."
_OWN_HINT = "Only the config's own code calls it here, but callers that rely on upstream's signature would fail."
_UNSEEN_HINT = "No visible call lacks it, but callers that rely on upstream's signature do not pass it."
_PREPARING_HINT = (
    "generate() passes everything but the ids by name, and a parameter that is missing here does not reach the "
    "forward."
)
_SAFE_HINT = (
    "Every call in this module fits, but callers that rely on upstream's signature would fail: keep it if you can."
)

Judgement = tuple[Severity | None, str]
"""How much a change matters, and what to do; None when nobody can notice it."""


def weigh_change(function: ChangedFunction, change: SignatureChange) -> Judgement:
    """How much a change of a function's signature matters."""
    if change.kind in ("required", "star"):
        return _weigh_demand(function, change)
    if change.kind in ("renamed", "dropped"):
        return _weigh_loss(function, change)
    if change.kind in ("inserted", "moved"):
        return _weigh_place(function, change)
    if change.kind == "limited" and function.has_known_callers and function.suits_calls(change):
        return "warning", _SAFE_HINT
    return "error", _HINT


def _weigh_demand(function: ChangedFunction, change: SignatureChange) -> Judgement:
    """Of a parameter that callers have to pass, or stars that they can no longer pass."""
    if function.suits_own_callers:
        return None, ""
    if function.suits_calls(change):
        if function.has_known_callers:
            return None, ""
        if not function.subject.callers.are_outside(function.dotted):
            return "warning", _UNSEEN_HINT
    return "error", _HINT


def _weigh_loss(function: ChangedFunction, change: SignatureChange) -> Judgement:
    """Of parameters of upstream's that have another name, or are gone."""
    is_renamed = change.kind == "renamed"
    by_position = function.calls_by_position(change.names[0]) if is_renamed else []
    if not by_position:
        names = {*change.upstream_names}
        if names <= function.keywords_handed_on:
            return "warning", _KWARGS_HINT
        if _is_needless(function, names):
            return "warning", _SAVING_HINT
        if function.suits_own_callers:
            return "warning", _OWN_HINT
    if not is_renamed and _prepares_inputs(function):
        return "warning", _PREPARING_HINT
    is_mixed_up = bool(by_position) and function.are_told_apart(change.names[0], change.theirs)
    if function.has_known_callers and not is_mixed_up and function.suits_calls(change):
        return "warning", _SAFE_HINT
    return "error", _HINT


def _weigh_place(function: ChangedFunction, change: SignatureChange) -> Judgement:
    """Of a parameter that is not where a caller by position puts it."""
    by_position = function.calls_by_position(change.names[0])
    if change.kind == "inserted" or function.has_known_callers:
        if by_position:
            return "error", f"'{by_position[0].owner}' passes that many by position. {_HINT}"
        return "warning", _LAST_HINT
    if not by_position and function.suits_own_callers:
        return "warning", _OWN_HINT
    if _prepares_inputs(function):
        return "warning", _PREPARING_HINT
    return "error", _HINT


def _is_needless(function: ChangedFunction, names: set[str]) -> bool:
    """Whether generic code passes parameters only where they are named, or only for caches, and no call in sight."""
    if function.passes_by_name(names):
        return False
    is_refused = not function.ours.takes_kwargs and not function.is_left_out_of_generation(names)
    return names <= SAVING or (names <= _FOR_CACHES and not is_refused)


def _prepares_inputs(function: ChangedFunction) -> bool:
    """Whether it is the method that ``generate()`` has inputs prepared by, and takes whatever comes."""
    return function.ours.takes_kwargs and function.dotted.endswith(f".{PREPARING}")
