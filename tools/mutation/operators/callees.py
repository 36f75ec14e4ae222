"""Defects of calls and of what they call: PG202."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.mutation.configs import NEW, Config, Piece
from tools.mutation.evident import Evident, is_refused, signature
from tools.mutation.mutant import Expected, RuleMutant
from tools.mutation.operators.signatures import parameter_names, without_parameter


def call_mutants(config: Config) -> Iterator[RuleMutant]:
    """Every callee asks for more and takes less than it did, and every call passes what is unknown."""
    calls: dict[str, list[Evident]] = {}
    for call in config.reader.calls:
        if call.function is not None and not is_refused(call.node, call.signature):
            calls.setdefault(call.callee, []).append(call)
    for piece in config.pieces:
        if piece.call != "replace_class" and piece.target.count(".") < 2:
            yield from _changed_callees(config, piece, calls.get(piece.target, []))
            yield from _changed_calls(config, piece)


def _changed_callees(config: Config, piece: Piece, calls: list[Evident]) -> Iterator[RuleMutant]:
    if not calls:
        return
    node = piece.function()
    is_bound = piece.is_bound
    arguments = node.args
    if arguments.defaults or arguments.vararg or arguments.kwonlyargs:
        arguments.kwonlyargs.append(ast.arg(NEW))
        arguments.kw_defaults.append(None)
    else:
        arguments.args.append(ast.arg(NEW))
    changes = [("callee asks for one more", NEW, node)]
    changes += [
        ("callee loses a parameter", n, without_parameter(piece, n))
        for n in parameter_names(piece.function().args, is_bound)
    ]
    for kind, name, changed in changes:
        taken = {bound: signature(changed.args, bound) for bound in (True, False)}
        refused = [c for c in calls if is_refused(c.node, taken[is_bound and _passes_instance(c)])]
        if refused:
            expected = tuple(Expected(c.owner or c.callee, (f"'{c.named}'",), ast.unparse(c.node)) for c in refused)
            text = config.with_changes({piece.index: ast.unparse(changed)})
            yield RuleMutant(kind, f"{piece.target}: {name}", text, "PG202", expected)


def _passes_instance(call: Evident) -> bool:
    """Whether a call's own arguments start behind ``self``."""
    assert call.function is not None
    return len(call.signature.parameters) < len(signature(call.function.args, bound=False).parameters)


def _changed_calls(config: Config, piece: Piece) -> Iterator[RuleMutant]:
    evident: dict[str, list[Evident]] = {}
    for call in config.reader.calls:
        if call.owner == piece.owner:
            evident.setdefault(ast.unparse(call.node), []).append(call)
    for number, node in enumerate(n for n in ast.walk(piece.node()) if isinstance(n, ast.Call)):
        found = evident.get(ast.unparse(node), [])
        changed = piece.node()
        call = [n for n in ast.walk(changed) if isinstance(n, ast.Call)][number]
        call.keywords.append(ast.keyword(NEW, ast.Constant(None)))
        if found and all(is_refused(call, callee.signature) for callee in found):
            expected = tuple(
                Expected(piece.owner, (f"'{name}'",), ast.unparse(call))
                for name in dict.fromkeys(callee.named for callee in found)
            )
            text = config.with_changes({piece.index: ast.unparse(changed)})
            yield RuleMutant(
                "call passes what is unknown", f"{piece.target}: {ast.unparse(node)}", text, "PG202", expected
            )
