"""Defects of signatures: PG201."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from tools.mutation.configs import Config, Piece
from tools.mutation.mutant import Expected, RuleMutant
from tools.sweep import METHODS, Method


def signature_mutants(config: Config) -> Iterator[RuleMutant]:
    """Every override drops, renames and swaps every parameter, and loses its stars."""
    for piece in config.pieces:
        if piece.call == "replace_class" or piece.target.count(".") > 1:
            continue
        name, _, method = piece.target.partition(".")
        reader = config.original
        if method and (name not in reader.classes or reader.method(name, method) is None):
            continue  # an added method has no signature to keep
        node = piece.node()
        assert isinstance(node, METHODS)
        for kind, what, mentions, changed in _changed_signatures(piece, piece.is_bound):
            text = config.with_changes({piece.index: ast.unparse(changed)})
            yield RuleMutant(kind, f"{piece.target}: {what}", text, "PG201", (Expected(piece.owner, mentions),))


def _changed_signatures(piece: Piece, is_bound: bool) -> Iterator[tuple[str, str, tuple[str, ...], Method]]:
    for name in parameter_names(piece.function().args, is_bound):
        quoted = (f"'{name}'",)
        yield "drops a parameter", name, quoted, without_parameter(piece, name)
        yield "renames a parameter", name, quoted, _renamed(piece, name)
    positional = [a.arg for a in [*piece.function().args.posonlyargs, *piece.function().args.args]][is_bound:]
    for first, second in itertools.pairwise(positional):
        yield "swaps two parameters", f"{first}, {second}", (f"'{first}'", f"'{second}'"), _swapped(piece, first)
    for star, attribute in (("*args", "vararg"), ("**kwargs", "kwarg")):
        if getattr(piece.function().args, attribute) is not None:
            yield f"loses {star}", "", (f"loses upstream's {star}",), _without_star(piece, attribute)


def parameter_names(arguments: ast.arguments, is_bound: bool) -> list[str]:
    positional = [*arguments.posonlyargs, *arguments.args][is_bound:]
    return [argument.arg for argument in (*positional, *arguments.kwonlyargs)]


def _assign(node: Method, name: str, value: str) -> Method:
    """The function with an assignment in front of its body, below its docstring."""
    at = 1 if ast.get_docstring(node, clean=False) is not None else 0
    node.body.insert(at, ast.parse(f"{name} = {value}").body[0])
    return ast.fix_missing_locations(node)


def without_parameter(piece: Piece, name: str) -> Method:
    node = piece.function()
    _drop(node.args, name)
    return _assign(node, name, "None")


def _drop(arguments: ast.arguments, name: str) -> None:
    """Take a parameter and its default out."""
    for group in (arguments.posonlyargs, arguments.args):
        for number, argument in enumerate(group):
            if argument.arg == name:
                offset = len(arguments.posonlyargs) if group is arguments.args else 0
                count = len(arguments.posonlyargs) + len(arguments.args)
                default = number + offset - (count - len(arguments.defaults))
                if default >= 0:
                    del arguments.defaults[default]
                del group[number]
                return
    number = [argument.arg for argument in arguments.kwonlyargs].index(name)
    del arguments.kwonlyargs[number], arguments.kw_defaults[number]


def _renamed(piece: Piece, name: str) -> Method:
    node = piece.function()
    found = next(a for a in ast.walk(node.args) if isinstance(a, ast.arg) and a.arg == name)
    found.arg = f"{name}_renamed"
    return _assign(node, name, found.arg)


def _swapped(piece: Piece, name: str) -> Method:
    """A parameter changes places with the next; what has a default stays where it is."""
    node = piece.function()
    arguments = [*node.args.posonlyargs, *node.args.args]
    at = [argument.arg for argument in arguments].index(name)
    first, second = arguments[at], arguments[at + 1]
    first.arg, second.arg = second.arg, first.arg
    first.annotation, second.annotation = second.annotation, first.annotation
    return node


def _without_star(piece: Piece, attribute: str) -> Method:
    node = piece.function()
    name = getattr(node.args, attribute).arg
    setattr(node.args, attribute, None)
    return _assign(node, name, "{}" if attribute == "kwarg" else "()")
