"""Definitions, each on one line."""

from __future__ import annotations

import ast

from patchgen_core.syntax.nodes import Definition


def describe_definition(node: Definition) -> str:
    """A function with its parameters, or a class with its bases."""
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}({', '.join(map(ast.unparse, node.bases))})"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"def {node.name}({ast.unparse(node.args)}){returns}"
