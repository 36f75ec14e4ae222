"""``patchgen cache``: what is kept between runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from patchgen_core.build.cache import LIMIT, Cache, CacheInfo
from patchgen_core.checks.gate import Gate
from patchgen_core.checks.kept.asking import kept_results
from patchgen_core.checks.kept.entries import EntryStore
from patchgen_core.checks.kept.explaining import Explanation, explain_kept
from patchgen_core.checks.registry import all_checks
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import DEVICES, Settings
from patchgen_core.cli.items import find_items
from patchgen_core.cli.printing import add_printing, print_json
from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.models.run_files import MOST_BYTES, RunFiles
from patchgen_core.project.named_configs import split_by_project
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.report.words import age, quantity

_ACTIONS = ("info", "clear", "why")


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Tell of the results that checks keep for the next run, and of the releases of upstream that "
        "'patchgen upgrade' and 'patchgen matrix' keep, or remove both. Nothing but time is lost. 'why' tells what "
        "changed since the result of an item was kept.",
    )
    add = parser.add_argument
    add("action", choices=_ACTIONS, help="show where they are, remove them, or tell why one holds no more")
    add("items", nargs="*", metavar="CONFIG::CHECK", help="for 'why': a config, and the check or item of it")
    add("--device", choices=DEVICES, default=DEVICES[0], help="for 'why': where models would run")
    add_printing(parser, "print as JSON")
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    if (options.action == "why") != bool(options.items):
        hint = "Such as: patchgen cache why acme/models/qwen3/qwen3_gpu_patch_gen_config.py::parity"
        wrong = "takes a config and a check" if options.action == "why" else f"takes no '{options.items[0]}'"
        raise PatchgenError(f"patchgen cache {options.action} {wrong}", None, hint)
    if options.action == "why":
        return _explain(options, project)
    cache = Cache(project or load_project())
    kept = EntryStore(cache.folder)
    is_clearing = options.action == "clear"
    removed, releases = (cache.clear(), cache.clear_releases()) if is_clearing else (0, 0)
    runs = RunFiles(cache.folder)
    removed_checks, removed_runs = (kept.files.clear(), runs.files.clear()) if is_clearing else (0, 0)
    info = cache.info()
    if options.json:
        counts = {"checks_removed": removed_checks, "runs_removed": removed_runs}
        print_json({**_cache_data(info, removed, releases), **_checks_data(kept), **_runs_data(runs), **counts})
    elif is_clearing:
        others = f", {quantity(removed_checks, 'file')} of checks" if removed_checks else ""
        others += f", {quantity(removed_runs, 'run')} of upstream's models" if removed_runs else ""
        others += f" and {quantity(releases, 'release')}" if releases else ""
        print(f"{quantity(removed, 'result')}{others} removed from '{display_path(info.folder)}'")
    else:
        print(_cache_text(info, kept, runs))
    return 0


def _explain(options: argparse.Namespace, project: Project | None) -> int:
    parts = [(project, tuple(options.items))] if project is not None else split_by_project(options.items)
    session = Session(parts[0][0], Settings(device=options.device))
    try:
        gate = Gate(session, all_checks())
        explanations = [each for part, names in parts for name in names for each in _explain_all(gate, part, name)]
    finally:
        session.close()
    if options.json:
        print_json([{"path": display_path(path), **_explanation_data(each)} for path, each in explanations])
        return 0
    for path, explanation in explanations:
        print("\n".join(_explanation_lines(path, explanation)))
    return 0


def _explain_all(gate: Gate, project: Project, name: str) -> Iterator[tuple[Path, Explanation]]:
    """Of an item, of all items of a check, or of all of a config."""
    path, _, check = name.partition("::")
    items = find_items(gate, project, [path])
    chosen = [item for item in items if check in ("", item.name, item.check.name)]
    if not chosen:
        chosen = find_items(gate, project, [name])  # which names the nearest
    for item in chosen:
        kept = kept_results(gate.session, item.path)
        if kept is None:
            yield item.path, Explanation(item.name, reason="nothing is kept here")
        else:
            yield item.path, explain_kept(kept, item.check, item.path, item.name)


def _explanation_data(explanation: Explanation) -> dict[str, Any]:
    return {
        "item": explanation.item,
        "made": explanation.made,
        "holds": bool(explanation.made and not explanation.changes),
        "changes": list(explanation.changes),
        "reason": explanation.reason,
    }


def _explanation_lines(path: Path, explanation: Explanation) -> Iterator[str]:
    name = f"{display_path(path)}::{explanation.item}"
    if not explanation.made:
        yield f"{name}: not kept: {explanation.reason or 'it has not been clean yet'}"
    elif not explanation.changes:
        yield f"{name}: kept from {age(explanation.made)}, and holds"
    else:
        yield f"{name}: since it was kept {age(explanation.made)}:"
        yield from (f"  {change}" for change in explanation.changes)


def _cache_data(info: CacheInfo, removed: int, releases: int) -> dict[str, Any]:
    return {
        "folder": str(info.folder),
        "results": info.results,
        "limit": LIMIT,
        "removed": removed,
        "bytes": info.size,
        "releases": list(info.releases),
        "releases_removed": releases,
        "release_bytes": info.release_size,
    }


def _checks_data(kept: EntryStore) -> dict[str, int]:
    files = list(kept.files.files())
    return {"checks": len(files), "checks_bytes": sum(file.size for file in files)}


def _runs_data(runs: RunFiles) -> dict[str, int]:
    files = list(runs.files.files())
    return {"runs": len(files), "runs_bytes": sum(file.size for file in files), "runs_bytes_limit": MOST_BYTES}


def _cache_text(info: CacheInfo, kept: EntryStore, runs: RunFiles) -> str:
    size = f"{info.size / 1024:,.0f} KiB" if info.results else "empty"
    lines = [f"'{display_path(info.folder)}': {info.results} of at most {LIMIT} results, {size}"]
    files = _checks_data(kept)
    if files["checks"]:
        lines += [f"{quantity(files['checks'], 'file')} of checks, {files['checks_bytes'] / 1024:,.0f} KiB"]
    of_runs = _runs_data(runs)
    if of_runs["runs"]:
        size, most = (f"{of_runs[name] / 1024**2:,.0f} MiB" for name in ("runs_bytes", "runs_bytes_limit"))
        lines += [f"{quantity(of_runs['runs'], 'run')} of upstream's models, {size} of at most {most}"]
    if info.releases:
        count = quantity(len(info.releases), "release")
        lines.append(f"{count}, {info.release_size / 1024**2:,.1f} MiB: {', '.join(info.releases)}")
    return "\n".join(lines)
