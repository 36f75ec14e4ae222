"""Defects of imports inside functions: PG225."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.mutation.configs import NEW, Config
from tools.mutation.mutant import Expected, RuleMutant
from tools.sweep import METHODS


def import_mutants(config: Config) -> Iterator[RuleMutant]:
    """Every override imports, where it runs, a module and a name that the project's package has not."""
    for piece in config.pieces:
        if not isinstance(piece.node(), METHODS):
            continue
        for kind, statement in (
            ("imports a missing module", f"from {config.package}.{NEW} import fused"),
            ("imports a missing name", f"from {config.package} import {NEW}"),
        ):
            node = piece.function()
            at = 1 if ast.get_docstring(node, clean=False) is not None else 0
            node.body.insert(at, ast.parse(f"if {node.name}:\n    {statement}").body[0])
            text = config.with_changes({piece.index: ast.unparse(ast.fix_missing_locations(node))})
            yield RuleMutant(kind, piece.target, text, "PG225", (Expected(piece.owner, (NEW,), statement),))
