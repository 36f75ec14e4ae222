"""What a generation wrote, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from patchgen_core.api.codegen import CodegenResult
from patchgen_core.errors import display_path
from patchgen_core.report.drift.terminal import contract_summary
from patchgen_core.report.gate.details import print_notes
from patchgen_core.report.terminal import print_diff, print_problems


def print_generated(
    console: Console, results: Sequence[CodegenResult], dry_run: bool, save_diff: bool, verbose: bool
) -> None:
    """Print what a generation wrote, or would write, and what the contract rules find in it."""
    for result in results:
        print_problems(console, result.verdict.errors)
        print_problems(console, result.verdict.warnings, "warning")
        print_notes(console, result.verdict.notes if verbose else ())
        for line in _generated_lines(result, dry_run, save_diff):
            console.print(line, soft_wrap=True)
        if verbose or dry_run:
            for patch in result.artifact.plan.patches:
                added = " (added)" if patch.added else ""
                console.print(Text(f"         {patch.kind}: {patch.patch.target}{added}", "dim"), soft_wrap=True)
        if dry_run:
            print_diff(console, result.artifact.diff, folded=False)
    verdicts = [result.verdict for result in results]
    if any(verdict.errors or verdict.warnings for verdict in verdicts):
        console.print(contract_summary(verdicts, {}), soft_wrap=True)


def _generated_lines(result: CodegenResult, dry_run: bool, save_diff: bool) -> Iterator[Text]:
    for path, text in result.artifact.output(save_diff):
        if dry_run:
            yield Text(f"would write  {display_path(path)} ({text.count(chr(10))} lines)", "bold")
        elif path in result.written:
            yield Text.assemble(("wrote    ", "green"), display_path(path))
        else:
            yield Text.assemble(("same     ", "dim"), display_path(path))
    if result.copy is not None:
        yield Text(f"         kept a copy of the hand edits: {display_path(result.copy)}")
