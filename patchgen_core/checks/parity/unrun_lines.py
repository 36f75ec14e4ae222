"""Which lines of patches no batch runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen_core.checks.parity.findings import lines_of
from patchgen_core.checks.parity.parsed_modules import lines_with_code, nodes_of, parse_module
from patchgen_core.checks.parity.request import ParityRequest, PatchedCode
from patchgen_core.checks.parity_codes import UNRUN
from patchgen_core.errors import Problem
from patchgen_core.models.execution import Execution
from patchgen_core.syntax.nodes import FUNCTIONS, Function

_HINT = "Add a batch or a toy config that runs them, or allow it with config.allow('PG302', reason, target)."
_RANKS = "Ranks of a group run them: the check 'sharded' does. Or allow it with config.allow('PG302', reason, target)."
_MOST_LINES = 12
_STATES = ("has_kernel", "use_non_eager_impl", "use_eager_impl", "bound_kernel")
_CONDITIONS = (ast.Attribute, ast.BoolOp, ast.Compare, ast.UnaryOp)
_DEVICES = {"cuda", "npu", "xpu", "mps", "hpu", "cpu"}
_MACHINE = re.compile(
    r"TYPE_CHECKING|(is_)?(torch)?dynamo_compiling|is_torchdynamo_compiling|is_(compiling|tracing|scripting)"
    r"|(is_)?(torch_)?(cuda|npu|xpu|mps|hpu|musa|mlu)(_available|_device)?",
    re.IGNORECASE,
)
_GROUP = re.compile(
    r"world_size|process_group|parallel_state|is_initialized|get_rank"
    r"|\b(sp|ep|cp|tp|dp|ulysses|sequence_parallel|expert_parallel)_(enabled|size|group|world)",
    re.IGNORECASE,
)
_SIZE = re.compile(r"world_size")
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def find_unrun_lines(
    request: ParityRequest,
    executions: Mapping[str, Execution],
    batches: Sequence[str],
    slots: set[str],
    only_ranks: bool = False,
    skipped: Collection[str] = (),
) -> Iterator[Problem]:
    """The patches of which some lines did not run although the functions that they stand in did, as errors; as
    warnings (``only_ranks``) those of lines that only ranks of a group run.

    ``slots`` are the names of the module's slots, and of tables of them. Only lines that upstream does not have count.
    Of what depends on whether a slot has a kernel, on the device, or on whether the code is being compiled, only the
    side that runs is looked at, because other implementations and machines run the other one. Code that ends in
    ``raise``, stands under ``TYPE_CHECKING``, or does no more than name None, is left out, and so are patches of heads
    that are ``skipped``: one may have run until it lacked a package.
    """
    if not any(patch.fresh for patch in request.patches):
        return
    tree, code = parse_module(request.path, request.text), lines_with_code(request.path, request.text)
    functions = [node for node in nodes_of(tree) if isinstance(node, FUNCTIONS)]
    ranks = Elsewhere(slots, True, find_rank_functions(tree))
    for patch in request.patches:
        if patch.target.partition(".")[0] in skipped:
            continue
        ran = {line for file, line in executions[patch.target].lines if file == request.path}
        missing = code & set(patch.fresh) - ran
        own = [f for f in functions if any(first <= f.lineno <= last for first, last in patch.lines)]
        own = [f for f in own if any(f.lineno <= line <= (f.end_lineno or f.lineno) for line in missing)]
        here = {line for function in own for line in _unrun_lines_of(function, ran, ranks)}
        every = {line for function in own for line in _unrun_lines_of(function, ran, Elsewhere(slots))}
        unrun = every - here if only_ranks else here
        if missed := sorted(unrun & missing):
            yield _problem(patch, missed, request, batches, only_ranks)


def _problem(
    patch: PatchedCode, missed: Sequence[int], request: ParityRequest, batches: Sequence[str], only_ranks: bool
) -> Problem:
    where = ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges(missed))
    word = "lines" if len(missed) > 1 else "line"
    message = f"no toy batch runs {word} {where} that the patch of '{patch.target}' adds"
    lines = lines_of(request.path, missed[:_MOST_LINES]) if request.text is None else None
    hint = _RANKS if only_ranks else f"{_HINT} {_batches_text(batches)}"
    return Problem(message, patch.declared, hint, code=UNRUN, generated=lines, target=patch.target)


def _batches_text(batches: Sequence[str]) -> str:
    """The batches that ran, without the modes and configurations in which several did."""
    names = list(dict.fromkeys(name.partition(", ")[0] for name in batches))
    modes = "" if len(names) == len(batches) else ", most in several modes: 'patchgen batches' lists them"
    return f"Batches: {', '.join(names)}{modes}."


def ranges(lines: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Sorted lines as pairs of a first and a last one that follow each other without a gap."""
    first = last = lines[0]
    for line in lines[1:]:
        if line > last + 1:
            yield first, last
            first = line
        last = line
    yield first, last


@dataclass(frozen=True)
class Elsewhere:
    """Which conditions are met elsewhere: with another implementation of the slots, or on another machine.

    ``names`` are those of slots, and local ones that hold such a condition; ``ranks`` whether other ranks count, and
    then ``functions`` are those that ask how many there are.
    """

    names: set[str]
    ranks: bool = False
    functions: frozenset[str] = frozenset()

    def decides(self, test: ast.AST) -> bool:
        """Whether a condition, or what it is made of, depends on where the code runs."""
        names = _mentioned_names(test)
        texts = {n.value for n in ast.walk(test) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        is_other = names & {*self.names, *_STATES} or any(map(_MACHINE.fullmatch, names)) or texts & _DEVICES
        return bool(is_other or (self.ranks and (names & self.functions or any(map(_GROUP.search, names)))))

    def is_named_in(self, value: ast.expr) -> bool:
        """Whether a value is such a condition, or what a function gives that tells of the machine or the group."""
        if isinstance(value, ast.Call):
            return replace(self, names=set()).decides(value.func)
        return isinstance(value, _CONDITIONS) and self.decides(value)


def _unrun_lines_of(function: Function, ran: set[int], elsewhere: Elsewhere) -> Iterator[int]:
    """The lines of a function's statements that did not run; none when the function did not."""
    if not _does_any_run(function.body, ran):
        return
    flags = find_local_flags(function, elsewhere) | _values_from_elsewhere(function, elsewhere)
    own = replace(elsewhere, names=elsewhere.names | flags)
    yield from _unrun_lines_in(function.body, ran, own)


def find_rank_functions(tree: ast.Module) -> frozenset[str]:
    """The functions of a module that ask how many ranks there are, which no group of one rank satisfies."""
    functions = (node for node in tree.body if isinstance(node, FUNCTIONS))
    return frozenset(node.name for node in functions if any(map(_SIZE.search, _mentioned_names(node))))


def find_local_flags(function: Function, elsewhere: Elsewhere) -> set[str]:
    """The local names that say whether a slot has a kernel, or what machine or group this is."""
    return {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and elsewhere.is_named_in(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _values_from_elsewhere(function: Function, elsewhere: Elsewhere) -> set[str]:
    """The local names that are None at first, and get another value under such a condition alone."""
    tests = (node for node in ast.walk(function) if isinstance(node, ast.If) and elsewhere.decides(node.test))
    inside = {id(node) for test in tests for statement in test.body for node in ast.walk(statement)}
    empty = {
        target
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is None
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    stores = [node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    values = [node for node in stores if node not in empty]
    here = {node.id for node in values if id(node) not in inside}
    return ({node.id for node in empty} & {node.id for node in values}) - here


def _mentioned_names(tree: ast.AST) -> set[str]:
    nodes = list(ast.walk(tree))
    return {n.id for n in nodes if isinstance(n, ast.Name)} | {n.attr for n in nodes if isinstance(n, ast.Attribute)}


def _unrun_lines_in(block: Sequence[ast.stmt], ran: set[int], elsewhere: Elsewhere) -> Iterator[int]:
    if block and isinstance(block[-1], ast.Raise) and not _did_run(block[0], ran):
        return
    for number, statement in enumerate(block):
        if isinstance(statement, ast.If) and elsewhere.decides(statement.test):
            sides = [side for side in (statement.body, statement.orelse) if _does_any_run(side, ran)]
            for side in sides:
                yield from _unrun_lines_in(side, ran, elsewhere)
            is_left = not _did_run(statement, ran) or any(map(_leaves, sides))
            if is_left and not _does_any_run(block[number + 1 :], ran):
                return  # it depends on the slot's state, or the machine, as well
            continue
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef, ast.Global, ast.Nonlocal)) or _is_idle(statement):
            continue  # a function in a function is one of its own
        if not _did_run(statement, ran):
            if not isinstance(statement, ast.Raise):
                yield from range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
            continue
        for inner in _blocks(statement):
            yield from _unrun_lines_in(inner, ran, elsewhere)


def _leaves(block: Sequence[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], _LEAVES)


def _is_idle(statement: ast.stmt) -> bool:
    """Whether a statement does nothing: a text, ``pass``, or one that names None."""
    if isinstance(statement, ast.Pass):
        return True
    if isinstance(statement, ast.Assign):
        return isinstance(statement.value, ast.Constant) and statement.value.value is None
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
                yield from (inner.body for inner in entry if not _is_for_lacking_package(inner))


def _is_for_lacking_package(clause: ast.AST) -> bool:
    """Whether it handles an import that fails, as on another machine."""
    kind = getattr(clause, "type", None)
    return kind is not None and bool(_mentioned_names(kind) & {"ImportError", "ModuleNotFoundError"})
