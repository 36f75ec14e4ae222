"""What a patch relies on, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.upgrade.results import Finding
from patchgen_core.upgrade.verdicts.callers import base_findings, caller_findings
from patchgen_core.upgrade.verdicts.config_fields import config_field_findings
from patchgen_core.upgrade.verdicts.module_names import name_findings
from patchgen_core.upgrade.verdicts.module_view import ModuleView
from patchgen_core.upgrade.verdicts.own_class import self_findings
from patchgen_core.upgrade.verdicts.replacements import ConfigReplacements, PatchReplacement


def dependency_findings(
    entry: PatchReplacement, patched: ConfigReplacements, old: ModuleView, new: ModuleView
) -> list[Finding]:
    """What a release did to what a patch relies on, each thing once."""
    return list(dict.fromkeys(_findings(entry, patched, old, new)))


def _findings(
    entry: PatchReplacement, patched: ConfigReplacements, old: ModuleView, new: ModuleView
) -> Iterator[Finding]:
    yield from name_findings(entry, patched, old, new)
    yield from self_findings(entry, patched, old, new)
    yield from config_field_findings(entry, old, new)
    yield from caller_findings(entry, patched, old, new)
    yield from base_findings(entry, old, new)
