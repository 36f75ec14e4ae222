"""``patchgen check``: the drift and the contract rules, which need neither torch nor transformers to run."""

from __future__ import annotations

import argparse
from pathlib import Path

from patchgen_core.cli.arguments import EXIT_CODES, add_config_name, add_no_cache, add_output, add_paths, add_rules
from patchgen_core.cli.printing import add_formats, read_rules
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Compare generated files with a fresh generation, and check the contract rules. Nothing of "
        "upstream is imported; 'patchgen gate' runs every check.",
        epilog=EXIT_CODES,
    )
    add_paths(parser)
    add_config_name(parser)
    add_output(parser)
    add_rules(parser)
    fix = "rewrite drifted files, and take what is gone out of the baseline"
    parser.add_argument("--fix", action="store_true", help=fix)
    allow = "first have the configs allow every error of a contract rule, for this reason"
    parser.add_argument("--add-allow", metavar="REASON", help=allow)
    parser.add_argument("--prune", action="store_true", help="with --fix: remove generated files that no config makes")
    parser.add_argument("--exit-zero", action="store_true", help="exit with 0 in spite of findings")
    parser.add_argument("--statistics", action="store_true", help="count the findings, by rule")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write the results as an HTML page")
    add_no_cache(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="name every config, and how it was loaded")
    add_formats(parser)
    parser.set_defaults(contracts=True)
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run it; returns the exit code."""
    from patchgen_core.cli.check import check_projects

    read_rules(options)
    if options.statistics and options.output_format in ("github", "sarif"):
        raise PatchgenError(f"the format {options.output_format} has no statistics: use text or json")
    if options.add_allow is not None:
        from patchgen_core.cli.allowing import add_allowances

        add_allowances(options, project)
    return check_projects(options, project)
