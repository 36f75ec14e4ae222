"""The kernels that a project registers, told from the text of the modules that do, and the slots that ask for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path

from patchgen_core.checks.project_code import SPEC, ProjectCode, list_registering
from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.ops.hardware import is_installed
from patchgen_core.ops.kernels import DEFAULTS
from patchgen_core.ops.registry import ENTRY_POINTS
from patchgen_core.project.file_tree import walk_files
from patchgen_core.project.project import Project
from patchgen_core.syntax.literals import ANY, Literals
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import called_name, last_name
from patchgen_core.syntax.scopes import Call
from patchgen_core.syntax.source import SourceCache, SourceFile
from patchgen_core.upstream.module import find_upstream

_SPEC_FIELDS = ("name", "op_name", "variant")
_SLOT = "OpSlot"
_SLOT_FIELDS = ("op_name", "variant")


@dataclass(frozen=True)
class Kernels:
    """The modules that register kernels, and their ops, variants and names; ``ANY`` is what no text tells."""

    modules: tuple[str, ...] = ()
    implementations: frozenset[tuple[str, str, str]] = frozenset()

    @property
    def specs(self) -> set[tuple[str, str]]:
        """The pairs of op and variant that there are kernels for."""
        return {(op, variant) for op, variant, _ in self.implementations}

    def names(self, op: str, variant: str) -> list[str]:
        """The names of the kernels for a slot."""
        return sorted({n for o, v, n in self.implementations if (o, v) == (op, variant) and n != ANY})

    def has(self, op: str, variant: str) -> bool:
        """Whether a kernel for a slot is registered, or may be."""
        return any(_can_match(op, o) and _can_match(variant, v) for o, v in self.specs)

    def variants(self, op: str) -> list[str]:
        """The variants of an op for which there is a kernel."""
        return sorted({v for o, v in self.specs if o == op and v != ANY})

    @property
    def ops(self) -> set[str]:
        """The ops for which there is a kernel."""
        return {o for o, _ in self.specs if o != ANY}


@dataclass(frozen=True)
class Slot:
    """One ``OpSlot(...)`` with the op and variant it asks for; ``ANY`` for what the text does not tell."""

    call: Call
    op: str
    variant: str


def find_slots(module: Module) -> list[Slot]:
    """The slots that a module makes."""
    return module.once(_find_slots, module.tree)


def _find_slots(module: Module, tree: ast.Module) -> list[Slot]:
    if _SLOT not in module.source.text:
        return []
    names = sorted(_names_of(module, _SLOT))
    calls = [call for name in names for call in module.calls_by_name.get(name, ())]
    rows = ((call, row) for call in calls for row in sorted(_rows(Literals(), call, _SLOT_FIELDS, _SLOT_FIELDS)))
    return [Slot(call, op, variant) for call, (op, variant) in rows]


def read_kernels(project: Project, sources: SourceCache) -> Kernels:
    """Read every module of ``[tool.patchgen] kernels``; a package with all modules in it.

    The kernels of this package count as well, and those of modules that installed packages name as entry points.
    A PatchgenError when there is no such module.
    """
    installed = [point.module for point in entry_points(group=ENTRY_POINTS)]
    there = [name for name in installed if is_installed(name.partition(".")[0])]
    names = dict.fromkeys([*project.kernels, *there])
    paths = dict.fromkeys(path for name in names for path in _files(project, name))
    registering = _Registering([sources.get(path) for path in paths])
    defaults = ((spec.op_name, spec.variant, spec.name) for spec in DEFAULTS)
    return Kernels(project.kernels, frozenset([*defaults, *registering.implementations()]))


class Registries:
    """The kernels that packages with slots of their own register, told from the text of all their modules."""

    def __init__(self, sources: SourceCache, code: ProjectCode) -> None:
        self._sources, self._code = sources, code
        self._kernels: dict[Path, Kernels] = {}

    def of(self, module: Module) -> Kernels:
        """The kernels that are registered in the package of a module, from its top."""
        top = module.source.path
        while (top.parent / "__init__.py").is_file():
            top = top.parent
        self._code.note_registering(top)
        if top not in self._kernels:
            sources = [self._sources.get(path) for path in list_registering(top)]
            self._kernels[top] = Kernels((top.stem,), frozenset(_Registering(sources).implementations()))
        return self._kernels[top]


def _files(project: Project, name: str) -> Sequence[Path]:
    path = project.module_path(name)
    if path is None:
        try:
            path = find_upstream(name).path
        except PatchgenError:
            own_modules = [other for other in map(project.module_name, walk_files(project.search_root)) if other]
            raise PatchgenError(
                f"[tool.patchgen] kernels: there is no module '{name}'",
                project.key_location("kernels"),
                did_you_mean(name, own_modules)
                or "Give the dotted name of a module of the project, or of an installed one.",
            ) from None
    if path.name != "__init__.py":
        return [path]
    return [file for file in walk_files(path.parent) if file.suffix == ".py"]


class _Registering:
    """The modules that register kernels, together."""

    def __init__(self, sources: Sequence[SourceFile]) -> None:
        self._modules = [Module(source) for source in sources]

    def implementations(self) -> Iterator[tuple[str, str, str]]:
        """The op, variant and name of each kernel spec that they make."""
        literals = Literals(lambda name: self._callers.get(name, ()))
        for module in self._modules:
            if SPEC in module.source.text:
                yield from _specs(module, literals)

    @cached_property
    def _callers(self) -> dict[str, list[Call]]:
        calls: dict[str, list[Call]] = {}
        for module in self._modules:
            for call in module.calls:
                calls.setdefault(called_name(call.node), []).append(call)
        return calls


def _specs(module: Module, literals: Literals) -> Iterator[tuple[str, str, str]]:
    """Op, variant and name of each ``KernelSpec(...)``, ``partial(KernelSpec, ...)`` and ``replace(spec, ...)``."""
    names = _names_of(module, SPEC)
    for call in module.calls:
        called = called_name(call.node)
        keywords = {keyword.arg for keyword in call.node.keywords}
        if called in names:
            rows = _rows(literals, call, _SPEC_FIELDS, ("op_name", "variant", "name"))
            yield from ((op, variant, name) for op, variant, name in rows)
        elif called == "partial" and call.node.args and last_name(call.node.args[0]) in names:
            yield ANY, ANY, ANY
        elif called == "replace" and keywords & {"op_name", "variant"}:
            yield ANY, ANY, ANY


def _rows(literals: Literals, call: Call, fields: Sequence[str], wanted: Sequence[str]) -> set[tuple[str, ...]]:
    """The texts that a call passes together for arguments, when its positional ones are called as ``fields`` says."""
    arguments: dict[str, ast.expr] = {}
    for name, argument in zip(fields, call.node.args):
        if isinstance(argument, ast.Starred):
            break
        arguments[name] = argument
    arguments |= {keyword.arg: keyword.value for keyword in call.node.keywords if keyword.arg}
    return {tuple(row) for row in literals.rows([arguments.get(name) for name in wanted], call.scope)}


def _names_of(module: Module, cls: str) -> set[str]:
    """What a module calls a class that it imports, its subclasses in the module included."""
    names = {cls}
    for name, imports in module.index.imports.items():
        names |= {name for _, alias in imports if alias.name == cls}
    for name, definitions in module.index.classes.items():
        bases = {last_name(base) for node in definitions for base in node.bases}
        names |= {name} if bases & names else set()
    return names


def _can_match(required: str, registered: str) -> bool:
    return required == registered or ANY in (required, registered)
