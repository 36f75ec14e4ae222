"""``patchgen`` without another word: generating configs."""

from __future__ import annotations

import argparse
from typing import Any

from patchgen_core.api.codegen import CodegenResult, generate_and_write
from patchgen_core.build.cache import Cache
from patchgen_core.build.selection import Selection
from patchgen_core.cli.printing import make_console, print_json, show_progress, warn_of_failure
from patchgen_core.errors import display_path
from patchgen_core.report.data import SCHEMA, problem_data
from patchgen_core.report.generated import print_generated


def generate_configs(options: argparse.Namespace, selection: Selection) -> int:
    """Generate what is selected, and print what was written; returns the exit code."""
    is_dry, save_diff = options.dry_run, options.diff
    cache = None if options.no_cache else Cache(selection.project)
    with show_progress(options) as progress:
        results = generate_and_write(
            selection,
            dry_run=is_dry,
            save_diff=save_diff,
            discard_edits=options.discard_edits,
            progress=progress,
            cache=cache,
        )
    warn_of_failure(cache)
    if options.json:
        generated = [_generated_data(result, save_diff) for result in results]
        print_json({"schema": SCHEMA, "exit_code": 0, "generated": generated})
    else:
        print_generated(make_console(options), results, is_dry, save_diff, options.verbose)
    return 0


def _generated_data(result: CodegenResult, save_diff: bool) -> dict[str, Any]:
    artifact, verdict = result.artifact, result.verdict
    return {
        "config": artifact.plan.label,
        "files": [display_path(path) for path, _ in artifact.output(save_diff)],
        "written": [display_path(path) for path in result.written],
        "copy": display_path(result.copy) if result.copy else None,
        "diff": artifact.diff,
        "errors": problem_data(verdict.errors),
        "warnings": problem_data(verdict.warnings),
        "notes": list(verdict.notes),
    }
