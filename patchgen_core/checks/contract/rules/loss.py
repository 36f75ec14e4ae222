"""PG218: the loss and the logits are of the positions that ``logits_to_keep`` asks for."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.syntax.nodes import Function, inside, last_name
from patchgen_core.syntax.signatures import read_parameters

_KEEP = ("logits_to_keep", "num_logits_to_keep")
_LABELS = "labels"
_NEUTRAL = frozenset(
    [
        *("isinstance", "is_tensor", "slice", "int", "bool", "len", "max", "min", "abs", "range", "arange", "tensor"),
        *("warning", "warning_once", "warn", "info", "debug", "print"),
    ]
)
"""Functions whose result still says which positions to keep, and which cut nothing themselves."""

_UPSTREAM = """
class ForCausalLM:
    def forward(self, input_ids, labels=None, logits_to_keep=0):
        hidden_states = self.model(input_ids)
        slice_indices = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(hidden_states[:, slice_indices, :])
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels)
        return loss, logits
"""


@dataclass(frozen=True)
class _State:
    """Whether a way through a function has cut to the positions to keep, or computed the loss before that."""

    is_cut: bool = False
    is_early: bool = False


_States = frozenset[_State]


def check(subject: Subject) -> Iterator[Finding]:
    """Follow every patched function that has both parameters, once with labels and once without."""
    for replaced in subject.replaced:
        keep = _keep_parameter(replaced.node)
        if not keep:
            continue
        upstream = replaced.upstream
        handed = _handed_on(upstream, keep) if upstream is not None else frozenset()
        complaint = _complaint(replaced.node, keep, handed)
        is_lost = upstream is not None and _cuts(upstream, keep, handed) and not _cuts(replaced.node, keep, handed)
        if complaint is None and is_lost:
            complaint = ("never cuts to those positions, as upstream's version does", replaced.node)
        if complaint is not None:
            message = f"'{replaced.dotted}' takes '{keep}' and {complaint[0]}"
            hint = f"Cut the hidden states by '{keep}' before anything checks for labels."
            yield Finding(message, hint, complaint[1], replaced.dotted)


def _keep_parameter(function: Function) -> str:
    """What a function with labels calls the positions to keep; empty when it lacks one of the two."""
    names = [parameter.name for parameter in read_parameters(function)]
    return next((name for name in _KEEP if name in names), "") if _LABELS in names else ""


def _complaint(function: Function, keep: str, handed: frozenset[str]) -> tuple[str, ast.AST] | None:
    """What is wrong with where a function cuts, and what shows it; None when nothing is."""
    labelled = _Walk(function, keep, handed, has_labels=True)
    without = _Walk(function, keep, handed, has_labels=False)
    if any(state.is_early and state.is_cut for state in labelled.ends):
        return "cuts to those positions only after it has computed the loss", labelled.loss or function
    cuts = any(state.is_cut for state in (*labelled.ends, *without.ends))
    is_never_cut = not any(state.is_cut for state in labelled.ends)
    if cuts and (is_never_cut or any(state.is_early for state in labelled.ends)):
        return "cuts to those positions elsewhere, but not where it computes the loss", (labelled.loss or function)
    if cuts and not any(state.is_cut for state in without.ends):
        return "cuts to those positions only where there are labels", labelled.cut or function
    return None


def _cuts(function: Function, keep: str, handed: frozenset[str]) -> bool:
    return any(s.is_cut for labels in (True, False) for s in _Walk(function, keep, handed, labels).ends)


def _handed_on(upstream: Function, keep: str) -> frozenset[str]:
    """What upstream's version hands the parameter on to and yet cuts itself, such as ``self.model``."""
    calls = (node for node in inside(upstream) if isinstance(node, ast.Call))
    keywords = ((call, keyword) for call in calls for keyword in call.keywords)
    callees = frozenset(
        ast.unparse(call.func) for call, k in keywords if k.arg in _KEEP and _mentions(k.value, {keep})
    )
    return callees if callees and _cuts(upstream, keep, callees) else frozenset()


class _Walk:
    """Follows every way through a function.

    Args:
        keep: its parameter of the positions to keep.
        handed: the calls that are given it and do not cut.
        has_labels: whether it is called with labels.

    Attributes:
        ends: the states that it may end in.
        loss: the first statement that computes the loss of what was not cut.
        cut: the first statement that cuts.
    """

    def __init__(self, function: Function, keep: str, handed: frozenset[str], has_labels: bool) -> None:
        self._handed, self._has_labels = handed, has_labels
        assigned = [node for node in inside(function) if isinstance(node, ast.Assign)]
        self._positions = _derived(assigned, keep)
        self._tests = _tests(assigned)
        self.loss: ast.AST | None = None
        self.cut: ast.AST | None = None
        self.ends: set[_State] = set()
        last = self._block(function.body, frozenset([_State()]))  # first: it may put another set in place of `ends`
        self.ends |= last

    def _block(self, body: Iterable[ast.stmt], states: _States) -> _States:
        for statement in body:
            if states:
                states = self._statement(statement, states)
        return states

    def _statement(self, node: ast.stmt, states: _States) -> _States:
        if isinstance(node, ast.If):
            return self._if(node, self._expression(node.test, states))
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            states = self._expression(node.iter if not isinstance(node, ast.While) else node.test, states)
            return self._block(node.orelse, states | self._block(node.body, states))
        if isinstance(node, (ast.With, ast.AsyncWith)):
            return self._block(node.body, states)
        if isinstance(node, ast.Try):
            done = self._block([*node.body, *node.orelse], states)
            caught = [self._block(handler.body, states) for handler in node.handlers]
            return self._block(node.finalbody, done.union(*caught))
        if isinstance(node, ast.Match):
            return states.union(*(self._block(case.body, states) for case in node.cases))
        if isinstance(node, ast.Assert) and _mentions(node.test, self._positions):
            return frozenset(replace(state, is_cut=True) for state in states)
        states = self._expression(node, states)
        if isinstance(node, ast.Return):
            self.ends |= states
        return frozenset() if isinstance(node, (ast.Return, ast.Raise)) else states

    def _if(self, node: ast.If, states: _States) -> _States:
        verdict = self._verdict(node.test)
        if verdict is not None:
            return self._block(node.body if verdict else node.orelse, states)
        before = set(self.ends)
        after = self._block(node.body, states) | self._block(node.orelse, states)
        new = self.ends - before
        arms = [*node.body, *node.orelse]
        is_guard = any(self._is_cut(inner) for statement in arms for inner in ast.walk(statement))
        was_early = any(state.is_early for state in states)
        if _mentions(node.test, self._positions):
            is_guard = is_guard or any(isinstance(statement, ast.Raise) for statement in arms)
        else:
            is_guard = is_guard and not new and (was_early or not any(state.is_early for state in after))
        if not is_guard:
            return after
        # Where a guard around the cut does not cut, there is nothing to cut.
        self.ends = before | {_State(True, state.is_early and was_early) for state in new}
        return frozenset(_State(True, state.is_early and was_early) for state in after)

    def _expression(self, node: ast.AST, states: _States) -> _States:
        """The states behind a statement or expression without blocks of its own."""
        nodes = list(self._reached(node))
        if any(self._is_cut(inner) for inner in nodes):
            self.cut = self.cut or node
            return frozenset(replace(state, is_cut=True) for state in states)
        if any(isinstance(inner, ast.Call) and _is_loss(inner, node) for inner in nodes):
            self.loss = self.loss or (None if all(state.is_cut for state in states) else node)
            return frozenset(replace(state, is_early=state.is_early or not state.is_cut) for state in states)
        return states

    def _reached(self, node: ast.AST) -> Iterator[ast.AST]:
        """An expression's parts, without the arm of a conditional that is for the other case."""
        yield node
        verdict = self._verdict(node.test) if isinstance(node, ast.IfExp) else None
        for child in ast.iter_child_nodes(node):
            is_dead = isinstance(node, ast.IfExp) and child is (node.orelse if verdict else node.body)
            if verdict is None or not is_dead:
                yield from self._reached(child)

    def _is_cut(self, node: ast.AST) -> bool:
        """Whether an expression picks positions, or leaves that to what it calls."""
        if isinstance(node, ast.Subscript):
            return _mentions(node.slice, self._positions) and "label" not in ast.unparse(node.value)
        if not isinstance(node, ast.Call) or last_name(node.func) in _NEUTRAL:
            return False
        keywords = [] if ast.unparse(node.func) in self._handed else [keyword.value for keyword in node.keywords]
        return any(_says_positions(value, self._positions) for value in (*node.args, *keywords))

    def _verdict(self, test: ast.expr) -> bool | None:
        """What a test on labels comes to; None when it is on something else as well."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            verdict = self._verdict(test.operand)
            return None if verdict is None else not verdict
        if isinstance(test, ast.BoolOp):
            verdicts = [self._verdict(value) for value in test.values]
            decides = isinstance(test.op, ast.Or)
            return decides if decides in verdicts else None if None in verdicts else not decides
        if isinstance(test, ast.Compare) and _is_labels(test.left) and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
            return self._has_labels == isinstance(test.ops[0], ast.IsNot)
        if isinstance(test, ast.Name) and test.id in self._tests:
            return self._verdict(self._tests[test.id])
        return self._has_labels if _is_labels(test) else None


def _derived(assigned: list[ast.Assign], keep: str) -> set[str]:
    """The parameter and the names that are computed from it alone, such as ``slice_indices``."""
    names: set[str] = set()
    more = {keep}
    while more - names:
        names |= more
        targets = (t for node in assigned if _says_positions(node.value, names) for t in node.targets)
        more = {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def _tests(assigned: list[ast.Assign]) -> dict[str, ast.Compare]:
    """The local names that hold a comparison, such as ``has_labels``."""
    pairs = [(target.id, node.value) for node in assigned for target in node.targets if isinstance(target, ast.Name)]
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if isinstance(value, ast.Compare) and names.count(name) == 1}


def _says_positions(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression is made of the positions to keep, and not of what was picked or computed by them."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Subscript) or (isinstance(node, ast.Call) and last_name(node.func) not in _NEUTRAL):
        return False
    return any(_says_positions(child, names) for child in ast.iter_child_nodes(node))


def _mentions(node: ast.AST, names: Iterable[str]) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id in names for inner in ast.walk(node))


def _is_labels(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == _LABELS


def _is_loss(call: ast.Call, statement: ast.AST) -> bool:
    """Whether a call computes the loss: it is given labels, and it or its result is called a loss."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not any(isinstance(node, ast.Name) and "label" in node.id for value in arguments for node in ast.walk(value)):
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = [last_name(call.func), *(node.id for t in targets for node in ast.walk(t) if isinstance(node, ast.Name))]
    return any("loss" in name or "cross_entropy" in name for name in names)


_PATCH = """
@config.override_method("ForCausalLM.forward")
def forward(self, input_ids, labels=None, logits_to_keep=0):
    hidden_states = self.model(input_ids)
    if labels is not None:
        loss, logits = self.loss_function(hidden_states, labels, self.lm_head.weight)
    else:
        loss, logits = None, self.lm_head(hidden_states[:, -logits_to_keep:, :])
    return loss, logits
"""

RULE = Rule(
    code="PG218",
    name="loss",
    severity="warning",
    reason=(
        "A fused loss takes the hidden states and computes the logits itself, so a patched forward branches on "
        "`labels`. If only the branch without labels cuts the hidden states by `logits_to_keep`, or if they are cut "
        "after the loss, a call with both gets a loss over other positions than upstream's. If only the branch with "
        "labels cuts them, generation pays for the logits of the whole prompt. No shape is wrong, so nothing raises."
    ),
    failing=Example(_PATCH, _UPSTREAM),
    passing=Example(
        _PATCH.replace("self.model(input_ids)\n", "self.model(input_ids)[:, -logits_to_keep:, :]\n").replace(
            "hidden_states[:, -logits_to_keep:, :])", "hidden_states)"
        ),
        _UPSTREAM,
    ),
    check=check,
)
