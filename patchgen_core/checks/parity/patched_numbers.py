"""The numbers in the code of patches that sizes of batches may cross."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from patchgen_core.checks.parity.parsed_modules import nodes_of, parse_module
from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.checks.parity.unreached_patches import spans_of
from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS

_HELD = {"uint8": 256, "int8": 128}
"""How many whole numbers from 0 on a dtype tells apart, as torch calls it."""

ROUNDED = 256
"""The first whole number of which bfloat16 does not have the next one."""

_COUNTING = frozenset({"arange", "cumsum"})
_COUNTED = frozenset({"position_ids", "cache_position"})
_DTYPES = frozenset({"dtype", "type_as", "bfloat16", "half", "float16"})
_STATEMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)


def find_patched_numbers(request: ParityRequest, upstream_path: str) -> frozenset[int]:
    """The positive whole numbers that patches have and upstream has not.

    Among them are those of functions and constants that they name and upstream has not, and where a dtype that they
    count in ends.
    """
    upstream = parse_module(upstream_path)
    theirs = {node.name for node in upstream.body if isinstance(node, DEFINITIONS)} | _read_constants(upstream).keys()
    numbers: set[int] = set()
    for path, lines in _new_lines(request).items():
        tree = parse_module(path, request.text if path == request.path else None)
        numbers.update(_numbers_on(tree, lines, theirs))
    return frozenset(numbers)


def _new_lines(request: ParityRequest) -> dict[str, set[int]]:
    """The lines of the patches that upstream does not have, by file."""
    lines: defaultdict[str, set[int]] = defaultdict(set)
    lines[request.path].update(line for patch in request.patches for line in patch.fresh)
    for spans in spans_of(request.path, request.patches).values():
        for span in spans:
            if span.file != request.path:
                lines[span.file].update(range(span.first, span.last + 1))
    return lines


def _numbers_on(tree: ast.Module, lines: Collection[int], theirs: Collection[str]) -> Iterator[int]:
    """The numbers on some lines of a file, and those of what they name at its top and upstream has not."""
    constants = _read_constants(tree)
    functions = {node.name: node for node in tree.body if isinstance(node, FUNCTIONS)}
    nodes = [node for node in nodes_of(tree) if getattr(node, "lineno", 0) in lines]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}.difference(theirs)
    yield from _numbers_in(nodes)
    yield from (constants[name] for name in names & constants.keys())
    for name in names & functions.keys():
        yield from _numbers_in(list(ast.walk(functions[name])))


def _read_constants(tree: ast.Module) -> dict[str, int]:
    """The whole numbers that a file gives names to."""
    constants: dict[str, int] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and (value := _count(node.value)):
            constants.update({one.id: value for one in node.targets if isinstance(one, ast.Name)})
    return constants


def _numbers_in(nodes: Collection[ast.AST]) -> Iterator[int]:
    signed = {id(node.operand) for node in nodes if isinstance(node, ast.UnaryOp)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in _HELD:
            yield _HELD[node.attr]
        elif id(node) not in signed and (count := _count(node)):
            yield count
    if _counts_in_dtype_of_model(nodes):
        yield ROUNDED


def _count(node: ast.AST) -> int:
    """A positive whole number; 0 for anything else."""
    value = node.value if isinstance(node, ast.Constant) else 0
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _counts_in_dtype_of_model(nodes: Iterable[ast.AST]) -> bool:
    """Whether a statement counts tokens in a dtype that models are in, which has no odd numbers from some on."""
    counted = set(_COUNTING | _COUNTED)
    statements = [node for node in nodes if isinstance(node, _STATEMENTS)]
    for statement in sorted(statements, key=lambda node: node.lineno):
        inner = list(ast.walk(statement))
        attributes = {node.attr for node in inner if isinstance(node, ast.Attribute)}
        if not counted & (attributes | {node.id for node in inner if isinstance(node, ast.Name)}):
            continue
        if attributes & _DTYPES:
            return True
        if isinstance(statement, ast.Assign) and attributes & _COUNTING:
            counted |= {one.id for one in statement.targets if isinstance(one, ast.Name)}
    return False
