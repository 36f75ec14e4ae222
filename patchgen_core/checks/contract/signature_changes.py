"""How the signature of a replaced function differs from upstream's."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from patchgen_core.checks.contract.rule import Replaced
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


def both_signatures(replaced: Replaced, upstream: Function) -> tuple[Signature, Signature]:
    """Our signature and upstream's, as callers see them."""
    in_class = "." in replaced.dotted
    ours, theirs = (signature_of(node, in_class and not is_static(node)) for node in (replaced.node, upstream))
    return ours, theirs


def signature_changes(replaced: Replaced, upstream: Function) -> Iterator[SignatureChange]:
    """What a caller who counts on upstream's signature may notice."""
    for kind, name in (("static", "staticmethod"), ("class", "classmethod")) if "." in replaced.dotted else ():
        is_kind = name in decorator_names(replaced.node)
        if is_kind != (name in decorator_names(upstream)):
            yield SignatureChange("binding", f"is {'a' if is_kind else 'no'} {kind} method, unlike upstream's")
            return
    ours, theirs = both_signatures(replaced, upstream)
    renamed = _renamed(ours, theirs)
    yield from _of_upstream_parameters(replaced.node, ours, theirs, renamed)
    yield from _moved(ours, theirs, renamed)
    for parameter in ours.parameters:
        is_new = theirs.find(parameter.name) is None and parameter.name not in renamed.values()
        if parameter.required and is_new and not (theirs.takes_args and theirs.takes_kwargs):
            message = f"requires '{parameter.name}', which upstream's does not have"
            yield SignatureChange("required", message, (parameter.name,))
    if theirs.takes_args and not ours.takes_args:
        yield SignatureChange("star", "loses *args of upstream's", ("*",))
    if theirs.takes_kwargs and not ours.takes_kwargs:
        yield SignatureChange("star", "loses **kwargs of upstream's", ("**",))


def _of_upstream_parameters(
    function: Function, ours: Signature, theirs: Signature, renamed: dict[str, str]
) -> Iterator[SignatureChange]:
    """What became of each parameter of upstream's."""
    takes_all = ours.takes_args and ours.takes_kwargs
    passed_beside = _passed_beside(function, ours.kwargs_name) if takes_all else set()
    dropped = []
    for parameter in theirs.parameters:
        name, own = parameter.name, ours.find(parameter.name)
        if own is None:
            if name in renamed:
                message = f"calls '{renamed[name]}' what upstream's calls '{name}'"
                yield SignatureChange("renamed", message, (renamed[name],), name)
            elif takes_all and name not in passed_beside:
                continue
            elif name not in read_from_kwargs(function, ours.kwargs_name):
                dropped.append(name)
        elif own.required and not parameter.required:
            yield SignatureChange("required", f"requires '{name}', for which upstream's has a default", (name,))
        elif own.kind == "keyword" != parameter.kind or (own.kind == "position" != parameter.kind):
            how = "keyword" if own.kind == "keyword" else "position"
            yield SignatureChange("limited", f"takes '{name}' by {how} only, unlike upstream's", (name,))
    if dropped:
        yield dropped_parameters(dropped, ours)


def dropped_parameters(names: Sequence[str], ours: Signature) -> SignatureChange:
    """The change that our signature lacks some parameters of upstream's."""
    where = ", which only **kwargs takes now" if ours.takes_kwargs else ""
    quoted = ", ".join(f"'{name}'" for name in names)
    message = f"drops the parameter{'s' * (len(names) > 1)} {quoted} of upstream's{where}"
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
        yield SignatureChange("moved", f"has '{moved}' in another place than upstream's", (moved,))
        return
    last = names.index(common[-1]) if common else 0
    new = [n for n in names[:last] if theirs.find(n) is None and n not in renamed.values()]
    followers = [next(other for other in names[names.index(name) :] if other in common) for name in new]
    for after in dict.fromkeys(followers):
        inserted = [name for name, follower in zip(new, followers) if follower == after]
        quoted = ", ".join(f"'{name}'" for name in inserted)
        message = f"has {quoted} before '{after}', where upstream's has nothing"
        yield SignatureChange("inserted", message, tuple(inserted))


def _passed_beside(function: Function, kwargs: str) -> set[str]:
    """The keywords that a function passes beside its ``**kwargs``, in which they would come twice."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    handing_on = [c for c in calls if any(k.arg is None and ast.unparse(k.value) == kwargs for k in c.keywords)]
    return {keyword.arg for call in handing_on for keyword in call.keywords if keyword.arg is not None}


def read_from_kwargs(function: Function, kwargs: str) -> set[str]:
    """The keywords that a function looks up in its ``**kwargs``."""
    names = set()
    for node in ast.walk(function):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == kwargs:
            key = node.slice
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in (f"{kwargs}.get", f"{kwargs}.pop") and node.args:
            key = node.args[0]
        if isinstance(key, ast.Constant):
            names.add(str(key.value))
    return names
