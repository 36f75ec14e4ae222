"""Which code of a module runs the kernels of its slots."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Mapping, Sequence

from patchgen_core.checks.parity.dimensions.batch_choice import find_tower_classes, has_media
from patchgen_core.checks.parity.parsed_modules import parse_module
from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.models.batches import ToyBatch, ToyModel
from patchgen_core.syntax.nodes import DEFINITIONS


def find_users(request: ParityRequest, slots: Collection[str]) -> frozenset[str]:
    """The classes and functions at the top of a module that use some slots, those that use others of them included."""
    named = _names_by_top(parse_module(request.path, request.text))
    users = {name.partition("[")[0] for name in slots}
    while more := {top for top, names in named.items() if names & users} - users:
        users |= more
    return frozenset(users & named.keys())


@functools.lru_cache(maxsize=2)
def _names_by_top(tree: ast.Module) -> Mapping[str, set[str]]:
    """The names in each class and function at the top of a module."""
    tops = [node for node in tree.body if isinstance(node, DEFINITIONS)]
    return {top.name: {node.id for node in ast.walk(top) if isinstance(node, ast.Name)} for top in tops}


def choose_for_kernels(toy: ToyModel, batches: Sequence[ToyBatch], users: Collection[str]) -> Sequence[ToyBatch]:
    """Those of text alone, where there are such and nothing that only media reach uses kernels."""
    texts = [batch for batch in batches if not has_media(batch)]
    return texts if texts and not find_tower_classes(toy).intersection(users) else batches
