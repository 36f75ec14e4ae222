"""PG215: what a patch replaces is still what it was written against."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.checks.checked_in.causes import is_patched
from patchgen_core.checks.checked_in.definitions import compare_definitions
from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.files import read_text
from patchgen_core.syntax.diffs import reverse_diff
from patchgen_core.syntax.header import read_fingerprint

_OLD = """
class Norm:
    def forward(self, x):
        return x * 2
"""
_NEW = """
class Norm:
    def forward(self, x):
        return x * 2 + 1
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Undo the checked-in diff on the checked-in module, which gives the upstream that it was made from."""
    artifact, plan = subject.artifact, subject.plan
    old, old_diff = read_text(artifact.path), read_text(artifact.diff_path)
    mark = read_fingerprint(old) if old is not None else None
    if old is None or old_diff is None or mark is None or mark.source != plan.upstream.module:
        return
    if mark.upstream == plan.source.short_hash:
        return
    before = reverse_diff(old, old_diff)
    if before is None:
        return
    changes = compare_definitions(before, artifact.base)
    versions = f"{plan.upstream.distribution} {mark.version} -> {plan.upstream.version}"
    for name in (*changes.changed, *changes.removed):
        patch = subject.patch_of(name)
        if patch is None or not is_patched(artifact, name):
            continue
        word = "removed" if name in changes.removed else "changed"
        message = f"upstream {word} '{name}', which this config replaces ({versions})"
        hint = "The drift check shows the change: read it, and carry over what concerns the patch."
        node = subject.generated.function(name) or subject.generated.definition(name.partition(".")[0])
        yield Finding(message, hint, node, name, patch.patch.location)


RULE = Rule(
    code="PG215",
    name="upstream moved",
    severity="warning",
    reason=(
        "A replacement is a copy of upstream's code with something changed. When upstream later fixes or extends its "
        "own copy, the replacement hides that: the module still generates, runs and trains, without the fix. The "
        "checked-in `.diff` holds the text that the patch was written against, and the rule finds the change through "
        "it."
    ),
    failing=Example(
        """
@config.override_method("Norm.forward")
def forward(self, x):
    return x + x
""",
        _NEW,
        old=_OLD,
    ),
    passing=Example(
        """
@config.override_method("Norm.forward")
def forward(self, x):
    return x + x + 1
""",
        _NEW,
    ),
    check=check,
)
