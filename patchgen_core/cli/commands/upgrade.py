"""``patchgen upgrade``: its arguments, and what it prints and writes."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen_core.cli.arguments import add_paths
from patchgen_core.cli.printing import add_printing, make_console, print_json, show_progress
from patchgen_core.project.named_configs import find_named_configs, find_named_project
from patchgen_core.project.project import Project
from patchgen_core.workers.addresses import check_cluster

if TYPE_CHECKING:
    from patchgen_core.config.loading import LoadedConfig
    from patchgen_core.errors import Location
    from patchgen_core.report.upgrade.steps import Step
    from patchgen_core.syntax.source import SourceCache
    from patchgen_core.upgrade.moved_lines import MovedLines
    from patchgen_core.upgrade.package_configs import PackageConfigs
    from patchgen_core.upgrade.results import Rebase, UpgradeReport
    from patchgen_core.upgrade.upgrading import Standing
    from patchgen_core.upgrade.writing.applying import Applied, Look
    from patchgen_core.upgrade.writing.gating import GateRun
    from patchgen_core.upstream.releases import NoCandidate, Release, Releases

_PACKAGE = "transformers"


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of ``patchgen upgrade``."""
    parser = argparse.ArgumentParser(
        prog=prog,
        allow_abbrev=False,
        usage=f"{prog} [path ...] (--to VERSION | --wheel FILE | --source DIR) [options]",
        description="Say what another release of transformers does to every patch, and carry over the replacements "
        "that it can. It reads the release's sources, and installs and imports nothing of it.",
        epilog="Exit codes: 0 nothing must change, 1 something must, or the gate is red after --apply, "
        "2 usage or configuration error.",
    )
    add = parser.add_argument
    add_paths(parser)
    _add_releases(parser)
    _add_applying(parser)
    add("--html", type=Path, metavar="FILE", help="write the report as one HTML page")
    add("--markdown", type=Path, metavar="FILE", help="write the report as Markdown, fit for a pull request")
    parser.set_defaults(prog=prog, usage_error=parser.error)
    add("-v", "--verbose", action="store_true", help="show whole diffs, those of merges, and what is safe")
    add_printing(parser, "print the report as JSON")
    return parser


def _add_releases(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the releases to compare")
    new = group.add_mutually_exclusive_group(required=True)
    new.add_argument("--to", metavar="VERSION", help="the new release: a version, 'latest', or 'candidate'")
    new.add_argument("--wheel", type=Path, metavar="FILE", help="the new release as a wheel")
    new.add_argument("--source", type=Path, metavar="DIR", help="the new release as a folder of sources")
    add = group.add_argument
    add("--from", dest="since", metavar="VERSION", help="the old release (default: what the generated files say)")
    add("--package", default=_PACKAGE, metavar="NAME", help="the distribution (default: transformers)")
    add("--offline", action="store_true", help="download nothing")
    history = "a checkout of upstream with its Git history: name the change that broke each patch"
    add("--history", type=Path, metavar="DIR", help=history)


def _add_applying(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("writing")
    add = group.add_argument
    add("--apply", action="store_true", help="write what merges cleanly, regenerate, and run the gate")
    asks = "ask what to do about each patch that does not merge, and about the merges; then as --apply"
    add("--interactive", action="store_true", help=asks)
    shared = "with --interactive: a file of solved conflicts, to share (default: in the cache)"
    add("--resolutions", type=Path, metavar="FILE", help=shared)
    add("--allow-dirty", action="store_true", help="with --apply: even if git has uncommitted changes")
    marks_help = "with --apply: write conflicts too, with markers around all three sides, for editors that know them"
    add("--markers", action="store_true", help=marks_help)
    add("--write-conflicts", action="store_true", dest="markers", help="the same as --markers")
    add("--no-gate", action="store_true", help="with --apply: do not run the gate")
    on = "with --apply: run the gate on a Ray cluster: ray://host:10001, or ray for the one that is here"
    add("--on", metavar="CLUSTER", help=on)


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Run ``patchgen upgrade``; returns the exit code."""
    from patchgen_core.upgrade.package_configs import select_configs
    from patchgen_core.upgrade.upgrading import upgrade
    from patchgen_core.upgrade.upstream_history import UpstreamHistory
    from patchgen_core.upstream.releases import NoCandidate, Releases, release_folder

    project = project or find_named_project(options.paths)
    _check_usage(options)
    if options.apply and not options.allow_dirty:
        from patchgen_core.upgrade.writing.git import refuse_dirty

        refuse_dirty(project.base)
    history = UpstreamHistory(options.history) if options.history is not None else None
    selection = select_configs(project, find_named_configs(project, options.paths), options.package)
    releases = Releases(release_folder(project), options.package, offline=options.offline)
    try:
        release = _release(options, releases, selection)
    except NoCandidate as nothing:
        return _tell_nothing(options, nothing)
    with show_progress(options) as progress:
        report = upgrade(selection, release, releases, since=options.since, progress=progress)
    report = replace(report, origin=release.origin)
    if history is not None:
        report = history.blame(report)
    look = partial(_look_again, selection, release, releases, options.since)
    return _Front(options, project, release, report, look).run()


def _look_again(
    selection: PackageConfigs,
    release: Release,
    releases: Releases,
    since: str | None,
    configs: Sequence[LoadedConfig],
    sources: SourceCache,
) -> Standing:
    """What there is to look at in configs with their new texts."""
    from patchgen_core.upgrade.package_configs import unpinned
    from patchgen_core.upgrade.upgrading import find_standing

    selection = replace(selection, configs=tuple(map(unpinned, configs)), sources=sources)
    return find_standing(selection, release, releases, since=since)


def _tell_nothing(options: argparse.Namespace, nothing: NoCandidate) -> int:
    """Tell that there is no release candidate, which is no error: there mostly is none."""
    if options.json:
        from patchgen_core.report.upgrade.json import upgrade_data
        from patchgen_core.upgrade.results import UpgradeReport

        report = UpgradeReport(options.package, "", ())
        print_json({**upgrade_data(report), "exit_code": 0, "applied": None})
    else:
        make_console(options).print(f"{nothing}.", soft_wrap=True)
    return 0


def _check_usage(options: argparse.Namespace) -> None:
    if options.resolutions is not None and not options.interactive:
        options.usage_error("--resolutions needs --interactive")
    if options.interactive:
        _check_terminal(options)
        options.apply = True
    options.on = check_cluster("--on", options.on)
    if options.on and options.no_gate:
        options.usage_error("--on says where the gate runs, and --no-gate that it does not")
    for name in ("allow_dirty", "markers", "no_gate", "on"):
        if getattr(options, name) and not options.apply:
            options.usage_error(f"--{name.replace('_', '-')} needs --apply")
    if options.offline and options.to in ("latest", "candidate"):
        which = "latest release" if options.to == "latest" else "newest release candidate"
        options.usage_error(f"--offline cannot tell the {which}: name a version, or give --wheel or --source")


def _check_terminal(options: argparse.Namespace) -> None:
    """Refuse to ask where nobody can answer."""
    if options.json:
        options.usage_error("--interactive asks in a terminal, and --json is for machines: choose one of them")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        options.usage_error(
            "--interactive asks questions, and standard input or output is no terminal: --apply writes what merges "
            "cleanly, --apply --markers the conflicts as well"
        )


def _release(options: argparse.Namespace, releases: Releases, selection: PackageConfigs) -> Release:
    if options.wheel is not None:
        return releases.wheel(options.wheel)
    if options.source is not None:
        return releases.source(options.source)
    return releases.find(options.to)


class _Front:
    """Prints and writes what there is to tell, and applies what is to be applied."""

    def __init__(
        self, options: argparse.Namespace, project: Project, release: Release, report: UpgradeReport, look: Look
    ) -> None:
        self.options, self.project, self.release, self.report, self.look = options, project, release, report, look
        self.console = make_console(options)
        self.applied: Applied | None = None
        self.shifts: MovedLines | None = None
        self.gate: GateRun | None = None
        self.skipped: tuple[Location, ...] = ()

    def run(self) -> int:
        """Do all of it; returns the exit code."""
        from patchgen_core.report.upgrade.terminal import print_steps, print_upgrade

        options, report = self.options, self.report
        if options.interactive:
            if not self._ask():
                return report.exit_code or 1
            report = self.report
        elif not options.json:
            print_upgrade(self.console, report, options.verbose)
        if options.apply:
            self._apply()
        self._write()
        if options.apply and not options.no_gate and report.configs:
            self._run_gate()
            self._write()
        if options.json:
            print_json(self._data())
        else:
            command = "" if options.apply else _again(options)
            print_steps(self.console, report, self._steps(), command, options.verbose)
        return self._exit_code()

    def _steps(self) -> list[Step]:
        from patchgen_core.report.upgrade.steps import next_steps

        if self.applied is None or self.shifts is None:
            return next_steps(self.report)
        return next_steps(self.report, self.applied, self.shifts.now)

    def _ask(self) -> bool:
        """Ask what a person has to decide; returns whether to write that."""
        from patchgen_core.cli.deciding import Session
        from patchgen_core.report.upgrade.texts import headline
        from patchgen_core.upgrade.deciding.decisions import Decisions
        from patchgen_core.upgrade.deciding.resolutions import Resolutions
        from patchgen_core.upgrade.deciding.trials import Trials

        self.console.print(headline(self.report), soft_wrap=True)
        trials = Trials(self.project, self.report, self.release)
        resolutions = Resolutions(self.project, self.options.resolutions)
        outcome = Session(self.console, self.report, trials, Decisions(self.project), resolutions).run()
        self.report, self.skipped = outcome.report, outcome.skipped
        return outcome.is_written

    def _apply(self) -> None:
        from patchgen_core.report.upgrade.terminal import print_applied
        from patchgen_core.upgrade.moved_lines import MovedLines
        from patchgen_core.upgrade.writing.applying import apply

        options, configs = self.options, self.report.configs
        places = [patch.location for config in configs for patch in config.patches]
        places += [rebase.location for config in configs for rebase in config.rebases]
        self.shifts = MovedLines([*(config.path for config in configs), *(place.file for place in places)])
        is_allowed, marks = options.allow_dirty, options.markers
        self.applied = apply(
            self.project,
            self.report,
            self.release,
            allow_dirty=is_allowed,
            conflicts=marks,
            skipped=() if marks else self.skipped,
            look=self.look,
        )
        if not options.json:
            print_applied(self.console, self._with_places(self.applied))

    def _with_places(self, applied: Applied) -> Applied:
        """What was applied, at the lines where it is now."""
        assert self.shifts is not None
        now = self.shifts.now

        def at(rebase: Rebase) -> Rebase:
            return replace(rebase, location=now(rebase.location))

        left = tuple((at(rebase), reason) for rebase, reason in applied.left)
        merged, marked = tuple(map(at, applied.merged)), tuple(map(at, applied.marked))
        return replace(applied, merged=merged, marked=marked, left=left)

    def _run_gate(self) -> None:
        """The gate over what was generated. Its output is shown as it comes to someone who waits for it, and else when
        it is red. Of a config that something is left in, it would only show how old its generated file is."""
        from patchgen_core.report.upgrade.terminal import print_gate_run, print_ungated
        from patchgen_core.upgrade.writing.gating import run_gate

        assert self.applied is not None
        options, console, unfinished = self.options, self.console, self.applied.unfinished
        is_watched = not options.json and (console.is_terminal or options.verbose)
        paths = [path for path in dict.fromkeys(Path(c.path) for c in self.report.configs) if path not in unfinished]
        if unfinished and not options.json:
            print_ungated(console, len(unfinished), len(paths))
        if not paths:
            return
        color = is_watched and console.is_terminal and not console.no_color
        echo = _echo if is_watched else None
        self.gate = run_gate(self.project, paths, self.release, echo=echo, color=color, cluster=options.on)
        if not options.json:
            if self.gate.exit_code and not is_watched:
                _echo(self.gate.output)
            print_gate_run(console, self.gate)

    def _write(self) -> None:
        options = self.options
        if options.markdown is not None:
            from patchgen_core.files import write_files
            from patchgen_core.report.upgrade.markdown import applied_markdown, upgrade_markdown

            more = [applied_markdown(self._with_places(self.applied), self.gate)] if self.applied is not None else []
            write_files([(options.markdown, upgrade_markdown(self.report, self._steps(), more))])
        if options.html is not None:
            from patchgen_core.report.upgrade.html import write_upgrade

            write_upgrade(self.report, options.html)

    def _data(self) -> dict[str, Any]:
        from patchgen_core.report.upgrade.json import applied_data, upgrade_data

        applied = applied_data(self._with_places(self.applied), self.gate) if self.applied is not None else None
        return {**upgrade_data(self.report), "exit_code": self._exit_code(), "applied": applied}

    def _exit_code(self) -> int:
        """The report's, or after applying: 1 when something still must change, or the gate is red."""
        report, applied = self.report, self.applied
        if applied is None or report.failed:
            return report.exit_code
        done, gone = applied.merged, [rebase for rebase, _ in applied.left if rebase.is_deletion]
        left = [p for c in report.configs for p in c.patches if p.risk == "must change" and p.rebase not in done]
        of_configs = [f for c in report.configs for f in c.findings if f.risk == "must change"]
        is_red = self.gate is not None and self.gate.exit_code != 0
        return int(bool(left or gone or of_configs or applied.problems or applied.marked) or is_red)


def _echo(text: str) -> None:
    print(text, end="", flush=True)


def _again(options: argparse.Namespace) -> str:
    words = [*options.prog.split(), *options.paths]
    for name in ("to", "wheel", "source", "since"):
        value = getattr(options, name)
        words += ["--from" if name == "since" else f"--{name}", str(value)] if value is not None else []
    words += ["--package", options.package] if options.package != _PACKAGE else []
    return shlex.join([*words, *["--offline"] * options.offline, "--apply"])
