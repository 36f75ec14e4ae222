"""PG201: a replaced function takes what upstream's takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.checks.contract.rule import Example, Finding, Replaced, Rule, Subject
from patchgen_core.syntax.nodes import Function, decorator_names
from patchgen_core.syntax.signatures import Signature, is_static, signature_of

_HINT = "Callers outside of this module count on upstream's signature: keep it, if need be as a parameter unused."
_UPSTREAM = """
class Model:
    def get_placeholder_mask(self, input_ids, inputs_embeds, image_features=None, **kwargs):
        return input_ids == 7

    def forward(self, input_ids, inputs_embeds):
        return self.get_placeholder_mask(input_ids, inputs_embeds)
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Compare every replaced method and function with upstream's."""
    for replaced in subject.replaced:
        if replaced.upstream is not None:
            for message in _differences(replaced, replaced.upstream):
                yield Finding(f"'{replaced.dotted}' {message}", _HINT, replaced.node, replaced.dotted)


def _differences(replaced: Replaced, upstream: Function) -> Iterator[str]:
    in_class = "." in replaced.dotted
    for kind, name in (("static", "staticmethod"), ("class", "classmethod")) if in_class else ():
        is_kind = name in decorator_names(replaced.node)
        if is_kind != (name in decorator_names(upstream)):
            yield f"is {'a' if is_kind else 'no'} {kind} method, unlike upstream's"
            return
    ours = signature_of(replaced.node, in_class and not is_static(replaced.node))
    theirs = signature_of(upstream, in_class and not is_static(upstream))
    takes_all = ours.takes_args and ours.takes_kwargs
    passed_beside = _passed_beside(replaced.node, ours.kwargs_name) if takes_all else set()
    renamed = _renamed(ours, theirs)
    dropped = []
    for parameter in theirs.parameters:
        own_parameter = ours.find(parameter.name)
        if own_parameter is None:
            if parameter.name in renamed:
                yield f"calls '{renamed[parameter.name]}' what upstream's calls '{parameter.name}'"
            elif takes_all and parameter.name not in passed_beside:
                continue
            elif parameter.name not in _read_from_kwargs(replaced.node, ours.kwargs_name):
                dropped.append(f"'{parameter.name}'")
        elif own_parameter.required and not parameter.required:
            yield f"requires '{parameter.name}', for which upstream's has a default"
        elif own_parameter.kind == "keyword" != parameter.kind or (own_parameter.kind == "position" != parameter.kind):
            how = "keyword" if own_parameter.kind == "keyword" else "position"
            yield f"takes '{parameter.name}' by {how} only, unlike upstream's"
    if dropped:
        where = ", which only **kwargs takes now" if ours.takes_kwargs else ""
        yield f"drops the parameter{'s' * (len(dropped) > 1)} {', '.join(dropped)} of upstream's{where}"
    yield from _moved(ours, theirs, renamed)
    for parameter in ours.parameters:
        is_new = theirs.find(parameter.name) is None and parameter.name not in renamed.values()
        if parameter.required and is_new and not (theirs.takes_args and theirs.takes_kwargs):
            yield f"requires '{parameter.name}', which upstream's does not have"
    for name, lost in (
        ("*args", theirs.takes_args and not ours.takes_args),
        ("**kwargs", theirs.takes_kwargs and not ours.takes_kwargs),
    ):
        if lost:
            yield f"loses {name} of upstream's"


def _renamed(ours: Signature, theirs: Signature) -> dict[str, str]:
    """Upstream's names of parameters that have another one in the same place."""
    return {
        their.name: our.name
        for our, their in zip(ours.positional, theirs.positional)
        if ours.find(their.name) is None and theirs.find(our.name) is None
    }


def _moved(ours: Signature, theirs: Signature, renamed: dict[str, str]) -> Iterator[str]:
    """Parameters that are not where a caller by position puts them."""
    names = [p.name for p in ours.positional]
    common = [p.name for p in theirs.positional if p.name in names]
    order = [name for name in names if name in common]
    if order != common:
        moved = next(a for a, b in zip(order, common) if a != b)
        yield f"has '{moved}' in another place than upstream's"
        return
    last = names.index(common[-1]) if common else 0
    for name in names[:last]:
        if theirs.find(name) is None and name not in renamed.values():
            after = next(other for other in names[names.index(name) :] if other in common)
            yield f"has '{name}' before '{after}', where upstream's has nothing"


def _passed_beside(function: Function, kwargs: str) -> set[str]:
    """The keywords that a function passes beside its ``**kwargs``, in which they would come twice."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    handing_on = [c for c in calls if any(k.arg is None and ast.unparse(k.value) == kwargs for k in c.keywords)]
    return {keyword.arg for call in handing_on for keyword in call.keywords if keyword.arg is not None}


def _read_from_kwargs(function: Function, kwargs: str) -> set[str]:
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


RULE = Rule(
    code="PG201",
    name="signature",
    severity="error",
    reason=(
        "A method is called from more places than its own file: by transformers' generation and processors, by "
        "trainers, by upstream code in this module that no patch touches. An override that drops, renames or moves "
        "a parameter, or loses `**kwargs`, works in the one call its author had in mind. Elsewhere it raises, or "
        "worse: an argument passed by position lands in another parameter, and one that `**kwargs` swallows is "
        "never looked at."
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
