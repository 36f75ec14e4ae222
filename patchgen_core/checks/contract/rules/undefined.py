"""PG204: every name is bound, and before it is needed."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.errors import NameHint
from patchgen_core.syntax.index import assigned_names, bound_name
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import DEFINITIONS, statements

_PREDEFINED = frozenset(
    [*dir(builtins), "__name__", "__file__", "__doc__", "__package__", "__path__", "__spec__", "__class__"]
)
_HINT = "Import it with config.add_import, copy it with config.add_helper, or assign it in a post-import block."
_UPSTREAM = """
class Norm:
    def forward(self, x):
        return x


class Head:
    def forward(self, x):
        return x + 1
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Look for names that nothing binds, and for those bound below the line that needs them at import."""
    module = subject.generated
    taken_out = {*subject.plan.excluded, *subject.plan.dropped}
    for name in sorted(set(module.uses) - module.bound - _PREDEFINED - taken_out) if "*" not in module.bound else ():
        owners = set()
        for use in module.uses[name]:
            if use.moment != "annotation" and use.owner not in owners:
                owners.add(use.owner)
                is_upstream = not subject.is_own(use.owner, use.node)
                user = f"'{use.owner}'" if use.owner else "the module"
                message = f"nothing defines '{name}', which {user} uses"
                hint = NameHint(_HINT, name)
                yield Finding(message, hint, use.node, use.owner or name, is_upstream=is_upstream)
    yield from _too_early(subject, module)


def _too_early(subject: Subject, module: Module) -> Iterator[Finding]:
    """References that are evaluated while the module is imported, above the first line that binds the name."""
    bound = _first_lines(module.tree)
    early = [(name, use) for name, uses in module.uses.items() for use in uses if use.moment == "import"]
    for name, use in early:
        line = bound.get(name, 0)
        if use.node.lineno < line and name not in _PREDEFINED:
            user = f"'{use.owner}'" if use.owner else "the module"
            message = f"{user} needs '{name}' when it is imported, but line {line} is the first that binds it"
            hint = "Add the helper with add_helper_after, below what it needs, or quote the annotation."
            yield Finding(
                message, hint, use.node, use.owner or name, is_upstream=not subject.is_own(use.owner, use.node)
            )


def _first_lines(tree: ast.Module) -> dict[str, int]:
    """The line after which each name of the top level is bound."""
    lines: dict[str, int] = {}
    for statement in statements(tree.body):
        if isinstance(statement, DEFINITIONS):
            lines.setdefault(statement.name, statement.lineno)
            continue
        names = assigned_names(statement)
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            names = [bound_name(statement, alias) for alias in statement.names]
        for name in names:
            lines.setdefault(name, statement.lineno)
    return lines


RULE = Rule(
    code="PG204",
    name="undefined",
    severity="error",
    reason=(
        "A config is a file of its own, so a replacement can use a name that the config imports and the generated "
        "module does not. Inside a function, nothing fails until the line runs: perhaps hours into a job, or on "
        "another machine. A base class, a decorator or a default needs its names while the module is imported, so "
        "they must also be bound above it. Helpers go below the imports, and therefore above all of upstream's "
        "classes."
    ),
    failing=Example(
        """
@config.override_method("Norm.forward")
def forward(self, x):
    return fused_norm(x)
""",
        _UPSTREAM,
    ),
    passing=Example(
        """
config.add_import("acme.kernels", names=["fused_norm"])

@config.override_method("Norm.forward")
def forward(self, x):
    return fused_norm(x)
""",
        _UPSTREAM,
    ),
    check=check,
)
