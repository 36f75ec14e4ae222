"""Functions that rotate queries and keys: whole heads, by halves."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.authoring.new.expressions import calls, normal, return_value, template
from patchgen_core.authoring.new.function_text import FunctionText, marked
from patchgen_core.authoring.new.module import UpstreamSource
from patchgen_core.authoring.new.patches import ROTARY, Finding, NewPatch, Unpatched
from patchgen_core.checks.contract.rotations import is_rotary
from patchgen_core.syntax.nodes import Function, last_name

_HALF = "x[..., x.shape[-1] // 2:]", "x[..., :x.shape[-1] // 2]"
_BY_HALVES = template(f"torch.cat((-{_HALF[0]}, {_HALF[1]}), dim=-1)")
_CHANGE = "fused kernel where one is bound"
_TAKER = "use_kernelized_func"


def _form(half: str, last: str) -> str:
    """What rotates q and k, with the function that rotates by halves and what follows the two."""
    cos, sin = ("cos.unsqueeze(dimension)", "sin.unsqueeze(dimension)")
    one = [f"({x} * {cos} + {half}({x}) * {sin}){last.format(x=x)}" for x in ("q", "k")]
    return template(f"({one[0]}, {one[1]})")


def find_rotary(upstream: UpstreamSource) -> Iterator[Finding]:
    """The rotary functions of a module."""
    for name, function in upstream.functions.items():
        if not name.startswith("apply_") or not is_rotary(name):
            continue
        reason = _why_not(upstream, function)
        if reason:
            yield Unpatched(name, reason, "rotary")
            continue
        q, k, cos, sin = _parameters(function)[:4]
        dimension = ", unsqueeze_dim=unsqueeze_dim" if "unsqueeze_dim" in _parameters(function) else ""
        call = f"{ROTARY.name}({q}, {k}, {cos}, {sin}{dimension})"
        text = FunctionText(upstream.source, function)
        text.at_start(marked(1, [f"if {ROTARY.name}.has_kernel:", f"    return {call}"]))
        own = f"{upstream.model.identifier}_{name}"
        drops = tuple((cls, _TAKER) for cls in _takers(upstream, name))
        what = "Op slot for the rotary embedding"
        yield NewPatch(name, what, (ROTARY,), (_CHANGE,), text.text(own), drops=drops)


def _why_not(upstream: UpstreamSource, function: Function) -> str:
    """Why the kernel does not rotate as a function does; empty when it does."""
    names = _parameters(function)
    if function.body[0].lineno == function.lineno:
        return "it is on one line"
    value = return_value(function)
    if len(names) < 4 or not isinstance(getattr(value, "node", None), ast.Tuple):
        return "it does not return queries and keys rotated by cos and sin"
    text = ast.unparse(function)
    if "mrope_section" in text or "multimodal" in function.name:
        return "each section of a head has positions of its own (multimodal)"
    for half in {last_name(call.func) for call in calls(function) if "rotate" in last_name(call.func)}:
        kind = _how(upstream.functions.get(half))
        if kind:
            return kind
        for last in ("", ".to({x}.dtype)"):
            roles = {names[0]: "q", names[1]: "k", names[2]: "cos", names[3]: "sin", "unsqueeze_dim": "dimension"}
            if value is not None and normal(value.node, roles) == _form(half, last):
                return _odd_calls(upstream, function)
    if "float()" in text or "float32" in text:
        return "it computes in float32 itself, and rounds at a different point from the kernels"
    if "rotary_dim" in text or "rot_dim" in text or "_pass" in text:
        return "it rotates a part of each head (partial), but rotary_pos_emb/full rotates whole heads"
    if "repeat_interleave" in text or "view_as_complex" in text:
        return "it rotates neighbouring entries (interleaved), but rotary_pos_emb/full rotates halves"
    return "it is not the rotation of whole heads by halves"


def _how(half: Function | None) -> str:
    """Why a function is not the one that rotates by halves; empty when it is."""
    value = return_value(half) if half is not None else None
    if value is None or len(value.parameters) != 1:
        return "the function that it rotates with is not in the module"
    if normal(value.node, {value.parameters[0]: "x"}) == _BY_HALVES:
        return ""
    if "2" in {ast.unparse(n.step) for n in ast.walk(value.node) if isinstance(n, ast.Slice) and n.step is not None}:
        return "it rotates neighbouring entries (interleaved), but rotary_pos_emb/full rotates halves"
    return "it rotates in another direction, or other parts, than rotary_pos_emb/full"


def _odd_calls(upstream: UpstreamSource, function: Function) -> str:
    """Why calls of the function do not fit the kernel; empty when they do."""
    default = function.args.defaults[-1] if function.args.defaults else None
    if isinstance(default, ast.Constant) and default.value not in (1, 2, None):
        return "it puts heads on a dimension that is neither 1 nor 2"
    for call in calls(upstream.source.tree):
        argument = {k.arg: k.value for k in call.keywords}.get("unsqueeze_dim")
        if (
            last_name(call.func) == function.name
            and isinstance(argument, ast.Constant)
            and argument.value not in (1, 2)
        ):
            return f"it is called with unsqueeze_dim={argument.value!r}, which the kernels do not take"
    return ""


def _parameters(function: Function) -> list[str]:
    return [a.arg for a in function.args.args]


def _takers(upstream: UpstreamSource, name: str) -> Iterator[str]:
    """The classes that take up a mark which upstream's function bears."""
    for cls in upstream.classes.values():
        for decorator in cls.decorator_list:
            is_one = isinstance(decorator, ast.Call) and last_name(decorator.func) == _TAKER
            if is_one and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(decorator)):
                yield cls.name
