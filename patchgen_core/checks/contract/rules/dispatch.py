"""PG212: no decorator sends calls past a patched body."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.syntax.classes import Class
from patchgen_core.syntax.nodes import FUNCTIONS, Definition, decorator_name, decorator_names

_HUB = "lets a kernel from the hub replace it"
_MARKS = {
    "use_kernel_forward_from_hub": _HUB,
    "use_kernel_func_from_hub": _HUB,
    "use_kernel_func_from_hub_with_fallback": "runs another package's function instead wherever that is installed",
}
_ROUTERS = {
    **_MARKS,
    "use_experts_implementation": "runs config._experts_implementation instead, grouped_mm by default",
}
_TAKER = "use_kernelized_func"
_UPSTREAM = """
from transformers.integrations import use_experts_implementation


@use_experts_implementation
class Experts:
    def forward(self, x):
        return x
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Look at the decorators around patched code, and at those that were handed a patched function."""
    yield from _around_forward(subject)
    for patch in subject.plan.patches:
        if patch.kind in ("function_replacement", "function_edit"):
            yield from _around_function(subject, patch)
            yield from _without_mark(subject, patch)


def _around_forward(subject: Subject) -> Iterator[Finding]:
    """Decorators of classes that go past a patched ``forward``."""
    for node in _decorated(subject):
        routers = [d for d in node.decorator_list if decorator_name(d) in _ROUTERS]
        if not routers or not isinstance(node, ast.ClassDef):
            continue
        method = subject.inference.find_method(Class(subject.generated, node), "forward")
        dotted = f"{method[0].name}.forward" if method else ""
        patch = subject.patch_of(dotted)
        if patch is None:
            continue
        for decorator in routers:
            decorator_text = f"@{ast.unparse(decorator)} on '{node.name}'"
            message = f"'{dotted}' is patched, but {decorator_text} {_ROUTERS[decorator_name(decorator)]}"
            declared = None if node.name in subject.patches else patch.patch.location
            yield Finding(message, _removal(subject, node, decorator), decorator, dotted, declared)


def _around_function(subject: Subject, patch: PlannedPatch) -> Iterator[Finding]:
    """Decorators that a replaced function brings and that go past its body."""
    for node in subject.generated.index.functions.get(patch.dotted, ()):
        for decorator in node.decorator_list:
            what = _ROUTERS.get(decorator_name(decorator))
            if what:
                hints = [_removal(subject, node, decorator)]
                hints += [_removal(subject, owner, taker) for owner, taker in _takers(subject, node.name)]
                message = f"'{node.name}' is patched, but its @{ast.unparse(decorator)} {what}"
                yield Finding(message, " ".join(hints), decorator, node.name)


def _without_mark(subject: Subject, patch: PlannedPatch) -> Iterator[Finding]:
    """Decorators that name a replaced function and may count on the decorators that went with upstream's."""
    own = _own_decorators(subject, patch)
    own |= set(_MARKS) if own & set(_MARKS) else set()
    for node in patch.nodes:
        gone = [d for d in node.decorator_list if decorator_name(d) not in own]
        for owner, taker in _takers(subject, node.name) if gone else ():
            decorator_text = f"@{ast.unparse(taker)} on '{owner.name}'"
            message = f"{decorator_text} gets '{node.name}' without upstream's @{ast.unparse(gone[0])}"
            hint = _removal(subject, owner, taker)
            if decorator_name(taker) != _TAKER:
                hint += f" Or decorate the replacement of '{node.name}'."
            yield Finding(message, hint, taker, node.name, patch.patch.location)


def _own_decorators(subject: Subject, patch: PlannedPatch) -> set[str]:
    """The names of the decorators that a replacement has, wherever it is defined."""
    if patch.patch.kind != "external":
        nodes = subject.generated.index.functions.get(patch.dotted, [])
        return {name for node in nodes for name in decorator_names(node)}
    definition = subject.library.find(patch.patch.replacement_module, patch.patch.replacement_name)
    return decorator_names(definition[1]) if definition and isinstance(definition[1], FUNCTIONS) else set()


def _decorated(subject: Subject) -> Iterator[Definition]:
    for definitions in subject.generated.index.definitions.values():
        yield from (node for node in definitions if node.decorator_list)


def _takers(subject: Subject, name: str) -> Iterator[tuple[Definition, ast.expr]]:
    """Decorators that refer to a function, and what they decorate."""
    for node in _decorated(subject):
        for decorator in node.decorator_list:
            if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(decorator)):
                yield node, decorator


def _removal(subject: Subject, node: Definition, decorator: ast.expr) -> str:
    name = decorator_name(decorator)
    if subject.is_own(node.name, decorator):
        return f"Take @{name} off the config's '{node.name}'."
    return f"Add config.drop_decorators('{node.name}', '{name}')."


RULE = Rule(
    code="PG212",
    name="dispatch left on",
    severity="warning",
    reason=(
        "Some decorators of transformers redirect calls: `use_experts_implementation` to grouped matrix products "
        "instead of the class's `forward`, `use_kernel_forward_from_hub` to a kernel from the hub once a model is "
        "loaded with `use_kernels`, and its counterparts for functions to an installed package. Overriding a method "
        "leaves its class's decorators in place. The patched body then looks right in the generated file and never "
        "runs: the model trains, with upstream's numbers and memory. `use_kernelized_func` registers functions that "
        "have such a mark. What happens to a patched function without the mark depends on the release of "
        "transformers: the patch has no effect, or it raises once a model is loaded with `use_kernels`, or it raises "
        "at import if the `kernels` package is installed."
    ),
    failing=Example(
        """
@config.override_method("Experts.forward")
def forward(self, x):
    return x * 2
""",
        _UPSTREAM,
    ),
    passing=Example(
        """
config.drop_decorators("Experts", "use_experts_implementation")

@config.override_method("Experts.forward")
def forward(self, x):
    return x * 2
""",
        _UPSTREAM,
    ),
    check=check,
)
