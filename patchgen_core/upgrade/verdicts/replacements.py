"""A config's replacements as the generated module has them, and the names that the config adds to it."""

from __future__ import annotations

import ast
import copy
import textwrap
from dataclasses import dataclass, replace
from functools import cached_property

from patchgen_core.codegen.added_code import import_source, unique
from patchgen_core.codegen.edit_checks import bound_names
from patchgen_core.codegen.edited_targets import edited_function
from patchgen_core.codegen.imports import imported_names
from patchgen_core.codegen.renaming import map_prefixes, rename_definition
from patchgen_core.codegen.replacement_names import settle_names
from patchgen_core.codegen.targets import PlannedHelper, PlannedPatch, Targets
from patchgen_core.config.declarations import Patch
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.config.replacement import Replacement, read_replacement
from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.forms import PROSE, is_same_code
from patchgen_core.syntax.index import index_module
from patchgen_core.syntax.nodes import FUNCTIONS, Definition, Function, all_methods, without_docstring
from patchgen_core.syntax.patterns import parse_quoted
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.carrying.carried_edit import DeclaredEdit
from patchgen_core.upgrade.release_module import ReleaseModule
from patchgen_core.upgrade.verdicts.module_view import ModuleView, TargetName, read_target_name

WHOLE = ("class_replacement", "function_replacement", "external")
"""The patches that take a whole class or function's place."""


@dataclass(frozen=True)
class PatchReplacement:
    """A patch and what it puts in its target's place: `node`, as the generated module has it, with its own decorators;
    None for an external replacement, and for one that cannot be read. Of an edit, `node` is a function of the target's
    parameters with the edit's code."""

    patch: Patch
    target_name: TargetName
    node: Definition | None
    edit: DeclaredEdit | None = None

    @property
    def functions(self) -> list[tuple[str, Function]]:
        """The functions that it consists of, each with the name that reports call it."""
        if isinstance(self.node, ast.ClassDef):
            return [(f"{self.target_name.name}.{f.name}", f) for f in all_methods(self.node)]
        return [(self.target_name.dotted, self.node)] if isinstance(self.node, FUNCTIONS) else []

    @property
    def cls(self) -> str:
        """The class that it is about; empty for a function."""
        return self.target_name.name if self.target_name.method or isinstance(self.node, ast.ClassDef) else ""


class ConfigReplacements:
    """What a config puts into the generated module; the first of `views` is the release that replacements know."""

    def __init__(self, loaded: LoadedConfig, views: tuple[ModuleView, ...], sources: SourceCache) -> None:
        self.loaded, self.config, self.views, self.sources = loaded, loaded.config, views, sources

    @cached_property
    def patches(self) -> tuple[PatchReplacement, ...]:
        """Every patch, each once, in the order of the config."""
        location = self.config.location
        declared = [p if p.location else replace(p, location=location) for p in unique(self.config.patches)]
        planned = [plan for patch in declared if (plan := self._plan(patch)) is not None]
        settled, _, _ = settle_names(planned, self._helpers)
        edits = {id(entry.patch): DeclaredEdit(entry) for entry in planned if entry.patch.is_edit}
        nodes = {id(entry.patch): _parsed(entry) for entry in settled}
        return tuple(
            PatchReplacement(patch, read_target_name(patch), nodes.get(id(patch)), edits.get(id(patch)))
            for patch in declared
        )

    def _plan(self, patch: Patch) -> PlannedPatch | None:
        plans = (resolve_patch(view.side, patch, self.loaded, self.sources) for view in self.views)
        return next((plan for plan in plans if plan is not None), None)

    @cached_property
    def _helpers(self) -> list[PlannedHelper]:
        return read_helpers(self.loaded, self.sources)

    @cached_property
    def helpers(self) -> dict[str, PlannedHelper]:
        """Its helpers by the names that the generated module calls them."""
        return {helper.name: helper for helper in self._helpers}

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """What it imports: by name, the module and what of it."""
        specs = self.config.additional_imports
        return {name: import_source(spec, name) for spec in specs for name in imported_names(spec)}

    @cached_property
    def added(self) -> frozenset[str]:
        """The names that it binds at the module's top level."""
        blocks: set[str] = set()
        for block in (*self.config.post_import_blocks, *(code for _, code in self.config.positioned_blocks)):
            blocks |= _bound_in(block)
        return frozenset({*self.helpers, *self.imports, *blocks})

    @cached_property
    def targets(self) -> frozenset[str]:
        """What it patches, as reports name it."""
        return frozenset(entry.target_name.dotted for entry in self.patches)


def resolve_patch(
    side: ReleaseModule, patch: Patch, loaded: LoadedConfig, sources: SourceCache
) -> PlannedPatch | None:
    """A patch with its replacement and the definitions of a release that it is of; None where it has none there."""
    targets = Targets(side.upstream.module, side.source.tree, side.source.index, sources, loaded.modules)
    try:
        return targets.resolve(patch)
    except PatchgenError:
        return None


def read_helpers(loaded: LoadedConfig, sources: SourceCache) -> list[PlannedHelper]:
    """The helpers of a config whose source can be read, each once; generating tells of the others."""
    helpers = []
    for helper in unique([*loaded.config.helpers, *loaded.config.positioned_helpers]):
        location = helper.location or loaded.config.location
        try:
            replacement = read_replacement(helper.definition, sources, loaded.modules, location)
        except PatchgenError:
            continue
        helpers.append(PlannedHelper(helper, replacement))
    return helpers


def _parsed(planned: PlannedPatch) -> Definition | None:
    replacement = planned.replacement
    if planned.patch.is_edit and planned.patch.kind != "class_edit":
        return edit_node(planned)
    if replacement is None:
        return None
    tree = ast.parse("\n".join([*replacement.decorators, replacement.text]))
    node = tree.body[0]
    return node if isinstance(node, (ast.ClassDef, *FUNCTIONS)) else None


def edit_node(planned: PlannedPatch) -> Definition | None:
    """A function with the code of an edit, and as parameters the names that its target binds; None for no code."""
    function = edited_function(planned)
    if function is None:
        return None
    if planned.replacement is not None:
        body = without_docstring(ast.parse(planned.replacement.text).body[0])
    elif planned.patch.kind == "code_replacement":
        body = _quoted_body(map_prefixes(planned.patch.code, planned.patch.name_map))
    else:
        return None
    if not body:
        return None
    parameters = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    others = sorted(bound_names(function, ()) - parameters)
    arguments = copy.copy(function.args)
    arguments.kwonlyargs = [*arguments.kwonlyargs, *(ast.arg(name) for name in others)]
    arguments.kw_defaults = [*arguments.kw_defaults, *(None for _ in others)]
    fields = {**dict(ast.iter_fields(function)), "args": arguments, "body": body, "decorator_list": []}
    return ast.copy_location(type(function)(**fields), function)


def _quoted_body(code: str) -> list[ast.stmt]:
    try:
        return parse_quoted(code)
    except SyntaxError:  # told when the config is generated
        return []


def is_replacement(upstream: Definition, package: str, ours: Replacement) -> bool:
    """Whether a definition of upstream's is what a replacement is, up to its name, docstring and annotations."""
    text = "\n".join([*ours.decorators, rename_definition(ours, upstream.name).text])
    return is_same_code(ast.parse(text).body[0], upstream, (ours.package, package), PROSE)


def _bound_in(block: str) -> set[str]:
    try:
        return index_module(ast.parse(textwrap.dedent(block))).names
    except SyntaxError:
        return set()
