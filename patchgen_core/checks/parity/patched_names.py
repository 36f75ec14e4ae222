"""The names in the code of patches, which tell what they may depend on."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from patchgen_core.checks.parity.parsed_modules import nodes_of, parse_module
from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.checks.parity.unreached_patches import spans_of
from patchgen_core.syntax.nodes import DEFINITIONS

_KEEPING = frozenset({"setattr", "lru_cache", "cached_property", "register_buffer"})


def find_patched_names(request: ParityRequest, upstream_path: str) -> frozenset[str]:
    """Every name, attribute, argument, keyword and string in the code of a module's patches, and in what upstream has
    in their place; the names of what is patched are among them."""
    names: set[str] = set()
    lines = defaultdict(set, {request.path: {line for patch in request.patches for line in patch.fresh}})
    for spans in spans_of(request.path, request.patches).values():
        for span in spans:
            lines[span.file].update(range(span.first, span.last + 1))
    for path, own in lines.items():
        names.update(_names_on(path, request.text if path == request.path else None, own))
    targets = {patch.target for patch in request.patches}
    names.update(target.rpartition(".")[2] for target in targets)
    named = _names_by_definition(parse_module(upstream_path))
    return frozenset(names.union(*(named[target] for target in targets if target in named)))


def keeps_values(request: ParityRequest) -> bool:
    """Whether lines that a module's patches bring in set an attribute of a module or a global name, other than where
    an object is made, or keep what a function gives."""
    fresh = {line for patch in request.patches for line in patch.fresh}
    nodes = nodes_of(parse_module(request.path, request.text))
    makers = (node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    lines = fresh.difference(*(range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in makers))
    return any(_keeps(node) for node in nodes if getattr(node, "lineno", 0) in lines)


def _keeps(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
    return isinstance(node, ast.Global) or not _KEEPING.isdisjoint(_names_in([node]))


def _names_on(path: str, text: str | None, lines: Collection[int]) -> Iterator[str]:
    nodes = (node for node in nodes_of(parse_module(path, text)) if getattr(node, "lineno", 0) in lines)
    yield from _names_in(nodes)


def _names_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, (ast.arg, ast.keyword)):
            yield node.arg or "**"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@functools.lru_cache(maxsize=2)
def _names_by_definition(tree: ast.Module) -> Mapping[str, frozenset[str]]:
    """The names in each function, class and method of a module, by its dotted name."""
    tops = [node for node in tree.body if isinstance(node, DEFINITIONS)]
    members = [
        (f"{top.name}.{node.name}", node)
        for top in tops
        if isinstance(top, ast.ClassDef)
        for node in top.body
        if isinstance(node, DEFINITIONS)
    ]
    definitions = [*((top.name, top) for top in tops), *members]
    names: dict[str, frozenset[str]] = {}
    for dotted, node in definitions:
        names[dotted] = names.get(dotted, frozenset()) | {*_names_in(ast.walk(node))}
    return names
