"""PG214: every declaration changes something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.codegen.imports import imported_names
from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.syntax.forms import is_same_syntax
from patchgen_core.syntax.index import index_module
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import Definition, methods

_DEFINITION = re.compile(r"^(?:class|def|async def|@)", re.MULTILINE)
_UPSTREAM = """
class Norm:
    def forward(self, x):
        return x * 2
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Look at every patch, helper, added import and dropped name."""
    for patch in subject.plan.patches:
        yield from _same_as_upstream(subject, patch)
    for name, helper in subject.helpers.items():
        users = {use.owner.partition(".")[0] for use in subject.generated.uses.get(name, ())} - {name}
        if not users and not any(string.value == name for string, _ in subject.generated.strings):
            node = subject.generated.definition(name)
            message = f"nothing in {subject.plan.config.target_file} uses the helper '{name}'"
            yield Finding(message, "Remove it, or use it in a patch.", node, name, helper.helper.location)
    yield from _unused_imports(subject)
    yield from _needless_drops(subject)


def _same_as_upstream(subject: Subject, patch: PlannedPatch) -> Iterator[Finding]:
    declared, generated = patch.patch, subject.generated
    if declared.kind == "external":
        is_own = (declared.replacement_module, declared.replacement_name) == (
            subject.plan.upstream.module,
            declared.target,
        )
        nodes: list[Definition] = []
    else:
        nodes = _definitions(generated, patch)
        is_own = not patch.added and bool(nodes) and is_same_syntax(nodes, _definitions(subject.upstream, patch))
    if is_own:
        message = f"the patch of '{declared.target}' is upstream's own code"
        node = nodes[0] if nodes else None
        yield Finding(message, "Remove it: it changes nothing.", node, patch.dotted, declared.location)


def _definitions(module: Module, patch: PlannedPatch) -> list[Definition]:
    definitions = module.index.definitions.get(patch.dotted.partition(".")[0], [])
    if not patch.method:
        return definitions
    return [function for node in definitions for function in methods(node, patch.method, patch.accessor)]


def _unused_imports(subject: Subject) -> Iterator[Finding]:
    """Added imports that ruff has taken out, and that nothing needed before: it makes X | None of Optional[X]."""
    plan, text = subject.plan, subject.artifact.text
    sources = [*(patch.replacement for patch in plan.patches), *(helper.replacement for helper in plan.helpers)]
    added = [("add_import", name, s.location) for s in plan.imports for name in imported_names(s)]
    for block, place in plan.blocks:
        added += [("post-import block", name, place) for name in index_module(ast.parse(block)).imports]
    if not added:
        return
    has_definitions = any(_DEFINITION.search(block) for block, _ in plan.blocks)
    definition = None if has_definitions else _DEFINITION.search(text)
    bound = index_module(ast.parse(text[: definition.start()] if definition else text)).imports
    for call, name, location in added:
        if name in bound or location is None:
            continue
        if not any(source and source.mentions(name) and name in source.names for source in sources):
            message = f"{call}: nothing in {plan.config.target_file} uses '{name}'"
            yield Finding(message, "Remove it: ruff leaves the import out.", None, name, location)


def _needless_drops(subject: Subject) -> Iterator[Finding]:
    """Dropped names that would not be there anyway, or that no import binds."""
    plan = subject.plan
    top = {id(statement) for statement in plan.source.tree.body}
    for name in sorted(set(plan.config.drop_imported_names)):
        location = plan.config.location_of("drop_import_names", name)
        if name not in plan.index.imports:
            message = f"drop_import_names: upstream defines '{name}' itself, so there is no import to drop"
            yield Finding(message, "Use exclude_from_output to leave the definition out.", None, name, location)
            continue
        is_plain = all(id(statement) in top for statement, _ in plan.index.imports[name])
        is_needed = name in subject.generated.bound or name in subject.generated.uses
        if is_plain and not is_needed:
            message = f"drop_import_names: nothing in {plan.config.target_file} uses '{name}' any more"
            yield Finding(message, "Remove it: ruff leaves unused imports out by itself.", None, name, location)


RULE = Rule(
    code="PG214",
    name="no effect",
    severity="warning",
    reason=(
        "A patch that is upstream's own text, a helper that nothing calls, an import that nothing needs: somebody "
        "believes that each of them changes something. Often upstream has adopted the change, or the helper's only "
        "call got lost when its caller was rewritten. Every upgrade also has to read it."
    ),
    failing=Example(
        """
@config.override_method("Norm.forward")
def forward(self, x):
    return x * 2
""",
        _UPSTREAM,
    ),
    passing=Example(
        """
@config.override_method("Norm.forward")
def forward(self, x):
    return x + x
""",
        _UPSTREAM,
    ),
    check=check,
)
