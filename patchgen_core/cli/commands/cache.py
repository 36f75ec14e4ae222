"""``patchgen cache``: what is kept between runs."""

from __future__ import annotations

import argparse
from typing import Any

from patchgen_core.build.cache import LIMIT, Cache, CacheInfo
from patchgen_core.cli.printing import add_printing, print_json
from patchgen_core.errors import display_path
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.report.words import quantity


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Tell of the results that checks keep for the next run, and of the releases of upstream that "
        "'patchgen upgrade' and 'patchgen matrix' keep, or remove both. Nothing but time is lost.",
    )
    parser.add_argument("action", choices=["info", "clear"], help="show where they are and how many, or remove them")
    add_printing(parser, "print as JSON")
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    cache = Cache(project or load_project())
    is_clearing = options.action == "clear"
    removed, releases = (cache.clear(), cache.clear_releases()) if is_clearing else (0, 0)
    info = cache.info()
    if options.json:
        print_json(_cache_data(info, removed, releases))
    elif is_clearing:
        others = f" and {quantity(releases, 'release')}" if releases else ""
        print(f"{quantity(removed, 'result')}{others} removed from '{display_path(info.folder)}'")
    else:
        print(_cache_text(info))
    return 0


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


def _cache_text(info: CacheInfo) -> str:
    size = f"{info.size / 1024:,.0f} KiB" if info.results else "empty"
    lines = [f"'{display_path(info.folder)}': {info.results} of at most {LIMIT} results, {size}"]
    if info.releases:
        count = quantity(len(info.releases), "release")
        lines.append(f"{count}, {info.release_size / 1024**2:,.1f} MiB: {', '.join(info.releases)}")
    return "\n".join(lines)
