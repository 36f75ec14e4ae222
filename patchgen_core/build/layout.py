"""Files of people that were edited: import order and layout as ruff has them, where they were so before."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from patchgen_core.build.normalize import RawText, write_mirror
from patchgen_core.build.ruff_setup import RuffSettings, run_ruff
from patchgen_core.project.project import Project


def follow_layout(old: Sequence[RawText], new: Sequence[str], project: Project) -> list[str]:
    """The new texts of files, with sorted imports where the old ones had them sorted, and formatted where all was.

    Raises:
        PatchgenError: ruff cannot run with the project's settings.
    """
    settings = RuffSettings(project)
    groups: dict[Path | None, list[int]] = {}
    for number, text in enumerate(old):
        groups.setdefault(settings.file(text.path.parent), []).append(number)
    results = list(new)
    for file, numbers in groups.items():
        texts = [old[n] for n in numbers] + [RawText(old[n].path, new[n]) for n in numbers]
        ordered, laid_out = _run_ruff_over(texts, file, settings)
        for place, number in enumerate(numbers):
            if ordered[place] == old[number].text:
                is_formatted = laid_out[place] == old[number].text
                results[number] = (laid_out if is_formatted else ordered)[place + len(numbers)]
    return results


def _run_ruff_over(texts: Sequence[RawText], file: Path | None, settings: RuffSettings) -> tuple[list[str], list[str]]:
    """The texts with sorted imports, and these formatted."""
    project, chain = settings.project, settings.chain(file)
    with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
        root = Path(folder).resolve()
        paths = write_mirror(texts, file.parent if file else project.base, root)
        options = ["--no-cache", "--quiet", *settings.arguments(file)]
        options += ["--config", f"src={json.dumps(settings.source_roots(file))}"]
        sorting = ["check", "--select", "I", "--fix", "--exit-zero", *options, *map(str, paths)]
        run_ruff(sorting, root, chain, len(paths))
        ordered = [path.read_bytes().decode() for path in paths]
        run_ruff(["format", *options, *map(str, paths)], root, chain, len(paths))
        return ordered, [path.read_bytes().decode() for path in paths]
