"""What another release of upstream does to a project, as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from patchgen_core.errors import Problem
from patchgen_core.report.terminal import print_diff, print_problems, problem_text
from patchgen_core.report.upgrade.causes import TITLE, list_causes
from patchgen_core.report.upgrade.steps import Step
from patchgen_core.report.upgrade.texts import (
    Part,
    applied_summary,
    describe_applying,
    describe_config,
    headline,
    is_same,
    list_changes,
    origins,
    patches_summary,
)
from patchgen_core.report.words import quantity
from patchgen_core.upgrade.results import ConfigVerdict, PatchVerdict, Risk, UpgradeReport
from patchgen_core.upgrade.writing.applying import Applied
from patchgen_core.upgrade.writing.gating import GateRun

RISK_STYLE: dict[Risk, str] = {"must change": "red", "review": "yellow", "safe": "green"}
_STYLES = dict[str, str](
    RISK_STYLE.items(), conflict="red", merges="green", merged="green", deletes="green", deleted="green", note="dim"
)
_WIDTH = len("must change")
_MOST_PLACES = 12
_MOST_NAMES = 30


def print_upgrade(console: Console, report: UpgradeReport, verbose: bool = False) -> None:
    """Print a headline and what is to be known of every config that is not safe, worst first; with ``verbose`` all."""
    console.print(Text(headline(report), "bold"), soft_wrap=True)
    if text := origins(report):
        console.print(Text(text, "dim"), soft_wrap=True)
    safe = report.of_risk("safe")
    for config in report.configs:
        if verbose or config.risk != "safe":
            _print_config(console, config, verbose)
    if safe and not verbose:
        names = ", ".join(config.config for config in safe[:_MOST_NAMES])
        names += f" and {len(safe) - _MOST_NAMES} more; -v lists them" if len(safe) > _MOST_NAMES else ""
        console.print(Text.assemble(("\nsafe         ", "green"), names), soft_wrap=True)
    for line in report.skipped if verbose else ():
        console.print(Text(f"skipped      {line}", "dim"), soft_wrap=True)
    print_problems(console, report.failed)


def _print_config(console: Console, config: ConfigVerdict, verbose: bool) -> None:
    """Print what is said of a config; upstream's diffs that several of its patches are about only once."""
    line = Text("\n").append(f"{config.risk:<{_WIDTH}}  ", RISK_STYLE[config.risk]).append(config.config, "bold")
    console.print(line.append(f"  {patches_summary(config)}"), soft_wrap=True)
    titles: set[str] = set()
    has_heading = False
    for part in describe_config(config, with_safe=verbose):
        if part.patch is not None:
            if has_heading:
                console.print()
            console.print(_heading(part.patch), soft_wrap=True)
            has_heading = True
            if part.patch.description and verbose:
                _print_line(console, "", part.patch.description, "dim")
        for problem in part.problems:
            if not verbose:
                problem = Problem(problem.message, problem.location, problem.hint, code=problem.code)
            console.print(problem_text(problem, "error"), soft_wrap=True)
        for word, text in part.lines:
            _print_line(console, word, text, _STYLES.get(word, "cyan"))
        if part.kind == "conflict":
            console.print(Text.assemble((f"{part.about}: ", "bold"), part.title), soft_wrap=True)
            console.print(Text(part.code), soft_wrap=True)
        elif part.kind == "rest":
            _print_line(console, "safe", part.title, "dim")
        elif part.kind == "diff" and (part.about or verbose):
            _print_code(console, part, verbose, part.code in titles)
            titles.add(part.code)


def _heading(patch: PatchVerdict) -> Text:
    line = Text.assemble((f"{patch.location}: ", "bold"), f"{patch.kind} ", (patch.target, "bold"))
    line.append(f": {patch.verdict}", RISK_STYLE[patch.risk])
    return line.append(f" to {patch.new_name}" if patch.new_name else "")


def _print_line(console: Console, word: str, text: str, style: str) -> None:
    console.print(Text.assemble((f"  {word:<{_WIDTH}}  ", style), text), soft_wrap=True)


def _print_code(console: Console, part: Part, verbose: bool, is_known: bool) -> None:
    title = " ".join(filter(None, (part.title, part.about)))
    console.print(Text(f"  {title}:{' as above' if is_known else ''}", "yellow"), soft_wrap=True)
    if not is_known:
        print_diff(console, part.code, folded=not verbose)


def print_steps(
    console: Console, report: UpgradeReport, steps: Sequence[Step], command: str = "", verbose: bool = False
) -> None:
    """Print what to do next, beginning with the command that applies what can be merged, if there is one; then which
    of upstream's changes it comes from, where that is known."""
    if is_same(report):
        line = Text(f"The generated files are of {report.distribution} {report.new} already.", "green")
        console.print(Text("\n").append(line), soft_wrap=True)
    elif command and report.configs:
        console.print(Text(f"\nRun '{command}': it {describe_applying(report)}.", "cyan"), soft_wrap=True)
    elif steps:
        console.print()
    for step in steps:
        _print_step(console, step, verbose)
    if causes := list_causes(report):
        console.print(Text(f"{TITLE}:", "bold"), soft_wrap=True)
    for cause in causes if verbose else causes[:_MOST_PLACES]:
        console.print(Text(f"  {cause}"), soft_wrap=True)
    if len(causes) > _MOST_PLACES and not verbose:
        console.print(Text(f"  and {len(causes) - _MOST_PLACES} more; -v shows all", "dim"), soft_wrap=True)


def _print_step(console: Console, step: Step, verbose: bool) -> None:
    console.print(Text(f"{step.what}:", "bold"), soft_wrap=True)
    places = step.places if verbose else step.places[:_MOST_PLACES]
    for location, text in places:
        console.print(Text.assemble("  ", (f"{location}: ", "bold"), text), soft_wrap=True)
    if len(places) < len(step.places):
        console.print(Text(f"  and {len(step.places) - len(places)} more; -v shows all", "dim"), soft_wrap=True)


def print_applied(console: Console, applied: Applied) -> None:
    """Print what was written, what was left and why, and what does not generate after all."""
    for change in list_changes(applied):
        line = f"{change.place}: {change.remark}" if change.remark else change.place
        style = "yellow" if change.remark else "green"
        console.print(Text.assemble((f"{change.word:<13}", style), line), soft_wrap=True)
    print_problems(console, applied.problems)
    style = "yellow" if applied.left or applied.marked or applied.problems else "green"
    console.print(Text(applied_summary(applied), style), soft_wrap=True)


def print_ungated(console: Console, unfinished: int, others: int) -> None:
    """Print that the gate leaves out files of configs in which something is left."""
    one, verb = quantity(unfinished, "config file"), "has" if unfinished == 1 else "have"
    rest = f"; it runs for {'the other one' if others == 1 else f'the other {others}'}" if others else ""
    console.print(Text.assemble(("gate         ", "yellow"), f"not run for {one} that {verb} something left{rest}"))


def print_gate_run(console: Console, gate: GateRun) -> None:
    """Print what the gate says after all."""
    for line in gate.lines:
        console.print(Text.assemble(("gate         ", "red" if gate.exit_code else "green"), line), soft_wrap=True)
