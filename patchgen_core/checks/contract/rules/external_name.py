"""PG224: an external patch names something that its module has."""

from __future__ import annotations

from collections.abc import Iterator

from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.errors import did_you_mean
from patchgen_core.syntax.module import Module

_UPSTREAM = """
class Norm:
    def forward(self, x):
        return x
"""
_FILES = {"proj/kernels.py": "class FusedNorm:\n    def forward(self, x):\n        return x * 1.0\n"}


def check(subject: Subject) -> Iterator[Finding]:
    """Read the modules of external patches, where they are here."""
    for patch in subject.plan.patches:
        declared = patch.patch
        module = subject.library.module(declared.replacement_module) if declared.kind == "external" else None
        if module is None or _is_open(module) or declared.replacement_name in _exported_names(subject, module):
            continue
        message = (
            f"'{declared.replacement_module}' has no '{declared.replacement_name}' to replace '{patch.dotted}' with"
        )
        hint = (
            did_you_mean(declared.replacement_name, _exported_names(subject, module))
            or "Is this the version that you train with?"
        )
        yield Finding(message, hint, None, patch.dotted, declared.location)


def _exported_names(subject: Subject, module: Module) -> set[str]:
    """What a module binds, with the modules of a package."""
    path = module.source.path
    if path.name != "__init__.py":
        return module.bound
    subject.code.note_folder(path.parent)
    return module.bound | {entry.stem for entry in path.parent.iterdir()}


def _is_open(module: Module) -> bool:
    """Whether a module may have names that its text does not show."""
    return "*" in module.bound or "__getattr__" in module.bound


RULE = Rule(
    code="PG224",
    name="external name",
    severity="error",
    reason=(
        "An external patch imports its class or function when the generated module is imported. If a library renames "
        "or moves it, that import fails on the machines that have the new version. Where the library's files are "
        "available, the rule reads them without importing them, so it needs no GPU."
    ),
    failing=Example(
        '\nconfig.patches.append(create_patch_from_external("Norm", "proj.kernels", "FusedRMSNorm"))\n',
        _UPSTREAM,
        files=_FILES,
    ),
    passing=Example(
        '\nconfig.patches.append(create_patch_from_external("Norm", "proj.kernels", "FusedNorm"))\n',
        _UPSTREAM,
        files=_FILES,
    ),
    check=check,
)
