"""How a signature changed, and whether a replacement takes what the new one's callers pass."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from patchgen_core.checks.contract.rules.call_site import Keywords
from patchgen_core.syntax.forms import PROSE, body_form, expression_text, form, is_same_code, listed, quoted
from patchgen_core.syntax.nodes import Function
from patchgen_core.syntax.scopes import Call
from patchgen_core.syntax.signatures import Parameter, Signature, is_static, misfit, read_parameters, signature_of


def signature_form(function: Function) -> str:
    """What a signature says to its callers: names, order and defaults, no annotations and no names of stars."""
    text = form(function.args, ignore=PROSE)
    for star in (function.args.vararg, function.args.kwarg):
        text = text.replace(form(star, ignore=PROSE), "star") if star is not None else text
    return text


def describe(old: Function, new: Function) -> list[str]:
    """What changed from one signature to another, a phrase each."""
    before, after = ({p.name: p for p in read_parameters(function)} for function in (old, new))
    others = renamed(old, new)
    added = [name for name in after if name not in before and name not in others.values()]
    removed = [name for name in before if name not in after and name not in others]
    results = [f"renames '{a}' to '{b}'" for a, b in others.items()]
    results += [f"adds {_with_defaults(added, after)}"] if added else []
    results += [f"drops {quoted(removed)}"] if removed else []
    common = [name for name in before if name in after]
    if common != [name for name in after if name in before]:
        results.append(f"has another order of parameters: {', '.join(after)}")
    for name in common:
        results += _differences(name, before[name], after[name])
    for star, a, b in (("*", old.args.vararg, new.args.vararg), ("**", old.args.kwarg, new.args.kwarg)):
        if (a is None) != (b is None):
            results.append(f"takes {star}{b.arg}" if b is not None else f"no longer takes {star}{a.arg if a else ''}")
        elif a is not None and b is not None and a.arg != b.arg:
            results.append(f"renames {star}{a.arg} to {star}{b.arg}")
    return results


_KINDS = {"position": "by position only", "either": "by position or keyword", "keyword": "by keyword only"}


def renamed(old: Function, new: Function) -> dict[str, str]:
    """Parameters that only their names changed of: those in the same place that are called or used alike."""
    before, after = ([p.name for p in read_parameters(f) if p.kind != "keyword"] for f in (old, new))
    pairs = [(a, b) for a, b in zip(before, after) if a not in after and b not in before]
    return {a: b for a, b in pairs if len(before) == len(after) and _is_renamed(old, new, a, b)}


def _is_renamed(old: Function, new: Function, before: str, after: str) -> bool:
    """Whether two parameters have names alike, or their functions do the same but for these names."""
    is_alike = SequenceMatcher(None, before, after).ratio() >= 0.6
    return is_alike or re.sub(rf"\b{before}\b", after, body_form(old)) == body_form(new)


def _with_defaults(names: Sequence[str], parameters: dict[str, Parameter]) -> str:
    required = [name for name in names if parameters[name].default is None]
    optional = [name for name in names if parameters[name].default is not None]
    parts = [quoted(required)] if required else []
    parts += [f"{quoted(optional)} (with a default)"] if optional else []
    return listed(parts)


def _differences(name: str, old: Parameter, new: Parameter) -> Iterator[str]:
    if old.kind != new.kind:
        yield f"takes '{name}' {_KINDS[new.kind]}"
    if old.default is None and new.default is not None:
        yield f"gives '{name}' the default {expression_text(new.default)}"
    elif old.default is not None and new.default is None:
        yield f"requires '{name}'"
    elif old.default is not None and new.default is not None and not is_same_code(old.default, new.default):
        before, after = expression_text(old.default), expression_text(new.default)
        yield f"has {after} as the default of '{name}' instead of {before}"


# --- whether a replacement still fits ----------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """Whether a replacement takes what is passed to it in the new release. It `is_broken` where a call inside the
    module cannot be taken, or lands in other parameters; `detail` is the end of a sentence."""

    is_broken: bool
    detail: str


@dataclass(frozen=True)
class ChangedCallee:
    """A function that is called: the replacement's, None where there is none, and upstream's in both releases."""

    ours: Function | None
    before: Function
    after: Function
    in_class: bool

    def signature(self, function: Function) -> Signature:
        """What callers pass to one of them."""
        return signature_of(function, self.in_class and not is_static(function))

    def broken(self, old: Sequence[Call], new: Sequence[Call]) -> str:
        """Why the replacement cannot take the new calls; empty when it can, or could not take the old ones either."""
        if self.ours is None:
            return ""
        old_reasons = {self._reason(call, self.before) for call in old}
        reasons = [(call.owner, self._reason(call, self.after)) for call in new]
        return next(
            (f"'{owner or 'the module'}' {why}" for owner, why in reasons if why and why not in old_reasons), ""
        )

    def _reason(self, call: Call, theirs: Function) -> str:
        assert self.ours is not None
        mine, upstream = self.signature(self.ours), self.signature(theirs)
        why = fails(call.node, mine, theirs) if not fails(call.node, upstream, theirs) else ""
        others = renamed(self.before, theirs)
        return why or shifted(call.node, mine, self.signature(self.before), upstream, others)


def fails(call: ast.Call, signature: Signature, function: Function) -> str:
    """Why a call does not fit a signature, as far as the decorators of a function let that be told."""
    keywords = Keywords(function)
    return misfit(call, signature, keywords) if keywords.are_known else ""


def fit(callee: ChangedCallee, old: Sequence[Call], new: Sequence[Call]) -> Fit:
    """Whether a replacement fits the new callers, and has the parameters that the new signature has."""
    assert callee.ours is not None
    mine, theirs = callee.signature(callee.ours), callee.signature(callee.after)
    why = callee.broken(old, new)
    if why:
        return Fit(True, f"the replacement does not fit: {why}")
    lacking = [p.name for p in theirs.parameters if mine.find(p.name) is None]
    if not lacking:
        return Fit(False, "the replacement takes all of its parameters")
    if mine.takes_kwargs:
        return Fit(False, f"the replacement takes {quoted(lacking)} only by **{mine.kwargs_name}")
    return Fit(False, f"the replacement does not take {quoted(lacking)}")


def shifted(call: ast.Call, mine: Signature, old: Signature, new: Signature, others: Mapping[str, str]) -> str:
    """Which argument by position means another parameter to a replacement than to upstream; empty for none. A
    replacement may have names of its own, as long as it has had them in the old release too."""
    before = old.positional
    for number, (argument, our, their) in enumerate(zip(call.args, mine.positional, new.positional)):
        if isinstance(argument, ast.Starred):
            return ""
        followed = number < len(before) and before[number].name == our.name
        is_known = mine.find(their.name) is not None or new.find(our.name) is not None
        if our.name != their.name and others.get(our.name) != their.name and (is_known or followed):
            return f"passes '{their.name}' by position, which is '{our.name}' in the replacement"
    return ""
