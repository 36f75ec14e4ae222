"""Files of a project with new texts of replacements in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from patchgen_core.authoring.edits.config_file import Changes, ConfigFiles, EditedFile, InTurn
from patchgen_core.authoring.edits.importers import Importers
from patchgen_core.authoring.edits.imports import add_imports
from patchgen_core.authoring.edits.needed_imports import needed_names
from patchgen_core.authoring.edits.statements import TakenOver
from patchgen_core.authoring.edits.unused_imports import remove_unused_imports
from patchgen_core.project.project import Project
from patchgen_core.upgrade.writing.candidates import Candidate, FileChanges


def rewrite(
    project: Project, files: ConfigFiles, candidates: Sequence[Candidate], pins: Iterable[FileChanges] = ()
) -> dict[Path, EditedFile]:
    """The files that candidates stand in, with their new texts and the imports that these need; `pins` pins configs to
    another version.

    Raises:
        PatchgenError: a file cannot be read.
    """
    changes: dict[Path, Changes] = {}
    renames = [rename for candidate in candidates for rename in candidate.renames]
    texts = [(candidate.path, candidate.changes) for candidate in candidates]
    for path, more in [*texts, *renames, *pins]:
        changes[path] = _combine(changes.get(path, {}), more)
    return {
        path: _rewrite_file(project, files.get(path), of_file, [c for c in candidates if c.path == path])
        for path, of_file in changes.items()
    }


def _combine(one: Changes, other: Changes) -> Changes:
    """Both changes; what a statement takes over from another one comes to whatever else it becomes."""
    results = {**one, **other}
    for node in one.keys() & other.keys():
        both = one[node], other[node]
        taken = [change for change in both if isinstance(change, TakenOver)]
        if taken and both[0] != both[1]:
            results[node] = InTurn((*(change for change in both if change not in taken), *taken))
    return results


def _rewrite_file(project: Project, file: EditedFile, changes: Changes, candidates: Sequence[Candidate]) -> EditedFile:
    texts = [candidate.rebase.merged.text for candidate in candidates]
    early = {name for text in texts for name in needed_names(text)[0]}
    needs = dict.fromkeys(statement for candidate in candidates for statement in candidate.rebase.needs)
    module = add_imports(file.changed(changes).module, needs, early)
    if not any(candidate.is_marked for candidate in candidates):
        dropped = _names(candidate.rebase.ours for candidate in candidates) - _names(texts)
        module = remove_unused_imports(module, dropped, Importers(project, file.path).may_use)
    return replace(file, module=module)


def _names(texts: Iterable[str]) -> set[str]:
    return {name for text in texts for names in needed_names(text) for name in names}
