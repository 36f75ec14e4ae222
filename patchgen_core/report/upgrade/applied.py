"""What was written into a project on the way to another release: for a terminal, as Markdown, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from patchgen_core.errors import display_path
from patchgen_core.report.data import problem_data
from patchgen_core.report.markdown import code, details, escape, fence
from patchgen_core.report.terminal import print_problems
from patchgen_core.report.words import quantity
from patchgen_core.upgrade.results import Rebase
from patchgen_core.upgrade.writing.applying import Applied
from patchgen_core.upgrade.writing.gating import GateRun


def applied_summary(applied: Applied) -> str:
    """What was written and what was not, in one sentence."""
    parts = [
        f"{quantity(len(applied.merged), 'replacement')} merged",
        f"{quantity(len(applied.generated), 'file')} generated",
    ]
    if applied.marked:
        parts.append(f"{len(applied.marked)} written with conflict markers")
    if applied.left:
        parts.append(f"{len(applied.left)} left as they are")
    return f"Applied: {', '.join(parts)}."


def print_applied(console: Console, applied: Applied) -> None:
    """Print what was written, what was left and why, and what does not generate after all."""
    for word, path in _files(applied):
        console.print(Text.assemble((f"{word:<13}", "green"), display_path(path)), soft_wrap=True)
    for rebase in applied.merged:
        console.print(Text.assemble(("merged       ", "green"), str(rebase.location)), soft_wrap=True)
    for rebase in applied.marked:
        line = f"{rebase.location}: {_conflicts(rebase)}"
        console.print(Text.assemble(("marked       ", "yellow"), line), soft_wrap=True)
    for rebase, reason in applied.left:
        line = f"{rebase.location}: {reason}"
        console.print(Text.assemble(("left         ", "yellow"), line), soft_wrap=True)
    print_problems(console, applied.problems)
    style = "yellow" if applied.left or applied.marked or applied.problems else "green"
    console.print(Text(applied_summary(applied), style), soft_wrap=True)


def _files(applied: Applied) -> Iterator[tuple[str, Path]]:
    for path in applied.written:
        yield "wrote", path
    for path in applied.generated:
        yield "generated", path


def _conflicts(rebase: Rebase) -> str:
    return f"{quantity(len(rebase.merged.conflicts), 'conflict')} to resolve"


def print_gate_run(console: Console, gate: GateRun) -> None:
    """Print what the gate says after all."""
    for line in gate.lines:
        console.print(Text.assemble(("gate         ", "red" if gate.exit_code else "green"), line), soft_wrap=True)


def applied_markdown(applied: Applied, gate: GateRun | None = None) -> str:
    """What was applied as a paragraph of Markdown, what the gate says, and below it, folded away, the files."""
    lines = [f"- {word} {code(display_path(path))}" for word, path in _files(applied)]
    lines += [f"- merged {code(str(rebase.location))}" for rebase in applied.merged]
    lines += [f"- marked {code(str(rebase.location))}: {_conflicts(rebase)}" for rebase in applied.marked]
    lines += [f"- left {code(str(rebase.location))}: {escape(reason)}" for rebase, reason in applied.left]
    parts = [escape(applied_summary(applied))]
    if gate is not None:
        parts += ["", f"The gate is {'red' if gate.exit_code else 'green'}:", ""]
        parts += [f"- {escape(line)}" for line in gate.lines]
    if applied.problems:
        parts += ["", *fence("\n".join(map(str, applied.problems)))]
    return "\n".join([*parts, "", *details("what was written", lines)] if lines else parts)


def applied_data(applied: Applied, gate: GateRun | None = None) -> dict[str, Any]:
    """What was applied, and what the gate says, as JSON types."""
    return {
        "written": [display_path(path) for path in applied.written],
        "generated": [display_path(path) for path in applied.generated],
        "merged": [_place(rebase) for rebase in applied.merged],
        "marked": [_place(rebase) for rebase in applied.marked],
        "left": [{**_place(rebase), "reason": reason} for rebase, reason in applied.left],
        "errors": problem_data(applied.problems),
        "gate": _gate_data(gate) if gate is not None else None,
    }


def _gate_data(gate: GateRun) -> dict[str, Any]:
    return {
        "exit_code": gate.exit_code,
        "is_exact": gate.is_exact,
        "lines": list(gate.lines),
        "results": [
            {"config": r.config, "check": r.check, "status": r.status, "said": r.said or None} for r in gate.results
        ],
    }


def _place(rebase: Rebase) -> dict[str, Any]:
    return {"file": display_path(rebase.location.file), "line": rebase.location.line}
