"""The page of an upgrade: what a new release does to every config and patch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from patchgen_core.errors import Location
from patchgen_core.report.html.components import (
    HeatCell,
    HeatMap,
    badge,
    bullet_list,
    fact_list,
    folded_list,
    location_code,
    problems_view,
)
from patchgen_core.report.html.diffs import diff_view, text_view
from patchgen_core.report.html.markup import Child, Markup, join_markup, tag
from patchgen_core.report.html.page import Facet, Page, Section, write_page
from patchgen_core.report.upgrade.texts import config_problems, untold_problems
from patchgen_core.report.words import quantity
from patchgen_core.upgrade.results import (
    RISKS,
    ConfigVerdict,
    Conflict,
    Finding,
    Kind,
    PatchVerdict,
    Rebase,
    Risk,
    UpgradeReport,
)

_TONES: dict[Risk, str] = {"must change": "bad", "review": "warn", "safe": "good"}
_KINDS: tuple[Kind, ...] = (
    "gone",
    "moved",
    "signature changed",
    "decorators changed",
    "place gone",
    "place ambiguous",
    "place changed",
    "place moved",
    "changed",
    "now upstream",
    "new code",
    "changed elsewhere",
    "cosmetic",
    "unchanged",
    "added",
)
"""The order of columns: what needs most work comes first."""
_CLEAN, _DELETED, _CONFLICT = "merges cleanly", "deleted", "conflict"
_HOW = {
    "same": "It already has all of upstream's change",
    "kept": "It stays as it is",
    "lines": "Upstream's change is merged in by lines",
    "syntax": "Upstream's change is merged in by syntax",
    "decided": "A person decided it",
    "deleted": "It goes: upstream has it now",
}


def write_upgrade(report: UpgradeReport, path: Path) -> None:
    """Write what a new release does to a project, as one HTML file; makes its folder."""
    write_page(upgrade_page(report), path)


def upgrade_page(report: UpgradeReport) -> Page:
    """The page of a report."""
    sections = tuple(_section(config) for config in report.configs)
    kinds = [kind for kind in _KINDS if any(p.verdict == kind for c in report.configs for p in c.patches)]
    merges = [m for m in (_CLEAN, _DELETED, _CONFLICT) if any(m in section.values["merge"] for section in sections)]
    rows = tuple(_heat_row(config, kinds, merges) for config in report.configs)
    section_kinds = {kind for section in sections for kind in section.values["kind"]}
    must = bool(report.of_risk("must change"))
    tone = "bad" if report.exit_code else "warn" if report.of_risk("review") else "good"
    verdict = "failed" if report.failed else "must change" if must else "review" if tone == "warn" else "safe"
    return Page(
        "upgrade",
        verdict,
        tone,
        f"{report.distribution} {_old(report)}\u2192 {report.new}: {quantity(len(report.configs), 'config')}",
        _facts(report),
        (
            Facet("status", "Risk", tuple((risk, _TONES[risk]) for risk in RISKS), is_chips=True),
            Facet("kind", "Verdict", tuple((kind, "none") for kind in _KINDS if kind in section_kinds)),
            Facet("merge", "Merge", tuple((name, "none") for name in merges)),
        ),
        HeatMap("Configs and verdicts", (*kinds, *merges), rows),
        join_markup([problems_view(report.failed), folded_list("Left out", report.skipped)]),
        sections,
    )


def _old(report: UpgradeReport) -> str:
    """The release that all configs are compared from, if it is one."""
    versions = {config.old for config in report.configs}
    return f"{versions.pop()} " if len(versions) == 1 and "" not in versions else ""


def _facts(report: UpgradeReport) -> tuple[tuple[str, str], ...]:
    bases = Counter(config.old or "unknown" for config in report.configs)
    origins = sorted({config.origin for config in report.configs if config.origin})
    patches = Counter(patch.risk for config in report.configs for patch in config.patches)
    facts = [
        ("from", ", ".join(f"{version} ({count})" if len(bases) > 1 else version for version, count in bases.items())),
        ("to", report.new),
        ("old sources", ", ".join(origins)),
        ("patches", ", ".join(f"{patches[risk]} {risk}" for risk in RISKS if patches[risk])),
        ("clean merges", str(len(report.clean_merges))),
        ("exit code", str(report.exit_code)),
    ]
    return tuple((name, value) for name, value in facts if value)


def _heat_row(config: ConfigVerdict, kinds: Sequence[Kind], merges: Sequence[str]) -> tuple[HeatCell, ...]:
    cells = []
    for kind in kinds:
        patches = [patch for patch in config.patches if patch.verdict == kind]
        risk = next((risk for risk in RISKS if any(patch.risk == risk for patch in patches)), None)
        more = ", ".join(patch.target for patch in patches)
        cells.append(HeatCell(str(len(patches)), _TONES[risk], more) if risk else HeatCell("\u2013", ""))
    counts = Counter(chain.from_iterable(_merge(patch) for patch in config.patches))
    tones = {_CLEAN: "good", _DELETED: "good", _CONFLICT: "bad"}
    cells += [HeatCell(str(counts[m]), tones[m]) if counts[m] else HeatCell("\u2013", "") for m in merges]
    return tuple(cells)


def _merge(patch: PatchVerdict) -> tuple[str, ...]:
    rebase = patch.rebase
    if rebase is None:
        return ()
    if not rebase.merged.is_clean:
        return (_CONFLICT,)
    return (_DELETED if rebase.is_deletion else _CLEAN,) if rebase.diff else ()


def _section(config: ConfigVerdict) -> Section:
    findings = [*config.findings, *(finding for patch in config.patches for finding in patch.findings)]
    kinds = {*(patch.verdict for patch in config.patches), *(finding.kind for finding in findings)}
    problems = [*config.problems, *(problem for patch in config.patches for problem in patch.problems)]
    return Section(
        config.config,
        str(Location(config.path, config.line)),
        config.risk,
        _TONES[config.risk],
        config.summary,
        join_markup(_body(config)),
        {
            "status": (config.risk,),
            "kind": tuple(kind for kind in _KINDS if kind in kinds),
            "merge": tuple(dict.fromkeys(m for patch in config.patches for m in _merge(patch))),
        },
        (
            config.module,
            *(patch.target for patch in config.patches),
            *(finding.about for finding in findings),
            *(problem.title for problem in problems),
        ),
    )


def _body(config: ConfigVerdict) -> Iterator[Child]:
    origin = f" (from {config.origin})" if config.origin else ""
    facts = (("module", config.module), ("compared", f"{config.old or 'unknown'}{origin} \u2192 {config.new}"))
    yield fact_list(facts)
    yield problems_view(config_problems(config))
    yield _findings(config.findings)
    yield bullet_list(config.notes)
    others = [patch for patch in config.patches if not _has_verdict_only(patch)]
    yield from (_patch(patch) for patch in others)
    yield _clean_patches([patch for patch in config.patches if _has_verdict_only(patch)])


def _has_verdict_only(patch: PatchVerdict) -> bool:
    has_more = patch.problems or patch.rebase or patch.new_name
    return patch.risk == "safe" and not has_more and not any(f.diff or f.detail for f in patch.findings)


def _clean_patches(patches: Sequence[PatchVerdict]) -> Markup:
    lines = []
    for kind in _KINDS:
        targets = [patch.target for patch in patches if patch.verdict == kind]
        if targets:
            names = join_markup((tag("code", target) for target in targets), ", ")
            lines.append(tag("p", badge(f"{len(targets)} {kind}", "good"), " ", names, class_="quiet"))
    return join_markup(lines)


def _patch(patch: PatchVerdict) -> Markup:
    badges = [badge(patch.verdict, _TONES[patch.risk])]
    if patch.risk != "safe":
        badges.append(tag("span", patch.risk, class_="dim"))
    if patch.new_name:
        badges.append(tag("span", "now ", tag("code", patch.new_name)))
    head = tag("div", tag("h4", patch.target), *badges, location_code(patch.location), class_="head")
    reason = tag("p", f"{patch.kind}: {patch.description}" if patch.description else patch.kind, class_="dim")
    parts = [
        problems_view(untold_problems(patch)),
        _findings(patch.findings, patch),
        _rebase(patch.rebase) if patch.rebase is not None else None,
    ]
    return tag("div", head, reason, *parts, class_="record")


def _findings(findings: Iterable[Finding], patch: PatchVerdict | None = None) -> Markup:
    """What happened, each with upstream's own change; not again what the heading of a patch says."""
    items = []
    for finding in findings:
        is_target = patch is not None and finding.relation == "target"
        parts: list[Child] = []
        if not is_target:
            parts += [f"{finding.relation} ", tag("code", finding.about), " "]
        if finding.detail or not is_target:
            parts += [badge(finding.kind, _TONES[finding.risk]), f" {finding.detail}"]
        line = tag("p", *parts) if parts else Markup()
        diff = diff_view(finding.diff, f"What upstream changed in {finding.about}", finding.risk != "safe")
        commits = bullet_list([f"by {commit}" for commit in finding.commits])
        if line or diff or commits:
            items.append(tag("li", line, commits, diff))
    return tag("ul", *items, class_="findings") if items else Markup()


def _rebase(rebase: Rebase) -> Markup:
    merged = rebase.merged
    if merged.is_clean:
        verdict = badge(merged.how if merged.how in ("decided", "deleted") else _CLEAN, "good")
        remark = _HOW[merged.how]
        if rebase.is_edit and merged.how == "same":
            remark = "The edit stays as it is, at its new place"
    else:
        verdict = badge(quantity(len(merged.conflicts), "conflict"), "bad")
        remark = "both sides changed the same place"
    line = tag("p", verdict, " ", location_code(rebase.location), f" {remark}.")
    needs = [tag("p", "Its file then needs:"), text_view("\n".join(rebase.needs))] if rebase.needs else []
    conflicts = (_conflict(conflict, rebase) for conflict in merged.conflicts)
    diff = diff_view(rebase.diff, f"The {rebase.noun}, as it is and as it would be", True)
    return tag("div", line, bullet_list(merged.notes), *needs, *conflicts, diff, class_="rebase")


def _conflict(conflict: Conflict, rebase: Rebase) -> Markup:
    at = rebase.location.line + conflict.line - 1
    head = tag("p", badge("conflict", "bad"), f" {conflict.reason} ", tag("span", f"(near line {at})", class_="dim"))
    panes = (
        tag("div", tag("h5", title), text_view(text) if text else tag("p", "nothing", class_="dim"))
        for title, text in (
            (f"the {rebase.noun}", conflict.ours),
            ("upstream before", conflict.base),
            ("upstream now", conflict.theirs),
        )
    )
    return tag("div", head, tag("div", *panes, class_="panes"), class_="conflict")
