"""PG207: what a config adds does not hide what upstream's code means."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.codegen.added_code import SHADOWING, binding
from patchgen_core.codegen.imports import imported_names
from patchgen_core.errors import Location
from patchgen_core.syntax.index import bound_name
from patchgen_core.syntax.nodes import DEFINITIONS, statements

_BUILTINS = frozenset(dir(builtins))
_UPSTREAM = """
from math import sqrt


class Norm:
    def forward(self, x):
        return sum(x) / sqrt(len(x))
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Compare every name that the config adds with what upstream's code in the module means by it."""
    for name, what, location, source in _added(subject):
        users = [use for use in subject.generated.uses.get(name, ()) if not subject.is_own(use.owner, use.node)]
        users = [use for use in users if use.owner]  # the module's own lines are what binds it
        if not users or location is None:
            continue
        if name in _BUILTINS and name not in subject.plan.index.names:
            upstream_meaning = "the builtin"
        elif name in subject.plan.index.imports and name not in subject.plan.dropped:
            statement, alias = subject.plan.index.imports[name][0]
            if source == _meaning(statement, alias, subject.plan.upstream.package):
                continue
            upstream_meaning = f"what upstream's line {statement.lineno} imports"
        else:
            continue
        message = f"{what} binds '{name}', by which upstream's '{users[0].owner}' means {upstream_meaning}"
        hint = "Give it another name; to replace what upstream imports, add config.drop_import_names as well."
        yield Finding(message, hint, users[0].node, name, location)


def _added(subject: Subject) -> Iterator[tuple[str, str, Location | None, str]]:
    """Each name that the config binds at the top level: by what, where it is declared, and what it imports."""
    plan = subject.plan
    for spec in plan.imports:
        for name in imported_names(spec):
            yield name, "an added import", spec.location, binding(spec, name)
    for helper in plan.helpers:
        yield helper.name, "a helper", helper.helper.location, ""
    for block, location in plan.blocks:
        for statement in statements(ast.parse(block).body):
            if isinstance(statement, DEFINITIONS):
                yield statement.name, "a post-import block", location, ""
            elif isinstance(statement, (ast.Import, ast.ImportFrom)):
                for alias in statement.names:
                    source = _meaning(statement, alias, "")
                    yield bound_name(statement, alias), "a post-import block", location, source
            else:
                stored = (n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
                for node in stored:
                    yield node.id, "a post-import block", location, ""


def _meaning(statement: ast.Import | ast.ImportFrom, alias: ast.alias, package: str) -> str:
    if isinstance(statement, ast.Import):
        return alias.name if alias.asname else alias.name.partition(".")[0]
    parts = package.split(".")
    base = parts[: len(parts) - statement.level + 1] if statement.level else []
    return ".".join([*base, *filter(None, [statement.module]), alias.name])


RULE = Rule(
    code=SHADOWING,
    name="shadowing",
    severity="error",
    reason=(
        "What a config adds lands in the same namespace as upstream's code, below upstream's imports. A helper called "
        "`sum`, or a fallback import of a name that upstream imports from elsewhere, changes what upstream's code "
        "means without changing a line of it, and nothing raises. If one of the two would certainly hide the other, "
        "the generator refuses with this code."
    ),
    failing=Example(
        """
@config.add_helper
def sum(values):
    return values[0]

@config.override_method("Norm.reset")
def reset(self):
    return sum([self])
""",
        _UPSTREAM,
    ),
    passing=Example(
        """
@config.add_helper
def first(values):
    return values[0]

@config.override_method("Norm.reset")
def reset(self):
    return first([self])
""",
        _UPSTREAM,
    ),
    check=check,
)
