"""What parity finds beside differences: codes of the rules, and what a config or project wants left out of them.

Imports no torch: the process that reports uses it as well as the one that runs models.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from patchgen_core.checks.parity.verdict import CheckVerdict
from patchgen_core.config.declarations import Allowance, Tolerance
from patchgen_core.errors import Location, Problem, Snippet, did_you_mean, excerpt
from patchgen_core.files import read_text

UNUSED = "PG300"
"""The code of an allowance or a tolerance that nothing comes of."""
UNREACHED = "PG301"
"""The code of a patch that does not run."""
UNRUN = "PG302"
"""The code of lines of a patch that do not run."""
NOT_PATCHED = "PG303"
"""The code of a head that is made without the patches."""
UNINITIALIZED = "PG304"
"""The code of parameters that do not start as upstream's do."""
CODES = (UNUSED, UNREACHED, UNRUN, NOT_PATCHED, UNINITIALIZED)


def judge(verdict: CheckVerdict, allowances: Sequence[Allowance], chosen: Collection[str]) -> CheckVerdict:
    """A verdict without what is not wanted: findings that the config allows become notes.

    Args:
        verdict: what the check says.
        allowances: what the config allows.
        chosen: the codes that the project wants for this config.

    Returns:
        The verdict; its ``unused`` are the allowances that nothing came of, told only where the whole check ran.
    """
    kept: list[list[Problem]] = []
    notes = list(verdict.notes)
    used: set[int] = set()
    for problems in (verdict.problems, verdict.warnings):
        kept.append([])
        for problem in problems:
            fitting = [a for a in allowances if a.covers(problem.code, problem.target)]
            used.update(map(id, fitting))
            if problem.code in CODES and problem.code not in chosen:
                continue
            if fitting:
                notes.append(f"allowed: {problem.title} ({fitting[0].reason})")
            else:
                kept[-1].append(problem)
    errors, warnings = kept
    is_whole = not verdict.skipped and all(problem.code in CODES for problem in verdict.problems)
    idle = [a for a in allowances if a.code in chosen and a.code in CODES and id(a) not in used]
    unused = tuple(map(_nothing, idle)) if is_whole and UNUSED in chosen else ()
    return replace(verdict, problems=tuple(errors), warnings=tuple(warnings), notes=tuple(notes), unused=unused)


def _nothing(allowance: Allowance) -> Problem:
    about = f" of '{allowance.target}'" if allowance.target else ""
    message = f"allow: {allowance.code} finds nothing{about} here"
    hint = "Remove it: it would hide the next finding."
    return Problem(message, allowance.location, hint, excerpt_at(allowance.location), UNUSED)


def unknown_implementations(tolerances: Iterable[Tolerance], offered: Sequence[str]) -> list[Problem]:
    """The tolerances for implementations that a config does not offer."""
    found = []
    for tolerance in tolerances:
        name = tolerance.implementation
        if name is not None and offered and name not in offered:
            message = f"tolerate: there is no implementation '{name}' here"
            hint = f"{did_you_mean(name, offered)} Checked here: {', '.join(offered)}.".strip()
            found.append(Problem(message, tolerance.location, hint, excerpt_at(tolerance.location), UNUSED))
    return found


def excerpt_at(location: Location) -> str:
    """The lines around a place, as they should be printed; empty when it is not known."""
    text = read_text(Path(location.file)) if location.line else None
    return excerpt(text, location.line) if text else ""


def lines_of(path: str, numbers: Sequence[int]) -> Snippet | None:
    """Lines of a file, each marked, those between left out; None when the file has not so many."""
    lines = (read_text(Path(path)) or "").split("\n")
    if not numbers or max(numbers) > len(lines):
        return None
    shown = []
    for before, number in zip((numbers[0], *numbers), numbers):
        shown += ["   ..."] * (number > before + 1)
        shown.append(f"> {number:5} | {lines[number - 1]}")
    return Snippet(Location(path, numbers[0]), "\n".join(shown))
