"""Problems and diffs as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from patchgen_core.errors import Problem
from patchgen_core.report.diff import plain_diff, rich_diff
from patchgen_core.report.same_causes import join_callers


def problem_text(problem: Problem, kind: str) -> Text:
    """A problem as ``file:line: kind: message``, what to do, and its excerpt."""
    text = Text()
    if problem.location:
        text.append(f"{problem.location}: ", "bold")
    text.append(f"{kind}: ", "bold red" if kind == "error" else "bold yellow")
    text.append(problem.title)
    if problem.hint:
        text.append(f"\n  {problem.hint}", "cyan")
    snippet = problem.generated
    for location, excerpt in ((None, problem.excerpt), *([(snippet.location, snippet.text)] if snippet else ())):
        if location is not None:
            text.append(f"\n  {location}:", "bold")
        for line in excerpt.splitlines():
            text.append(f"\n  {line}", "dim" if not line.startswith(">") else "")
    return text


def print_problems(console: Console, problems: Iterable[Problem], kind: str = "error") -> None:
    """Print problems, one paragraph each; those of one cause share one."""
    for problem in join_callers(problems):
        console.print(problem_text(problem, kind), soft_wrap=True)


def print_diff(console: Console, diff: str, folded: bool) -> None:
    """Print a unified diff: on a terminal with line numbers and colours, in a log as it is."""
    if console.is_terminal:
        console.print(rich_diff(diff, folded))
    else:
        console.print(plain_diff(diff, folded), soft_wrap=True, end="")
