"""Results of earlier runs, kept in a folder for as long as everything that they depend on stays the same.

A result is a small JSON file, and its hash stands before it. Its name is a hash of the config's contents, of the
project's options, of ruff and of the generator; in it are the name, the other inputs with the states that they were in
(:mod:`patchgen_core.build.inputs`), and the hashes of the files that the config makes. What cannot be read, is not
understood, was changed, or is that of another config counts as not there. Files are replaced as a whole, so that any
number of processes can use one folder.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from patchgen_core.build.entry_folder import EntryFolder, is_old, read_signed, sign, touch
from patchgen_core.build.inputs import InputReader
from patchgen_core.build.results import ConfigResult, Declared, Outcome
from patchgen_core.build.ruff_setup import kept_version
from patchgen_core.build.selection import Selection
from patchgen_core.config.input_recording import Input
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.files import digest, file_digest, text_digest, write_files
from patchgen_core.project.cache_folder import RELEASES, cache_folder, prepare_folder
from patchgen_core.project.project import Project

LIMIT = 4096
"""How many results are kept, of 2 to 6 KiB each; the ones that were used least recently go."""

_FORMAT = 3
_ROOMS = ("syntax", "project", "upstream", "config", "codegen", "build")
"""Whose code decides what a config makes."""
_ENTRY = re.compile(r"[0-9a-f]{40}\.json")
_RESULTS, _RUFF = "results", "ruff-version"


@dataclass(frozen=True)
class CacheInfo:
    """What a cache holds: how many results, and the other releases of upstream, such as ``transformers 5.9.0``.

    Sizes are in bytes.
    """

    folder: Path
    results: int
    size: int
    releases: tuple[str, ...] = ()
    release_size: int = 0


class Cache:
    """The kept results of a project, in the folder that ``PATCHGEN_CACHE_DIR`` or the project says by default.

    ``failure`` says why results could not be kept; empty when they could.
    """

    def __init__(self, project: Project, folder: Path | None = None) -> None:
        self.project = project
        self.folder = folder or cache_folder(project)
        self.failure = ""
        self._entries = EntryFolder(self.folder / _RESULTS, _ENTRY, LIMIT)

    def find(self, selection: Selection, path: Path, reader: InputReader) -> list[ConfigResult]:
        """The results of a config file whose generated files are what they should be; none unless all are known."""
        try:
            file = self._file(path, selection.name, reader)
            signed = read_signed(file)
            entry = json.loads(signed[0]) if signed is not None else {}
            if signed is None or entry["name"] != file.stem:
                return []
            inputs = {(kind, name): state for kind, name, state in entry["inputs"]}
            if not all(reader.read(*each) == state for each, state in inputs.items()):
                return []
            results = [_result(selection, path, config, inputs) for config in entry["configs"]]
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, PatchgenError):
            return []
        if is_old(signed[1].st_mtime):
            touch(file)
        return [result for result in results if result is not None] if None not in results else []

    def keep(self, selection: Selection, outcomes: Sequence[Outcome], reader: InputReader) -> None:
        """Keep what config files make, as far as it is known what that depends on."""
        by_path: dict[Path, list[Outcome]] = {}
        for outcome in outcomes:
            by_path.setdefault(outcome.path, []).append(outcome)
        try:
            files = ((self._file(path, selection.name, reader), of) for path, of in by_path.items())
            all_entries = ((file, _entry(self.project, file.stem, of)) for file, of in files)
            entries = [(file, entry) for file, entry in all_entries if entry]
            if entries:
                prepare_folder(self.folder)
                self._ask_ruff()  # whose answer is kept once there is a folder
            write_files(entries)
            self._entries.bound()
        except PatchgenError as error:
            self.failure = f"'{display_path(self.folder)}' {error.problems[0].message}"

    def info(self) -> CacheInfo:
        """What it holds."""
        from patchgen_core.upstream.release_cache import kept_releases

        files = list(self._entries.files())
        releases = kept_releases(self.folder / RELEASES)
        return CacheInfo(
            self.folder,
            len(files),
            sum(file.size for file in files),
            tuple(map(str, releases)),
            sum(release.size for release in releases),
        )

    def clear(self) -> int:
        """Remove every result and nothing else, and return how many; a PatchgenError when one cannot be removed."""
        return self._entries.clear()

    def clear_releases(self) -> int:
        """Remove every kept release of upstream and return how many; a PatchgenError when one cannot be removed."""
        from patchgen_core.upstream.release_cache import remove_releases

        return remove_releases(self.folder / RELEASES)

    def _file(self, path: Path, name: str | None, reader: InputReader) -> Path:
        config = reader.name_of(path) or ""
        key = [self._common, config, name, reader.read("file", config)]
        return self.folder / _RESULTS / f"{digest(json.dumps(key).encode())[:40]}.json"

    @cached_property
    def _common(self) -> list[Any]:
        project = self.project
        roots = (project.search_root, *project.import_roots)
        options = [
            *(project.package_prefix, project.legacy_patches_prefix, project.ruff_isolated),
            *(list(project.ruff_extra_ignore), list(project.real_imports)),
            *(Path(os.path.relpath(path, project.base)).as_posix() for path in roots),
        ]
        python = [sys.implementation.name, *sys.version_info, sys.flags.optimize]
        return [_FORMAT, _hash_generator(), python, self._ask_ruff(), options]

    def _ask_ruff(self) -> str:
        return kept_version(self.project.base, self.folder / _RUFF)


def generator_files() -> list[Path]:
    """The code that makes results: that of this package, less what works on them afterwards."""
    root = Path(__file__).parents[1]
    folders = [root, *(root / room for room in _ROOMS)]
    return sorted(file for folder in folders for file in folder.glob("*.py"))


def _hash_generator() -> str:
    return digest("".join(file_digest(file) or "" for file in generator_files()).encode())


def _entry(project: Project, name: str, outcomes: Sequence[Outcome]) -> str:
    """What is kept of a config file; empty when it is not known what that depends on."""
    if not outcomes or any(o.artifact is None or o.inputs is None or o.uncacheable for o in outcomes):
        return ""
    inputs = {input: state for o in outcomes for input, state in (o.inputs or {}).items()}
    if None in (state for (kind, _), state in inputs.items() if kind in ("file", "ruff", "own", "upstream")):
        return ""
    entry = {
        "name": name,
        "inputs": sorted([kind, name, state] for (kind, name), state in inputs.items()),
        "configs": [_config(project, outcome) for outcome in outcomes],
    }
    return sign(json.dumps(entry, separators=(",", ":")).encode()).decode()


def _config(project: Project, outcome: Outcome) -> dict[str, Any]:
    from patchgen_core.build.declared import hash_declared  # which loads what makes configs

    artifact = outcome.artifact
    assert artifact is not None
    return {
        "label": outcome.label,
        "line": outcome.line,
        "target": artifact.plan.config.target_file,
        "files": [text_digest(text) for _, text in artifact.output()],
        "declared": asdict(hash_declared(artifact.plan, project)),
    }


def _result(selection: Selection, path: Path, config: dict[str, Any], inputs: dict[Input, Any]) -> ConfigResult | None:
    """The verdict that a config's files are what they should be; None when they are not."""
    module = (selection.output or selection.project.output_folder(path)) / config["target"]
    diff = module.with_suffix(".diff")
    has_diff = (selection.project.diffs and selection.output is None) or os.path.exists(diff)
    files = [module, diff] if has_diff else [module]
    if [file_digest(file) for file in files] != config["files"][: len(files)]:
        return None
    declared = Declared(**config["declared"])
    outcome = Outcome(
        path, config["label"], output=module, line=config["line"], loading="stubbed", inputs=inputs, declared=declared
    )
    return ConfigResult(outcome, "clean")
