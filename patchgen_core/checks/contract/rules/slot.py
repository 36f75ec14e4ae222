"""PG206: every op slot has a kernel."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.checks.contract.kernels import Kernels, Slot, find_slots
from patchgen_core.checks.contract.library import absolute_module, package_of
from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.errors import did_you_mean
from patchgen_core.syntax.literals import ANY
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import last_name

_OWN = ("patchgen_core", "patchgen")
"""The packages whose slots are bound to the kernels of ``patchgen_core.ops`` and of entry points."""
_UPSTREAM = """
class Norm:
    def forward(self, x):
        return x
"""
_KERNELS = """
from proj.ops import KERNEL_REGISTRY, KernelSpec

KERNEL_REGISTRY.register(KernelSpec(name="fused", op_name="rms_norm", variant="standard", factory=print))
"""
_PATCHES = """
config.add_import("proj.ops", names=["OpSlot"])
config.add_post_import_block('fused_norm = OpSlot("rms_norm", "VARIANT")')

@config.override_method("Norm.forward")
def forward(self, x):
    return fused_norm(x) if fused_norm.has_kernel else x
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Look up every slot of the generated module among the registered kernels."""
    unchecked: set[str] = set()
    for slot in find_slots(subject.generated):
        kernels = _kernels(subject, slot)
        if kernels is None:
            unchecked.add(".".join(_origin(subject, slot)))
            continue
        if (slot.op, slot.variant) == (ANY, ANY) or kernels.has(slot.op, slot.variant):
            continue
        name = _name(subject.generated, slot)
        message = f"slot '{name}'" if name else "a slot"
        message += f" asks for {_requested_kernel(slot)}, for which no kernel is registered"
        yield Finding(message, _hint(slot, kernels), slot.call.node, slot.call.owner or name)
    for cls in sorted(unchecked):
        message = f"slots of '{cls}' are not checked: no module that registers their kernels was found"
        hint = "Name those modules in [tool.patchgen] kernels."
        yield Finding(message, hint, None, cls, weight="note")


def _kernels(subject: Subject, slot: Slot) -> Kernels | None:
    """The kernels that a slot may be bound to: those of the settings, or of the package that its class is of.

    None where that package shows none.
    """
    if subject.kernels.modules:
        return subject.kernels
    module, name = _origin(subject, slot)
    if module.partition(".")[0] in _OWN:
        return subject.kernels
    definition = subject.library.find(module, name) if module else None
    if definition is None or not isinstance(definition[1], ast.ClassDef):
        return None
    if any(_is_own_class(subject, definition[0], base) for base in definition[1].bases):
        return subject.kernels
    kernels = subject.registries.of(definition[0])
    return kernels if kernels.specs else None


def _origin(subject: Subject, slot: Slot) -> tuple[str, str]:
    """The module that a slot's class comes from, and its name there; no module where none can be told."""
    function = slot.call.node.func
    if isinstance(function, ast.Attribute):
        return subject.library.origin(ast.unparse(function.value), function.attr)
    return _imported(subject, subject.generated, last_name(function))


def _is_own_class(subject: Subject, module: Module, base: ast.expr) -> bool:
    return _imported(subject, module, last_name(base))[0].partition(".")[0] in _OWN


def _imported(subject: Subject, module: Module, name: str) -> tuple[str, str]:
    """Where a module has a name from; a class of its own is followed to its first base."""
    cls = module.cls(name)
    if cls is not None and cls.bases:
        return _imported(subject, module, last_name(cls.bases[0]))
    imports = module.index.imports.get(name, [])
    statement, alias = imports[0] if len(imports) == 1 else (None, None)
    if not isinstance(statement, ast.ImportFrom) or alias is None:
        return "", name
    name_of_module = module.name or subject.project.module_name(subject.artifact.path)
    package = package_of(name_of_module, module.source.path)
    return subject.library.origin(absolute_module(statement, package), alias.name)


def _requested_kernel(slot: Slot) -> str:
    if slot.op == ANY:
        return f"the variant '{slot.variant}' of an op"
    return f"the op '{slot.op}'" + (f" in the variant '{slot.variant}'" if slot.variant != ANY else "")


def _name(module: Module, slot: Slot) -> str:
    for name, statements in module.index.assigned.items():
        if any(slot.call.node in ast.walk(statement) for statement in statements):
            return name
    return ""


def _hint(slot: Slot, kernels: Kernels) -> str:
    variants = kernels.variants(slot.op)
    if variants:
        has = ", ".join(f"'{variant}'" for variant in variants)
        return did_you_mean(slot.variant, variants) or f"'{slot.op}' has kernels for: {has}."
    where = ", ".join(kernels.modules)
    rest = f"Register a kernel in {where}, or name" if where else "Register a kernel for it, and name"
    return did_you_mean(slot.op, kernels.ops).followed_by(f"{rest} the module that does in [tool.patchgen] kernels.")


RULE = Rule(
    code="PG206",
    name="slot without kernel",
    severity="error",
    reason=(
        "An `OpSlot` is bound to a kernel by its op and variant when a model is built. If nobody registered that "
        "variant, or the registration of the op was left for later, choosing a fused implementation raises a KeyError "
        "at that moment, on the machine that asks for it. Where eager is the default, the slot never binds, and "
        "training runs at upstream's speed. The rule knows the kernels of `patchgen_core.ops`, of installed packages "
        "(entry points of the group `patchgen.kernels`), and of the modules that `[tool.patchgen] kernels` names. For "
        "a slot class of another package, it looks among the kernels that this package registers, unless `kernels` "
        "names a module. If it can read none, a note says so."
    ),
    failing=Example(
        _PATCHES.replace("VARIANT", "full"),
        _UPSTREAM,
        files={"proj/models/kernels.py": _KERNELS},
        settings='kernels = ["proj.models.kernels"]',
    ),
    passing=Example(
        _PATCHES.replace("VARIANT", "standard"),
        _UPSTREAM,
        files={"proj/models/kernels.py": _KERNELS},
        settings='kernels = ["proj.models.kernels"]',
    ),
    check=check,
)
