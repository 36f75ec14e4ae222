"""What a patch relies on, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.upgrade.results import Finding
from patchgen_core.upgrade.verdicts.patched import Patched, Replacing
from patchgen_core.upgrade.verdicts.relied_callers import base_findings, caller_findings
from patchgen_core.upgrade.verdicts.relied_config import config_findings
from patchgen_core.upgrade.verdicts.relied_names import name_findings
from patchgen_core.upgrade.verdicts.relied_self import self_findings
from patchgen_core.upgrade.verdicts.views import View


def relied_on(entry: Replacing, patched: Patched, old: View, new: View) -> list[Finding]:
    """What a release did to what a patch relies on, each thing once.

    Args:
        entry: the patch.
        patched: all of its config.
        old, new: upstream's module in both releases.
    """
    return list(dict.fromkeys(_findings(entry, patched, old, new)))


def _findings(entry: Replacing, patched: Patched, old: View, new: View) -> Iterator[Finding]:
    yield from name_findings(entry, patched, old, new)
    yield from self_findings(entry, patched, old, new)
    yield from config_findings(entry, old, new)
    yield from caller_findings(entry, patched, old, new)
    yield from base_findings(entry, old, new)
