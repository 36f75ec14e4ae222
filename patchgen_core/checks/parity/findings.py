"""What parity finds beside differences: codes of the rules, and what a config or project wants left out of them.

Imports no torch: the process that reports uses it as well as the one that runs models.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from patchgen_core.checks.parity_codes import CODES, UNUSED
from patchgen_core.checks.result import CheckResult, with_errors
from patchgen_core.config.declarations import Allowance, Tolerance
from patchgen_core.errors import Location, Problem, Snippet, did_you_mean, excerpt
from patchgen_core.files import read_text


def judge(result: CheckResult, allowances: Sequence[Allowance], chosen: Collection[str]) -> CheckResult:
    """A result without what is not wanted: findings that the config allows become notes.

    ``chosen`` are the codes that the project wants. The result's ``unused`` are the allowances that nothing came of,
    told only where the whole check ran.
    """
    findings: list[list[Problem]] = []
    notes = list(result.notes)
    used: set[int] = set()
    for problems in (result.errors, result.warnings):
        findings.append([])
        for problem in problems:
            fitting = [a for a in allowances if a.covers(problem.code, problem.target)]
            used.update(map(id, fitting))
            if problem.code in CODES and problem.code not in chosen:
                continue
            if fitting:
                notes.append(f"allowed: {problem.title} ({fitting[0].reason})")
            else:
                findings[-1].append(problem)
    errors, warnings = findings
    is_whole = not result.reason and all(problem.code in CODES for problem in result.errors)
    idle = [a for a in allowances if a.code in chosen and a.code in CODES and id(a) not in used]
    unused = tuple(map(_nothing, idle)) if is_whole and UNUSED in chosen else ()
    return replace(with_errors(result, errors), warnings=tuple(warnings), notes=tuple(notes), unused=unused)


def _nothing(allowance: Allowance) -> Problem:
    about = f" of '{allowance.target}'" if allowance.target else ""
    message = f"allow: {allowance.code} finds nothing{about} here"
    hint = "Remove it, or it will hide the next finding."
    return Problem(message, allowance.location, hint, excerpt_at(allowance.location), UNUSED)


def unknown_implementations(tolerances: Iterable[Tolerance], offered: Sequence[str]) -> list[Problem]:
    """The tolerances for implementations that a config does not offer."""
    problems = []
    for tolerance in tolerances:
        name = tolerance.implementation
        if name is not None and offered and name not in offered:
            message = f"tolerate: there is no implementation '{name}' here"
            hint = f"{did_you_mean(name, offered)} Checked here: {', '.join(offered)}.".strip()
            problems.append(Problem(message, tolerance.location, hint, excerpt_at(tolerance.location), UNUSED))
    return problems


def unknown_heads(tolerances: Iterable[Tolerance], classes: Collection[str]) -> list[Problem]:
    """The tolerances for heads that a generated module has not."""
    problems = []
    for tolerance in tolerances:
        pattern = tolerance.head
        if pattern is not None and not any(fnmatchcase(name, pattern) for name in classes):
            message = f"tolerate: the generated module has no class '{pattern}'"
            hint, line_excerpt = did_you_mean(pattern, classes), excerpt_at(tolerance.location)
            problems.append(Problem(message, tolerance.location, hint, line_excerpt, UNUSED))
    return problems


def excerpt_at(location: Location) -> str:
    """The lines around a place, as they should be printed; empty when it is not known."""
    text = read_text(Path(location.file)) if location.line else None
    return excerpt(text, location.line) if text else ""


def lines_of(path: str, numbers: Sequence[int]) -> Snippet | None:
    """Lines of a file, each marked, those between left out; None when the file has not so many."""
    lines = (read_text(Path(path)) or "").split("\n")
    if not numbers or max(numbers) > len(lines):
        return None
    rows = []
    for before, number in zip((numbers[0], *numbers), numbers):
        rows += ["   ..."] * (number > before + 1)
        rows.append(f"> {number:5} | {lines[number - 1]}")
    return Snippet(Location(path, numbers[0]), "\n".join(rows))
