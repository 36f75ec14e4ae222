"""PG226: what patched code reads from ``self`` is there."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator

from patchgen_core.checks.contract.members import Lineages
from patchgen_core.checks.contract.outside_members import OutsideMembers
from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.errors import NameHint, closest
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import FUNCTIONS, Function
from patchgen_core.syntax.signatures import instance_name

_UPSTREAM = """
from torch import nn


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up_proj = nn.Linear(config.size, config.size)
        self.down_proj = nn.Linear(config.size, config.size)

    def forward(self, x):
        return self.down_proj(self.up_proj(x))
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Look for attributes of ``self`` that patched methods read and that nothing sets."""
    outside = OutsideMembers(subject.library, subject.upstream.name.partition(".")[0])
    lineages: Lineages | None = None
    elsewhere: set[str] | None = None
    for owner, function in subject.callers.instances.functions():
        name, _, method = owner.partition(".")
        if not method or not subject.is_own(owner):
            continue
        reads = [node for node in subject.generated.fact(_reads, function) if subject.is_own(owner, node)]
        if not reads:
            continue
        lineages = Lineages(subject) if lineages is None else lineages
        lineage = lineages.find(name)
        if lineage is None:
            continue
        for attribute, node in {node.attr: node for node in reversed(reads)}.items():
            if attribute in lineage.names or attribute.startswith("__"):
                continue
            if not outside.is_module(lineage) or outside.may_give(lineage, attribute):
                continue
            elsewhere = _set_elsewhere(subject) if elsewhere is None else elsewhere
            if attribute in elsewhere or subject.code.assigns(attribute):
                continue
            instance = instance_name(function)
            message = f"'{owner}' uses '{instance}.{attribute}', but neither '{name}' nor its bases have '{attribute}'"
            hint = _hint(subject, instance, attribute, lineage.names | outside.names(lineage))
            yield Finding(message, hint, node, owner)


def _reads(function: Function) -> list[ast.Attribute]:
    """The attributes that a method reads from its instance, in functions inside it as well."""
    reads: list[ast.Attribute] = []
    instance = instance_name(function)
    waiting = deque[ast.AST](function.body if instance else ())
    while waiting:
        node = waiting.popleft()
        if isinstance(node, ast.ClassDef) or _rebinds(node, instance):
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _is_name(node.value, instance):
            reads.append(node)
        waiting += ast.iter_child_nodes(node)
    return reads


def _rebinds(node: ast.AST, name: str) -> bool:
    """Whether a function has a parameter of a name."""
    if not isinstance(node, (*FUNCTIONS, ast.Lambda)):
        return False
    return any(isinstance(inner, ast.arg) and inner.arg == name for inner in ast.walk(node.args))


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _set_elsewhere(subject: Subject) -> set[str]:
    """The attributes that either module assigns to something other than ``self``, or names in a string."""
    names: set[str] = set()
    for module in (subject.generated, subject.upstream):
        names |= module.once(_set_in, module.tree)
    return names


def _set_in(module: Module, tree: ast.Module) -> set[str]:
    names = {str(string.value) for string, _ in module.strings}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not _is_name(node.value, "self"):
            names.add(node.attr)
    return names


def _hint(subject: Subject, instance: str, attribute: str, names: frozenset[str] | set[str]) -> str:
    """What somebody may have meant by an attribute, and what to do where it is meant."""
    otherwise = "If code elsewhere sets it, say so with config.allow('PG226', '<why>')."
    if attribute in subject.generated.bound:
        hint = f"Did you mean '{attribute}', which the module binds? {otherwise}"
        return NameHint(hint, f"{instance}.{attribute}", attribute)
    near = closest(attribute, (name for name in names if not name.startswith("__")))
    if near is not None:
        hint = f"Did you mean '{instance}.{near}'? {otherwise}"
        return NameHint(hint, f"{instance}.{attribute}", f"{instance}.{near}")
    return f"Set it in __init__, or take it from where it is. {otherwise}"


RULE = Rule(
    code="PG226",
    name="unknown attribute",
    severity="error",
    reason=(
        "A slip of the pen in a replacement, or an attribute of another model's class, is valid Python. It raises an "
        "AttributeError when the line runs, which may be in a branch that only another machine or a later step takes. "
        "The rule looks at torch modules, and knows what a class, its bases and its subclasses define or set, "
        "upstream's `__init__` included. It says nothing where a base cannot be read, where names of attributes are "
        "computed, or where any code of the project sets the attribute."
    ),
    failing=Example(
        """
@config.override_method("MLP.forward")
def forward(self, x):
    return self.down_porj(self.up_proj(x))
""",
        _UPSTREAM,
    ),
    passing=Example(
        """
@config.modify_init("MLP")
def init(original_init, self, config):
    original_init(self, config)
    self.scale = config.scale

@config.override_method("MLP.forward")
def forward(self, x):
    return self.down_proj(self.up_proj(x)) * self.scale
""",
        _UPSTREAM,
    ),
    check=check,
)
