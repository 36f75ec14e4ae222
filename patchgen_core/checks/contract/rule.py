"""What a rule is, what it looks at and what it finds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Literal

from patchgen_core.build.results import Artifact
from patchgen_core.checks.contract.callers import Callers
from patchgen_core.checks.contract.kernels import Kernels, Registries
from patchgen_core.checks.contract.library import Library
from patchgen_core.checks.contract.own_modules import OwnModules
from patchgen_core.checks.project_code import ProjectCode
from patchgen_core.codegen.edited_lines import EditedLine, find_edited_lines
from patchgen_core.codegen.plan import Plan
from patchgen_core.codegen.targets import PlannedHelper, PlannedPatch
from patchgen_core.errors import Location
from patchgen_core.project.project import Project
from patchgen_core.syntax.classes import Class
from patchgen_core.syntax.inference import Inference
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS, Definition, Function, all_methods, last_name, methods

Severity = Literal["error", "warning"]
Weight = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """What a rule found.

    Attributes:
        message: what is wrong, naming the names. One sentence without a full stop.
        node: where it shows in the generated module; None when it does not.
        target: what it is about: ``Class.method``, ``function`` or a name.
        declared: the declaration that is to blame, when it is not the one that ``node`` comes from.
        is_upstream: whether upstream has it as well, untouched by the config. Such a finding is a warning.
        weight: how much it matters, when that is not as its rule says; a note is only shown with ``-v``.
    """

    message: str
    hint: str
    node: ast.AST | None
    target: str
    declared: Location | None = None
    is_upstream: bool = False
    weight: Weight | None = None


@dataclass(frozen=True)
class Example:
    """A config that is run to show a rule.

    Attributes:
        text: the config below ``config = PatchConfig(...)``.
        old: upstream's module when the checked-in files were made; the same as ``upstream`` by default.
        files: more files, by path: ``upstream/...`` beside upstream's module, others in the project.
        settings: more lines of ``[tool.patchgen]``.
        module: the module of transformers that is upstream, instead of ``upstream``.
    """

    text: str
    upstream: str
    old: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    settings: str = ""
    module: str = ""


@dataclass(frozen=True)
class Rule:
    """One rule: a static one, or one that parity checks by running models.

    Attributes:
        code: ``PG2xx``, or ``PG3xx`` for what parity finds; never given to another rule.
        severity: an error makes a run red.
        reason: why what it finds breaks training, in one paragraph.
        check: what looks for it in the text.
    """

    code: str
    name: str
    severity: Severity
    reason: str
    failing: Example
    passing: Example
    check: Callable[[Subject], Iterable[Finding]]


@dataclass(frozen=True)
class Replaced:
    """A function whose text comes from the config.

    ``upstream`` is what upstream has in its place, in the class itself or in a base; None when it has nothing.
    """

    dotted: str
    node: Function
    upstream: Function | None
    patch: PlannedPatch


@dataclass(frozen=True, eq=False)
class Subject:
    """What rules look at: one generated module beside upstream's and the config that made it.

    ``library`` holds other modules on disk, ``kernels`` those that the project's modules register, ``registries``
    those of packages with slots of their own; ``own_modules`` knows the files of the project's packages, and ``code``
    what all its files say.
    """

    project: Project
    artifact: Artifact
    generated: Module
    upstream: Module
    library: Library
    kernels: Kernels
    registries: Registries
    own_modules: OwnModules
    code: ProjectCode

    def release(self) -> None:
        """Forget what was found out: some of that refers to this object. It then goes as soon as nobody holds it, and
        not only when Python looks for circles."""
        for name in self.__dict__.keys() - {each.name for each in fields(self)}:
            del self.__dict__[name]

    @property
    def plan(self) -> Plan:
        """What went in."""
        return self.artifact.plan

    @cached_property
    def patches(self) -> dict[str, PlannedPatch]:
        """The patches by what the generated module calls their results."""
        return {patch.dotted: patch for patch in self.plan.patches}

    @cached_property
    def helpers(self) -> dict[str, PlannedHelper]:
        """The helpers by name."""
        return {helper.name: helper for helper in self.plan.helpers}

    @cached_property
    def added(self) -> set[str]:
        """The classes and functions that post-import blocks define."""
        trees = (ast.parse(block) for block, _ in self.plan.blocks)
        return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, DEFINITIONS)}

    def patch_of(self, owner: str) -> PlannedPatch | None:
        """The patch that a class, method or function of the generated module comes from; None for upstream's."""
        whole = self.patches.get(owner.partition(".")[0])
        is_edited = whole is not None and whole.edits and isinstance(whole.nodes[0], ast.ClassDef)
        return self.patches.get(owner) or (None if is_edited else whole)

    def is_own(self, owner: str, node: ast.AST | None = None) -> bool:
        """Whether a class, method or function comes from the config, be it as a patch or as an addition.

        With a ``node`` of one that is edited: whether an edit wrote that.
        """
        name, patch = owner.partition(".")[0], self.patch_of(owner)
        if patch is not None and patch.edits and node is not None:
            return getattr(node, "lineno", 0) in self.edited_lines
        return patch is not None or name in self.helpers or name in self.added

    @cached_property
    def edited_lines(self) -> dict[int, EditedLine]:
        """The lines of the generated module that edits wrote."""
        return find_edited_lines(self.plan.patches, self.generated.source)

    @cached_property
    def inference(self) -> Inference:
        """What the generated module's expressions are; follows the imports of external patches."""
        external = {p.patch.target: p.patch for p in self.plan.patches if p.patch.kind == "external"}

        def follow(name: str) -> tuple[Module, ast.AST] | None:
            patch = external.get(name)
            return self.library.find(patch.replacement_module, patch.replacement_name) if patch else None

        return Inference(self.generated, follow)

    @cached_property
    def callers(self) -> Callers:
        """Who calls the generated module's functions."""
        return Callers(self.inference, self.library, self.upstream.name.partition(".")[0], self.is_own)

    @property
    def upstream_inference(self) -> Inference:
        """What the expressions of upstream's module are."""
        return self.upstream.once(_infer, self.upstream.tree)

    @cached_property
    def replaced(self) -> tuple[Replaced, ...]:
        """Every method and function that a patch gave a text of the config's, the methods of replaced classes too."""
        replaced = []
        for patch in self.plan.patches:
            if patch.replacement is None:
                continue
            for dotted, node in self._functions(patch):
                kind = _kind(node)
                if kind != "overload":
                    replaced.append(Replaced(dotted, node, self._counterpart(dotted, kind), patch))
        return tuple(replaced)

    def _functions(self, patch: PlannedPatch) -> list[tuple[str, Function]]:
        name = patch.dotted.partition(".")[0]
        definitions: list[Definition] = self.generated.index.definitions.get(name, [])
        if not patch.method:
            if patch.kind in ("function_replacement", "function_edit"):
                return [(name, node) for node in definitions if isinstance(node, FUNCTIONS)]
            return [(f"{name}.{f.name}", f) for node in definitions for f in all_methods(node)]
        functions = [f for node in definitions for f in all_methods(node) if f.name == patch.method]
        return [(patch.dotted, f) for f in functions if _kind(f) == patch.accessor]

    def _counterpart(self, dotted: str, accessor: str) -> Function | None:
        name, _, method = dotted.partition(".")
        if not method:
            return self.upstream.function(dotted)
        if accessor:
            functions = [
                f for node in self.upstream.index.definitions.get(name, []) for f in methods(node, method, accessor)
            ]
            return functions[0] if len(functions) == 1 else None
        own = self.upstream.function(dotted)
        if own is not None:
            return own
        cls = self.upstream.cls(name)
        if cls is None:
            return None
        inherited = self.upstream_inference.find_method(Class(self.upstream, cls), method)
        return inherited[1] if inherited else None

    def from_elsewhere(self, dotted: str) -> tuple[Module, Function] | None:
        """The method that an upstream class has from a direct base of another module, such as a generic head."""
        name, _, method = dotted.partition(".")
        cls = self.upstream.cls(name)
        for base in cls.bases if cls is not None else ():
            definition = self.library.find(self.upstream.name, last_name(base))
            if definition is not None and isinstance(definition[1], ast.ClassDef):
                function = definition[0].function(f"{definition[1].name}.{method}")
                if function is not None:
                    return definition[0], function
        return None


def _infer(module: Module, tree: ast.Module) -> Inference:
    return Inference(module)


def _kind(function: Function) -> str:
    """``setter``, ``deleter`` or ``overload`` for a function that a decorator makes one; else empty."""
    marks = {last_name(decorator) for decorator in function.decorator_list}
    return next((kind for kind in ("overload", "setter", "deleter") if kind in marks), "")
