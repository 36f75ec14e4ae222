"""Which lines of patches no batch runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType

from patchgen_core.checks.contract.parity_codes import UNRUN
from patchgen_core.checks.parity.findings import lines_of
from patchgen_core.checks.parity.request import ParityRequest, PatchedCode
from patchgen_core.errors import Problem
from patchgen_core.files import read_text
from patchgen_core.models.execution import Execution
from patchgen_core.syntax.nodes import FUNCTIONS, Function

_HINT = "Give a batch or a toy config that runs them, or allow it with config.allow('PG302', reason, target)."
_MOST_LINES = 12
_STATES = ("has_kernel", "use_non_eager_impl", "use_eager_impl", "bound_kernel")
_CONDITIONS = (ast.Attribute, ast.BoolOp, ast.Compare, ast.UnaryOp)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def find_unrun_lines(
    request: ParityRequest, executions: Mapping[str, Execution], batches: Sequence[str], slots: set[str]
) -> Iterator[Problem]:
    """The patches of which some lines did not run although the functions that they stand in did.

    ``slots`` are the names of the module's slots, and of tables of them. Only lines that upstream does not have count.
    Of what depends on whether a slot has a kernel, only the side that runs is looked at, because other implementations
    run the other one. Code that ends in ``raise`` is left out.
    """
    text = read_text(Path(request.path)) or ""
    if not any(patch.fresh for patch in request.patches):
        return
    try:
        tree, code = ast.parse(text), set(_executable(compile(text, request.path, "exec")))
    except SyntaxError:  # what ran is not what stands there
        return
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    for patch in request.patches:
        ran = {line for file, line in executions[patch.target].lines if file == request.path}
        own = [f for f in functions if any(first <= f.lineno <= last for first, last in patch.lines)]
        unrun = {line for function in own for line in _unrun_lines_of(function, ran, slots)}
        if missed := sorted(unrun & code & set(patch.fresh)):
            yield _problem(patch, missed, request.path, batches)


def _problem(patch: PatchedCode, missed: Sequence[int], path: str, batches: Sequence[str]) -> Problem:
    where = ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges(missed))
    word = "lines" if len(missed) > 1 else "line"
    message = f"no toy batch runs {word} {where} of what the patch of '{patch.target}' brings in"
    lines = lines_of(path, missed[:_MOST_LINES])
    hint = f"{_HINT} Batches: {', '.join(batches)}."
    return Problem(message, patch.declared, hint, code=UNRUN, generated=lines, target=patch.target)


def ranges(lines: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Sorted lines as pairs of a first and a last one that follow each other without a gap."""
    first = last = lines[0]
    for line in lines[1:]:
        if line > last + 1:
            yield first, last
            first = line
        last = line
    yield first, last


def _executable(code: CodeType) -> Iterator[int]:
    """The lines that code has something to run on."""
    yield from (line for _, _, line in code.co_lines() if line)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _executable(constant)


def _unrun_lines_of(function: Function, ran: set[int], slots: set[str]) -> Iterator[int]:
    """The lines of a function's statements that did not run; none when the function did not."""
    if not _does_any_run(function.body, ran):
        return
    flags = slots | _slot_flags(function, slots)
    yield from _unrun_lines_in(function.body, ran, flags)


def _slot_flags(function: Function, slots: set[str]) -> set[str]:
    """The local names that say whether a slot has a kernel."""
    return {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, _CONDITIONS) and _is_about(node.value, slots)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _is_about(test: ast.AST, slots: set[str]) -> bool:
    return bool(_mentioned_names(test) & {*slots, *_STATES})


def _mentioned_names(tree: ast.AST) -> set[str]:
    nodes = list(ast.walk(tree))
    return {n.id for n in nodes if isinstance(n, ast.Name)} | {n.attr for n in nodes if isinstance(n, ast.Attribute)}


def _unrun_lines_in(block: Sequence[ast.stmt], ran: set[int], slots: set[str]) -> Iterator[int]:
    if block and isinstance(block[-1], ast.Raise) and not _did_run(block[0], ran):
        return
    for number, statement in enumerate(block):
        if isinstance(statement, ast.If) and _is_about(statement.test, slots):
            sides = [side for side in (statement.body, statement.orelse) if _does_any_run(side, ran)]
            for side in sides:
                yield from _unrun_lines_in(side, ran, slots)
            is_left = not _did_run(statement, ran) or any(map(_leaves, sides))
            if is_left and not _does_any_run(block[number + 1 :], ran):
                return  # it depends on the slot's state as well
            continue
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef, ast.Global, ast.Nonlocal)) or _is_text(statement):
            continue  # a function in a function is one of its own
        if not _did_run(statement, ran):
            if not isinstance(statement, ast.Raise):
                yield from range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
            continue
        for inner in _blocks(statement):
            yield from _unrun_lines_in(inner, ran, slots)


def _leaves(block: Sequence[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], _LEAVES)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _does_any_run(block: Sequence[ast.stmt], ran: set[int]) -> bool:
    return any(_did_run(statement, ran) for statement in block)


def _did_run(statement: ast.stmt, ran: set[int]) -> bool:
    return any(line in ran for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))


def _blocks(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    """The blocks inside a statement, in their order."""
    for field in ("body", "handlers", "cases", "orelse", "finalbody"):
        for entry in [getattr(statement, field, [])]:
            if entry and isinstance(entry[0], ast.stmt):
                yield entry
            else:
                yield from (inner.body for inner in entry)
