"""PG225: what is imported from the project's own packages is there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.checks.contract.library import absolute_module
from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.errors import Location, did_you_mean
from patchgen_core.syntax.index import ImportStatement
from patchgen_core.syntax.nodes import last_name

_CAUGHT = frozenset(["ImportError", "ModuleNotFoundError", "Exception", "BaseException"])
_UPSTREAM = """
class Norm:
    def forward(self, x):
        return x
"""
_FILES = {
    "proj/__init__.py": "",
    "proj/ops/__init__.py": "",
    "proj/ops/norm.py": "def fused_norm(x):\n    return x\n",
}


def check(subject: Subject) -> Iterator[Finding]:
    """Look up every import of the project's packages, at any depth of a function."""
    path, own = subject.artifact.path, subject.own_modules
    external = {
        patch.patch.replacement_module for patch in subject.plan.patches if patch.patch.kind == "external"
    }  # PG224
    package = subject.project.module_name(path).rpartition(".")[0]
    lines = _import_lines(subject.generated.source.text)
    for statement in _unguarded(subject.generated.tree.body, lines):
        for module, names in _imported(statement, package):
            if not own.is_own(module) or (module in external and statement in subject.generated.tree.body):
                continue
            missing = own.missing_part(module)
            owner = subject.generated.source.owner_at(statement.lineno)
            who = f"'{owner}'" if owner else "the module"
            if missing:
                message = f"{who} imports '{module}', but there is no '{missing}'"
                hint = did_you_mean(missing.rpartition(".")[2], _siblings(subject, missing))
                yield _finding(subject, statement, owner, message, hint)
                continue
            for name in names:
                if name != "*" and own.lacks(module, name):
                    message = f"{who} imports '{name}' from '{module}', which has no such name"
                    yield _finding(subject, statement, owner, message, did_you_mean(name, own.names(module)))


def _import_lines(text: str) -> set[int]:
    """The lines that an import may start in; only blocks that hold one are looked into."""
    lines = enumerate(text.split("\n"), 1)
    return {number for number, line in lines if line.lstrip().startswith(("from", "import"))}


def _unguarded(body: list[ast.stmt], lines: set[int]) -> Iterator[ImportStatement]:
    """The imports of a block and all in it, but for those for type checkers and those that may fail."""
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement
            continue
        last = statement.end_lineno or statement.lineno
        if last == statement.lineno or not any(line in lines for line in range(statement.lineno, last + 1)):
            continue
        if isinstance(statement, ast.If) and last_name(statement.test) == "TYPE_CHECKING":
            yield from _unguarded(statement.orelse, lines)
            continue
        may_fail = isinstance(statement, ast.Try) and any(_catches(handler) for handler in statement.handlers)
        for name in ("orelse", "finalbody") if may_fail else ("body", "orelse", "finalbody"):
            yield from _unguarded(getattr(statement, name, None) or [], lines)
        for name in ("handlers", "cases"):
            for part in getattr(statement, name, ()):
                yield from _unguarded(part.body, lines)


def _catches(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(node is None or last_name(node) in _CAUGHT for node in caught)


def _imported(statement: ImportStatement, package: str) -> list[tuple[str, list[str]]]:
    """The modules that a statement imports, each with the names that it takes from it."""
    if isinstance(statement, ast.Import):
        return [(alias.name, []) for alias in statement.names]
    return [(absolute_module(statement, package), [alias.name for alias in statement.names])]


def _siblings(subject: Subject, module: str) -> set[str]:
    """The modules and packages beside one that is missing."""
    package = subject.own_modules.file(module.rpartition(".")[0])
    if package is None or package.name != "__init__.py":
        return set()
    subject.code.note_folder(package.parent)
    entries = package.parent.iterdir()
    return {entry.stem for entry in entries if entry.suffix == ".py" or (entry / "__init__.py").is_file()}


def _finding(subject: Subject, statement: ImportStatement, owner: str, message: str, hint: str | None) -> Finding:
    declared = None if owner else _declared(subject, statement)
    hint = hint or "Name the module that has it, or add what is missing there."
    return Finding(message, hint, statement, owner or ast.unparse(statement), declared)


def _declared(subject: Subject, statement: ImportStatement) -> Location | None:
    """The ``add_import`` that brings an import of the top level."""
    module = statement.module if isinstance(statement, ast.ImportFrom) else statement.names[0].name
    names = {alias.name for alias in statement.names}
    fitting = [spec for spec in subject.plan.imports if spec.module == module]
    exact = [spec for spec in fitting if names & {name.partition(" ")[0] for name in spec.names}]
    return next((spec.location for spec in [*exact, *fitting]), None)


RULE = Rule(
    code="PG225",
    name="own import",
    severity="error",
    reason=(
        "Other code imports the generated module, which is in another folder than its config. An import inside a "
        "function runs only when the function does: on the machine with that hardware, with that setting, hours into "
        "a run. The rule checks imports from the project's own packages against their files. It ignores imports that "
        "`try` guards, imports for type checkers, and modules that make their names while they are imported."
    ),
    failing=Example(
        """
@config.override_method("Norm.forward")
def forward(self, x):
    from proj.ops.norms import fused_norm

    return fused_norm(x)
""",
        _UPSTREAM,
        files=_FILES,
    ),
    passing=Example(
        """
@config.override_method("Norm.forward")
def forward(self, x):
    from proj.ops.norm import fused_norm

    return fused_norm(x)
""",
        _UPSTREAM,
        files=_FILES,
    ),
    check=check,
)
