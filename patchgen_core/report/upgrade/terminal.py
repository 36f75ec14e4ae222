"""What another release of upstream does to a project, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from patchgen_core.errors import Problem
from patchgen_core.report.terminal import print_diff, print_problems, problem_text
from patchgen_core.report.upgrade.texts import (
    Step,
    applied_summary,
    config_problems,
    conflict_location,
    conflict_text,
    count_verdicts,
    describe_applying,
    headline,
    is_same,
    list_changes,
    merge_lines,
    needs_nothing,
    origins,
    patches_summary,
    repeats_verdict,
    sort_by_risk,
)
from patchgen_core.upgrade.results import ConfigVerdict, Finding, PatchVerdict, Rebase, Risk, UpgradeReport
from patchgen_core.upgrade.writing.applying import Applied
from patchgen_core.upgrade.writing.gating import GateRun

RISK_STYLE: dict[Risk, str] = {"must change": "red", "review": "yellow", "safe": "green"}
_MERGE_STYLE = {"conflict": "red", "merges": "green", "merged": "green"}
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
            _Printer(console, verbose).config(config)
    if safe and not verbose:
        names = ", ".join(config.config for config in safe[:_MOST_NAMES])
        names += f" and {len(safe) - _MOST_NAMES} more; -v lists them" if len(safe) > _MOST_NAMES else ""
        console.print(Text.assemble(("\nsafe         ", "green"), names), soft_wrap=True)
    for line in report.skipped if verbose else ():
        console.print(Text(f"skipped      {line}", "dim"), soft_wrap=True)
    print_problems(console, report.failed)


class _Printer:
    """Prints one config; upstream's diffs that several of its patches are about only once."""

    def __init__(self, console: Console, verbose: bool) -> None:
        self.console, self.verbose = console, verbose
        self._shown: set[str] = set()
        self._versions = ("", "")

    def config(self, config: ConfigVerdict) -> None:
        self._versions = (f"upstream {config.old}", f"upstream {config.new}")
        line = Text("\n").append(f"{config.risk:<{_WIDTH}}  ", RISK_STYLE[config.risk]).append(config.config, "bold")
        line.append(f"  {patches_summary(config)}")
        self.console.print(line, soft_wrap=True)
        for note in config.notes:
            self._print("note", note, "dim")
        self._problems(config_problems(config))
        self._findings(config.findings)
        quiet = [patch for patch in config.patches if needs_nothing(patch) and not self.verbose]
        for number, patch in enumerate(patch for patch in config.patches if patch not in quiet):
            if number:
                self.console.print()
            self._patch(patch)
        if quiet:
            others = "the other patches: " if len(quiet) < len(config.patches) else "all patches: "
            self._print("safe", f"{others}{count_verdicts(quiet)}", "dim")

    def _patch(self, patch: PatchVerdict) -> None:
        line = Text.assemble((f"{patch.location}: ", "bold"), f"{patch.kind} ", (patch.target, "bold"))
        line.append(f": {patch.verdict}", RISK_STYLE[patch.risk])
        if patch.new_name:
            line.append(f" to {patch.new_name}")
        self.console.print(line, soft_wrap=True)
        if patch.description and self.verbose:
            self._print("", patch.description, "dim")
        self._problems(patch.problems)
        self._findings(patch.findings, patch.verdict)
        for word, text in merge_lines(patch):
            self._print(word, text, _MERGE_STYLE.get(word, "cyan"))
        if patch.rebase is not None:
            self._rebase(patch.rebase)

    def _rebase(self, rebase: Rebase) -> None:
        for conflict in rebase.merged.conflicts:
            line = Text.assemble((f"{conflict_location(rebase, conflict)}: ", "bold"), conflict.reason)
            self.console.print(line, soft_wrap=True)
            self.console.print(Text(conflict_text(conflict, *self._versions)), soft_wrap=True)
        if rebase.diff and self.verbose:
            self._diff(rebase.diff, "the replacement, carried over:")

    def _problems(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            if not self.verbose:
                problem = Problem(problem.message, problem.location, problem.hint, code=problem.code)
            self.console.print(problem_text(problem, "error"), soft_wrap=True)

    def _findings(self, findings: Iterable[Finding], verdict: str = "") -> None:
        """Findings, worst first, a line each, but for what the verdict says; then what upstream changed."""
        findings = sort_by_risk(findings, self.verbose)
        for finding in findings:
            if not repeats_verdict(finding, verdict):
                self._print(finding.risk, str(finding), RISK_STYLE[finding.risk])
        for finding in findings:
            if finding.diff:
                self._diff(finding.diff, f"upstream's own change of {finding.about}:")

    def _print(self, word: str, text: str, style: str) -> None:
        line = Text.assemble((f"  {word:<{_WIDTH}}  ", style), text)
        self.console.print(line, soft_wrap=True)

    def _diff(self, diff: str, title: str) -> None:
        is_known = diff in self._shown
        self._shown.add(diff)
        self.console.print(Text(f"  {title}{' as above' if is_known else ''}", "yellow"), soft_wrap=True)
        if is_known:
            return
        print_diff(self.console, diff, folded=not self.verbose)


def print_steps(
    console: Console, report: UpgradeReport, steps: Sequence[Step], command: str = "", verbose: bool = False
) -> None:
    """Print what to do next, beginning with the command that applies what can be merged, if there is one."""
    if is_same(report):
        line = Text(f"The generated files are of {report.distribution} {report.new} already.", "green")
        console.print(Text("\n").append(line), soft_wrap=True)
    elif command and report.configs:
        console.print(Text(f"\nRun '{command}': it {describe_applying(report)}.", "cyan"), soft_wrap=True)
    elif steps:
        console.print()
    for step in steps:
        _print_step(console, step, verbose)


def _print_step(console: Console, step: Step, verbose: bool) -> None:
    console.print(Text(f"{step.what}:", "bold"), soft_wrap=True)
    shown = step.places if verbose else step.places[:_MOST_PLACES]
    for location, text in shown:
        console.print(Text.assemble("  ", (f"{location}: ", "bold"), text), soft_wrap=True)
    if len(shown) < len(step.places):
        console.print(Text(f"  and {len(step.places) - len(shown)} more; -v shows all", "dim"), soft_wrap=True)


def print_applied(console: Console, applied: Applied) -> None:
    """Print what was written, what was left and why, and what does not generate after all."""
    for change in list_changes(applied):
        line = f"{change.place}: {change.remark}" if change.remark else change.place
        style = "yellow" if change.remark else "green"
        console.print(Text.assemble((f"{change.word:<13}", style), line), soft_wrap=True)
    print_problems(console, applied.problems)
    style = "yellow" if applied.left or applied.marked or applied.problems else "green"
    console.print(Text(applied_summary(applied), style), soft_wrap=True)


def print_gate_run(console: Console, gate: GateRun) -> None:
    """Print what the gate says after all."""
    for line in gate.lines:
        console.print(Text.assemble(("gate         ", "red" if gate.exit_code else "green"), line), soft_wrap=True)
