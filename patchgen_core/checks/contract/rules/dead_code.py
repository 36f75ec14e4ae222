"""PG211: an exclusion takes along what only the excluded code used."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.syntax.module import Module

_UPSTREAM = """
__all__ = ["Model", "Talker"]


class Snake:
    def forward(self, x):
        return x + 1


class Talker:
    def __init__(self):
        self.activation = Snake()


class Model:
    def forward(self, x):
        return x
"""

_Users = dict[str, list[str]]
"""Definitions by the names that they refer to; the empty string stands for the module's top level."""


def check(subject: Subject) -> Iterator[Finding]:
    """Look for upstream's definitions that only the excluded ones led to."""
    excluded = subject.plan.excluded
    if not excluded:
        return
    before = _users(subject.upstream)
    live = _live(subject, before)
    dead = [name for name in subject.generated.index.definitions if name in before and name not in live]
    origins = _origins(excluded, dead, before)
    leftover = [name for name in dead if name in origins]
    for name in leftover:
        message = f"'{name}' is still in the module, but only {_why(name, before, excluded, leftover)}"
        hint = f"Leave it out as well: config.exclude_from_output('{name}').{_named(subject.generated, name)}"
        declared = subject.plan.config.location_of("exclude_from_output", origins[name])
        yield Finding(message, hint, subject.generated.index.definitions[name][0], name, declared)


def _why(name: str, before: _Users, excluded: Sequence[str], leftover: Sequence[str]) -> str:
    """Who used a definition, and what became of them."""
    users = [user for user in before[name] if user != name]
    gone = [f"'{user}' (excluded)" for user in users if user in excluded]
    gone += [f"'{user}' (also left over)" for user in users if user in leftover]
    changed = [f"'{user}'" for user in users if user not in (*excluded, *leftover)]
    return f"{' and '.join(gone)} used it" + (f"; {' and '.join(changed)} no longer uses it" if changed else "")


def _named(module: Module, name: str) -> str:
    """What else has to be done where a string names a definition, as in ``_no_split_modules``."""
    owners = {owner for string, owner in module.strings if string.value == name and owner}
    return "".join(f" '{owner}' names it in a string: take it out there too." for owner in sorted(owners))


def _users(module: Module) -> _Users:
    """Which definitions and constants of a module refer to each of its definitions."""
    assigned = module.index.assigned.items()
    constants = {
        id(node): name for name, assignments in assigned for statement in assignments for node in ast.walk(statement)
    }
    users: _Users = {name: [] for name in module.index.definitions}
    for name, entries in users.items():
        for use in module.uses.get(name, ()):
            user = use.owner.partition(".")[0] or constants.get(id(use.node), "")
            if user not in entries:
                entries.append(user)
    return users


def _live(subject: Subject, before: _Users) -> set[str]:
    """What the generated module has and is used, from outside or by what is."""
    used: dict[str, list[str]] = {}
    for name, users in _users(subject.generated).items():
        for user in users:
            used.setdefault(user, []).append(name)
    live: set[str] = set()
    pending = [*_roots(subject, before)]
    while pending:
        name = pending.pop()
        if name not in live:
            live.add(name)
            pending += used.get(name, ())
    return live


def _roots(subject: Subject, before: _Users) -> Iterable[str]:
    """What counts as used from outside: what upstream itself does not refer to, or exports, and the config's own."""
    heads = [name for name, users in before.items() if not set(users) - {name}]
    exported = [str(string.value) for string in _exports(subject.upstream)]
    patched = [patch.patch.target.partition(".")[0] for patch in subject.plan.patches]
    added = [name for name in subject.generated.index.definitions if name not in before or subject.is_own(name)]
    return ["", *heads, *exported, *patched, *added, *subject.generated.index.assigned]


def _exports(module: Module) -> Iterator[ast.Constant]:
    for statement in module.index.assigned.get("__all__", ()):
        for node in ast.walk(statement):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node


def _origins(excluded: Iterable[str], dead: Iterable[str], before: _Users) -> dict[str, str]:
    """The exclusion that each definition was used by, through others that are dead as well."""
    origins = {name: name for name in excluded}
    pending = list(dead)
    while pending:
        users = {name: next((u for u in before[name] if u in origins and u != name), "") for name in pending}
        new = {name: origins[user] for name, user in users.items() if user}
        origins |= new
        pending = [name for name in pending if name not in new]
        if not new:
            break
    return origins


RULE = Rule(
    code="PG211",
    name="dead after exclusion",
    severity="warning",
    reason=(
        "When you exclude a model's speech half, you want a module that holds only what you train. But the "
        "activations, layers and helpers that only this half used stay behind: pages that reviewers read, that "
        "upgrades have to merge, and that nothing runs. No name is missing, so nothing else ever points at them."
    ),
    failing=Example('\nconfig.exclude_from_output("Talker")\n', _UPSTREAM),
    passing=Example('\nconfig.exclude_from_output("Talker", "Snake")\n', _UPSTREAM),
    check=check,
)
