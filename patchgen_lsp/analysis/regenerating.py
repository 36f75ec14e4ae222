"""Writing what a config makes."""

from __future__ import annotations

from patchgen_core.checks.checked_in.compare import compare, fix_result
from patchgen_core.errors import PatchgenError
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.request import Request


def regenerate(bench: Workbench, request: Request) -> list[str]:
    """Write the files of a config that drifted, as ``patchgen fix`` does, and return them with the copies of those
    that were edited by hand; a PatchgenError where the config has unsaved changes, errors, or cannot be written."""
    bench.sources.refuse_unsaved(request.path)
    analysis = bench.analyse(request.path)
    problems = [*analysis.problems, *(problem for outcome in analysis.outcomes for problem in outcome.problems)]
    if problems:
        raise PatchgenError.from_problems(problems)
    results = [fix_result(compare(outcome), bench.project) for outcome in analysis.outcomes]
    problems = [p for result in results if result.status == "error" for p in result.outcome.problems]
    if problems:
        raise PatchgenError.from_problems(problems)
    fixed = [result for result in results if result.status == "fixed"]
    written = [f"wrote {file.path.name}" for result in fixed for file in result.files]
    return [*written, *(f"kept a copy as {copy}" for result in fixed for copy in result.copies)]
