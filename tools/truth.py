"""What people did to each patch of a real project when they moved it to a later release of transformers, beside what
`patchgen upgrade` says of it and makes of it.

The project is VeOmni, 0.1.11 on transformers 5.2.0 and 0.1.12 on 5.9.0. People's own later version is the judge. The
older one is upgraded as it is, in replacements, and once `patchgen slim` made edits of what it can.

    python -m tools.truth [--show] [-o tests/upgrade/real_move.txt]
"""

from __future__ import annotations

import argparse
import ast
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from patchgen_core.config.declarations import Patch
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.project.project import Project
from patchgen_core.syntax.forms import PROSE, form
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.package_configs import patches_of, select_configs
from patchgen_core.upgrade.release_module import ReleaseModule
from patchgen_core.upgrade.results import PatchVerdict, UpgradeReport
from patchgen_core.upgrade.upgrading import upgrade
from patchgen_core.upgrade.verdicts.replacements import resolve_patch
from patchgen_core.upstream.module import find_upstream
from tools.merges import describe_slimming
from tools.real_project import find_upstream_release, make_real_project
from tools.releases import REAL, find_releases

OLD, NEW = "0.1.11", "0.1.12"
"""Releases of the project."""
HEAD = """\
# What people did to the patches of VeOmni 0.1.11 (transformers 5.2.0) for 0.1.12 (5.9.0), and what upgrade says and
# makes of them. `python -m tools.truth -o tests/upgrade/real_move.txt` writes it and keeps the notes.
# config | target | kind | upstream | people | verdict | risk | merge | edits | result | note"""
CARRIED = ("none", "same", "clean", "kept")
"""What becomes of a patch that needs no person, the least first."""
OUTCOMES = (*CARRIED, "gone", "conflict")


@dataclass(frozen=True)
class Row:
    """One patch of the older version.

    Attributes:
        config, target, kind: which one; the config is the path of its file without its ending.
        upstream: whether upstream changed the target's code: ``changed`` or ``same``; ``added`` for none.
        people: what became of it in the later version: ``kept``, ``edited``, ``removed``, or ``other`` where it is
            another kind of patch there.
        verdict: what upgrade says of the target.
        risk: what upgrade says of the patch.
        merge: what upgrade makes of it: ``none`` where there is nothing to carry over, ``same`` where the patch has
            it, ``clean``, ``kept`` where it stays as it is all the same, ``conflict``, or ``gone`` for a target or a
            place.
        edits: the same once the project is slimmed: the worst for the target's edits.
        result: whether the patch carried over is ``the same`` code as people's, or ``different``; ``-`` for a
            conflict, and for a patch that people removed.
        note: for what is different, how: a person's judgment after reading both.
    """

    config: str
    target: str
    kind: str
    upstream: str
    people: str
    verdict: str
    risk: str
    merge: str
    edits: str = "none"
    result: str = "-"
    note: str = "-"

    @property
    def key(self) -> str:
        """Which patch it is about."""
        return f"{self.config}:{self.target}"

    @property
    def is_flagged(self) -> bool:
        """Whether upgrade asks a person to look at the patch or to change it."""
        return self.risk != "safe"

    @property
    def needs_nobody(self) -> bool:
        """Whether people left the patch alone, and upstream changed nothing of its target's code or what it has."""
        is_same = self.upstream == "same" or self.verdict == "decorators changed" or self.merge in CARRIED[1:]
        return self.people == "kept" and self.result == "the same" and is_same


@dataclass(frozen=True)
class _Replacements:
    """The patches of a config, with the code that each puts in its target's place."""

    codes: dict[str, str]
    texts: dict[str, str]
    kinds: dict[str, str]


def make_rows(folder: Path) -> list[Row]:
    """The move, worked out anew in a folder."""
    projects = {}
    for version in (OLD, NEW):
        own = folder / version
        own.mkdir()
        projects[version] = make_real_project(version, own)
    new = _read(projects[NEW], NEW)
    old = _read(projects[OLD], OLD)
    rows = []
    for config in _upgrade(projects[OLD]).configs:
        name = _short(Path(config.path))
        rows += [_row(name, patch, old[name], new.get(name)) for patch in config.patches]
    describe_slimming(projects[OLD])
    outcomes: dict[str, str] = {}
    for config in _upgrade(projects[OLD]).configs:
        for patch in config.patches:
            key = f"{_short(Path(config.path))}:{patch.target}"
            outcomes[key] = max(outcomes.get(key, "none"), outcome_of(patch), key=OUTCOMES.index)
    rows = [replace(row, edits=outcomes.get(row.key, "none")) for row in rows]
    return sorted(rows, key=lambda row: (row.config, row.target))


def _upgrade(project: Project) -> UpgradeReport:
    release = find_upstream_release(NEW)
    return upgrade(select_configs(project), release, find_releases(), since=REAL[OLD])


def outcome_of(patch: PatchVerdict) -> str:
    """What becomes of a patch: see `Row.merge`."""
    rebase = patch.rebase
    if rebase is None:
        return "gone" if patch.verdict in ("gone", "place gone", "place ambiguous") else "none"
    if not rebase.merged.is_clean:
        return "conflict"
    return "clean" if rebase.diff else "kept" if rebase.merged.how == "kept" else "same"


def _read(project: Project, version: str) -> dict[str, _Replacements]:
    """The patches of every config of a version, by the config's short name."""
    sources, upstream = SourceCache(), SourceCache()
    loader = Loader(project, sources)
    release = find_upstream_release(version)
    results = {}
    for path in project.find_configs():
        for loaded in loader.load(path):
            module = find_upstream(loaded.config.source_module, (release.folder,))
            side = ReleaseModule(module, upstream.get(module.path), None, "folder")
            results[_short(path)] = _replacements(side, loaded, sources)
    return results


def _replacements(side: ReleaseModule, loaded: LoadedConfig, sources: SourceCache) -> _Replacements:
    texts, kinds = dict[str, str](), dict[str, str]()
    for patch in patches_of(loaded):
        kinds[patch.target] = patch.kind
        texts[patch.target] = _text(side, patch, loaded, sources)
    return _Replacements({target: code(text) for target, text in texts.items()}, texts, kinds)


def _text(side: ReleaseModule, patch: Patch, loaded: LoadedConfig, sources: SourceCache) -> str:
    planned = resolve_patch(side, patch, loaded, sources)
    if planned is None or planned.replacement is None:
        return ""
    is_bare = bool(planned.method) and patch.keep_decorators
    decorators = () if is_bare else planned.replacement.decorators
    return "\n".join([*decorators, planned.replacement.text])


def code(text: str) -> str:
    """What a definition does: whatever its name, layout, docstrings and annotations are."""
    if not text:
        return ""
    node = ast.parse(text).body[0]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        node.name = "_"
    return form(node, "", PROSE)


def _row(config: str, verdict: PatchVerdict, old: _Replacements, new: _Replacements | None) -> Row:
    target, rebase = verdict.target, verdict.rebase
    upstream = {"unchanged": "same", "cosmetic": "same", "added": "added"}.get(verdict.verdict, "changed")
    merge = outcome_of(verdict)
    people, result = "removed", "-"
    if new is not None and target in new.codes:
        theirs = new.codes[target]
        people = "kept" if theirs == old.codes[target] else "edited" if verdict.kind == new.kinds[target] else "other"
        if merge != "conflict":
            ours = code(rebase.merged.text) if rebase is not None else old.codes[target]
            result = "the same" if ours == theirs else "different"
    return Row(config, target, verdict.kind, upstream, people, verdict.verdict, verdict.risk, merge, result=result)


def _short(path: Path) -> str:
    return path.name.removesuffix("_patch_gen_config.py")


def describe(rows: Iterable[Row]) -> list[str]:
    """How far upgrade is right, line by line."""
    rows = list(rows)
    edited = [row for row in rows if row.people in ("edited", "other")]
    untouched = [row for row in rows if row.needs_nobody]
    changed = [row for row in rows if row.upstream == "changed"]
    results = Counter(row.result for row in changed if row.merge in CARRIED)
    counts = [Counter(getattr(row, form) for row in changed) for form in ("merge", "edits")]
    return [
        f"{len(rows)} patches; people: {dict(Counter(row.people for row in rows))}",
        f"flagged of those that people edited: {sum(row.is_flagged for row in edited)} of {len(edited)}",
        f"flagged though nobody needed to touch them: {sum(row.is_flagged for row in untouched)} of {len(untouched)}",
        f"upstream changed the target of {len(changed)}; carried over without a person, in replacements: "
        f"{', '.join(f'{number} {kind}' for kind, number in results.most_common())} as people's code",
        *(
            f"in {form}: {', '.join(f'{count[outcome]} {outcome}' for outcome in OUTCOMES)}; without a person: "
            f"{sum(count[outcome] for outcome in CARRIED)} of {len(changed)}"
            for form, count in zip(("replacements", "edits"), counts)
        ),
    ]


LABELS = {
    "none": "nothing to carry over",
    "same": "the patch has it already",
    "clean": "merges",
    "kept": "stays as it is",
    "gone": "the target or its place is gone",
    "conflict": "conflict",
}


def tabulate_forms(rows: Iterable[Row]) -> list[str]:
    """A Markdown table of what becomes of the targets that upstream changed, in replacements and in edits."""
    changed = [row for row in rows if row.upstream == "changed"]
    lines = ["| what becomes of it | replacements | edits |", "| --- | --- | --- |"]
    counts = [Counter(getattr(row, form) for row in changed) for form in ("merge", "edits")]
    for outcome in CARRIED:
        lines.append(f"| {LABELS[outcome]} | {' | '.join(str(count[outcome]) for count in counts)} |")
    sums = [sum(count[outcome] for outcome in CARRIED) for count in counts]
    lines.append(f"| **without a person** | **{sums[0]} of {len(changed)}** | **{sums[1]} of {len(changed)}** |")
    for outcome in OUTCOMES[len(CARRIED) :]:
        lines.append(f"| {LABELS[outcome]} | {' | '.join(str(count[outcome]) for count in counts)} |")
    return lines


def read_rows(path: Path) -> list[Row]:
    """A table, with its notes."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [Row(*line.split(" | ")) for line in lines if line and not line.startswith("#")]


def write_rows(rows: Iterable[Row], path: Path) -> None:
    """Write a table, with the notes that it has."""
    notes = {row.key: row.note for row in read_rows(path)}
    lines = [HEAD, *(" | ".join(astuple(replace(row, note=notes.get(row.key, row.note)))) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--show", action="store_true", help="print every row")
    parser.add_argument("-o", "--output", type=Path, help="write the table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patchgen-truth-") as folder:
        rows = make_rows(Path(folder).resolve())
    for row in rows if options.show else ():
        print(*astuple(row), sep=" | ")
    if options.output is not None:
        write_rows(rows, options.output)
    print(*describe(rows), sep="\n")


if __name__ == "__main__":
    main()
