"""Which of the replacements that were carried over can be written, and by which edits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchgen_core.authoring.edits.arguments import change_argument, rename_call
from patchgen_core.authoring.edits.config_file import Changes, ConfigFiles
from patchgen_core.authoring.edits.declarations import change_names, rename_target
from patchgen_core.authoring.edits.definitions import replace_definition
from patchgen_core.authoring.edits.statements import add_below, delete_statement, replace_statement
from patchgen_core.config.declarations import WITHOUT_FUNCTION
from patchgen_core.errors import Location, PatchgenError, display_path
from patchgen_core.project.project import Project
from patchgen_core.syntax.forms import quoted
from patchgen_core.syntax.source import read_source
from patchgen_core.upgrade.results import (
    ArgumentChange,
    ConfigVerdict,
    NameChange,
    PatchVerdict,
    Rebase,
    StatementChange,
    UpgradeReport,
)
from patchgen_core.upgrade.verdicts.lost_imports import CALL

Key = tuple[str, str]
"""A config: its file, and what reports call it."""
FileChanges = tuple[Path, Changes]
"""Changes of a file."""


@dataclass(frozen=True)
class DeclaredUse:
    """A patch, by its config, its place, its kind and its target, that a definition is the replacement of."""

    config: Key
    declaration: tuple[Location, str, str]


Uses = Mapping[Location, Collection[DeclaredUse]]
"""The uses of each definition, by the place of its ``def`` or ``class``."""


@dataclass(frozen=True)
class Omission:
    """A replacement that is not written, and why: a clause without its full stop."""

    rebase: Rebase
    reason: str


@dataclass(frozen=True)
class Candidate:
    """A replacement that can be written, by changes of its lines and of the patches that name its target."""

    rebase: Rebase
    name: str
    path: Path
    span: tuple[int, int]
    changes: Changes = field(repr=False)
    renames: tuple[FileChanges, ...] = field(default=(), repr=False)
    configs: frozenset[Key] = frozenset()
    is_marked: bool = False


@dataclass(frozen=True)
class _Wish:
    """What one patch needs its replacement to become, or, without one, a config a name to be."""

    config: ConfigVerdict
    rebase: Rebase
    patch: PatchVerdict | None = None

    @property
    def target(self) -> str:
        """What it is about."""
        return self.patch.target if self.patch is not None else self.rebase.name.old if self.rebase.name else ""


def declaration(patch: PatchVerdict) -> tuple[Location, str, str]:
    """What tells the patches of a config apart."""
    return patch.location, patch.kind, patch.target


def find_candidates(
    project: Project, report: UpgradeReport, files: ConfigFiles, uses: Uses, conflicts: bool
) -> tuple[list[Candidate], list[Omission]]:
    """The replacements that can be written, those with conflicts only if `conflicts`, and those that cannot."""
    groups: dict[Location, list[_Wish]] = {}
    for wish in _wishes(report):
        groups.setdefault(wish.rebase.location, []).append(wish)
    verdicts = {(config.path, config.config, *declaration(p)): p for config in report.configs for p in config.patches}
    candidates: list[Candidate] = []
    omissions: list[Omission] = []
    for location, wishes in groups.items():
        reason = _disagreement(wishes, uses.get(location, ()), verdicts) or _conflict(wishes[0].rebase, conflicts)
        candidate = reason or _candidate(project, files, wishes, uses.get(location, ()), candidates)
        if isinstance(candidate, Candidate):
            candidates.append(candidate)
        else:
            texts = {wish.rebase.merged.text: wish.rebase for wish in wishes}
            omissions += [Omission(rebase, candidate) for rebase in texts.values()]
    return candidates, omissions


def _wishes(report: UpgradeReport) -> Iterator[_Wish]:
    for config in report.configs:
        for patch in config.patches:
            rebase = patch.rebase
            if rebase is not None and (rebase.diff or patch.new_name or not rebase.merged.is_clean):
                yield _Wish(config, rebase, patch)
        yield from (_Wish(config, finding.rebase) for finding in config.findings if finding.rebase is not None)


def _disagreement(
    wishes: Sequence[_Wish],
    uses: Collection[DeclaredUse],
    verdicts: Mapping[tuple[str, str, Location, str, str], PatchVerdict],
) -> str:
    """Why a definition cannot become what one of its patches needs: others need something else."""
    deletes = next((wish for wish in wishes if wish.rebase.is_deletion), None)
    if deletes is not None:
        return _still_needed(deletes, uses, verdicts)
    for other in wishes[1:]:
        if other.rebase.merged.text != wishes[0].rebase.merged.text:
            first, second = _named(wishes[0], other)
            return f"{first} and {second} need different texts of it; give them replacements of their own"
    if wishes[0].rebase.merged.text == wishes[0].rebase.ours:
        return ""
    wished = {(w.config.path, w.config.config, *declaration(w.patch)) for w in wishes if w.patch is not None}
    for use in sorted(uses, key=lambda use: (use.config, use.declaration[1:])):
        verdict = None if use.declaration[1] in WITHOUT_FUNCTION else verdicts.get((*use.config, *use.declaration))
        if verdict is not None and (*use.config, *use.declaration) not in wished and _needs_no_change(verdict):
            whose = use.config[1] if use.config[1] != wishes[0].config.config else "this config"
            return (
                f"the patch of {verdict.target} in {whose} needs it as it is; "
                f"give {wishes[0].target} in {wishes[0].config.config} a replacement of its own"
            )
    return ""


def _still_needed(
    wish: _Wish,
    uses: Collection[DeclaredUse],
    verdicts: Mapping[tuple[str, str, Location, str, str], PatchVerdict],
) -> str:
    """Why an edit cannot go that one of its targets needs no more: another one needs it."""
    for use in sorted(uses, key=lambda use: (use.config, use.declaration[1:])):
        verdict = verdicts.get((*use.config, *use.declaration))
        if verdict is None or verdict.verdict != "now upstream":
            target = f"{use.declaration[2]} in {use.config[1]}"
            return (
                f"{target} needs it still, and {wish.target} in {wish.config.config} does not: give each its own edits"
            )
    return ""


def _named(one: _Wish, other: _Wish) -> tuple[str, str]:
    """What tells two patches apart: the configs, or in one config the targets."""
    if one.config.config != other.config.config:
        return one.config.config, other.config.config
    return one.target, other.target


def _needs_no_change(patch: PatchVerdict) -> bool:
    if patch.rebase is not None:
        return patch.rebase.merged.is_clean and not patch.rebase.diff
    return patch.verdict in ("unchanged", "cosmetic")


def _conflict(rebase: Rebase, conflicts: bool) -> str:
    """Why a replacement with conflicts is not written."""
    first, *others = rebase.merged.conflicts or [None]
    if first is None or (conflicts and rebase.marked):
        return ""
    more = f", and {len(others)} more" if others else ""
    return f"line {first.line} of it: {first.reason}{more}"


def _candidate(
    project: Project,
    files: ConfigFiles,
    wishes: Sequence[_Wish],
    uses: Collection[DeclaredUse],
    others: Sequence[Candidate],
) -> Candidate | str:
    """The changes that write a replacement; or why there are none."""
    rebase = wishes[0].rebase
    path, line = Path(rebase.location.file), rebase.location.line
    if outside := _is_outside(project, path):
        return outside
    is_marked = not rebase.merged.is_clean
    try:
        source, file = read_source(path), files.get(path)
        name, node = next(((name, node) for name, node in source.definitions if node.lineno == line), ("", None))
        text = rebase.marked if is_marked else rebase.merged.text
        is_text = text != rebase.ours and not rebase.statements
        changes = replace_definition(file, line, rebase.ours, text) if is_text else {}
        if changes is None or (rebase.ours and node is None):
            return f"line {line} of '{display_path(path)}' has different text now"
        file.changed(changes).encoded  # noqa: B018 - raises where a character cannot be written
        arguments = [change for wish in wishes for change in wish.rebase.arguments]
        names = [wish.rebase.name for wish in wishes if wish.rebase.name is not None]
        if reason := _contradiction([*arguments, *names]):
            return reason
        renames = tuple(_rename(files, w.patch) for w in wishes if w.patch is not None and w.patch.new_name)
        renames += _name_changes(files, names)
        renames += tuple(_argument_change(files, change) for change in dict.fromkeys(arguments))
        renames += tuple(_statement_change(files, change) for change in rebase.statements)
    except PatchgenError as error:
        return error.problems[0].message
    span = (source.first_line(node), source.last_line(node)) if node is not None else (line, line)
    if any(other.path == path and other.span[0] <= span[1] and span[0] <= other.span[1] for other in others):
        return "it is inside another definition that is written"
    configs = frozenset({*(use.config for use in uses), *((w.config.path, w.config.config) for w in wishes)})
    return Candidate(rebase, name, path, span, changes, renames, configs, is_marked)


def _contradiction(changes: Sequence[ArgumentChange | NameChange]) -> str:
    """Why a call cannot say what its targets need: they need different things; empty when they do not."""
    wanted: dict[tuple[Location, str, str], str] = {}
    for change in changes:
        name, what = (change.name, "places") if isinstance(change, ArgumentChange) else ("", "names")
        if wanted.setdefault((change.location, name, change.old), change.new) != change.new:
            return f"{change.location} declares edits of several targets, which need different {what} now"
    return ""


def _name_changes(files: ConfigFiles, names: Sequence[NameChange]) -> tuple[FileChanges, ...]:
    """What has a call say other names; a PatchgenError where it does not say them by texts of its own."""
    by_call: dict[tuple[Location, str, str], dict[str, str]] = {}
    for change in names:
        by_call.setdefault((change.location, change.call, change.target), {})[change.old] = change.new
    results = []
    for (location, call, target), renamed in by_call.items():
        file = files.get(Path(location.file))
        if call == CALL:
            changes = add_below(file, location.line, tuple(renamed.values()))
        else:
            changes = change_names(file, location.line, call, renamed, target)
        if changes is None and call == CALL:
            raise PatchgenError(
                f"{location} does not assign the config: add {quoted(renamed.values())} there", location
            )
        if changes is None:
            raise PatchgenError(f"{location} does not name {quoted(renamed)} as a literal in {call}", location)
        results.append((file.path, changes))
    return tuple(results)


def _argument_change(files: ConfigFiles, change: ArgumentChange) -> FileChanges:
    """What has the declaration of an edit say something else; a PatchgenError where it cannot be written there."""
    file = files.get(Path(change.location.file))
    changes: Changes | None = {}
    if change.name:
        changes = change_argument(file, change.location.line, change.call, change.name, change.old, change.new)
    renamed: Changes | None = {}
    if change.call != change.new_call:
        renamed = rename_call(file, change.location.line, change.call, change.new_call)
    if changes is None or renamed is None:
        what = f"'{change.name}' of {change.call}" if changes is None else change.call
        raise PatchgenError(f"{what} is not a literal in {change.location}", change.location)
    return file.path, {**changes, **renamed}


def _statement_change(files: ConfigFiles, change: StatementChange) -> FileChanges:
    """What puts others into the place of a declaration; a PatchgenError where it is no statement of its own."""
    file = files.get(Path(change.location.file))
    if change.texts:
        changes = replace_statement(file, change.location.line, change.texts)
    else:
        changes = delete_statement(file, change.location.line, change.heir.line if change.heir is not None else None)
    if changes is None:
        raise PatchgenError(
            f"{change.location} is not a statement of the module that declares one edit", change.location
        )
    return file.path, changes


def _is_outside(project: Project, path: Path) -> str:
    """Why a file is none of the project's own; empty when it is one."""
    roots = (project.base, project.search_root)
    if "site-packages" in path.parts or not any(path.is_relative_to(root) for root in roots):
        return f"it is outside the project, in '{display_path(path)}'"
    return ""


def _rename(files: ConfigFiles, patch: PatchVerdict) -> FileChanges:
    """What has a config name a patch's target anew."""
    location = patch.used_at or patch.location
    file = files.get(Path(location.file))
    return file.path, rename_target(file, location.line, patch.target, patch.new_name)
