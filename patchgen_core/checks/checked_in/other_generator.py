"""A checked-in module that another generator made, beside ours: what differs in code, and what only in its looks."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from patchgen_core.build.results import Artifact, Cause
from patchgen_core.checks.checked_in.definitions import Changes, Definitions, compare_code, read_definitions
from patchgen_core.project.project import LEGACY_FOLDER, OUTPUT_FOLDER
from patchgen_core.syntax.forms import expression_text, form, listed, resolved
from patchgen_core.syntax.header import read_version
from patchgen_core.syntax.nodes import DEFINITIONS
from patchgen_core.syntax.source import parse_bytes

_LOOKS = "comments, annotations, layout and order"


@dataclass(frozen=True)
class CodeDifference:
    """How the code of two modules differs.

    Attributes:
        changes: of their classes, methods and functions.
        added, removed: imports and other statements of the module itself.
        aligned: the text of the new module with the code of the old one: a diff of the two shows what differs in code.
    """

    changes: Changes
    added: tuple[str, ...]
    removed: tuple[str, ...]
    aligned: str

    def __bool__(self) -> bool:
        return bool(self.changes or self.added or self.removed)

    def __str__(self) -> str:
        statements = ((self.added, "added"), (self.removed, "removed"))
        parts = [f"{listed([f'`{text}`' for text in texts])} {word}" for texts, word in statements if texts]
        return "; ".join([*([str(self.changes)] if self.changes else []), *parts])


def explain_other_generator(artifact: Artifact, old: str) -> tuple[Cause, str | None]:
    """The cause of a drift that ends with the first generation, and the new text with the code of the old one; None
    for that where the old one is no Python."""
    difference = compare_modules(old, artifact.text, _package(artifact))
    upstream, version = artifact.plan.upstream, read_version(old)
    detail = "regenerate once"
    if version != upstream.version:
        detail += f"; it is based on {upstream.distribution} {version}, and {upstream.version} is there now"
    if difference is None:
        return Cause("made by another generator", f"{detail}; it is not valid Python"), None
    rest = f"{difference}; the rest is {_LOOKS}" if difference else f"only {_LOOKS} differ"
    return Cause("made by another generator", f"{detail}; {rest}"), difference.aligned


def _package(artifact: Artifact) -> str:
    """The package of a generated module."""
    package = artifact.plan.label.partition(":")[0].rpartition(".")[0]
    return f"{package.removesuffix(f'.{LEGACY_FOLDER}')}.{OUTPUT_FOLDER}"


def compare_modules(old: str, new: str, package: str = "") -> CodeDifference | None:
    """How the code of two modules of a package differs; None where the old one is no Python."""
    try:
        before, after = read_definitions(old), read_definitions(new)
        ours, theirs = _Statements(new, package), _Statements(old, package)
    except (SyntaxError, ValueError):
        return None
    changes = compare_code(before, after, package)
    added, removed = ours.without(theirs), theirs.without(ours)
    edits = _definition_edits(changes, before, after, old.split("\n"))
    aligned = _apply_edits(new.split("\n"), [*edits, *ours.edits(added, removed.values())])
    return CodeDifference(changes, tuple(added.values()), tuple(removed.values()), aligned)


@dataclass(frozen=True)
class _Edit:
    """Lines to put in the place of others, counted from 0; an empty range inserts them."""

    place: range
    lines: tuple[str, ...] = ()


class _Statements:
    """What a module does beside its definitions, by its form: each name of an import counts for itself."""

    def __init__(self, text: str, package: str) -> None:
        self.texts: dict[str, str] = {}
        self.statements: list[tuple[ast.stmt, list[str]]] = []
        for statement in parse_bytes(text).body:
            if isinstance(statement, DEFINITIONS) or _is_text(statement):
                continue
            parts = _single_imports(statement)
            keys = [_key(part, package) for part in parts]
            self.texts |= {key: expression_text(part) for key, part in zip(keys, parts)}
            self.statements.append((statement, keys))

    @property
    def count(self) -> Counter[str]:
        """How often each stands there."""
        return Counter(key for _, keys in self.statements for key in keys)

    def without(self, other: _Statements) -> dict[str, str]:
        """The statements that another module lacks: the form of each, and how it is shown."""
        return {key: self.texts[key] for key in self.count - other.count}

    def edits(self, added: Collection[str], removed: Iterable[str]) -> Iterator[_Edit]:
        """Take statements out, and put others behind the imports."""
        end = 0
        for statement, keys in self.statements:
            first, stop = statement.lineno - 1, statement.end_lineno or statement.lineno
            is_import = isinstance(statement, (ast.Import, ast.ImportFrom))
            end = stop if is_import else end
            left = [part for part, key in zip(_single_imports(statement), keys) if key not in added]
            if len(left) == len(keys):
                continue
            if left and stop - first > 1:  # one name a line
                aliases = getattr(statement, "names", [])
                lines = (alias.lineno - 1 for alias, key in zip(aliases, keys) if key in added)
                yield from (_Edit(range(line, line + 1)) for line in lines)
            else:
                yield _Edit(range(first, stop), tuple(map(ast.unparse, left)))
        yield _Edit(range(end, end), tuple(removed))


def _single_imports(statement: ast.stmt) -> list[ast.stmt]:
    """An import as one statement for each name; any other statement as it is."""
    if isinstance(statement, ast.Import):
        return [ast.Import([alias]) for alias in statement.names]
    if isinstance(statement, ast.ImportFrom):
        return [ast.ImportFrom(statement.module, [alias], statement.level) for alias in statement.names]
    return [statement]


def _definition_edits(
    changes: Changes, before: Mapping[str, Definitions], after: Mapping[str, Definitions], old: list[str]
) -> Iterator[_Edit]:
    classes = {name for name in changes.changed if any(isinstance(node, ast.ClassDef) for node in after[name].nodes)}
    inside = {
        name for name in (*changes.changed, *changes.added, *changes.removed) if name.rpartition(".")[0] in classes
    }

    def texts(name: str) -> tuple[str, ...]:
        return tuple(line for place in before[name].ranges for line in old[place.start - 1 : place.stop - 1])

    for name in (*changes.changed, *changes.added):
        if name not in inside:
            first, *others = (range(place.start - 1, place.stop - 1) for place in after[name].ranges)
            yield _Edit(first, texts(name) if name in before else ())
            yield from map(_Edit, others)
    end = max((place.stop for definitions in after.values() for place in definitions.ranges), default=1) - 1
    for name in changes.removed:
        if name not in inside:
            owner = after.get(name.rpartition(".")[0])
            at = owner.ranges[-1].stop - 1 if owner else end
            yield _Edit(range(at, at), ("", *texts(name)))


def _apply_edits(lines: list[str], edits: Iterable[_Edit]) -> str:
    for edit in sorted(edits, key=lambda edit: (edit.place.start, edit.place.stop), reverse=True):
        lines[edit.place.start : edit.place.stop] = edit.lines
    return "\n".join(lines)


def _key(statement: ast.stmt, package: str) -> str:
    """What a statement does: an import binds an object to a name, and ``__all__`` lists names in any order."""
    if isinstance(statement, ast.Import) and statement.names[0].asname:
        return f"{statement.names[0].asname} = {statement.names[0].name}"
    if isinstance(statement, ast.ImportFrom):
        alias = statement.names[0]
        return f"{alias.asname or alias.name} = {resolved(statement, package)}.{alias.name}"
    if isinstance(statement, ast.Assign) and isinstance(statement.value, (ast.List, ast.Tuple)):
        target = ast.unparse(statement.targets[0])
        return (
            f"{target} = {sorted(map(form, statement.value.elts))}"
            if target == "__all__"
            else form(statement, package)
        )
    return form(statement, package)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
