"""``patchgen --list``: the configs of a project."""

from __future__ import annotations

import argparse
import sys

from patchgen_core.cli.printing import print_json
from patchgen_core.errors import display_path
from patchgen_core.project.project import Project


def list_configs(options: argparse.Namespace, project: Project) -> int:
    """Print the project's configs; returns the exit code."""
    paths = project.find_configs()
    if options.json:
        print_json([{"config": project.module_name(path), "path": display_path(path)} for path in paths])
        return 0
    for path in paths:
        print(f"{project.module_name(path)}  {display_path(path)}" if options.verbose else project.module_name(path))
    if not paths:
        print(f"no patch config below '{display_path(project.search_root)}'", file=sys.stderr)
    return 0
