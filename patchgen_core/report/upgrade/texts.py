"""What is said of an upgrade, whatever shows it: the headline, merges, what was applied, what remains to do."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from patchgen_core.errors import Location, Problem, display_path
from patchgen_core.report.words import quantity
from patchgen_core.syntax.forms import listed
from patchgen_core.syntax.nodes import DEFINITIONS
from patchgen_core.upgrade.results import (
    RISKS,
    ArgumentChange,
    ConfigVerdict,
    Conflict,
    Finding,
    NameChange,
    PatchVerdict,
    Rebase,
    Risk,
    UpgradeReport,
)
from patchgen_core.upgrade.writing.applying import Applied
from patchgen_core.upstream.versions import ascending, same_version

WORDS: dict[Risk, str] = {"must change": "must change", "review": "review", "safe": "safe to regenerate"}
"""What reports call a risk."""

_ORIGINS = {
    "installed": "the installed package",
    "cache": "the cache",
    "download": "a downloaded wheel",
    "wheel": "a wheel",
    "folder": "a folder",
    "checked-in files": "the checked-in files",
}

_MOST_LINES = 16


def versions(report: UpgradeReport) -> str:
    """The versions that are compared: ``transformers 5.22.2 → 5.23.0``."""
    old = ascending(config.old for config in report.configs)
    since = f"{', '.join(old)} → " if old and not is_same(report) else ""
    return f"{report.distribution} {since}{report.new}"


def is_same(report: UpgradeReport) -> bool:
    """Whether every config is at the new release already."""
    return bool(report.configs) and all(same_version(config.old, report.new) for config in report.configs)


def risk_counts(report: UpgradeReport) -> str:
    """How many configs have which risk, worst first: ``3 must change, 16 safe to regenerate``."""
    counts = {risk: len(report.of_risk(risk)) for risk in RISKS}
    return ", ".join(f"{number} {WORDS[risk]}" for risk, number in counts.items() if number) or "none compared"


def headline(report: UpgradeReport) -> str:
    """The versions, how many configs there are, and how many of them have which risk."""
    return f"{versions(report)}, {quantity(len(report.configs), 'config')}: {risk_counts(report)}."


def origins(report: UpgradeReport) -> str:
    """Where the old and the new text are from, in one sentence; empty when nothing was compared."""
    origins = Counter(_ORIGINS[config.origin] for config in report.configs if config.origin is not None)
    if not origins:
        return ""
    many = len(origins) > 1
    old = " and ".join(f"{name} ({quantity(number, 'config')})" if many else name for name, number in origins.items())
    if report.origin is not None and list(origins) == [_ORIGINS[report.origin]]:
        return f"Old and new text are from {old}."
    new = f", the new from {_ORIGINS[report.origin]}" if report.origin is not None else ""
    return f"The old text is from {old}{new}."


# --- one config ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A part of what is said of a config; its kind says what there is of the rest.

    Attributes:
        kind: ``patch`` for the heading of one, ``problems``, ``lines`` that have a word each for what they are,
            ``diff`` and ``conflict`` for code below a title, ``rest`` for the patches with nothing but a verdict.
        about: what of upstream a diff is of, empty for that of a replacement; the place of a conflict.
    """

    kind: Literal["patch", "problems", "lines", "diff", "conflict", "rest"]
    title: str = ""
    about: str = ""
    code: str = ""
    lines: tuple[tuple[str, str], ...] = ()
    problems: tuple[Problem, ...] = ()
    patch: PatchVerdict | None = None


def describe_config(config: ConfigVerdict, with_safe: bool = False) -> Iterator[Part]:
    """What is said of a config below its heading: of itself, then of each patch; what needs nothing only on demand."""
    yield from _lines(("note", note) for note in config.notes)
    yield from _problems(config_problems(config))
    yield from _describe_findings(config.findings, "", with_safe)
    names = (finding.rebase.name for finding in config.findings if finding.rebase is not None)
    yield from _lines(_name_line(name) for name in names if name is not None)
    quiet = [patch for patch in config.patches if _needs_nothing(patch) and not with_safe]
    for patch in config.patches:
        if patch not in quiet:
            yield Part("patch", patch=patch)
            yield from _problems(untold_problems(patch))
            yield from _describe_findings(patch.findings, patch.verdict, with_safe)
            if patch.rebase is not None:
                yield from _describe_rebase(patch.rebase, patch.new_name, config)
    if quiet:
        counts = Counter(patch.verdict for patch in quiet)
        which = "the other patches" if len(quiet) < len(config.patches) else "all patches"
        yield Part("rest", f"{which}: {', '.join(f'{number} {kind}' for kind, number in counts.items())}")


def untold_problems(patch: PatchVerdict) -> tuple[Problem, ...]:
    """The problems of a patch that no finding on its target says already, as that the place of an edit is gone."""
    if not patch.verdict.startswith("place"):
        return patch.problems
    label = f"{patch.kind} {patch.target}: "
    told = [finding.detail for finding in patch.findings if finding.relation == "target"]
    is_told = {p for p in patch.problems for text in told if p.message.removeprefix(label) in text}
    if patch.rebase is not None:
        is_told |= {problem for problem in patch.problems if problem.message.startswith(label) and not problem.code}
    return tuple(problem for problem in patch.problems if problem not in is_told)


def _lines(lines: Iterable[tuple[str, str]]) -> Iterator[Part]:
    part = Part("lines", lines=tuple(lines))
    yield from [part] if part.lines else []


def _problems(problems: tuple[Problem, ...]) -> Iterator[Part]:
    yield from [Part("problems", problems=problems)] if problems else []


def _describe_findings(findings: Iterable[Finding], verdict: str, with_safe: bool) -> Iterator[Part]:
    """Findings, worst first, but for one that says no more than the verdict on the target; then upstream's changes."""
    findings = sort_by_risk(findings, with_safe)
    repeated = [f for f in findings if f.relation == "target" and f.kind == verdict and not f.detail]
    yield from _lines(dict.fromkeys((finding.risk, str(finding)) for finding in findings if finding not in repeated))
    yield from _lines(dict.fromkeys(("by", f"{f.about}: {commit}") for f in findings for commit in f.commits))
    for finding in findings:
        if finding.diff:
            yield Part("diff", "upstream's own change of", finding.about, finding.diff)


def _describe_rebase(rebase: Rebase, new_name: str, config: ConfigVerdict) -> Iterator[Part]:
    """How a replacement is carried over, its conflicts, and what it becomes."""
    yield from _lines(_merge_lines(rebase, new_name))
    for conflict in rebase.merged.conflicts:
        code = _conflict_text(conflict, rebase.noun, f"upstream {config.old}", f"upstream {config.new}")
        yield Part("conflict", conflict.reason, str(conflict_location(rebase, conflict)), code)
    if rebase.diff:
        what = "deleted" if rebase.is_deletion else "carried over"
        yield Part("diff", f"the {rebase.noun}, {what}", code=rebase.diff)


def _merge_lines(rebase: Rebase, new_name: str) -> Iterator[tuple[str, str]]:
    merged = rebase.merged
    if merged.conflicts:
        yield "conflict", f"upstream's change cannot be merged into {rebase.location} automatically"
    elif rebase.is_deletion:
        yield "deletes", f"{rebase.location}: upstream has it now"
        return
    elif rebase.diff:
        how = {"syntax": "cleanly by syntax", "lines": "cleanly by lines", "same": "cleanly", "decided": "as decided"}
        yield "merges", f"{how[merged.how]} into {rebase.location}"
    elif merged.how in ("kept", "decided"):
        yield "stays", f"the {rebase.noun} as it is"
    else:
        yield "merged", f"the {rebase.noun} already has upstream's change"
    if new_name and merged.is_clean:
        yield "renames", f"the target to {new_name}"
    if rebase.statements:
        yield "rewrites", f"{quantity(len(rebase.statements), 'edit')} of the target as one; each place is named anew"
    yield from (("rewrites", _argument_text(change)) for change in rebase.arguments)
    yield from (("assumed", note) for note in merged.notes)
    yield from (("adds", statement) for statement in rebase.needs)


def _argument_text(change: ArgumentChange) -> str:
    """What the call that declares an edit says instead."""
    call = f"{change.call} to {change.new_call}" if change.call != change.new_call else ""
    old, new = (
        " / ".join(line.strip() for line in text.splitlines() if line.strip()) for text in (change.old, change.new)
    )
    return call if not change.name else f"{change.name} '{old}' to '{new}'" + (f", and {call}" if call else "")


def _name_line(change: NameChange) -> tuple[str, str]:
    """What a call that names something of upstream's says instead, or what is called as well."""
    if change.call == "add_import":
        return "adds", f"{change.new}, below {change.location}"
    changed = f"'{change.old}' to '{change.new}'" if change.new else f"without '{change.old}'"
    return "rewrites", f"{change.call} {changed}, in {change.location}"


def conflict_location(rebase: Rebase, conflict: Conflict) -> Location:
    """The place of a conflict in the project: lines of a replacement count from its own decorators on."""
    if not rebase.ours:
        return rebase.location
    (definition,) = (node for node in ast.parse(rebase.ours).body if isinstance(node, DEFINITIONS))
    return Location(rebase.location.file, rebase.location.line + conflict.line - definition.lineno)


def _conflict_text(conflict: Conflict, ours: str, old: str, new: str) -> str:
    """What the sides of a conflict have, between the marks that git uses; the other arguments say where from."""
    sides = ((f"<<<<<<< {ours}", conflict.ours), (f"||||||| {old}", conflict.base), ("=======", conflict.theirs))
    lines = [line for mark, text in sides for line in (mark, *_first_lines(text))]
    return "\n".join([*lines, f">>>>>>> {new}"])


def _first_lines(text: str) -> list[str]:
    lines = text.split("\n") if text else []
    more = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], f"[{more} more lines]"] if more > 1 else lines


def config_problems(config: ConfigVerdict) -> tuple[Problem, ...]:
    """The problems of a config that are no patch's, and that no other name in a call of it mends."""
    told = {problem for patch in config.patches for problem in patch.problems}
    names = [finding.rebase.name for finding in config.findings if finding.rebase is not None]
    for name in filter(None, names):
        told |= {p for p in config.problems if p.location == name.location and f"'{name.old}'" in p.message}
    return tuple(problem for problem in config.problems if problem not in told)


def sort_by_risk(findings: Iterable[Finding], with_safe: bool = False) -> list[Finding]:
    """Findings, worst first; those that need nothing only on demand."""
    return sorted((f for f in findings if with_safe or f.risk != "safe"), key=lambda f: RISKS.index(f.risk))


def patches_summary(config: ConfigVerdict) -> str:
    """How many patches of a config have which verdict; that nothing was compared where that is so."""
    return config.summary if config.origin is not None else "nothing was compared"


def _needs_nothing(patch: PatchVerdict) -> bool:
    """Whether there is nothing to say of a patch but its verdict."""
    return patch.risk == "safe" and not patch.problems and not (patch.rebase is not None and patch.rebase.diff)


# --- what --apply does -----------------------------------------------------------------------------


def is_applied(patch: PatchVerdict) -> bool:
    """Whether ``--apply`` changes a patch: its replacement, or the name of its target."""
    rebase = patch.rebase
    return rebase is not None and rebase.merged.is_clean and bool(rebase.diff or patch.new_name)


def describe_applying(report: UpgradeReport) -> str:
    """What ``--apply`` would do."""
    patches = [patch.rebase for config in report.configs for patch in config.patches if is_applied(patch)]
    carried = [*patches, *(finding.rebase for config in report.configs for finding in config.findings)]
    merges = {rebase.location: rebase for rebase in carried if rebase is not None}
    gone = [rebase for rebase in merges.values() if rebase.is_deletion]
    others = [rebase for rebase in merges.values() if not rebase.is_deletion]
    written = f"carries over {rebase_counts(others)}, " if others else ""
    written += f"deletes {rebase_counts(gone)} that upstream has now, " if gone else ""
    return f"{written}generates the files and runs the gate"


def rebase_counts(rebases: Iterable[Rebase]) -> str:
    """How many replacements, edits and names there are: ``1 replacement and 2 edits``."""
    counts = Counter(rebase.noun for rebase in rebases)
    return listed([quantity(counts[noun], noun) for noun in ("replacement", "edit", "name") if counts[noun]])


@dataclass(frozen=True)
class PatchChange:
    """Something that was written, or was not: what became of it, and what remains to be done, or why it was not."""

    word: str
    place: str
    remark: str = ""


def list_changes(applied: Applied) -> Iterator[PatchChange]:
    """What was written into a project, and what was not."""
    yield from (PatchChange("wrote", display_path(path)) for path in applied.written)
    yield from (PatchChange("generated", display_path(path)) for path in applied.generated)
    yield from (PatchChange("copy", f"{display_path(path)}: as it was edited by hand") for path in applied.copies)
    for rebase in applied.merged:
        gone = ("deleted", str(rebase.location), "upstream has it now")
        yield PatchChange(*gone) if rebase.is_deletion else PatchChange("merged", str(rebase.location))
    for rebase in applied.marked:
        conflicts = quantity(len(rebase.merged.conflicts), "conflict")
        yield PatchChange("marked", str(rebase.location), f"{conflicts} to resolve")
    yield from (PatchChange("left", str(rebase.location), reason) for rebase, reason in applied.left)


def applied_summary(applied: Applied) -> str:
    """What was written and what was not, in one sentence."""
    gone = [rebase for rebase in applied.merged if rebase.is_deletion]
    merged = [rebase for rebase in applied.merged if not rebase.is_deletion]
    parts = [f"{rebase_counts(merged) or '0 replacements'} merged"] if merged or not gone else []
    parts += [f"{rebase_counts(gone)} deleted"] if gone else []
    parts.append(f"{quantity(len(applied.generated), 'file')} generated")
    if applied.marked:
        parts.append(f"{len(applied.marked)} written with conflict markers")
    if applied.left:
        parts.append(f"{len(applied.left)} left as {'it is' if len(applied.left) == 1 else 'they are'}")
    return f"Applied: {', '.join(parts)}."
