"""RMSNorm classes: told by what their forward computes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from patchgen_core.authoring.new.expressions import (
    ReturnValue,
    methods_of,
    normal,
    own_attribute,
    return_value,
    template,
)
from patchgen_core.authoring.new.function_text import FunctionText
from patchgen_core.authoring.new.module import UpstreamSource
from patchgen_core.authoring.new.patches import (
    RMS_NORM,
    RMS_NORM_ONE_PLUS,
    Finding,
    NewSlot,
    Unpatched,
    patch_forward,
)
from patchgen_core.syntax.nodes import Function, without_docstring

_WIDE = "x.to(torch.float32)"
_UNIT = f"({_WIDE} * torch.rsqrt({_WIDE}.pow(2).mean(-1, keepdim=True) + self.eps))"
_STANDARD = {
    template(f"self.weight * {_UNIT}.to(x.dtype)"),
    template(f"(self.weight * {_UNIT}.to(x.dtype)).to(x.dtype)"),
}
_CAST_LAST = {
    template(f"(self.weight * {_UNIT}).to(x.dtype)"),
    template(f"(self.weight.to(torch.float32) * {_UNIT}).to(x.dtype)"),
}
_ONE_PLUS = {template(f"({_UNIT} * (1.0 + self.weight.to(torch.float32))).to(x.dtype)")}
_LONGEST = 16
"""More statements than that are no norm's."""


def find_norms(upstream: UpstreamSource) -> Iterator[Finding]:
    """The RMSNorm classes of a module."""
    norms = [(cls, text, _classify_norm(cls, text.node)) for cls, text in _candidates(upstream)]
    kinds = {kind for *_, (kind, _, _) in norms}
    one_plus = (
        RMS_NORM_ONE_PLUS if {"standard", "cast_last"} & kinds else replace(RMS_NORM_ONE_PLUS, name=RMS_NORM.name)
    )
    for cls, text, (kind, argument, eps) in norms:
        if kind:
            slot = RMS_NORM if kind != "one_plus" else one_plus
            lines, change = _call(kind, slot, argument, eps)
            what = "Op slot for RMSNorm" + (" with 1 + weight" if kind == "one_plus" else "")
            yield patch_forward(cls, what, slot, change, text, lines)
        else:
            yield Unpatched(cls.name, _why_not(cls, text.node), "norm")
    for name in ("RMSNorm", "LayerNorm"):
        if f"nn.{name}(" in upstream.source.text and not any(kinds):
            yield Unpatched(
                f"nn.{name}", "the norms are torch's own modules, so upstream has no class to patch", "norm"
            )


def _call(kind: str, slot: NewSlot, argument: str, eps: str) -> tuple[list[str], str]:
    """The lines that call the kernel, and what the header says of them."""
    if kind != "cast_last":
        call = f"return {slot.name}({argument}, self.weight, self.{eps})"
        return [f"if {slot.name}.has_kernel:", f"    {call}"], "fused kernel where one is bound"
    wide = f"{argument}.to(torch.float32), self.weight.to(torch.float32), self.{eps}"
    lines = [f"if {slot.name}.has_kernel:", f"    return {slot.name}({wide}).to({argument}.dtype)"]
    return lines, "fused kernel where one is bound - in float32, for upstream casts back after the weight"


def _candidates(upstream: UpstreamSource) -> Iterator[tuple[ast.ClassDef, FunctionText]]:
    """The classes that normalize by a mean of squares, each with its forward."""
    for cls, forward in upstream.forwards():
        text = ast.unparse(cls)
        scales = "rsqrt" in text or ("Norm" in cls.name and "pow(" in text and "mean(" in text)
        if scales and len(without_docstring(forward.node)) <= _LONGEST:
            yield cls, forward


def _classify_norm(cls: ast.ClassDef, function: Function) -> tuple[str, str, str]:
    """The kind of a norm, empty for another one; the name of its argument, and of its epsilon."""
    value = return_value(function, methods_of(cls))
    if value is None or len(value.parameters) != 1:
        return "", "", ""
    eps = _epsilon(value)
    text = normal(value.node, {value.parameters[0]: "x", f"self.{eps}": "self.eps"})
    kinds = (("standard", _STANDARD), ("cast_last", _CAST_LAST), ("one_plus", _ONE_PLUS))
    return next((kind for kind, forms in kinds if text in forms), ""), value.parameters[0], eps


def _epsilon(value: ReturnValue) -> str:
    """The one attribute that the expression reads beside its weight."""
    names = {own_attribute(node) for node in ast.walk(value.node)} - {"", "weight"}
    return names.pop() if len(names) == 1 else ""


def _why_not(cls: ast.ClassDef, function: Function) -> str:
    text = ast.unparse(cls)
    own = methods_of(cls)
    if len(function.args.args) > 2:
        return "it takes more than the hidden states, such as a gate, and rms_norm does not"
    if "running_var" in text:
        return "it normalizes by running statistics, so it is not an RMSNorm"
    if "mean(" in text.replace("pow(2).mean", "").replace("square().mean", "") or ".var(" in text:
        return "it subtracts the mean before it scales, so it is not an RMSNorm"
    if "self.weight" not in "".join(ast.unparse(f) for name, f in own.items() if name != "__init__"):
        return "it has no weight, which rms_norm multiplies by"
    if return_value(function, own) is None:
        return "it does more than scale and multiply by its weight"
    return "it casts or scales in another order than rms_norm/standard and one_plus_weight"
