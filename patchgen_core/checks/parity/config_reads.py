"""Which fields of a configuration patched code reads: by their names, and through attributes that hold them."""

from __future__ import annotations

import ast
import functools
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping

from patchgen_core.checks.parity.parsed_modules import parse_module
from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS

_MASK_FIELDS = frozenset({"sliding_window", "layer_types", "attention_chunk_size", "use_bidirectional_attention"})
_READ_BY = {
    "lm_head": frozenset({"tie_word_embeddings"}),
    "get_output_embeddings": frozenset({"tie_word_embeddings"}),
    "create_causal_mask": _MASK_FIELDS,
    "create_sliding_window_causal_mask": _MASK_FIELDS,
    "create_masks_for_generate": _MASK_FIELDS,
    "inv_freq": frozenset({"rope_parameters"}),
    "rope_init_fn": frozenset({"rope_parameters"}),
    "attention_scaling": frozenset({"rope_parameters"}),
    "pooled_logits": frozenset({"problem_type", "num_labels", "pad_token_id"}),
}
"""Fields that transformers' own code reads when a patch uses these names."""


def find_read_names(names: frozenset[str], targets: frozenset[str], upstream_path: str) -> frozenset[str]:
    """The names among which the fields are that code with ``names`` reads, in a module of models.

    A field counts as read where its name stands in the code, where an attribute does that ``__init__`` of a class sets
    from it, and where it goes into the arguments that upstream calls a target with.
    """
    held, arguments = _read_module(upstream_path)
    own = set(names)
    for target in targets:
        own |= arguments.get(target.removesuffix(".__init__").rpartition(".")[2], frozenset())
        own |= arguments.get(target.partition(".")[0], frozenset())
    read = set(own)
    for name in own:
        read |= held.get(name, frozenset()) | _READ_BY.get(name, frozenset())
    return frozenset(read)


Names = Mapping[str, frozenset[str]]


@functools.lru_cache(maxsize=4)
def _read_module(path: str) -> tuple[Names, Names]:
    """The fields in every attribute of a module's classes, and the names in the arguments of its calls, by the name
    of what is called."""
    held: defaultdict[str, set[str]] = defaultdict(set)
    arguments: defaultdict[str, set[str]] = defaultdict(set)
    tree = parse_module(path)
    for top in tree.body:
        if isinstance(top, ast.ClassDef):
            for function in top.body:
                if isinstance(function, FUNCTIONS) and function.name == "__init__":
                    _read_attributes(function, held)
        if isinstance(top, DEFINITIONS):
            _read_calls(top, arguments)
    return {k: frozenset(v) for k, v in held.items()}, {k: frozenset(v) for k, v in arguments.items()}


def _read_attributes(function: ast.AST, held: defaultdict[str, set[str]]) -> None:
    """Note the fields in what is assigned to attributes, in the order of assignments."""
    variables: defaultdict[str, set[str]] = defaultdict(set)
    nodes = [node for node in ast.walk(function) if isinstance(node, (ast.Assign, ast.AnnAssign))]
    for node in sorted(nodes, key=lambda node: node.lineno):
        if node.value is None:
            continue
        fields = set(_fields_in(node.value, variables, held))
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for one in itertools.chain.from_iterable(map(ast.walk, targets)):
            if isinstance(one, ast.Attribute):
                held[one.attr] |= fields
            elif isinstance(one, ast.Name) and one.id != "self":
                variables[one.id] |= fields


def _fields_in(value: ast.AST, variables: Mapping[str, set[str]], held: Mapping[str, set[str]]) -> Iterator[str]:
    for node in ast.walk(value):
        if isinstance(node, ast.Attribute) and _is_config(node.value):
            yield node.attr
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield from held.get(node.attr, ())
        elif isinstance(node, ast.Name):
            yield from variables.get(node.id, ())
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            yield from (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))


def _is_config(node: ast.AST) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.endswith("config")


def _read_calls(top: ast.AST, arguments: defaultdict[str, set[str]]) -> None:
    for node in ast.walk(top):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        for value in (*node.args, *(keyword.value for keyword in node.keywords)):
            inner = ast.walk(value)
            arguments[node.func.id] |= {one.attr for one in inner if isinstance(one, ast.Attribute)}
