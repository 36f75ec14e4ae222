"""Signatures of functions and dataclasses, and whether a call fits one."""

from __future__ import annotations

import ast
from collections.abc import Container
from dataclasses import dataclass
from typing import Literal

from patchgen_core.syntax.nodes import Function, decorator_names


@dataclass(frozen=True)
class Parameter:
    """One named parameter.

    Attributes:
        name: its name.
        kind: how it may be passed.
        required: whether it lacks a default.
    """

    name: str
    kind: Literal["position", "either", "keyword"]
    required: bool


@dataclass(frozen=True)
class Signature:
    """What a function may be called with.

    Attributes:
        parameters: named parameters in order, without the one that an instance or class is bound to.
        takes_args, takes_kwargs: whether it has ``*args`` and ``**kwargs``.
        kwargs_name: what it calls ``**kwargs``.
    """

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


def signature_of(function: Function, bound: bool) -> Signature:
    """The signature of a function.

    Args:
        function: its definition.
        bound: whether its first parameter is passed by the call itself, as ``self`` is.
    """
    arguments = function.args
    first_default = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    parameters = []
    for number, argument in enumerate([*arguments.posonlyargs, *arguments.args]):
        is_position_only = number < len(arguments.posonlyargs)
        parameters.append(
            Parameter(argument.arg, "position" if is_position_only else "either", number < first_default)
        )
    if bound and parameters:
        del parameters[0]
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        parameters.append(Parameter(argument.arg, "keyword", default is None))
    return Signature(
        tuple(parameters),
        arguments.vararg is not None,
        arguments.kwarg is not None,
        arguments.kwarg.arg if arguments.kwarg else "",
    )


def misfit(call: ast.Call, signature: Signature, accepted: Container[str] = ()) -> str:
    """Why a call does not fit a signature; empty when it does, or when its stars may make it fit.

    Args:
        call: the call.
        signature: what it calls.
        accepted: more keywords that are accepted, as by a decorator, which may pass ``image_sizes`` on as ``sizes``.
    """
    has_args = any(isinstance(argument, ast.Starred) for argument in call.args)
    has_kwargs = any(keyword.arg is None for keyword in call.keywords)
    positional = signature.positional
    given = sum(not isinstance(argument, ast.Starred) for argument in call.args)
    if given > len(positional) and not signature.takes_args:
        return f"passes {given} arguments by position where {len(positional)} fit"
    by_position = {p.name for p in positional[:given]}
    keywords = {keyword.arg for keyword in call.keywords if keyword.arg is not None}
    for name in (k.arg for k in call.keywords if k.arg is not None):
        parameter = signature.find(name)
        if name in by_position and not (parameter and parameter.kind == "position" and signature.takes_kwargs):
            return f"passes '{name}' twice, by position and by keyword"
        is_taken = parameter is not None and parameter.kind != "position"
        if not is_taken and not signature.takes_kwargs and name not in accepted:
            return f"passes '{name}', which is no parameter"
    for parameter in signature.parameters[min(given, len(positional)) :]:
        is_passed = parameter.kind != "position" and parameter.name in keywords
        by_star = (has_args and parameter.kind != "keyword") or (has_kwargs and parameter.kind != "position")
        by_star |= any(name.endswith(f"_{parameter.name}") for name in keywords if name in accepted)
        if parameter.required and not is_passed and not by_star:
            return f"does not pass '{parameter.name}'"
        has_args &= not is_passed  # a star that went on would pass it twice
    return ""
