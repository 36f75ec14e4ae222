"""PG222: what other code reads from an instance is still there."""

from __future__ import annotations

import ast
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from patchgen_core.checks.contract.members import hands_itself_on, members
from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.checks.contract.unreachable import Unreachable
from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.syntax.classes import Class
from patchgen_core.syntax.nodes import Function, inside
from patchgen_core.syntax.signatures import instance_name
from patchgen_core.syntax.source import SourceFile

_UPSTREAM = """
class Attention:
    def __init__(self, config):
        self.q_proj = config.linear()
        self.k_proj = config.linear()

    def forward(self, x):
        return self.q_proj(x) @ self.k_proj(x)
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Look for uses of members that a patched class had upstream and has no more."""
    lost: dict[int, tuple[PlannedPatch, set[str]]] = {}
    for patch in subject.plan.patches:
        name = patch.dotted.partition(".")[0]
        is_remade = not patch.method or patch.method == "__init__"
        cls = subject.inference.class_of(name) if patch.kind != "function_replacement" and is_remade else None
        if cls is not None and (gone := _lost_members(subject, name, cls)):
            lost[id(cls.node)] = (patch, gone)
    if lost:
        yield from _uses(subject, lost)


def _lost_members(subject: Subject, name: str, cls: Class) -> set[str]:
    """The members that upstream's class has and the patched one has not; none where that cannot be told."""
    before = subject.upstream.cls(name)
    if before is None:
        return set()
    if _hands_itself_on(subject, name):
        return set()
    ours = members(subject.inference, cls)
    theirs = members(subject.upstream_inference, Class(subject.upstream, before))
    return set() if ours is None or theirs is None else theirs - ours


def _hands_itself_on(subject: Subject, name: str) -> bool:
    """Whether a patched ``__init__`` passes the instance to a function of elsewhere, such as upstream's own."""
    function = subject.generated.function(f"{name}.__init__")
    if function is None or not subject.is_own(f"{name}.__init__"):
        return False
    return hands_itself_on(function, instance_name(function))


def _uses(subject: Subject, lost: dict[int, tuple[PlannedPatch, set[str]]]) -> Iterator[Finding]:
    names = set().union(*(gone for _, gone in lost.values()))
    unreachable: dict[str, Unreachable] = {}
    lines = _lines_with(subject.generated.source, names)
    for owner, function in subject.callers.instances.functions():
        if bisect_left(lines, function.lineno) == bisect_right(lines, function.end_lineno or function.lineno):
            continue
        reads = [node for node in subject.generated.fact(_find_reads, function) if node.attr in names]
        if not reads:
            continue
        scope = subject.generated.scope_of(function)
        tested = {n.value for n in ast.walk(function) if isinstance(n, ast.Constant)}  # by hasattr or getattr
        reported: set[tuple[str, str]] = set()
        for node in reads:
            if node.attr in tested:
                continue
            for value in subject.inference.values(node.value, scope) if scope else ():
                patch, gone = lost.get(id(value.cls.node), (None, set()))
                name = patch.dotted.partition(".")[0] if patch is not None else ""
                is_new = (name, node.attr) not in reported
                if patch is not None and node.attr in gone and value.kind == "instance" and is_new:
                    if id(node) in _never_run(subject, unreachable, owner, function):
                        continue
                    reported.add((name, node.attr))
                    message = f"'{owner}' uses '{node.attr}' of '{name}', which its patch removes"
                    hint = f"Add '{node.attr}' to the patched '{name}', or patch '{owner}' as well."
                    yield Finding(message, hint, node, owner, patch.patch.location)


def _find_reads(function: Function) -> list[ast.Attribute]:
    attributes = (node for node in inside(function) if isinstance(node, ast.Attribute))
    return [node for node in attributes if isinstance(node.ctx, ast.Load)]


def _lines_with(source: SourceFile, words: set[str]) -> list[int]:
    """The numbers of the lines that have one of some names, be it as a part of another one, in their order."""
    lines = {bisect_right(source.line_starts, place) for word in words for place in _places(word, source.text)}
    if not source.text.isascii():  # other letters may make the same name
        odd = ((number, line) for number, line in enumerate(source.lines, 1) if not line.isascii())
        plain = ((number, unicodedata.normalize("NFKC", line)) for number, line in odd)
        lines.update(number for number, line in plain if any(word in line for word in words))
    return sorted(lines)


def _places(word: str, text: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + len(word))


def _never_run(subject: Subject, unreachable: dict[str, Unreachable], owner: str, function: Function) -> set[int]:
    """The nodes of a method that never run, by what the ``__init__`` of its class sets."""
    name, _, method = owner.partition(".")
    cls = subject.inference.class_of(name) if method else None
    if cls is None:
        return set()
    if name not in unreachable:
        unreachable[name] = Unreachable(subject.inference, subject.callers, cls)
    return unreachable[name].nodes(function)


RULE = Rule(
    code="PG222",
    name="lost member",
    severity="error",
    reason=(
        "A fused class merges `q_proj` and `k_proj` into one projection, or an overridden `__init__` no longer sets "
        "an attribute. Upstream's code that still reads it, in another method or through another class's attribute, "
        "raises an AttributeError, and only when that line runs. The rule ignores code behind a flag that `__init__` "
        "sets for good."
    ),
    failing=Example(
        """
@config.override_method("Attention.__init__")
def init(self, config):
    self.qk_proj = config.linear()
""",
        _UPSTREAM,
    ),
    passing=Example(
        """
@config.override_method("Attention.__init__")
def init(self, config):
    self.qk_proj = config.linear()

@config.override_method("Attention.forward")
def forward(self, x):
    q, k = self.qk_proj(x)
    return q @ k
""",
        _UPSTREAM,
    ),
    check=check,
)
