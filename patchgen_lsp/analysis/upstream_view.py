"""Upstream's module of a config, as features ask for it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import CONFIG_SUFFIX
from patchgen_core.syntax.forms import resolved
from patchgen_core.syntax.nodes import Definition
from patchgen_core.syntax.source import SourceFile
from patchgen_core.upstream.module import UpstreamModule, find_upstream
from patchgen_lsp.analysis.declared import upstream_modules
from patchgen_lsp.analysis.workbench import Workbench


@dataclass(frozen=True)
class UpstreamView:
    """An upstream module and its text."""

    module: UpstreamModule
    source: SourceFile

    def find(self, target: str) -> Definition | None:
        """The definition of a target, the last where there are several; of a property's setter, the property's."""
        name = target.removesuffix(".setter").removesuffix(".deleter")
        return dict(self.source.definitions).get(name)

    def find_method(self, class_name: str, method: str) -> tuple[str, Definition] | None:
        """A method of a class, or of one that it inherits from in the same module, with its dotted name."""
        definitions = dict(self.source.definitions)
        dotted = (f"{name}.{method}" for name in self._line(class_name))
        return next(((name, definitions[name]) for name in dotted if name in definitions), None)

    def find_attribute(self, class_name: str, attribute: str) -> int:
        """The first line where a class, or one that it inherits from in the same module, assigns an attribute of
        ``self``; 0 for none."""
        definitions = dict(self.source.definitions)
        nodes = (definitions[name] for name in self._line(class_name) if name in definitions)
        for node in nodes:
            attributes = (inner for inner in ast.walk(node) if isinstance(inner, ast.Attribute))
            lines = [inner.lineno for inner in attributes if _is_assigned(inner, attribute)]
            if lines:
                return min(lines)
        return 0

    def outside_bases(self, class_name: str) -> list[ast.expr]:
        """The bases of a class, and of its bases in the module, that other modules define."""
        definitions = dict(self.source.definitions)
        bases = [base for name in self._line(class_name) for base in getattr(definitions.get(name), "bases", ())]
        return [base for base in bases if not isinstance(base, ast.Name) or base.id not in definitions]

    def class_of_attribute(self, class_name: str, attribute: str) -> str:
        """The class of the module that an attribute of ``self`` is an instance of, as far as the class evidently makes
        it; empty for none."""
        definitions = dict(self.source.definitions)
        for node in (definitions[name] for name in self._line(class_name) if name in definitions):
            for each in ast.walk(node):
                value = each.value if isinstance(each, ast.Assign) else None
                if not isinstance(value, ast.Call) or not any(_is_self(t, attribute) for t in each.targets):  # type: ignore[attr-defined]
                    continue
                made = value.func.value if isinstance(value.func, ast.Attribute) else value.func
                if isinstance(made, ast.Name) and isinstance(definitions.get(made.id), ast.ClassDef):
                    return made.id
        return ""

    def _line(self, class_name: str) -> list[str]:
        """The names of a class and of its bases."""
        definitions = dict(self.source.definitions)
        names = [class_name]
        for name in names:
            bases = getattr(definitions.get(name), "bases", [])
            names += [base.id for base in bases if hasattr(base, "id") and base.id not in names]
        return names

    def text_of(self, node: Definition) -> str:
        """The text of a definition, decorators included."""
        return "\n".join(self.source.lines[self.source.first_line(node) - 1 : self.source.last_line(node)])

    @property
    def targets(self) -> list[tuple[str, Definition]]:
        """Everything that a patch may name, with its definition."""
        return [(name, node) for name, node in self.source.definitions if "<locals>" not in name]


def _is_self(node: ast.expr, attribute: str) -> bool:
    return isinstance(node, ast.Attribute) and _is_assigned(node, attribute)


def _is_assigned(node: ast.Attribute, attribute: str) -> bool:
    is_stored = node.attr == attribute and isinstance(node.ctx, ast.Store)
    return is_stored and isinstance(node.value, ast.Name) and node.value.id == "self"


def find_modules(bench: Workbench, source: SourceFile, depth: int = 4) -> list[str]:
    """The upstream modules of a file's configs; where it makes none, those of the config files that it imports, whose
    configs it may go on with."""
    modules = upstream_modules(source)
    if modules or not depth:
        return modules
    package = bench.project.module_name(source.path).rpartition(".")[0]
    statements = (s for entries in source.index.imports.values() for s, _ in entries if isinstance(s, ast.ImportFrom))
    for name in dict.fromkeys(resolved(statement, package) for statement in statements):
        path = bench.project.module_path(name) if f"{name}.py".endswith(CONFIG_SUFFIX) else None
        other = bench.sources.last_valid(path) if path is not None else None
        modules += find_modules(bench, other, depth - 1) if other is not None else []
    return list(dict.fromkeys(modules))


def view_upstream(bench: Workbench, config: SourceFile) -> UpstreamView | None:
    """Upstream's module of a config; None where there is none. Of several, the first."""
    for name in find_modules(bench, config):
        try:
            module = find_upstream(name, bench.project.upstream)
            return UpstreamView(module, bench.sources.get(module.path))
        except PatchgenError:
            continue
    return None
