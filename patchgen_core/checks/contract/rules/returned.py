"""PG223: a replaced function returns as many values as upstream's."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.syntax.nodes import Function, statements

_UPSTREAM = """
class Attention:
    def forward(self, x):
        attn_output, attn_weights = x * 2, x
        return attn_output, attn_weights


class Layer:
    def __init__(self, config):
        self.attention = Attention()

    def forward(self, x):
        x, _ = self.attention(x)
        return x
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Compare the tuples that replaced functions return with those of upstream's."""
    for replaced in subject.replaced:
        theirs = _return_values(replaced.upstream) if replaced.upstream is not None else []
        ours = _return_values(replaced.node)
        tuples = [value for value in theirs if isinstance(value, ast.Tuple)]
        if not tuples or len(tuples) < len(theirs):
            continue
        lengths = {len(value.elts) for value in tuples}
        parts = {ast.dump(part) for value in tuples for part in value.elts}
        fits_elsewhere = any(isinstance(value, ast.Tuple) and len(value.elts) in lengths for value in ours)
        for value in ours:
            count = len(value.elts) if isinstance(value, ast.Tuple) else 1
            is_part = ast.dump(value) in parts  # anything else may be a tuple of its own
            if is_part or (isinstance(value, ast.Tuple) and count not in lengths):
                usual = " or ".join(map(str, sorted(lengths)))
                values = "1 value" if count == 1 else f"{count} values"
                message = f"'{replaced.dotted}' returns {values} where upstream's returns {usual}"
                hint = "Callers unpack upstream's values: return as many, with None for those that do not exist."
                if _is_unpacked(subject, replaced.dotted, count):
                    continue
                is_more = fits_elsewhere and count > max(lengths)  # as callers that ask for more unpack it
                is_harmless = is_more or subject.callers.are_own(replaced.dotted)
                yield Finding(message, hint, value, replaced.dotted, weight="warning" if is_harmless else None)


def _is_unpacked(subject: Subject, dotted: str, count: int) -> bool:
    """Whether all callers stand in the module, are the config's own and unpack so many values."""
    calls = subject.callers.calls_of(dotted)
    if not subject.callers.are_known(dotted) or not all(subject.is_own(call.owner) for call in calls):
        return False
    for call in calls:
        function = subject.generated.function(call.owner)
        assigned = [s for s in ast.walk(function) if isinstance(s, ast.Assign)] if function is not None else []
        targets = [target for s in assigned if s.value is call.node for target in s.targets]
        if not any(isinstance(target, ast.Tuple) and len(target.elts) == count for target in targets):
            return False
    return bool(calls)


def _return_values(function: Function) -> list[ast.expr]:
    """The values of a function's return statements; none when one of them may be any tuple."""
    returns = [s for s in statements(function.body) if isinstance(s, ast.Return)]
    values = [statement.value for statement in returns if statement.value is not None]
    entries = (entry for value in values if isinstance(value, ast.Tuple) for entry in value.elts)
    return [] if any(isinstance(entry, ast.Starred) for entry in entries) else values


RULE = Rule(
    code="PG223",
    name="returned values",
    severity="error",
    reason=(
        "Upstream's attention returns its output and the weights, and the layer around it unpacks two values. An "
        "override that returns only the output fails there - or does not: a tensor unpacks along its first dimension, "
        "so with a batch of two the layer silently continues with the first sample. More values than upstream's are a "
        "warning if another branch returns as many as upstream's. A number that all callers unpack is right, if they "
        "are the config's own."
    ),
    failing=Example(
        """
@config.override_method("Attention.forward")
def forward(self, x):
    attn_output = x * 3
    return attn_output
""",
        _UPSTREAM,
    ),
    passing=Example(
        """
@config.override_method("Attention.forward")
def forward(self, x):
    attn_output = x * 3
    return attn_output, None
""",
        _UPSTREAM,
    ),
    check=check,
)
