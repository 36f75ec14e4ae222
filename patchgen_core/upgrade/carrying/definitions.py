"""The definition that an edit is of, as one release has it."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from patchgen_core.codegen.edit_checks import bound_names
from patchgen_core.config.declarations import Patch
from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS, Definition
from patchgen_core.syntax.patterns import Match, Pattern, find_expressions, find_statements
from patchgen_core.syntax.source import SourceFile, parse_source, shift
from patchgen_core.upgrade.merging.text import DefinitionText


@dataclass(frozen=True)
class ReleaseDefinition:
    """The one definition that edits are of, and the file of the release that it stands in.

    ``package`` is where the file's relative imports start from.
    """

    node: Definition
    source: SourceFile
    package: str

    @cached_property
    def text(self) -> DefinitionText:
        """Its text at column 0, without decorators: what is found in it has lines of its own."""
        first, last = self.node.lineno, self.source.last_line(self.node)
        keep = {line - first for line in range(first, last + 1) if line in self.source.string_lines}
        lines = shift(self.source.lines[first - 1 : last], self.source.indent(first), "", keep)
        return DefinitionText(parse_source(self.source.path, "\n".join(lines) + "\n"))

    @cached_property
    def searched(self) -> ast.AST:
        """Where places are looked for: all of a function, and of a class what is no definition."""
        node = self.text.definition
        if isinstance(node, FUNCTIONS):
            return node
        own = [statement for statement in node.body if not isinstance(statement, DEFINITIONS)]
        fields = {**dict(ast.iter_fields(node)), "body": own, "decorator_list": []}
        return ast.Module([type(node)(**fields)], [])

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """Every name in it: variables, attributes, arguments."""
        return identifiers(self.text.source.tree)

    @cached_property
    def module_identifiers(self) -> frozenset[str]:
        """Every name in its module."""
        return _module_identifiers(self.source.tree)

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names that it binds, its parameters among them."""
        node = self.text.definition
        return frozenset(bound_names(node, ())) if isinstance(node, FUNCTIONS) else frozenset()

    def line(self, node: ast.AST) -> int:
        """The line of its file that a node of its text stands on."""
        return self.node.lineno + int(getattr(node, "lineno", 1)) - 1

    def code(self, nodes: Sequence[ast.stmt], indent: str = "") -> str:
        """The text of some statements of it that follow each other."""
        source = self.text.source
        return self.text.moved_lines(source.first_line(nodes[0]), source.last_line(nodes[-1]), indent)

    def matches(self, pattern: Pattern, patch: Patch, code: ast.expr | None) -> list[Match]:
        """Where the place of an edit is; ``code`` is the expression that the edit puts there, if it is one."""
        if pattern.expression is None or patch.kind not in ("code_replacement", "code_deletion"):
            return find_statements(pattern, self.searched)
        if patch.kind == "code_replacement":
            if code is not None:
                return find_expressions(pattern, self.searched)
            return find_statements(pattern, self.searched)
        return find_statements(pattern, self.searched) or find_expressions(pattern, self.searched)


@lru_cache(maxsize=64)
def _module_identifiers(tree: ast.Module) -> frozenset[str]:
    return identifiers(tree)


def identifiers(tree: ast.AST) -> frozenset[str]:
    """The names in a piece of syntax: variables, attributes, arguments, definitions and what is imported."""
    results: set[str] = set()
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                results.update(re.findall(r"\w+", value))
    return frozenset(results)
