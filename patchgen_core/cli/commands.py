"""The subcommands of ``patchgen`` that generate and check nothing: their arguments, and what they print."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.project.project import Project, load_project

if TYPE_CHECKING:
    from rich.console import Console

    from patchgen_core.build.cache import CacheInfo


@dataclass(frozen=True)
class Command:
    """A subcommand.

    Attributes:
        parser: makes the parser of its arguments, given how it is called.
        run: runs it, given the arguments and the project that the command was mounted for; returns the exit code.
    """

    parser: Callable[[str], argparse.ArgumentParser]
    run: Callable[[argparse.Namespace, Project | None], int]


def add_printing(parser: argparse.ArgumentParser, json_help: str) -> None:
    """Add what concerns how results are printed."""
    parser.add_argument("--json", action="store_true", help=json_help)
    parser.add_argument("--no-color", action="store_true", help="print without colours")


def make_console(options: argparse.Namespace, stderr: bool = False) -> Console:
    """A console that prints as the options say, and text as it is."""
    from rich.console import Console

    return Console(stderr=stderr, no_color=options.no_color or None, highlight=False, markup=False, emoji=False)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    import json

    print(json.dumps(value, indent=2))


def split_codes(text: str) -> list[str]:
    """The codes of rules that an argument names, separated by commas."""
    return [code.strip().upper() for code in text.split(",") if code.strip()]


def _rule_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog, description="Explain the rules of contracts and parity: why they are there, and how to keep them."
    )
    parser.add_argument("codes", nargs="*", help="code of a rule, such as PG202; without one, all are listed")
    add_printing(parser, "print as JSON")
    return parser


def _report_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Merge reports that 'pytest --patchgen-report' wrote, such as those of the jobs of a CI run.",
        epilog="Exit codes: those of the merged report, as of 'patchgen --check'.",
    )
    add = parser.add_argument
    add("reports", nargs="+", type=Path, help="report to read, a .json file")
    add("-o", "--output", type=Path, help="file to write the merged report to, .json, .md or .html")
    add("-v", "--verbose", action="store_true", help="show a row for every config")
    add_printing(parser, "print the merged report as JSON")
    return parser


def _rule(options: argparse.Namespace, _: Project | None) -> int:
    from patchgen_core.checks.contract.pages import rule_data, rule_page
    from patchgen_core.checks.contract.run import EVERY_RULE, find_rules

    named = {rule.code: rule for word in options.codes for code in split_codes(word) for rule in find_rules(code)}
    rules = list(named.values())
    if options.json:
        print_json([rule_data(rule) for rule in rules or EVERY_RULE])
        return 0
    if not rules:
        for rule in EVERY_RULE:
            print(f"{rule.code}  {rule.severity:<8} {rule.name}")
        return 0
    from rich.markdown import Markdown

    console = make_console(options)
    text = "\n".join(rule_page(rule) for rule in rules)
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        print(text, end="")
    return 0


def _report(options: argparse.Namespace, _: Project | None) -> int:
    from patchgen_core.report.gate.formats import write_report
    from patchgen_core.report.gate.json import gate_json, read_report
    from patchgen_core.report.gate.report import merge_reports
    from patchgen_core.report.gate.terminal import print_gate

    report = merge_reports(read_report(path, Path.cwd()) for path in options.reports)
    if options.output is not None:
        write_report(report, options.output, Path.cwd())
    if options.json:
        print(gate_json(report, Path.cwd()), end="")
        return report.exit_code
    console = make_console(options)
    print_gate(console, report, options.verbose)
    console.print(report.summary(), style="green" if report.is_green else "red", soft_wrap=True)
    return report.exit_code


def _adopt_parser(prog: str) -> argparse.ArgumentParser:
    from patchgen_core.cli.adopt import build_parser

    return build_parser(prog)


def _adopt(options: argparse.Namespace, project: Project | None) -> int:
    from patchgen_core.authoring.adopt.adopting import adopt
    from patchgen_core.cli.adopt import adopted_data, parse_arguments, print_adopted

    project = project or load_project()
    result = adopt(
        project,
        options.adopted_model,
        options.patcher,
        output=options.output,
        arguments=parse_arguments(options.kwargs),
        imports=options.imports,
        force=options.force,
    )
    if options.json:
        print_json(adopted_data(result))
    else:
        print_adopted(make_console(options), result, f"patchgen {project.module_name(result.path)} --diff")
    return int(bool(result.findings))


def _new_parser(prog: str) -> argparse.ArgumentParser:
    from patchgen_core.cli.new import build_parser

    return build_parser(prog)


def _new(options: argparse.Namespace, project: Project | None) -> int:
    from patchgen_core.authoring.new.creating import create_new
    from patchgen_core.cli.new import exit_code, new_data, print_new

    project = project or load_project()
    result = create_new(
        project,
        options.model_type,
        force=options.force,
        generate=not options.no_generate,
        dry_run=options.dry_run,
    )
    if options.json:
        print_json(new_data(result))
    else:
        print_new(make_console(options), result, options.dry_run, project.module_name(result.config))
    return exit_code(result)


def _toy_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog, description="Print a configuration of a model type that is small enough for a CPU, as JSON."
    )
    parser.add_argument("model_type", help="model type of transformers, such as qwen3_moe")
    parser.set_defaults(json=False, no_color=False)
    return parser


def _toy(options: argparse.Namespace, _: Project | None) -> int:
    from patchgen_core.models.toy import describe_toy_config, toy_config_for

    try:
        text = describe_toy_config(toy_config_for(options.model_type))
    except ImportError as error:
        hint = "Install the extra 'parity': pip install 'pytest-patchgen[parity]'."
        raise PatchgenError(f"a toy config needs transformers: {error}", hint=hint) from None
    print(text)
    return 0


def _doctor_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Tell what can run on this machine: packages, devices, kernels, Triton's interpreter and its "
        "adapters, the project around the working directory; and what is missing for each.",
    )
    add_printing(parser, "print as JSON")
    return parser


def _doctor(options: argparse.Namespace, project: Project | None) -> int:
    from patchgen_core.checks.doctor import diagnosis_data, examine, print_diagnosis

    diagnosis = examine(project)
    if options.json:
        print_json(diagnosis_data(diagnosis))
    else:
        print_diagnosis(make_console(options), diagnosis)
    return 0


def _upgrade_parser(prog: str) -> argparse.ArgumentParser:
    from patchgen_core.cli.upgrade import build_parser

    return build_parser(prog)


def _upgrade(options: argparse.Namespace, project: Project | None) -> int:
    from patchgen_core.cli.upgrade import run

    return run(options, project or load_project())


def _matrix_parser(prog: str) -> argparse.ArgumentParser:
    from patchgen_core.cli.matrix import build_parser

    return build_parser(prog)


def _matrix(options: argparse.Namespace, project: Project | None) -> int:
    from patchgen_core.cli.matrix import run

    return run(options, project or load_project())


def _cache_parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Tell of the results that checks keep for the next run, and of the releases of upstream that "
        "'patchgen upgrade' and 'patchgen matrix' keep, or remove both. Nothing but time is lost.",
    )
    parser.add_argument("action", choices=["info", "clear"], help="tell where they are and how many, or remove them")
    add_printing(parser, "print as JSON")
    return parser


def _cache(options: argparse.Namespace, project: Project | None) -> int:
    from patchgen_core.build.cache import Cache

    cache = Cache(project or load_project())
    is_clearing = options.action == "clear"
    removed, releases = (cache.clear(), cache.clear_releases()) if is_clearing else (0, 0)
    info = cache.info()
    if options.json:
        print_json(_cache_data(info, removed, releases))
    elif is_clearing:
        others = f" and {_count(releases, 'release')}" if releases else ""
        print(f"{_count(removed, 'result')}{others} removed from '{display_path(info.folder)}'")
    else:
        print(_cache_text(info))
    return 0


def _cache_data(info: CacheInfo, removed: int, releases: int) -> dict[str, Any]:
    from patchgen_core.build.cache import LIMIT

    return {
        "folder": str(info.folder),
        "results": info.results,
        "limit": LIMIT,
        "removed": removed,
        "bytes": info.size,
        "releases": list(info.releases),
        "releases_removed": releases,
        "release_bytes": info.release_size,
    }


def _cache_text(info: CacheInfo) -> str:
    from patchgen_core.build.cache import LIMIT

    size = f"{info.size / 1024:,.0f} KiB" if info.results else "empty"
    lines = [f"'{display_path(info.folder)}': {info.results} of at most {LIMIT} results, {size}"]
    if info.releases:
        count = _count(len(info.releases), "release")
        lines.append(f"{count}, {info.release_size / 1024**2:,.1f} MiB: {', '.join(info.releases)}")
    return "\n".join(lines)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


COMMANDS = {
    "adopt": Command(_adopt_parser, _adopt),
    "cache": Command(_cache_parser, _cache),
    "doctor": Command(_doctor_parser, _doctor),
    "matrix": Command(_matrix_parser, _matrix),
    "new": Command(_new_parser, _new),
    "report": Command(_report_parser, _report),
    "rule": Command(_rule_parser, _rule),
    "toy": Command(_toy_parser, _toy),
    "upgrade": Command(_upgrade_parser, _upgrade),
}
"""The subcommands by name."""
