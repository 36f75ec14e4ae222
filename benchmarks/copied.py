"""How many lines of upstream's text do the patches of a project repeat? `python -m benchmarks.copied [PROJECT]`

A line of a patch is one of its function or class, or of code in quotes, neither empty nor a comment. It repeats
upstream's where it stands in upstream's text of the target, indented or not, with the others in the same order. A
definition that several configs have counts once, and for the target of which it repeats most. ``--at COMMIT`` tells of
a project as it was then.

The zoo, whose patches became edits on 23 November 2026:

|                   | definitions | lines | repeat upstream's |
|-------------------|-------------|-------|-------------------|
| before, 371739c   | 91          | 3,570 | 2,737             |
| in edits          | 173         | 1,255 | 255               |
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from io import BytesIO
from pathlib import Path

from patchgen_core.codegen.plan import Plan, make_plan
from patchgen_core.codegen.renaming import map_prefixes
from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.config.loading import Loader
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.project.table import load_project
from patchgen_core.syntax.nodes import methods
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upstream.module import find_upstream


@dataclass(frozen=True)
class Copied:
    """A definition or quoted code of a patch: its lines, and how many of them are upstream's."""

    place: Location
    target: str
    lines: int
    copied: int


def read_project(root: Path) -> list[Copied]:
    """What the configs of a project say in their patches.

    Raises:
        PatchgenError: a config does not load, or cannot be generated.
    """
    project, sources = load_project(root), SourceCache()
    loader = Loader(project, sources)
    entries: dict[Location, Copied] = {}
    for path in project.find_configs():
        for loaded in loader.load(path):
            upstream = find_upstream(loaded.config.source_module, project.upstream, location=loaded.config.location)
            plan = make_plan(loaded.config, upstream, sources, loaded.modules, loaded.label)
            for entry in _read_plan(plan):
                before = entries.get(entry.place)
                entries[entry.place] = entry if before is None or before.copied < entry.copied else before
    return list(entries.values())


def _read_plan(plan: Plan) -> Iterator[Copied]:
    for planned in plan.patches:
        theirs = _upstream_lines(plan, planned)
        for part in planned.declared:
            patch = part.patch
            if part.replacement is not None:
                place, text = part.replacement.location, part.replacement.text
            elif patch.location is not None and patch.kind != "external":
                place, text = patch.location, patch.code
            else:
                continue
            at = map_prefixes(patch.at, patch.name_map) if patch.is_edit else ""
            ours = [*_lines(text), *_lines(at)]
            copied = sum(_common(_lines(part), theirs) for part in (text, at))
            yield Copied(place, patch.target, len(ours), copied)


def _upstream_lines(plan: Plan, planned: PlannedPatch) -> list[str]:
    nodes = [n for node in planned.nodes for n in (methods(node, planned.method) if planned.method else [node])]
    lines = (plan.source.lines[node.lineno - 1 : plan.source.last_line(node)] for node in nodes)
    return [line for own in lines for line in _lines("\n".join(own))]


def _lines(text: str) -> list[str]:
    stripped = (line.strip() for line in text.split("\n"))
    return [line for line in stripped if line and not line.startswith("#") and line != "..."]


def _common(ours: Sequence[str], theirs: Sequence[str]) -> int:
    return sum(block.size for block in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks())


def table(entries: Iterable[Copied]) -> str:
    """How many lines are upstream's, and of how many."""
    rows = sorted(entries, key=lambda entry: -entry.copied)
    lines = [f"{row.copied:>5} of {row.lines:>4}  {row.target}  {row.place}" for row in rows if row.copied]
    copied, total = (sum(getattr(row, name) for row in rows) for name in ("copied", "lines"))
    share = f"{100 * copied / total:.0f} of 100" if total else "none"
    return "\n".join([*lines, f"{len(rows)} definitions, {total} lines, {copied} repeat upstream's: {share}"])


def _checked_out(root: Path, commit: str, folder: Path) -> None:
    """Write a commit of a repository into a folder."""
    done = subprocess.run(["git", "-C", str(root), "archive", commit], capture_output=True, check=True)
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data") if sys.version_info >= (3, 12) else archive.extractall(folder)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.copied", description="How much do patches repeat?")
    parser.add_argument("project", nargs="?", type=Path, default=Path(), help="its folder (default: here)")
    parser.add_argument("--at", metavar="COMMIT", help="as it was then, for a project that is a git repository")
    parser.add_argument("--short", action="store_true", help="print the last line alone")
    options = parser.parse_args(argv)
    root = options.project.resolve()
    try:
        with tempfile.TemporaryDirectory() as name:
            if options.at is not None:
                _checked_out(root, options.at, Path(name))
                root = Path(name).resolve()
            os.chdir(root)
            text = table(read_project(root))
            os.chdir("/")
    except (PatchgenError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 2
    print(text.splitlines()[-1] if options.short else text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
