"""Defects of calls and of what they call: PG202."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.defects.base import NEW, Base, Expected, Mutant, Piece
from tools.defects.signatures import parameter_names, without_parameter
from tools.evident import Evident, is_refused, signature


def call_mutants(base: Base) -> Iterator[Mutant]:
    """Every callee asks for more and takes less than it did, and every call passes what is unknown."""
    calls: dict[str, list[Evident]] = {}
    for call in base.reader.calls:
        if call.function is not None and not is_refused(call.node, call.signature):
            calls.setdefault(call.callee, []).append(call)
    for piece in base.pieces:
        if piece.call != "replace_class" and piece.target.count(".") < 2:
            yield from _changed_callees(base, piece, calls.get(piece.target, []))
            yield from _changed_calls(base, piece)


def _changed_callees(base: Base, piece: Piece, calls: list[Evident]) -> Iterator[Mutant]:
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
            text = base.with_changes({piece.index: ast.unparse(changed)})
            yield Mutant("PG202", kind, f"{piece.target}: {name}", text, expected)


def _passes_instance(call: Evident) -> bool:
    """Whether a call's own arguments start behind ``self``."""
    assert call.function is not None
    return len(call.signature.parameters) < len(signature(call.function.args, bound=False).parameters)


def _changed_calls(base: Base, piece: Piece) -> Iterator[Mutant]:
    evident: dict[str, list[Evident]] = {}
    for call in base.reader.calls:
        if call.owner == piece.owner:
            evident.setdefault(ast.unparse(call.node), []).append(call)
    for number, node in enumerate(n for n in ast.walk(piece.node()) if isinstance(n, ast.Call)):
        found = evident.get(ast.unparse(node), [])
        changed = piece.node()
        call = [n for n in ast.walk(changed) if isinstance(n, ast.Call)][number]
        call.keywords.append(ast.keyword(NEW, ast.Constant(None)))
        if found and all(is_refused(call, callee.signature) for callee in found):
            expected = tuple(
                Expected(piece.owner, (f"'{name}'",), ast.unparse(call)) for name in {callee.named for callee in found}
            )
            text = base.with_changes({piece.index: ast.unparse(changed)})
            yield Mutant(
                "PG202", "call passes what is unknown", f"{piece.target}: {ast.unparse(node)}", text, expected
            )
