"""How the signature of a replaced function differs from upstream's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from patchgen_core.checks.contract.keyword_arguments import keywords_passed_beside, keywords_read
from patchgen_core.syntax.nodes import Function, decorator_names
from patchgen_core.syntax.signatures import Signature, is_static, signature_of


@dataclass(frozen=True)
class SignatureChange:
    """One difference.

    Attributes:
        kind: ``binding`` of static and class methods; parameters that are ``renamed``, ``dropped``, ``limited`` to
            one way of passing them, ``required``, ``moved`` or ``inserted`` before one of upstream's; a ``star`` that
            is lost.
        message: what is said of it, without its subject.
        names: our names of the parameters that it is about; upstream's where we have none.
        theirs: upstream's name of a renamed parameter.
    """

    kind: Literal["binding", "renamed", "dropped", "limited", "required", "moved", "inserted", "star"]
    message: str
    names: tuple[str, ...] = ()
    theirs: str = ""

    @property
    def upstream_names(self) -> tuple[str, ...]:
        """Upstream's names of renamed or dropped parameters."""
        return (self.theirs,) if self.theirs else self.names


def read_signature(dotted: str, function: Function) -> Signature:
    """The signature of ``Class.method`` or ``function``, as callers see it."""
    return signature_of(function, "." in dotted and not is_static(function))


def signature_changes(dotted: str, function: Function, upstream: Function) -> Iterator[SignatureChange]:
    """What a caller who counts on the signature of upstream's function may notice of ours."""
    for kind, name in (("static", "staticmethod"), ("class", "classmethod")) if "." in dotted else ():
        is_kind = name in decorator_names(function)
        if is_kind != (name in decorator_names(upstream)):
            yield SignatureChange("binding", f"is {'a' if is_kind else 'no'} {kind} method, unlike upstream's")
            return
    ours, theirs = read_signature(dotted, function), read_signature(dotted, upstream)
    renamed = _renamed(ours, theirs)
    yield from _of_upstream_parameters(function, ours, theirs, renamed)
    yield from _moved(ours, theirs, renamed)
    for parameter in ours.parameters:
        is_new = theirs.find(parameter.name) is None and parameter.name not in renamed.values()
        if parameter.required and is_new and not (theirs.takes_args and theirs.takes_kwargs):
            message = f"requires '{parameter.name}', which upstream's does not have"
            yield SignatureChange("required", message, (parameter.name,))
    if theirs.takes_args and not ours.takes_args:
        yield SignatureChange("star", "loses upstream's *args", ("*",))
    if theirs.takes_kwargs and not ours.takes_kwargs:
        yield SignatureChange("star", "loses upstream's **kwargs", ("**",))


def _of_upstream_parameters(
    function: Function, ours: Signature, theirs: Signature, renamed: dict[str, str]
) -> Iterator[SignatureChange]:
    """What became of each parameter of upstream's."""
    takes_all = ours.takes_args and ours.takes_kwargs
    passed_beside = keywords_passed_beside(function, ours.kwargs_name) if takes_all else set()
    dropped = []
    for parameter in theirs.parameters:
        name, own = parameter.name, ours.find(parameter.name)
        if own is None:
            if name in renamed:
                message = f"renames upstream's '{name}' to '{renamed[name]}'"
                yield SignatureChange("renamed", message, (renamed[name],), name)
            elif takes_all and name not in passed_beside:
                continue
            elif name not in keywords_read(function, ours.kwargs_name):
                dropped.append(name)
        elif own.required and not parameter.required:
            yield SignatureChange("required", f"requires '{name}', for which upstream's has a default", (name,))
        elif own.kind == "keyword" != parameter.kind or (own.kind == "position" != parameter.kind):
            how = "keyword" if own.kind == "keyword" else "position"
            yield SignatureChange("limited", f"takes '{name}' only by {how}, unlike upstream's", (name,))
    if dropped:
        yield dropped_parameters(dropped, ours)


def dropped_parameters(names: Sequence[str], ours: Signature) -> SignatureChange:
    """The change that our signature lacks some parameters of upstream's."""
    where = ", which only **kwargs take now" if ours.takes_kwargs else ""
    quoted = ", ".join(f"'{name}'" for name in names)
    message = f"drops upstream's parameter{'s' * (len(names) > 1)} {quoted}{where}"
    return SignatureChange("dropped", message, tuple(names))


def _renamed(ours: Signature, theirs: Signature) -> dict[str, str]:
    """Upstream's names of parameters that have another one in the same place."""
    return {
        their.name: our.name
        for our, their in zip(ours.positional, theirs.positional)
        if ours.find(their.name) is None and theirs.find(our.name) is None
    }


def _moved(ours: Signature, theirs: Signature, renamed: dict[str, str]) -> Iterator[SignatureChange]:
    """Parameters that are not where a caller by position puts them."""
    names = [p.name for p in ours.positional]
    common = [p.name for p in theirs.positional if p.name in names]
    order = [name for name in names if name in common]
    if order != common:
        moved = next(a for a, b in zip(order, common) if a != b)
        yield SignatureChange("moved", f"has '{moved}' in a different position from upstream's", (moved,))
        return
    last = names.index(common[-1]) if common else 0
    new = [n for n in names[:last] if theirs.find(n) is None and n not in renamed.values()]
    followers = [next(other for other in names[names.index(name) :] if other in common) for name in new]
    for after in dict.fromkeys(followers):
        inserted = [name for name, follower in zip(new, followers) if follower == after]
        quoted = ", ".join(f"'{name}'" for name in inserted)
        message = f"has {quoted} before '{after}', where upstream's has nothing"
        yield SignatureChange("inserted", message, tuple(inserted))
