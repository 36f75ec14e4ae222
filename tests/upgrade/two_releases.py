"""Two releases of an upstream module, and what the newer one does to a config."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from patchgen_core.checks.contract.library import Library
from patchgen_core.config.loading import Loader
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.release_module import ReleaseModule
from patchgen_core.upgrade.results import Finding, PatchVerdict
from patchgen_core.upgrade.verdicts.comparing import Comparison, compare_config
from patchgen_core.upstream.module import find_upstream
from tests.conftest import CONFIG, UPSTREAM, Workspace

PACKAGE = UPSTREAM.rpartition(".")[0]


def release(work: Workspace, version: str, text: str, others: Mapping[str, str] | None = None) -> ReleaseModule:
    """Write a release of the upstream module, and of others by dotted name, into a folder of its own."""
    folder = work.root.parent / version
    for module, source in {UPSTREAM: text, **(others or {})}.items():
        path = folder.joinpath(*module.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
    for package in {*folder.rglob("*.py")}:
        for parent in package.relative_to(folder).parents:
            if parent != Path():
                (folder / parent / "__init__.py").touch()
    top = UPSTREAM.partition(".")[0]
    info = folder / f"{top}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {top}\nVersion: {version}\n")
    sources = SourceCache()
    upstream = find_upstream(UPSTREAM, (folder,))
    library = Library(replace(work.project, upstream=(folder,)), sources)
    return ReleaseModule(upstream, sources.get(upstream.path), library, "folder")


def compared(
    work: Workspace,
    config: str,
    old: str,
    new: str,
    others: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
    recorded: bool = False,
) -> Comparison:
    """What a release does to a config; ``recorded`` for an old text that only the checked-in files tell."""
    path = work.config(config, CONFIG)
    sides = [release(work, version, text, more) for version, text, more in zip(("1.0", "2.0"), (old, new), others)]
    if recorded:
        sides[0] = replace(sides[0], library=None, origin="checked-in files")
    sources = SourceCache()
    return compare_config(Loader(work.project, sources).load(path)[0], sides[0], sides[1], sources)


def verdict(work: Workspace, config: str, old: str, new: str, **options: object) -> PatchVerdict:
    """The verdict on the one patch of a config."""
    (found,) = compared(work, config, old, new, **options).patches  # type: ignore[arg-type]
    return found


def relied(found: PatchVerdict, relation: str) -> list[Finding]:
    """What a patch relies on in one way."""
    return [finding for finding in found.findings if finding.relation == relation]
