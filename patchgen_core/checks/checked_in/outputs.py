"""The files that configs write: such as several of them write, and such as none writes any more."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from patchgen_core.build.results import ConfigResult, Outcome
from patchgen_core.project.file_tree import walk_files
from patchgen_core.project.project import OUTPUT_FOLDER, Project


def find_rivals(results: Mapping[Path, Sequence[ConfigResult]]) -> set[Path]:
    """Config files that write a file which another one writes as well: an error that only shows side by side."""
    owners: dict[str, set[Path]] = {}
    for path, of_path in results.items():
        for result in of_path:
            if result.outcome.output is not None:
                owners.setdefault(os.path.realpath(result.outcome.output), set()).add(path)
    return {path for paths in owners.values() if len(paths) > 1 for path in paths}


def find_orphans(project: Project, outcomes: Iterable[Outcome]) -> tuple[Path, ...]:
    """Generated files in the project's output folders that no config makes any more, given an outcome for each of its
    configs. Folders of those that name no output are left out."""
    expected: set[str] = set()
    unknown: set[Path] = set()
    for outcome in outcomes:
        if outcome.output is not None:
            expected.add(os.path.splitext(outcome.output)[0])
        else:
            unknown.add(project.output_folder(outcome.path))
    root, folder = os.fspath(project.search_root), f"{os.sep}{OUTPUT_FOLDER}{os.sep}"
    # in text: taking the paths of a large project apart costs as much as all else that an unchanged check does
    candidates = (path for path in walk_files(project.search_root) if folder in os.sep + str(path)[len(root) :])
    others = (path for path in candidates if os.path.splitext(path)[0] not in expected)
    orphans = (path for path in others if not unknown.intersection(path.parents) and _is_generated(path))
    return tuple(sorted(orphans))


def _is_generated(path: Path) -> bool:
    if path.suffix not in (".py", ".diff"):
        return False
    from patchgen_core.syntax.header import is_generated

    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            head = file.read(2000)
    except OSError:  # a dangling link
        return False
    return is_generated(head) if path.suffix == ".py" else f"\n+++ {OUTPUT_FOLDER}/" in head
