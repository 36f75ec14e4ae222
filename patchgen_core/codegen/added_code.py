"""What a config adds beside its patches, checked against upstream: imports and source blocks."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from patchgen_core.codegen.imports import imported_names
from patchgen_core.codegen.relative_imports import ImportPlaces, absolute_code
from patchgen_core.config.declarations import ImportSpec
from patchgen_core.config.spec import PatchConfig
from patchgen_core.errors import Location, PatchgenError, Problem, did_you_mean
from patchgen_core.syntax.index import ImportStatement, ModuleIndex, bound_name, index_module
from patchgen_core.syntax.nodes import COMPOUND, DEFINITIONS, Definition, statements
from patchgen_core.syntax.source import SourceFile

SHADOWING = "PG207"
"""The contract rule that names which hide one another break."""


@dataclass(frozen=True)
class AddedImports:
    """Checks added imports against what upstream binds, less the names that the config takes out.

    Their relative imports start from ``package``.
    """

    tree: ast.Module
    index: ModuleIndex
    package: str
    dropped: tuple[str, ...]
    excluded: tuple[str, ...]

    def plan(self, specs: Iterable[ImportSpec]) -> tuple[tuple[ImportSpec, ...], list[Problem]]:
        """The imports to add, without those that upstream has already; and what is wrong with them."""
        top = {
            bound_name(statement, alias): statement
            for statement in self.tree.body
            if isinstance(statement, (ast.Import, ast.ImportFrom))
            for alias in statement.names
        }
        bound: dict[str, ImportSpec] = {}
        needed = []
        problems: list[Problem] = []
        for spec in unique(specs):
            names = imported_names(spec)
            there = [n for n in names if n in top and n not in self.dropped and self._has(spec, n, _loading)]
            for name in names:
                other = bound.setdefault(name, spec)
                if binding(other, name) != binding(spec, name):
                    message = f"add_import: '{name}' is imported from '{other.module}' and from '{spec.module}'"
                    problems.append(Problem(message, spec.location, "Import one of them under an alias."))
                elif name not in there:
                    problems += self._check(spec, name, top)
            if len(there) < len(names):
                missing = tuple(n for n in spec.names if n.split(" as ")[-1].strip() not in there)
                needed.append(replace(spec, names=missing if there else spec.names))
        return tuple(needed), problems

    def _check(self, spec: ImportSpec, name: str, top: Mapping[str, ImportStatement]) -> list[Problem]:
        """An added import must neither be hidden by what upstream binds nor hide it."""
        if name in self.index.definitions and name not in self.excluded:
            message = f"add_import: upstream's own definition of '{name}' would hide the import"
            hint = "Use create_patch_from_external to replace it."
        elif name in self.index.assigned and name not in self.index.imports and name not in self.excluded:
            message = f"add_import: upstream's own assignment of '{name}' would hide the import"
            hint = f"Add config.exclude_from_output({name!r}), or import it under an alias."
        elif name in top and name not in self.dropped and not self._has(spec, name, binding):
            message = f"add_import: upstream imports '{name}' from elsewhere: {ast.unparse(top[name])}"
            hint = f"Add config.drop_import_names({name!r}), or import it under an alias."
        else:
            return []
        return [Problem(message, spec.location, hint, code=SHADOWING)]

    def _has(self, spec: ImportSpec, name: str, source: Callable[[ImportSpec, str], object]) -> bool:
        """Whether upstream imports a name from the same source."""
        for statement, alias in self.index.imports.get(name, ()):
            if isinstance(statement, ast.Import):
                existing = ImportSpec(alias.name, (), alias.asname, False)
            else:
                package = self.package.split(".")
                base = package[: len(package) - statement.level + 1] if statement.level else []
                module = ".".join([*base, *([statement.module] if statement.module else [])])
                existing = ImportSpec(module, (alias.name,), alias.asname)
            if source(existing, name) == source(spec, name):
                return True
        return False


def import_source(spec: ImportSpec, name: str) -> tuple[str, str]:
    """The module and attribute that an added import binds to ``name``; no attribute for a module."""
    if not spec.is_from_import:
        return (spec.module, "")
    for entry in spec.names:
        original, _, alias = (part.strip() for part in entry.partition(" as "))
        if name in (spec.alias, alias or original):
            return (spec.module, original)
    return (spec.module, name)


def binding(spec: ImportSpec, name: str) -> str:
    """What a name is after an import.

    ``import a.b as c`` and ``from a import b as c`` bind the same, ``import a.b`` and ``import a.c`` both bind ``a``.
    """
    module, attribute = import_source(spec, name)
    if not spec.is_from_import and not spec.alias:
        return module.split(".")[0]
    return f"{module}.{attribute}" if attribute else module


def _loading(spec: ImportSpec, name: str) -> tuple[str, str]:
    """What a name is after an import, and the submodule that ``import a.b`` loads beside that."""
    is_plain = not spec.is_from_import and not spec.alias
    return binding(spec, name), spec.module if is_plain and "." in spec.module else ""


def checked_blocks(
    config: PatchConfig, places: ImportPlaces | None
) -> tuple[tuple[tuple[str, Location], ...], list[Problem]]:
    """The post-import blocks of a config, dedented, each with its line; and what is wrong with them.

    Their relative imports become absolute where ``places`` says what there is.
    """
    blocks: dict[str, Location] = {}
    problems: list[Problem] = []
    for block in unique(config.post_import_blocks):
        location = config.location_of("post_import_block", block)
        try:
            blocks.setdefault(_checked_block("add_post_import_block", block, location, places), location)
        except PatchgenError as error:
            problems += error.problems
    return tuple(blocks.items()), problems


@dataclass(frozen=True)
class PositionedBlock:
    """Statements of a config that follow a definition of upstream's, dedented."""

    target: str
    text: str
    location: Location
    after: tuple[Definition, ...]


def positioned_blocks(
    config: PatchConfig, index: ModuleIndex, excluded: Sequence[str], places: ImportPlaces | None
) -> tuple[tuple[PositionedBlock, ...], list[Problem]]:
    """The blocks of a config that follow definitions of upstream's, and what is wrong with them."""
    blocks, problems = list[PositionedBlock](), list[Problem]()
    for target, code in unique(config.positioned_blocks):
        location = config.location_of("add_block_after", (target, code))
        try:
            text = _checked_block("add_block_after", code, location, places)
            after = following("add_block_after", target, location, index, excluded, config.source_module)
        except PatchgenError as error:
            problems += error.problems
        else:
            blocks.append(PositionedBlock(target, text, location, after))
    return tuple(blocks), problems


def following(
    call: str, target: str, location: Location | None, index: ModuleIndex, excluded: Sequence[str], module: str
) -> tuple[Definition, ...]:
    """The definitions of upstream's that something is to follow; a PatchgenError where there are none."""
    if "." in target and target.split(".")[0] in index.definitions:
        hint = f"Write '{target.split('.')[0]}': additions follow classes and functions."
        raise PatchgenError(f"{call}: '{target}' names a method", location, hint)
    after = tuple(index.definitions.get(target, ()))
    if not after:
        raise PatchgenError(
            f"{call}: upstream {module} has no '{target}'", location, did_you_mean(target, index.definitions)
        )
    if target in excluded:
        raise PatchgenError(f"{call}: this config excludes '{target}'", location)
    return after


def _checked_block(call: str, block: str, location: Location, places: ImportPlaces | None) -> str:
    """A block dedented and with absolute imports; a PatchgenError where it is no Python."""
    text = textwrap.dedent(block).strip("\n")
    try:
        compile(text, "<block>", "exec", dont_inherit=True)
        if re.search(r"^from\s+__future__\s", text, re.MULTILINE):
            raise SyntaxError("from __future__ imports must be added with add_import")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        message = f"{call}: not valid Python: {getattr(error, 'msg', error)}"
        excerpt = text.split("\n")[min(line, text.count("\n") + 1) - 1]
        raise PatchgenError(message, location, excerpt=excerpt.strip()) from None
    try:
        return absolute_code(text, places.config_package(location), location, places) if places else text
    except PatchgenError as clash:
        raise PatchgenError.from_problems([replace(p, location=location) for p in clash.problems]) from None


def unique(values: Iterable[Any]) -> list[Any]:
    """The values in order, each once."""
    seen: list[Any] = []
    for value in values:
        if value not in seen:
            seen.append(value)
    return seen


def hidden_problems(
    added: Sequence[tuple[str, Location]], source: SourceFile, index: ModuleIndex, excluded: Iterable[str]
) -> list[Problem]:
    """Names that a post-import block binds and that upstream binds again below it."""
    problems: list[Problem] = []
    if not added:
        return problems
    line = source.text.count("\n", 0, below_imports(source))
    for block, location in added:
        try:
            bound = index_module(ast.parse(block)).names
        except SyntaxError:
            continue
        for name in sorted(bound - set(excluded)):
            later = [*index.definitions.get(name, ()), *index.assigned.get(name, ())]
            again = next((statement for statement in later if statement.lineno > line), None)
            if again is not None:
                place = f"upstream's own '{name}' in its line {again.lineno}"
                message = f"add_post_import_block: {place} would hide the block's"
                hint = f"Replace upstream's with a patch, or add config.exclude_from_output({name!r})."
                problems.append(Problem(message, location, hint, code=SHADOWING))
    return problems


def top_of(source: SourceFile) -> int:
    """Where the first statement after the docstring starts."""
    body = source.tree.body
    if ast.get_docstring(source.tree, clean=False) is not None:
        return source.line_starts[body[0].end_lineno or 0]
    return source.line_starts[source.comment_line(body[0]) - 1] if body else len(source.text)


def below_imports(source: SourceFile) -> int:
    """Where the statements that import end: the last of them before the first definition."""
    last: ast.stmt | None = None
    for statement in source.tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            last = statement
        elif isinstance(statement, (*DEFINITIONS, *COMPOUND)):
            inner = list(statements([statement]))
            if any(isinstance(s, (ast.Import, ast.ImportFrom)) for s in inner):
                last = statement
            elif any(isinstance(s, DEFINITIONS) for s in inner):
                break
    return source.line_starts[last.end_lineno or 0] if last is not None else top_of(source)
