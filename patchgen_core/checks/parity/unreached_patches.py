"""Which patches no batch reaches, and where they would be reached."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import CodeType
from typing import Any

from patchgen_core.checks.parity.parsed_modules import parse_module
from patchgen_core.checks.parity.request import ParityRequest, PatchedCode
from patchgen_core.checks.parity.unrun_lines import Elsewhere, find_local_flags, find_rank_functions
from patchgen_core.checks.parity_codes import UNREACHED
from patchgen_core.errors import Problem
from patchgen_core.models.execution import Execution, Span
from patchgen_core.models.implementations import BoundSlots
from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS, Function

_HINT = (
    "Add a batch that does with the hook pytest_patchgen_toy_batches, or a toy config that has it."
    " If none can: config.allow('{code}', '<why>', '{target}')."
)


_OF_GENERATION = frozenset({"prepare_inputs_for_generation"})
"""Methods that ``generate`` calls, and no training step."""


def spans_of(path: str, patches: Sequence[PatchedCode]) -> dict[str, list[Span]]:
    """Where the code of each patch of a module stands, by target; that of an external one in its own file."""
    spans: dict[str, list[Span]] = {}
    for patch in patches:
        own = [Span(path, first, last) for first, last in patch.lines]
        spans.setdefault(patch.target, []).extend(own or _external(patch))
    return spans


def _external(patch: PatchedCode) -> Iterator[Span]:
    """Where the functions of what is imported stand; nothing for what is not written in Python."""
    value = getattr(importlib.import_module(patch.module), patch.name, None)
    for function in _functions(value):
        code: CodeType | None = getattr(inspect.unwrap(function), "__code__", None)
        if code is not None:
            lines = [line for _, _, line in code.co_lines() if line is not None]
            yield Span(code.co_filename, code.co_firstlineno, max(lines, default=code.co_firstlineno))


def _functions(value: Any) -> Iterator[Any]:
    if not inspect.isclass(value):
        yield value
        return
    for cls in value.__mro__:
        if cls.__module__.partition(".")[0] not in ("torch", "builtins"):
            for member in vars(cls).values():
                member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                if inspect.isfunction(member):
                    yield member


def find_unreached_patches(
    request: ParityRequest,
    executions: Mapping[str, Execution],
    parts: Mapping[str, Mapping[str, str]],
    batches: Sequence[str],
    skipped: Collection[str] = (),
    only_elsewhere: bool = False,
) -> Iterator[Problem]:
    """The patches whose code did not run, each with what to do, by the batches and the model parts that ran; those
    of heads that are skipped are no finding.

    What only generation or the ranks of a group call is told with ``only_elsewhere``, as a warning, and not without.
    """
    tree = parse_module(request.path, request.text)
    by_target = {patch.target: patch for patch in reversed(request.patches)}  # of several edits the first
    for patch in reversed(by_target.values()):
        is_skipped = patch.target.partition(".")[0] in skipped
        if _is_run(patch, executions) or not patch.is_computed or is_skipped:
            continue
        if _is_called_elsewhere(patch.target.rpartition(".")[2], tree) != only_elsewhere:
            continue
        where = _describe_place(patch, parts)
        message = f"no toy batch reaches the patch of '{patch.target}': {where} (batches: {', '.join(batches)})"
        hint = _HINT.format(code=UNREACHED, target=patch.target)
        yield Problem(message, patch.declared, hint, code=UNREACHED, target=patch.target)


def _is_called_elsewhere(name: str, tree: ast.Module) -> bool:
    """Whether a method is one of generation, or the module calls it, and under conditions on other ranks alone."""
    if name in _OF_GENERATION:
        return True
    every = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == name]
    for_ranks = Elsewhere(set(), True, find_rank_functions(tree))
    under = {id(node) for place in [tree, *_functions_in(tree)] for node in _nodes_elsewhere(place, for_ranks)}
    return bool(every) and all(id(node) in under for node in every)


def _functions_in(tree: ast.Module) -> Iterator[Function]:
    yield from (node for node in ast.walk(tree) if isinstance(node, FUNCTIONS))


def _nodes_elsewhere(place: ast.Module | Function, elsewhere: Elsewhere) -> Iterator[ast.AST]:
    """What is under conditions that are met elsewhere, by what they name or by local names that hold one."""
    if isinstance(place, FUNCTIONS):
        elsewhere = replace(elsewhere, names=find_local_flags(place, elsewhere))
    for test in ast.walk(place):
        if isinstance(test, (ast.If, ast.IfExp)) and elsewhere.decides(test.test):
            yield from ast.walk(test)


def _is_run(patch: PatchedCode, executions: Mapping[str, Execution]) -> bool:
    """Whether more of a patch ran than the making of its objects."""
    constructors = {"__init__"} if not patch.target.endswith(".__init__") else set()
    return bool(executions[patch.target].functions - constructors)


def why_nothing_shows(request: ParityRequest, executions: Mapping[str, Execution], bound: BoundSlots) -> str:
    """Why a comparison without differences proves nothing; empty when it does."""
    if bound.calls and not any(bound.calls.values()):
        return f"no slot that is bound to {request.implementation} is called"
    if request.patches and not any(_is_run(patch, executions) for patch in request.patches):
        return "no patched code runs"
    return ""


def _describe_place(patch: PatchedCode, parts: Mapping[str, Mapping[str, str]]) -> str:
    """Where the patched code is, in words."""
    name = patch.target.partition(".")[0]
    for head, kinds in parts.items():
        path = next((path for path, kind in kinds.items() if kind == name), None)
        if path is not None:
            return f"it belongs to '{path}' of {head}, which ran" if path else f"{head} ran without it"
    heads = ", ".join(parts)
    used = f"; {', '.join(patch.users[:4])} refer to it" if patch.users else ""
    return f"none of the heads that ran contains it ({heads}){used}"


def find_uncalled_slots(
    request: ParityRequest, calls: Mapping[str, int], skipped: Collection[str] = ()
) -> Iterator[Problem]:
    """The slots that were bound and never called; a patch's code may have run around them. Those that heads which are
    skipped alone refer to are no finding."""
    tree = parse_module(request.path, request.text)
    for name, count in calls.items():
        users = set() if count else _users_of(name.partition("[")[0], tree)
        if not count and not (users and users <= set(skipped)):
            message = f"no toy batch calls '{name}', which is bound to {request.implementation}"
            hint = _HINT.format(code=UNREACHED, target=name)
            yield Problem(message, request.declared, hint, code=UNREACHED, target=name)


def _users_of(name: str, tree: ast.Module) -> set[str]:
    """The classes and functions at the top of a module that refer to a name."""
    return {
        node.name
        for node in tree.body
        if isinstance(node, DEFINITIONS)
        and any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))
    }
