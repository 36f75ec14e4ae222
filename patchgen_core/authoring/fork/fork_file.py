"""A forked modeling file, with the names that upstream has for its classes."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from patchgen_core.build.normalize import RawText, normalize
from patchgen_core.codegen.imports import absolute_imports
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.syntax.edits import Edit, apply_edits
from patchgen_core.syntax.forms import text_of
from patchgen_core.syntax.source import SourceFile, parse_source, read_source

_MODELING = re.compile(r"transformers\.models\.\w+\.modeling_\w+")
_ALIKE = 0.8
"""A definition that has so many of its lines from another one is taken for that."""
_LEAST_TAIL = 3
"""Classes are taken for one another when so many characters at the end of their names are the same."""


@dataclass(frozen=True)
class Fork:
    """A forked file; ``package`` is what its relative imports start from, empty for a file beside no package."""

    source: SourceFile
    package: str

    @cached_property
    def lines(self) -> Counter[str]:
        """Its lines of code, each as often as it is there."""
        return code_lines(self.source.text)

    @cached_property
    def sources_of_imports(self) -> list[str]:
        """The modeling modules of transformers that it imports from, the one that it takes most of first."""
        modules = Counter(
            statement.module
            for bindings in self.source.index.imports.values()
            for statement, _ in bindings
            if isinstance(statement, ast.ImportFrom) and statement.module and _MODELING.fullmatch(statement.module)
        )
        return [module for module, _ in modules.most_common()]

    def renamed(self, upstream: SourceFile, package: str) -> tuple[SourceFile, dict[str, str]]:
        """The file with absolute imports and upstream's names, and what was renamed.

        A file beside no package, such as a copy of upstream's, has its relative imports start from upstream's package.
        """
        path, at = self.source.path, Location(str(self.source.path))
        text = absolute_imports(self.source.text, self.package or package, at)
        source = parse_source(path, text)
        names = find_renames(source, upstream)
        return (parse_source(path, rename(source, names)) if names else source), names


def read_fork(path: Path) -> Fork:
    """Read a forked file.

    Raises:
        PatchgenError: it cannot be read, is no valid Python, or defines no class.
    """
    path = Path(os.path.abspath(path))
    if path.is_dir():
        raise PatchgenError(f"'{path.name}' is a folder", Location(str(path)), "Name the modeling file in it.")
    source = read_source(path)
    if not source.index.classes:
        hint = "Name the file that was copied from upstream's modeling module and changed."
        raise PatchgenError("this is not a fork of a modeling file: it defines no class", Location(str(path)), hint)
    folder, parts = path.parent, list[str]()
    while (folder / "__init__.py").is_file():
        parts.append(folder.name)
        folder = folder.parent
    return Fork(source, ".".join(reversed(parts)))


def normalized(source: SourceFile, home: Path, project: Project) -> SourceFile:
    """A source as the generator would lay it out."""
    return parse_source(source.path, normalize([RawText(home, source.text)], project)[0].text)


def code_lines(text: str) -> Counter[str]:
    """The lines of a text without blank ones, comments and lone brackets."""
    stripped = (line.strip() for line in text.split("\n"))
    return Counter(line for line in stripped if len(line) > 1 and not line.startswith("#"))


# --- names -----------------------------------------------------------------------------------------


def find_renames(fork: SourceFile, upstream: SourceFile) -> dict[str, str]:
    """Upstream's names for what a fork calls otherwise: its own name to upstream's.

    Names are renamed by the prefix that most of its classes have in the place of upstream's. What the fork has under
    upstream's name as well keeps its own.
    """
    bound = fork.index.names
    own = [n for n in fork.index.definitions if n not in upstream.index.names]
    free = [n for n in upstream.index.definitions if n not in bound]
    votes = Counter(pair for name in own for other in free if (pair := _prefixes(name, other)) is not None)
    names: dict[str, str] = {}
    for (mine, theirs), count in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0])):
        renamed = _renamed_by(mine, theirs, fork, upstream, names)
        if count > 1 or any(_is_alike(fork, name, upstream, other) for name, other in renamed.items()):
            names |= renamed
    return names


def _is_alike(fork: SourceFile, name: str, upstream: SourceFile, other: str) -> bool:
    """Whether a definition has most of its lines from one of upstream's."""
    ours, theirs = fork.index.definitions.get(name, []), upstream.index.definitions.get(other, [])
    if not ours or not theirs:
        return False
    mine, others = code_lines(text_of(fork, ours[-1])), code_lines(text_of(upstream, theirs[-1]))
    return sum((mine & others).values()) >= _ALIKE * sum(mine.values())


def _prefixes(name: str, other: str) -> tuple[str, str] | None:
    """How the beginnings of two names differ, whose ends are the same from a capital or an underscore on."""
    tail = next((n for n, (a, b) in enumerate(zip(reversed(name), reversed(other))) if a != b), None)
    tail = min(len(name), len(other)) if tail is None else tail
    while tail >= _LEAST_TAIL:
        start = name[len(name) - tail]
        if (start.isupper() or start == "_") and tail < len(name):
            return name[:-tail], other[: len(other) - tail]
        tail -= 1
    return None


def _renamed_by(
    mine: str, theirs: str, fork: SourceFile, upstream: SourceFile, names: Mapping[str, str]
) -> dict[str, str]:
    """The names that a prefix renames, those that are imported included."""
    renamed: dict[str, str] = {}
    taken = {*fork.index.names, *names.values()}
    for name in (*fork.index.definitions, *fork.index.imports, *fork.index.assigned):
        other = theirs + name.removeprefix(mine)
        is_theirs = other in upstream.index.definitions or (
            name in fork.index.imports and other in upstream.index.imports
        )
        is_own = name.startswith(mine) and name not in names and name not in upstream.index.names
        if is_own and is_theirs and other not in taken:
            renamed[name] = other
    return renamed


def rename(source: SourceFile, names: Mapping[str, str]) -> str:
    """A text with other names: identifiers, words of strings and comments; what is imported keeps its own name."""
    words = re.compile(rf"(?<![\w.])({'|'.join(sorted(map(re.escape, names), key=len, reverse=True))})(?!\w)")
    imports = list(_imports(source))
    edits = [Edit(start, end, text) for start, end, text in (_import_edit(source, node, names) for node in imports)]
    spans = [(source.start(node), source.end(node)) for node in imports]
    for match in words.finditer(source.text):
        if not any(start <= match.start() < end for start, end in spans):
            edits.append(Edit(match.start(), match.end(), names[match[1]]))
    return apply_edits(source.text, [edit for edit in edits if edit.new != source.text[edit.start : edit.end]])[0]


def _imports(source: SourceFile) -> Iterator[ast.Import | ast.ImportFrom]:
    return (node for node in ast.walk(source.tree) if isinstance(node, (ast.Import, ast.ImportFrom)))


def _import_edit(
    source: SourceFile, node: ast.Import | ast.ImportFrom, names: Mapping[str, str]
) -> tuple[int, int, str]:
    """A statement that binds the new names."""
    aliases = [ast.alias(alias.name, names.get(alias.asname or alias.name, alias.asname)) for alias in node.names]
    start, end = source.start(node), source.end(node)
    if all(alias.asname == old.asname for alias, old in zip(aliases, node.names, strict=True)):
        return start, end, source.text[start:end]
    new = type(node)(**{**dict(ast.iter_fields(node)), "names": aliases})
    return start, end, ast.unparse(new)
