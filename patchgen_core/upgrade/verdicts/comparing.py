"""What another release of upstream does to the patches of a config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.config.declarations import Patch
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.carrying.carried_edit import DeclaredEdit
from patchgen_core.upgrade.release_module import ReleaseModule
from patchgen_core.upgrade.results import RISKS, Finding, PatchVerdict, Risk
from patchgen_core.upgrade.verdicts.callers import base_findings, caller_findings
from patchgen_core.upgrade.verdicts.config_fields import config_field_findings
from patchgen_core.upgrade.verdicts.config_wide import config_wide_findings
from patchgen_core.upgrade.verdicts.edit_verdicts import edit_value_findings, names_detail
from patchgen_core.upgrade.verdicts.held_modules import held_findings
from patchgen_core.upgrade.verdicts.module_names import name_findings
from patchgen_core.upgrade.verdicts.module_view import ModuleView, read_target_name, view_of
from patchgen_core.upgrade.verdicts.own_class import self_findings
from patchgen_core.upgrade.verdicts.replacements import ConfigReplacements, PatchReplacement
from patchgen_core.upgrade.verdicts.similar_code import moved_module, new_code_findings
from patchgen_core.upgrade.verdicts.target_verdicts import TargetVerdict, target_verdict
from patchgen_core.workers.collector import without_collector


@dataclass(frozen=True)
class Comparison:
    """What another release does to a config, as far as that is told without generating; patches in upstream's
    order."""

    patches: tuple[PatchVerdict, ...]
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


@without_collector()
def compare_config(
    loaded: LoadedConfig,
    old: ReleaseModule,
    new: ReleaseModule | None,
    sources: SourceCache,
    modules: Sequence[str] = (),
) -> Comparison:
    """Compare upstream's old and new text of everything that a config patches or relies on.

    The new module is None when the new release lacks it; `modules`, all of that release's, tell where it may be.
    """
    before = view_of(old)
    if new is None:
        return _without_module(ConfigReplacements(loaded, (before,), sources), before, modules)
    after = view_of(new)
    patched = ConfigReplacements(loaded, (after, before), sources)
    targets = [(entry, target_verdict(entry, before, after, patched)) for entry in in_order(patched, before)]
    new_code = new_code_findings(patched, before, after, [verdict.new_name for _, verdict in targets])
    verdicts = []
    for entry, verdict in targets:
        relied_on = list(dict.fromkeys(_dependency_findings(entry, patched, before, after)))
        finding, values = _with_values(entry, verdict, relied_on, before, after)
        findings = [finding, *values, *relied_on, *new_code.get(id(entry.patch), [])]
        verdicts.append(_verdict(entry, replace(verdict, finding=finding), findings))
    return Comparison(tuple(verdicts), tuple(config_wide_findings(patched, before, after)), _notes(before, after))


def _dependency_findings(
    entry: PatchReplacement, patched: ConfigReplacements, old: ModuleView, new: ModuleView
) -> Iterator[Finding]:
    """What a release did to what a patch relies on."""
    yield from name_findings(entry, patched, old, new)
    yield from self_findings(entry, patched, old, new)
    yield from held_findings(entry, patched, old, new)
    yield from config_field_findings(entry, old, new)
    yield from caller_findings(entry, patched, old, new)
    yield from base_findings(entry, old, new)


def _with_values(
    entry: PatchReplacement, target: TargetVerdict, relied_on: Sequence[Finding], old: ModuleView, new: ModuleView
) -> tuple[Finding, list[Finding]]:
    """The finding on an edit's target with what is said of the names that it uses; and findings on the local ones."""
    if target.carried is None:
        return target.finding, []
    values, same = edit_value_findings(entry, target.carried, old, new)
    finding = target.finding
    if finding.kind == "changed elsewhere":
        told = names_detail(entry, same, [*values, *relied_on], old)
        finding = replace(finding, detail="; ".join(filter(None, [finding.detail, told])))
    return finding, values


def compare_target(
    old: ReleaseModule, new: ReleaseModule, patch: Patch, planned: PlannedPatch | None = None
) -> TargetVerdict:
    """What happened to a patch's target alone, whatever a replacement is and relies on; of a planned edit, to its
    place."""
    edit = DeclaredEdit(planned) if planned is not None and patch.is_edit else None
    entry, before, after = PatchReplacement(patch, read_target_name(patch), None, edit), view_of(old), view_of(new)
    verdict = target_verdict(entry, before, after, None)
    values = edit_value_findings(entry, verdict.carried, before, after)[0] if verdict.carried is not None else []
    if verdict.finding.kind == "changed elsewhere" and values:
        finding = replace(verdict.finding, detail="; ".join(map(str, values)), risk="review")
        return replace(verdict, finding=finding)
    return verdict


def in_order(patched: ConfigReplacements, view: ModuleView) -> list[PatchReplacement]:
    """A config's patches in upstream's order; a method that one adds comes with its class."""

    def place(entry: PatchReplacement) -> int:
        own = view.find(entry.target_name)
        nodes = own.nodes if own is not None and own.home is None else view.definitions(entry.target_name.name)
        return nodes[0].lineno if nodes else 0

    return sorted(patched.patches, key=place)


def worst(risks: Iterable[Risk]) -> Risk:
    """The worst of some risks; safe for none."""
    return min(risks, key=RISKS.index, default="safe")


def _verdict(entry: PatchReplacement, target: TargetVerdict, findings: Sequence[Finding]) -> PatchVerdict:
    patch = entry.patch
    assert patch.location is not None, "a config's patches have one"
    ordered = (findings[0], *sorted(findings[1:], key=lambda finding: RISKS.index(finding.risk)))
    return PatchVerdict(
        kind=patch.kind,
        target=patch.target,
        description=patch.description,
        location=patch.location,
        verdict=target.finding.kind,
        risk=worst(finding.risk for finding in ordered),
        findings=ordered,
        new_name=target.new_name,
        used_at=patch.used_at,
    )


def _without_module(patched: ConfigReplacements, old: ModuleView, modules: Sequence[str]) -> Comparison:
    """Every patch is gone with its module."""
    place = moved_module(old.name, modules)
    where = f"; it may have become {place}" if place else ""
    module = Finding("moved" if place else "gone", old.name, "module", f"it is not there{where}", "must change")
    verdicts = []
    for entry in in_order(patched, old):
        finding = Finding("gone", entry.target_name.dotted, "target", f"its module {old.name} is gone", "must change")
        verdicts.append(_verdict(entry, TargetVerdict(finding), [finding]))
    return Comparison(tuple(verdicts), (module,))


def _notes(old: ModuleView, new: ModuleView) -> tuple[str, ...]:
    """What cannot be compared without the rest of the old release."""
    if old.library is not None and new.library is not None:
        return ()
    which = old if old.library is None else new
    return (
        f"{which.side.upstream.distribution} {which.side.version} is known from checked-in files only: configuration "
        "fields, outputs, base classes and imports of other modules are not compared",
    )
