"""Upstream's module of a config, as features ask for it."""

from __future__ import annotations

from dataclasses import dataclass

from patchgen_core.errors import PatchgenError
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
        names, visited = [class_name], set[str]()
        while names:
            name = names.pop(0)
            if name in visited:
                continue
            visited.add(name)
            if (node := definitions.get(f"{name}.{method}")) is not None:
                return f"{name}.{method}", node
            bases = getattr(definitions.get(name), "bases", [])
            names += [base.id for base in bases if hasattr(base, "id")]
        return None

    def text_of(self, node: Definition) -> str:
        """The text of a definition, decorators included."""
        return "\n".join(self.source.lines[self.source.first_line(node) - 1 : self.source.last_line(node)])

    @property
    def targets(self) -> list[tuple[str, Definition]]:
        """Everything that a patch may name, with its definition."""
        return [(name, node) for name, node in self.source.definitions if "<locals>" not in name]


def view_upstream(bench: Workbench, config: SourceFile) -> UpstreamView | None:
    """Upstream's module of a config; None where there is none. Of several, the first."""
    for name in upstream_modules(config):
        try:
            module = find_upstream(name, bench.project.upstream)
            return UpstreamView(module, bench.sources.get(module.path))
        except PatchgenError:
            continue
    return None
