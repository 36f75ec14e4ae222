"""One cause told once: calls that all misfit one patch, and implementations that fail at the same patch."""

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
    """An earlier result of the same check of a config that says of the same patches what a bad one says; None where
    none does."""
    causes = _causes(result)
    if not causes or result.status not in BAD:
        return None
    alike = (e for e in earlier if (e.path, e.config, e.check) == (result.path, result.config, result.check))
    return next((other for other in alike if other.name != result.name and causes <= _causes(other)), None)


def _causes(result: CheckResult) -> set[tuple[object, ...]]:
    """What is wrong, figures and the paths of modules aside; nothing where something has no patch to blame."""
    if result.causes or not all(problem.target for problem in result.errors):
        return set()
    return {(p.location, p.target, _PATHS.sub("", p.message)) for p in result.errors}
