"""A config checked against its upstream module: every declaration resolved, or a problem that names it."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath

from patchgen_core.codegen.added_code import (
    SHADOWING,
    AddedImports,
    PositionedBlock,
    checked_blocks,
    following,
    hidden_problems,
    positioned_blocks,
    unique,
)
from patchgen_core.codegen.decorators import DroppedDecorator, dropped_decorators
from patchgen_core.codegen.edited_targets import compose_edits
from patchgen_core.codegen.imports import import_statement, imported_names
from patchgen_core.codegen.relative_imports import ImportPlaces
from patchgen_core.codegen.removal import excluded_methods, is_removable
from patchgen_core.codegen.replacement_names import settle_names
from patchgen_core.codegen.targets import PlannedHelper, PlannedPatch, Targets
from patchgen_core.config import arguments
from patchgen_core.config.arguments import value_text
from patchgen_core.config.declarations import Allowance, Helper, ImportSpec, Patch
from patchgen_core.config.replacement import Modules, Replacement, read_replacement
from patchgen_core.config.spec import PatchConfig
from patchgen_core.errors import Location, PatchgenError, Problem, did_you_mean
from patchgen_core.files import short_hash
from patchgen_core.syntax.forms import listed
from patchgen_core.syntax.index import ModuleIndex
from patchgen_core.syntax.nodes import Definition, all_methods
from patchgen_core.syntax.source import SourceCache, SourceFile
from patchgen_core.upstream.module import UpstreamModule


@dataclass(frozen=True)
class Plan:
    """All that goes into a generated module; ``label`` is what the config is called."""

    label: str
    config: PatchConfig
    upstream: UpstreamModule
    source: SourceFile
    index: ModuleIndex
    patches: tuple[PlannedPatch, ...]
    helpers: tuple[PlannedHelper, ...]
    imports: tuple[ImportSpec, ...]
    post_import_blocks: tuple[tuple[str, Location], ...]
    positioned_blocks: tuple[PositionedBlock, ...]
    dropped: tuple[str, ...]
    excluded: tuple[str, ...]
    decorators: tuple[DroppedDecorator, ...]

    @property
    def blocks(self) -> tuple[tuple[str, Location], ...]:
        """All blocks of statements, each with its line in the config."""
        return (*self.post_import_blocks, *((block.text, block.location) for block in self.positioned_blocks))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what the config declares, the same on every machine and in any order that makes no difference."""

        def text(replacement: Replacement | None) -> list[object]:
            return [*replacement.comments, replacement.decorators, replacement.text] if replacement else []

        config = self.config
        declared = [
            [self.upstream.module, config.target_file, config.description],
            [
                [
                    *(p.patch.kind, p.patch.target, p.patch.replacement_module, p.patch.replacement_name),
                    *(p.patch.description, p.patch.keep_decorators, text(p.replacement)),
                    *([p.patch.at, p.patch.code, p.patch.count, p.patch.is_before] if p.patch.is_edit else []),
                    *([p.patch.documentation] if p.patch.documentation else []),
                    *p.comments,
                ]
                for planned in sorted(self.patches, key=lambda p: (p.dotted, p.accessor))
                for p in planned.declared
            ],
            [[h.helper.after, text(h.replacement)] for h in self.helpers],
            [import_statement(spec) for spec in unique(config.additional_imports)],
            [[text for text, _ in self.post_import_blocks], *[[b.target, b.text] for b in self.positioned_blocks]],
            [sorted(set(config.drop_imported_names)), sorted(self.excluded), sorted(set(config.dropped_decorators))],
        ]
        return short_hash(json.dumps(declared))


def make_plan(
    config: PatchConfig,
    upstream: UpstreamModule,
    sources: SourceCache,
    modules: Modules,
    label: str = "",
    places: ImportPlaces | None = None,
) -> Plan:
    """Resolve everything a config declares; a PatchgenError has every problem found.

    ``modules`` are the project's, which need not be in ``sys.modules``; ``label`` is what the header calls the config;
    without ``places``, relative imports start from the config.
    """
    return _Planner(config, upstream, sources, modules, places).plan(label)


def list_problems(config: PatchConfig) -> list[Problem]:
    """What is in a config's lists and does not belong there, and declarations that were never finished."""
    problems = []
    for name, kind, made_by in (
        ("patches", Patch, "what the decorators and create_patch_from_external make"),
        ("additional_imports", ImportSpec, "what add_import makes"),
        ("post_import_blocks", str, "source text"),
        ("positioned_blocks", tuple, "pairs of a target and source text"),
        ("helpers", Helper, ""),
        ("positioned_helpers", Helper, "what add_helper_after makes"),
        ("drop_imported_names", str, "names"),
        ("exclude", str, "names"),
        ("dropped_decorators", tuple, "pairs of a target and a decorator's name"),
        ("allowed", Allowance, "what allow makes"),
    ):
        entries = getattr(config, name)
        if not isinstance(entries, list):
            problems.append(Problem(f"config.{name} must be a list, not {value_text(entries)}", config.location))
            continue
        for entry in entries:
            if not isinstance(entry, kind):
                value = repr(entry) if isinstance(entry, (str, int, float)) else ""
                what = f"{type(entry).__name__} {value}".strip()
                problems.append(Problem(f"config.{name} holds {what}", config.location, f"It holds {made_by}."))
                continue
            try:
                _check_entry(entry, config.location)
            except PatchgenError as error:
                problems += error.problems
    for call, location in config.unfinished:
        argument = "edit" if call.startswith("edit_") else "replacement"
        hint = f"Use it as a decorator, or pass {argument}=."
        problems.append(Problem(f"{call} has no replacement", location, hint))
    return problems


def _check_entry(entry: object, location: Location) -> None:
    """An entry made without the DSL's calls gets the checks that they make."""
    if isinstance(entry, Patch):
        at = entry.location or location
        arguments.target("config.patches", entry.target, at)
        arguments.text("description", entry.description, at, empty=True)
        arguments.name_map(entry.name_map, at)
        if entry.kind == "external":
            arguments.text("replacement_module", entry.replacement_module, at)
            arguments.text("replacement_name", entry.replacement_name, at)
    elif isinstance(entry, ImportSpec):
        at = entry.location or location
        arguments.imported(entry.module, entry.names, entry.alias, entry.is_from_import, at)


def _at_use(problem: Problem, patch: Patch) -> Problem:
    """A problem with the target of an edit that targets share is one of the call that gives it to this target."""
    is_own = patch.used_at is not None and problem.location == patch.location
    return replace(problem, location=patch.used_at) if is_own else problem


class _Planner:
    def __init__(
        self,
        config: PatchConfig,
        upstream: UpstreamModule,
        sources: SourceCache,
        modules: Modules,
        places: ImportPlaces | None,
    ) -> None:
        self.places = places
        self.config, self.upstream, self.sources, self.modules = config, upstream, sources, modules
        self.source = sources.get(upstream.path)
        self.index = self.source.index
        self.targets = Targets(upstream.module, self.source.tree, self.index, sources, modules)
        self.problems: list[Problem] = []
        self.excluded = tuple(unique(config.exclude))

    def plan(self, label: str) -> Plan:
        for name in ("source_module", "target_file"):
            arguments.text(name, getattr(self.config, name), self.config.location)
        arguments.text("description", self.config.description, self.config.location, empty=True)
        problems = list_problems(self.config)
        if problems:
            raise PatchgenError.from_problems(problems)
        self._check_version_and_file()
        self._check_excluded()
        dropped = self._dropped()
        decorators, bad_decorators = dropped_decorators(self.config, self.targets)
        patches = self._patches()
        helpers = self._helpers()
        added = AddedImports(self.source.tree, self.index, self.upstream.package, dropped, self.excluded)
        imports, bad_imports = added.plan(self.config.additional_imports)
        inserted, bad_blocks = checked_blocks(self.config, self.places)
        bad_blocks += hidden_problems(inserted, self.source, self.index, self.excluded)
        positioned, bad_places = positioned_blocks(self.config, self.index, self.excluded, self.places)
        patches, helpers, bad_names = settle_names(patches, helpers, self.places)
        patches, bad_edits = compose_edits(patches, self.source, self.upstream.package)
        self.problems += [*bad_imports, *bad_blocks, *bad_places, *bad_names, *bad_edits, *bad_decorators]
        if self.problems:
            self.problems.sort(key=lambda p: (p.location.file, p.location.line) if p.location else ("", 0))
            raise PatchgenError.from_problems(self.problems)
        return Plan(
            label=label,
            config=self.config,
            upstream=self.upstream,
            source=self.source,
            index=self.index,
            patches=tuple(patches),
            helpers=tuple(helpers),
            imports=imports,
            post_import_blocks=inserted,
            positioned_blocks=positioned,
            dropped=dropped,
            excluded=self.excluded,
            decorators=decorators,
        )

    def _fail(self, message: str, location: Location | None, hint: str = "") -> None:
        self.problems.append(Problem(message, location, hint))

    # --- the config as a whole -------------------------------------------------------------------------

    def _check_version_and_file(self) -> None:
        required, version = self.config.transformers_version, self.upstream.version
        if required is not None and required != version:
            self._fail(
                f"this config is for {self.upstream.distribution} {required}, but {version} is there",
                self.config.location,
                "Install that version, or adapt the config and its transformers_version.",
            )
        path = PurePosixPath(self.config.target_file.replace("\\", "/"))
        is_odd = re.search(r"[\x00-\x1f\\:]", self.config.target_file) or any(len(part) > 200 for part in path.parts)
        if is_odd or path.is_absolute() or ".." in path.parts or path.suffix != ".py":
            self._fail(
                f"target_file '{self.config.target_file}' is not a .py file inside the output folder",
                self.config.place_of("target_file"),
                "Give a plain file name, such as 'patched_modeling_qwen3_gpu.py'.",
            )

    def _check_excluded(self) -> None:
        definitions = {*self.index.definitions, *self.index.assigned}
        for name in self.excluded:
            location = self.config.location_of("exclude_from_output", name)
            stuck = next((s for s in self.index.assigned.get(name, ()) if not is_removable(s, name)), None)
            if stuck is not None:
                message = (
                    f"exclude_from_output: '{name}' cannot be taken out of '{ast.unparse(stuck).splitlines()[0]}'"
                )
                self._fail(message, location, f"That is line {stuck.lineno} of upstream's module.")
            if name in definitions or excluded_methods(self.index, name):
                continue
            cls, _, method = name.partition(".")
            if name in self.index.imports:
                hint = "Upstream imports it: use drop_import_names."
            elif cls in self.index.classes:
                own = [function.name for node in self.index.classes[cls] for function in all_methods(node)]
                hint = did_you_mean(method, own) or f"Methods of '{cls}' are: {listed(own)}."
            else:
                hint = did_you_mean(name, definitions)
            self._fail(f"exclude_from_output: upstream defines no '{name}'", location, hint)

    def _dropped(self) -> tuple[str, ...]:
        dropped = []
        for name in unique(self.config.drop_imported_names):
            location = self.config.location_of("drop_import_names", name)
            if name in self.index.imports:
                dropped.append(name)
            elif name not in self.index.names:  # what upstream itself defines is no error, but of no effect
                hint = did_you_mean(name, self.index.imports)
                self._fail(f"drop_import_names: upstream does not know '{name}'", location, hint)
        return tuple(dropped)

    # --- patches ---------------------------------------------------------------------------------------

    def _patches(self) -> list[PlannedPatch]:
        planned: list[PlannedPatch] = []
        first: dict[str, Patch] = {}
        for declared in unique(self.config.patches):
            try:
                resolved = self.targets.resolve(declared)
                self._check_conflict(resolved, first)
            except PatchgenError as error:
                problems = [_at_use(problem, declared) for problem in error.problems]
                self.problems += [problem for problem in problems if problem not in self.problems]
                continue
            planned.append(resolved)
        return planned

    def _check_conflict(self, planned: PlannedPatch, first: dict[str, Patch]) -> None:
        patch = planned.patch
        cls = patch.target.split(".")[0]
        gone = next((name for name in (cls, planned.dotted) if name in self.excluded), None)
        if gone is not None:
            raise PatchgenError(
                f"'{patch.target}' is patched, but '{gone}' is excluded from the output",
                patch.location,
                "Remove the patch or the exclusion.",
            )
        key = ".".join(filter(None, (planned.dotted, planned.accessor)))
        other = first.get(key)
        if other is not None and not (patch.is_edit and other.is_edit):
            message = f"'{key}' is patched twice, first at {other.location}"
            hint = "One target takes one patch: put both changes into it."
            if other.is_edit or patch.is_edit:
                message = f"'{key}' is edited and replaced, first at {other.location}"
                hint = "Put the edit into the replacement."
            raise PatchgenError(message, patch.location, hint)
        if planned.method and cls in first and not first[cls].is_edit:
            raise PatchgenError(
                f"'{key}' is patched, but '{cls}' is replaced at {first[cls].location}",
                patch.location,
                "Put the method into the replacement.",
            )
        whole = [k for k in first if k.startswith(f"{key}.")] if not planned.method and not patch.is_edit else []
        if whole:
            raise PatchgenError(
                f"'{key}' is replaced, but '{whole[0]}' is patched at {first[whole[0]].location}",
                patch.location,
                "Put the method into the replacement.",
            )
        first[key] = patch

    # --- helpers, and the names everything goes by -----------------------------------------------------

    def _helpers(self) -> list[PlannedHelper]:
        planned: list[PlannedHelper] = []
        taken: dict[str, Helper] = {}
        for helper in unique([*self.config.helpers, *self.config.positioned_helpers]):
            try:
                planned.append(self._plan_helper(helper, taken))
            except PatchgenError as error:
                self.problems += error.problems
        return planned

    def _plan_helper(self, helper: Helper, taken: dict[str, Helper]) -> PlannedHelper:
        location = helper.location or self.config.location
        replacement = read_replacement(helper.definition, self.sources, self.modules, location)
        name = PlannedHelper(helper, replacement).name
        if name in taken:
            raise PatchgenError(
                f"two helpers are called '{name}', the first at {taken[name].location}", location, "Rename one."
            )
        taken[name] = helper
        if name in self.index.definitions and name not in self.excluded:
            raise PatchgenError(
                f"helper '{name}' has the name of an upstream definition",
                location,
                "Rename it, or replace upstream's with replace_class or replace_function.",
                code=SHADOWING,
            )
        self._check_helper_name(name, location)
        after: tuple[Definition, ...] = ()
        if helper.after is not None:
            after = following(
                "add_helper_after", helper.after, location, self.index, self.excluded, self.upstream.module
            )
        return PlannedHelper(helper, replacement, after)

    def _check_helper_name(self, name: str, location: Location) -> None:
        if name in self.index.imports and name not in self.config.drop_imported_names:
            hint = f"Rename it, or add config.drop_import_names({name!r})."
            raise PatchgenError(f"helper '{name}' has the name of an upstream import", location, hint, code=SHADOWING)
        if name in self.index.assigned and name not in (*self.excluded, *self.config.drop_imported_names):
            hint = f"Rename it, or add config.exclude_from_output({name!r})."
            raise PatchgenError(
                f"helper '{name}' has the name of an upstream constant", location, hint, code=SHADOWING
            )
        for spec in self.config.additional_imports:
            if name in imported_names(spec):
                message = f"helper '{name}' has the name of the import added at {spec.location}"
                raise PatchgenError(message, location, "Rename it, or import under an alias.")
