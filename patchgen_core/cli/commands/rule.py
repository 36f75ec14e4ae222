"""``patchgen rule``: what is behind the rules."""

from __future__ import annotations

import argparse

from patchgen_core.checks.contract.pages import rule_data, rule_page
from patchgen_core.checks.contract.run import EVERY_RULE, find_rules
from patchgen_core.cli.printing import add_printing, make_console, print_json, split_codes
from patchgen_core.project.project import Project


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog, description="Explain the rules of contracts and parity: why they are there, and how to keep them."
    )
    parser.add_argument("codes", nargs="*", help="code of a rule, such as PG202; without one, all are listed")
    add_printing(parser, "print as JSON")
    return parser


def run(options: argparse.Namespace, _: Project | None) -> int:
    """Run it; returns the exit code."""
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
