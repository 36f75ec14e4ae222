"""The kernels that a project registers, told from the text of the modules that do."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.codegen.source import SourceCache
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.project import Project, walk_files
from patchgen_core.upstream import find_upstream

_FIELDS = ("name", "op_name", "variant")
ANY = "*"
"""Stands for an op or a variant that the text does not tell."""


@dataclass(frozen=True)
class Kernels:
    """Registered kernels.

    Attributes:
        modules: the modules that register them, as the project names them.
        found: pairs of op and variant.
    """

    modules: tuple[str, ...] = ()
    found: frozenset[tuple[str, str]] = frozenset()

    def has(self, op: str, variant: str) -> bool:
        """Whether a kernel for a slot is registered, or may be."""
        return any(o in (op, ANY) and v in (variant, ANY) for o, v in self.found)

    def variants(self, op: str) -> list[str]:
        """The variants of an op for which there is a kernel."""
        return sorted(v for o, v in self.found if o == op)

    @property
    def ops(self) -> set[str]:
        """The ops for which there is a kernel."""
        return {o for o, _ in self.found if o != ANY}


def read_kernels(project: Project, sources: SourceCache) -> Kernels:
    """Read every module of ``[tool.patchgen] kernels``; a package with all modules in it.

    Raises:
        PatchgenError: there is no such module.
    """
    found: set[tuple[str, str]] = set()
    for name in project.kernels:
        for path in _files(project, name):
            found |= set(_specs(sources.get(path).tree))
    return Kernels(project.kernels, frozenset(found))


def _files(project: Project, name: str) -> Sequence[Path]:
    path = project.module_path(name)
    if path is None:
        try:
            path = find_upstream(name).path
        except PatchgenError:
            known = [other for other in map(project.module_name, walk_files(project.search_root)) if other]
            raise PatchgenError(
                f"[tool.patchgen] kernels: there is no module '{name}'",
                project.key_location("kernels"),
                did_you_mean(name, known),
            ) from None
    if path.name != "__init__.py":
        return [path]
    return [file for file in walk_files(path.parent) if file.suffix == ".py"]


def _specs(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The op and variant of each ``KernelSpec(...)``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "KernelSpec":
            given: dict[str, ast.expr] = dict(zip(_FIELDS, node.args))
            given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
            yield _text(given.get("op_name")), _text(given.get("variant"))


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ANY
