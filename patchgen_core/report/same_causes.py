"""One cause told once: of calls that misfit one patch, of implementations that fail alike, of a missing package."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from patchgen_core.checks.result import BAD, CheckResult
from patchgen_core.errors import Problem, Snippet, quote_some

_OWNER = re.compile(r"'([^']+)' ")
"""The caller that a finding about a call begins with."""
_PATHS = re.compile(r"'[\w.]+' (?=\(\w+\))")
"""The path of a module before its class."""
_MISSING = re.compile(r"ModuleNotFoundError: No module named '[\w.]+'")
_MOST = 4
_GAP = "        ..."


def join_callers(problems: Iterable[Problem]) -> list[Problem]:
    """Problems of which those that a rule finds at one declaration, and that differ in the caller alone, are one: the
    first, with all callers and all of their lines."""
    groups: dict[object, list[Problem]] = {}
    for number, problem in enumerate(problems):
        caller = _OWNER.match(problem.message) if problem.code and problem.generated else None
        rest = problem.message[caller.end() :] if caller else number
        groups.setdefault((problem.code, problem.location, problem.hint, rest), []).append(problem)
    return [_join(group) for group in groups.values()]


def _join(problems: Sequence[Problem]) -> Problem:
    first, *others = problems
    callers = [match[1] for problem in problems if (match := _OWNER.match(problem.message))]
    names = [name for name in dict.fromkeys(callers) if name != callers[0]]
    snippets = [problem.generated for problem in problems if problem.generated is not None]
    if not others or len({snippet.location.file for snippet in snippets}) != 1:
        return first
    rows = dict.fromkeys(row for snippet in snippets for row in snippet.text.splitlines() if row.startswith(">"))
    lines = Snippet(snippets[0].location, f"\n{_GAP}\n".join(rows))
    more = f"The same in {quote_some(names, _MOST)}." if names else ""
    return replace(first, hint="\n  ".join(filter(None, [first.hint, more])), generated=lines)


def find_told(result: CheckResult, earlier: Iterable[CheckResult]) -> CheckResult | None:
    """An earlier result of the same config that says what a bad one says; None where none does."""
    causes = _causes(result)
    if not causes or result.status not in BAD:
        return None
    alike = (other for other in earlier if (other.path, other.config) == (result.path, result.config))
    return next((other for other in alike if other.name != result.name and causes <= _causes(other)), None)


def _causes(result: CheckResult) -> set[tuple[object, ...]]:
    """What is wrong: the package that is missing, or what a patch is blamed for, figures and the paths of modules
    aside; nothing where something is neither."""
    causes = {_cause(problem) for problem in result.errors}
    return set() if result.causes or () in causes else causes


def _cause(problem: Problem) -> tuple[object, ...]:
    missing = _MISSING.search(problem.message)
    if missing is not None:
        return (missing[0],)
    return (problem.location, problem.target, _PATHS.sub("", problem.message)) if problem.target else ()
