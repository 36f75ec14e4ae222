"""Gated MLPs: ``down(act(gate(x)) * up(x))`` with three projections, by SwiGLU or GEGLU."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen_core.authoring.new.expressions import methods_of, own_attribute, return_value
from patchgen_core.authoring.new.module import UpstreamSource, assignments
from patchgen_core.authoring.new.patches import GEGLU, SWIGLU, Finding, NewSlot, Unpatched, patch_forward
from patchgen_core.syntax.nodes import Function, last_name, without_docstring
from patchgen_core.syntax.signatures import read_parameters

_SLOTS = {"silu": SWIGLU, "swish": SWIGLU, "gelu_pytorch_tanh": GEGLU, "gelu_python_tanh": GEGLU}
_WORDS = {SWIGLU: '("silu", "swish")', GEGLU: '("gelu_pytorch_tanh", "gelu_python_tanh")'}
_MODULES = {SWIGLU: '("SiLUActivation", "SiLU")', GEGLU: '("GELUTanh",)'}
_FUNCTIONS = ("F.silu", "nn.functional.silu", "torch.nn.functional.silu")
_TITLES = {SWIGLU: "SwiGLU", GEGLU: "GEGLU"}
_CHANGES = {
    SWIGLU: "fused SiLU and product where a kernel is bound",
    GEGLU: "fused GELU, in its tanh form, and product where a kernel is bound",
}


@dataclass(frozen=True)
class _GatedMlp:
    """The attributes of a gated MLP, and its argument; ``act`` is a call of torch's where no attribute is called."""

    down: str
    act: str
    gate: str
    up: str
    argument: str


@dataclass(frozen=True)
class _Activation:
    """An activation as transformers' table has it, empty when unclear, and the configuration's field that names it."""

    name: str
    key: str = ""


def find_mlps(upstream: UpstreamSource) -> Iterator[Finding]:
    """The gated MLPs of a module."""
    for cls, text in upstream.forwards():
        if "Experts" in cls.name:
            continue
        gated = _gated(text.node)
        if gated is None:
            reason = _why_not(upstream, cls, text.node)
            if reason:
                yield Unpatched(cls.name, reason, "MLP")
            continue
        activation = _activation(upstream, cls, gated)
        slot = _SLOTS.get(activation.name)
        if slot is None:
            named = f"'{activation.name}'" if activation.name else "not given in the configuration's source"
            key = f" ({activation.key})" if activation.key else ""
            reason = f"its activation{key} is {named}: swiglu_mlp computes SiLU, geglu_mlp GELU in its tanh form"
            yield Unpatched(cls.name, reason, "MLP")
        else:
            lines = _lines(upstream, cls, gated, activation, slot)
            yield patch_forward(cls, f"Op slot for {_TITLES[slot]}", slot, _CHANGES[slot], text, lines)


def _gated(function: Function) -> _GatedMlp | None:
    """The parts of ``self.down(self.act(self.gate(x)) * self.up(x))``."""
    value = return_value(function)
    if value is None or len(value.parameters) != 1:
        return None
    down, product = _applied(value.node)
    if not down or not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult):
        return None
    for left, right in ((product.left, product.right), (product.right, product.left)):
        act, inner = _applied(left, torch_too=True)
        gate, first = _applied(inner)
        up, second = _applied(right)
        arguments = [getattr(node, "id", "") for node in (first, second)]
        if act and gate and up and arguments == [value.parameters[0]] * 2:
            return _GatedMlp(down, act, gate, up, value.parameters[0])
    return None


def _applied(node: ast.AST | None, torch_too: bool = False) -> tuple[str, ast.expr | None]:
    """``name`` and ``x`` of ``self.name(x)``; of ``F.silu(x)`` as well, where that is asked for."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return "", None
    if torch_too and ast.unparse(node.func) in _FUNCTIONS:
        return ast.unparse(node.func), node.args[0]
    return own_attribute(node.func), node.args[0] if own_attribute(node.func) else None


def _activation(upstream: UpstreamSource, cls: ast.ClassDef, gated: _GatedMlp) -> _Activation:
    """What ``self.act_fn`` is: an entry of transformers' table, or torch's own module or function."""
    if gated.act in _FUNCTIONS:
        return _Activation("silu")
    value = upstream.built(cls, gated.act)
    if isinstance(value, ast.Call) and last_name(value.func) == "SiLU":
        return _Activation("silu")
    if not isinstance(value, ast.Subscript) or last_name(value.value) != "ACT2FN":
        return _Activation("")
    if isinstance(value.slice, ast.Constant):
        return _Activation(str(value.slice.value))
    key = last_name(value.slice)
    if not isinstance(value.slice, ast.Attribute):  # a parameter of __init__
        return _Activation(_default_of(next(upstream.inits(cls)), key))
    config_classes = upstream.configs_of(cls) or {upstream.model.config_class}
    defaults = {_default(upstream, name, key) for name in config_classes}
    return _Activation(defaults.pop() if len(defaults) == 1 else "", key)


def _default_of(function: Function, name: str) -> str:
    defaults = (parameter.default for parameter in read_parameters(function) if parameter.name == name)
    return next((str(value.value) for value in defaults if isinstance(value, ast.Constant)), "")


def _default(upstream: UpstreamSource, config_class: str, key: str) -> str:
    """The default of a field: of the class that is wanted, else the one that all classes agree on."""
    defaults = {c.name: value for c in upstream.config_classes for name, value in _fields(c) if name == key}
    values = {defaults[config_class]} if config_class in defaults else set(defaults.values())
    return values.pop() if len(values) == 1 else ""


def _fields(cls: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The fields of a configuration class, and of the parameters of its ``__init__``, with text for a default."""
    for node in cls.body:
        value = node.value if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.AnnAssign) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield last_name(node.target), value.value
    init = methods_of(cls).get("__init__")
    for parameter in read_parameters(init) if init is not None else ():
        if isinstance(parameter.default, ast.Constant) and parameter.default.value != "":
            yield parameter.name, str(parameter.default.value)


def _lines(
    upstream: UpstreamSource, cls: ast.ClassDef, gated: _GatedMlp, activation: _Activation, slot: NewSlot
) -> list[str]:
    """The lines that call the kernel; the activation is asked for where a configuration may name another one."""
    x = gated.argument
    lines = [f"if {slot.name}.has_kernel:"]
    keeps_config = any(name == "config" for init in upstream.inits(cls) for name, _ in assignments(init))
    if activation.key and keeps_config:
        value, kernel_names, label = f"self.config.{activation.key}", _WORDS[slot], activation.key
    else:
        value, kernel_names, label = f"type(self.{gated.act}).__name__", _MODULES[slot], "the activation"
    is_fixed = gated.act in _FUNCTIONS or isinstance(upstream.built(cls, gated.act), ast.Call)
    if activation.key or not is_fixed:
        lines += [
            f"    if {value} not in {kernel_names}:",
            f'        raise ValueError(f"{slot.name} computes {_TITLES[slot]}, and {label} is {{{value}!r}}")',
        ]
    return [*lines, f"    return self.{gated.down}({slot.name}(self.{gated.gate}({x}), self.{gated.up}({x})))"]


def _why_not(upstream: UpstreamSource, cls: ast.ClassDef, function: Function) -> str:
    """Why an MLP is none of those that are patched; empty for other classes."""
    text = "\n".join(ast.unparse(statement) for statement in without_docstring(function))
    parts = " ".join(ast.unparse(value) for init in upstream.inits(cls) for _, value in assignments(init))
    acts = any(word in f"{parts} {text}" for word in ("ACT2FN", "ACT2CLS", "silu", "gelu", "SiLU", "GELU"))
    if not acts or not ("MLP" in cls.name or "Mlp" in cls.name or "FeedForward" in cls.name):
        return ""
    if "gate_up_proj" in text or (".chunk(2" in text and "*" in text):
        return "one fused projection makes gate and up, but the patch is for an MLP with one for each"
    if "gate" in text and "*" in text:
        return "it does more than down(act(gate(x)) * up(x)) with three projections"
    return "it has no gate: neither SwiGLU nor GEGLU"
