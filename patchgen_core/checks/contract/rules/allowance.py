"""PG200: an allowance is needed."""

from __future__ import annotations

from collections.abc import Iterable

from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject

_UPSTREAM = """
class Norm:
    def forward(self, x, scale=1):
        return x * scale
"""


def check(subject: Subject) -> Iterable[Finding]:
    """Nothing: the runner knows which allowances were used once all other rules have run."""
    return ()


RULE = Rule(
    code="PG200",
    name="allowance",
    severity="error",
    reason=(
        "`config.allow` accepts a rule's findings. When the rule no longer finds anything, the allowance waits for "
        "the next defect of that kind and hides it."
    ),
    failing=Example(
        """
config.allow("PG201", "nobody scales")

@config.override_method("Norm.forward")
def forward(self, x, scale=1):
    return x * 2 * scale
""",
        _UPSTREAM,
    ),
    passing=Example(
        """
config.allow("PG201", "nobody scales")

@config.override_method("Norm.forward")
def forward(self, x):
    return x * 2
""",
        _UPSTREAM,
    ),
    check=check,
)
