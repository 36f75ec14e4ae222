"""``patchgen matrix``: its arguments, and what it prints and writes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen_core.cli.arguments import add_paths
from patchgen_core.cli.printing import add_printing, make_console, print_json, show_progress
from patchgen_core.errors import PatchgenError
from patchgen_core.project.named_configs import find_named_configs, find_named_project
from patchgen_core.project.project import Project
from patchgen_core.workers.addresses import check_cluster

if TYPE_CHECKING:
    from patchgen_core.upgrade.matrix.release_columns import Fetching, WantedReleases
    from patchgen_core.upgrade.matrix.results import MatrixReport
    from patchgen_core.upgrade.package_configs import PackageConfigs
    from patchgen_core.upstream.releases import Releases


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of ``patchgen matrix``."""
    parser = argparse.ArgumentParser(
        prog=prog,
        allow_abbrev=False,
        description="Try configs with several releases of transformers: which work, where upstream changed what is "
        "patched, and the first release that breaks each patch. Their sources are read; nothing of them is installed "
        "or imported.",
        epilog="Exit codes: 0 every config works in the newest of the releases, 1 one does not, "
        "2 usage or configuration error.",
    )
    add = parser.add_argument
    add_paths(parser)
    group = parser.add_argument_group("the releases")
    give = group.add_argument
    versions = "versions, separated by commas: 5.9.0, latest, or the newest of each minor release in a range, "
    versions += "5.9..5.23 (default: those that the generated files are based on, and the latest)"
    give("--versions", action="append", default=[], metavar="LIST", help=versions)
    give("--wheel", action="append", default=[], type=Path, metavar="FILE", help="a release as a wheel")
    give("--source", action="append", default=[], type=Path, metavar="DIR", help="a release as a folder of sources")
    give("--package", default="transformers", metavar="NAME", help="distribution (default: transformers)")
    give("--offline", action="store_true", help="use what is installed, in the cache, or given here")
    give("--no-bisect", action="store_true", help="do not try releases between those of the matrix")
    on = "try them on the nodes of a Ray cluster: ray://host:10001, or ray for the one that is here"
    add("--on", metavar="CLUSTER", help=on)
    add("--html", type=Path, metavar="FILE", help="write the matrix as one HTML page")
    add("--markdown", type=Path, metavar="FILE", help="write the matrix as Markdown")
    add("-v", "--verbose", action="store_true", help="show the patches of each config, and what upstream changed")
    add_printing(parser, "print the matrix as JSON")
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run ``patchgen matrix``; returns the exit code."""
    from patchgen_core.upgrade.matrix.matrix import make_matrix
    from patchgen_core.upgrade.matrix.release_columns import find_columns
    from patchgen_core.upgrade.package_configs import select_configs
    from patchgen_core.upstream.releases import Releases, release_folder

    cluster = check_cluster("--on", options.on)
    project = project or find_named_project(options.paths)
    selection = select_configs(project, find_named_configs(project, options.paths), options.package)
    releases = Releases(release_folder(project), options.package, offline=options.offline)
    fetching = _fetching(options, releases)
    columns = find_columns(releases, _requested_releases(options, selection, releases), fetching)
    with show_progress(options) as progress:
        report = make_matrix(
            selection,
            columns,
            releases,
            bisect=not options.no_bisect,
            fetching=fetching,
            progress=progress,
            cluster=cluster,
        )
    _tell(options, report)
    return report.exit_code


def _requested_releases(options: argparse.Namespace, selection: PackageConfigs, releases: Releases) -> WantedReleases:
    from patchgen_core.upgrade.matrix.release_columns import WantedReleases, at_hand, known_versions
    from patchgen_core.upstream.releases import LATEST

    words = [word.strip() for text in options.versions for word in text.split(",") if word.strip()]
    sources = (*options.wheel, *options.source)
    if options.versions and not words:
        raise PatchgenError("--versions names no version", hint="Write them with commas: 5.9.0,5.16.1,latest.")
    if not options.versions:
        words = _bases(selection, releases)
        if options.offline:
            words = [word for word in words if word in at_hand(releases)]
            words += () if sources else known_versions(releases)
        elif not sources:
            words.append(LATEST)
    if not words and not sources:
        raise PatchgenError("no release is available", hint="Name some with --versions, --wheel or --source.")
    return WantedReleases(tuple(words), tuple(options.wheel), tuple(options.source))


def _bases(selection: PackageConfigs, releases: Releases) -> list[str]:
    """The versions that generated files say they are based on; that of what is installed, where none says it."""
    from patchgen_core.upstream.recorded import recorded_version

    folders = ((selection.project.output_folder(loaded.path), loaded) for loaded in selection.configs)
    recorded = (recorded_version(folder / loaded.config.target_file) for folder, loaded in folders)
    versions = list(dict.fromkeys(version for version in recorded if version is not None))
    installed = releases.installed()
    return versions or ([installed.version] if installed is not None else [])


def _fetching(options: argparse.Namespace, releases: Releases) -> Fetching:
    if options.json or options.offline or not sys.stderr.isatty():
        return lambda _: None
    from patchgen_core.upgrade.matrix.release_columns import at_hand

    versions_at_hand = at_hand(releases)

    def tell(version: str) -> None:
        if version not in versions_at_hand:
            print(f"downloading {releases.distribution} {version}", file=sys.stderr)

    return tell


def _tell(options: argparse.Namespace, report: MatrixReport) -> None:
    from patchgen_core.files import write_files
    from patchgen_core.report.matrix.json import matrix_data
    from patchgen_core.report.matrix.terminal import print_matrix

    if options.markdown is not None:
        from patchgen_core.report.matrix.markdown import matrix_markdown

        write_files([(options.markdown, matrix_markdown(report))])
    if options.html is not None:
        from patchgen_core.report.matrix.html import write_matrix

        write_matrix(report, options.html)
    if options.json:
        print_json(matrix_data(report))
        return
    print_matrix(make_console(options), report, options.verbose)
