"""Where the names of a generated module come from."""

from __future__ import annotations

import ast
from pathlib import Path

from patchgen_core.authoring.edits.needed_imports import import_of_upstream
from patchgen_core.codegen.imports import imported_names
from patchgen_core.codegen.plan import Plan
from patchgen_core.config.declarations import ImportSpec
from patchgen_core.project.project import Project
from patchgen_core.syntax.index import index_module


class Origins:
    """The imports by which another file has the names of a config's generated module.

    Args:
        output: where the generated module goes.
    """

    def __init__(self, project: Project, plan: Plan, output: Path) -> None:
        self.project, self.plan, self.output = project, plan, output
        trees = (ast.parse(text) for text, _ in plan.blocks)
        self._in_blocks = {name for tree in trees for name in index_module(tree).names}

    def import_of(self, name: str, path: Path) -> str:
        """The statement that imports a name into a file; empty where the generated module has none of that name."""
        if name in self._in_blocks:
            return self._from_project(self.output, name)
        for spec in reversed(self.plan.imports):
            if name in imported_names(spec):
                return _import_of_spec(spec, name)
        for helper in self.plan.helpers:
            home = Path(helper.replacement.location.file)
            if helper.name == name and home != path:
                return self._from_project(home if helper.replacement.name == name else self.output, name)
        if name in self.plan.excluded or name in self.plan.dropped:
            return ""
        return import_of_upstream(name, self.plan.source, self.plan.upstream)

    def _from_project(self, path: Path, name: str) -> str:
        """The import from a file of the project; none from one that no import leads to."""
        module = self.project.module_name(path)
        roots = (self.project.search_root, *self.project.import_roots)
        is_module = all(part.isidentifier() for part in module.split("."))
        return f"from {module} import {name}" if is_module and any(map(path.is_relative_to, roots)) else ""


def _import_of_spec(spec: ImportSpec, name: str) -> str:
    if not spec.is_from_import:
        return f"import {spec.module} as {spec.alias}" if spec.alias else f"import {spec.module}"
    if spec.alias:
        return f"from {spec.module} import {spec.names[0]} as {spec.alias}"
    entry = next(entry for entry in spec.names if entry.split(" as ")[-1].strip() == name)
    return f"from {spec.module} import {entry}"
