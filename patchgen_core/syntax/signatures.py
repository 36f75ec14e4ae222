"""Signatures of functions and dataclasses, and whether a call fits one."""

from __future__ import annotations

import ast
from collections.abc import Container
from dataclasses import dataclass
from typing import Literal

from patchgen_core.syntax.nodes import Function, decorator_names


@dataclass(frozen=True)
class Parameter:
    """One named parameter; no ``default`` when it has to be passed, no ``node`` for the field of a dataclass."""

    name: str
    kind: Literal["position", "either", "keyword"]
    default: ast.expr | None = None
    node: ast.arg | None = None

    @property
    def required(self) -> bool:
        """Whether it lacks a default."""
        return self.default is None


@dataclass(frozen=True)
class Signature:
    """What a function may be called with, without the parameter that an instance or class is bound to."""

    parameters: tuple[Parameter, ...]
    takes_args: bool = False
    takes_kwargs: bool = False
    kwargs_name: str = ""

    @property
    def positional(self) -> tuple[Parameter, ...]:
        """The parameters that may be passed by position."""
        return tuple(p for p in self.parameters if p.kind != "keyword")

    def find(self, name: str) -> Parameter | None:
        """The parameter of a name."""
        return next((p for p in self.parameters if p.name == name), None)

    def __str__(self) -> str:
        names = [p.name if p.required else f"{p.name}=..." for p in self.positional]
        names += ["*args"] if self.takes_args else ["*"] if len(self.positional) < len(self.parameters) else []
        names += [p.name if p.required else f"{p.name}=..." for p in self.parameters if p.kind == "keyword"]
        return f"({', '.join([*names, *(['**kwargs'] if self.takes_kwargs else [])])})"


def is_static(function: Function) -> bool:
    """Whether a method is called without an instance or class in front."""
    return "staticmethod" in decorator_names(function)


def read_parameters(function: Function) -> list[Parameter]:
    """The named parameters of a function in their order; ``*args`` and ``**kwargs`` are none."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + [*arguments.defaults]
    parameters = [Parameter(a.arg, "position", default, a) for a, default in zip(arguments.posonlyargs, defaults)]
    either = zip(arguments.args, defaults[len(arguments.posonlyargs) :])
    parameters += [Parameter(a.arg, "either", default, a) for a, default in either]
    by_keyword = zip(arguments.kwonlyargs, arguments.kw_defaults)
    return parameters + [Parameter(a.arg, "keyword", default, a) for a, default in by_keyword]


def instance_name(function: Function) -> str:
    """What a method calls its instance or class; empty when it takes none by position."""
    first = [*function.args.posonlyargs, *function.args.args][:1]
    return first[0].arg if first and not is_static(function) else ""


def signature_of(function: Function, bound: bool) -> Signature:
    """The signature of a function; ``bound`` says that the call itself passes the first parameter, as ``self`` is."""
    parameters = read_parameters(function)
    if bound and parameters and parameters[0].kind != "keyword":
        del parameters[0]
    vararg, kwarg = function.args.vararg, function.args.kwarg
    return Signature(tuple(parameters), vararg is not None, kwarg is not None, kwarg.arg if kwarg else "")


def misfit(call: ast.Call, signature: Signature, accepted: Container[str] = ()) -> str:
    """Why a call does not fit a signature; empty when it does, or when its stars may make it fit.

    ``accepted`` are more keywords, as of a decorator, which may pass ``image_sizes`` on as ``sizes``.
    """
    has_args = any(isinstance(argument, ast.Starred) for argument in call.args)
    has_kwargs = any(keyword.arg is None for keyword in call.keywords)
    positional = signature.positional
    count = sum(not isinstance(argument, ast.Starred) for argument in call.args)
    if count > len(positional) and not signature.takes_args:
        return f"passes {count} argument{'s' * (count != 1)} by position where {len(positional)} fit"
    by_position = {p.name for p in positional[:count]}
    keywords = {keyword.arg for keyword in call.keywords if keyword.arg is not None}
    for name in (k.arg for k in call.keywords if k.arg is not None):
        parameter = signature.find(name)
        if name in by_position and not (parameter and parameter.kind == "position" and signature.takes_kwargs):
            return f"passes '{name}' twice, by position and by keyword"
        is_taken = parameter is not None and parameter.kind != "position"
        if not is_taken and not signature.takes_kwargs and name not in accepted:
            return f"passes '{name}', which is not a parameter"
    for parameter in signature.parameters[min(count, len(positional)) :]:
        is_passed = parameter.kind != "position" and parameter.name in keywords
        by_star = (has_args and parameter.kind != "keyword") or (has_kwargs and parameter.kind != "position")
        is_missing = parameter.required and not is_passed and not by_star
        if is_missing and not any(name.endswith(f"_{parameter.name}") and name in accepted for name in keywords):
            return f"does not pass '{parameter.name}'"
        has_args &= not is_passed  # a star that went on would pass it twice
    return ""
