"""PG203: what a config takes out of the module is not referred to any more."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject

_HINT = "Patch or exclude what uses it, or bind the name yourself."
_UPSTREAM = """
class Talker:
    def forward(self, x):
        return x


class Model:
    _no_split_modules = ["Layer", "Talker"]

    def forward(self, x):
        return x + 1
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Look for every excluded or dropped name that nothing else binds."""
    plan, generated = subject.plan, subject.generated
    for call, names in (("exclude_from_output", plan.excluded), ("drop_import_names", plan.dropped)):
        for name in names:
            if name in generated.bound:
                continue
            declared = plan.config.location_of(call, name)
            owners = set()
            for use in generated.uses.get(name, ()):
                if use.moment != "annotation" and use.owner not in owners:
                    owners.add(use.owner)
                    user = f"'{use.owner}'" if use.owner else "the module"
                    message = f"{call} takes '{name}' out, but {user} still uses it"
                    yield Finding(message, _HINT, use.node, use.owner or name, declared)
    excluded = set(plan.excluded) - generated.bound
    for string, owner in generated.strings if excluded else ():
        if string.value in excluded:
            name, user = str(string.value), owner or plan.config.target_file
            message = f"exclude_from_output takes '{name}' out, but '{user}' names it in a string"
            hint = (
                "Lists such as _no_split_modules are looked up by name: replace the code that holds the string, and "
                "leave the name out."
            )
            declared = plan.config.location_of("exclude_from_output", name)
            yield Finding(message, hint, string, owner or name, declared, weight="warning")


RULE = Rule(
    code="PG203",
    name="dangling",
    severity="error",
    reason=(
        "Excluding a class keeps a module small: for example, the talker of a model that only its thinker trains. "
        "Code that still calls the class, derives from it or tests for it with `isinstance`, as `_init_weights` does, "
        "raises a NameError - at import, at the first initialization, or in a branch that no test runs. A name in a "
        "string, as in `_no_split_modules`, is a warning: the wrapping policy finds no such class, which matters only "
        "if the model builds one."
    ),
    failing=Example('\nconfig.exclude_from_output("Talker")\n', _UPSTREAM),
    passing=Example(
        """
config.exclude_from_output("Talker")

@config.replace_class("Model")
class PatchedModel:
    _no_split_modules = ["Layer"]

    def forward(self, x):
        return x + 1
""",
        _UPSTREAM,
    ),
    check=check,
)
