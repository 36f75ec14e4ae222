"""PG220: a patched name means the patch wherever upstream uses it."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.codegen.plan import Plan
from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.syntax.nodes import last_definitions

_UPSTREAM = """
try:
    from fast_norm import Norm
except ImportError:
    class Norm:
        def forward(self, x):
            return x
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Look for other statements of upstream's that bind a target's name."""
    for patch in subject.plan.patches:
        if places := _others(subject.plan, patch):
            target = patch.patch.target
            message = f"'{target}' is patched where it is defined, but upstream also {places}"
            hint = (
                "Where that binding counts, the patch has no effect: replace what uses the name, or allow this with "
                "the reason."
            )
            yield Finding(message, hint, None, patch.dotted, patch.patch.location)


def _others(plan: Plan, patch: PlannedPatch) -> str:
    """Where upstream binds a target's name to something else, which a patch of the definition misses."""
    name = patch.patch.target.split(".")[0]
    imports = plan.index.imports.get(name, ()) if name not in plan.dropped else ()
    places = [f"imports it in line {statement.lineno}" for statement, _ in imports]
    places += [f"assigns it in line {statement.lineno}" for statement in plan.index.assigned.get(name, ())]
    others = [n for n in last_definitions(plan.source.tree.body, name) if n not in patch.nodes]
    places += [f"defines it without that method in line {node.lineno}" for node in others]
    return " and ".join(places)


RULE = Rule(
    code="PG220",
    name="bypassed",
    severity="warning",
    reason=(
        "Upstream may bind one name twice: it imports a compiled version, and defines its own for machines where that "
        "is not installed. A patch changes the definition. On a machine where the other branch counts, the patched "
        "code never runs."
    ),
    failing=Example(
        """
@config.override_method("Norm.forward")
def forward(self, x):
    return x * 2
""",
        _UPSTREAM,
    ),
    passing=Example(
        """
config.allow("PG220", "fast_norm is not installed where this model is trained")

@config.override_method("Norm.forward")
def forward(self, x):
    return x * 2
""",
        _UPSTREAM,
    ),
    check=check,
)
