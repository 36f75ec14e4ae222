"""The replacements of a project, each with the patches that it is of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchgen_core.build.artifacts import make_outcomes
from patchgen_core.build.hand_edits import find_hand_edit
from patchgen_core.build.results import Artifact
from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.syntax.nodes import FUNCTIONS, Function, methods

_REPLACEMENTS = ("method_override", "function_replacement")


@dataclass(frozen=True)
class Use:
    """A patch of a config whose replacement is a function."""

    loaded: LoadedConfig
    planned: PlannedPatch

    @property
    def function(self) -> Function | None:
        """Upstream's own text of what it replaces; None where it has none, or several, or where edits cannot be."""
        planned = self.planned
        if planned.patch.kind not in _REPLACEMENTS or planned.added or len(planned.nodes) != 1:
            return None
        [node] = planned.nodes
        if not planned.method:
            return node if isinstance(node, FUNCTIONS) else None
        functions = methods(node, planned.method, planned.accessor)
        return functions[0] if len(functions) == 1 else None


@dataclass
class Uses:
    """The patches that one definition is the replacement of; ``has_others`` says that it is a helper as well."""

    location: Location
    entries: list[Use] = field(default_factory=list)
    has_others: bool = False

    @property
    def configs(self) -> list[LoadedConfig]:
        """The configs that have it, each once."""
        return list({entry.loaded.label: entry.loaded for entry in self.entries}.values())


class ProjectUses:
    """What the configs of a project make, and what they make it of.

    Args:
        is_new: the selected configs are not written yet, and so no other config uses what they declare.
        file: the one file whose definitions are of interest; of the other configs only those count that execute it.

    Attributes:
        artifacts: by the labels of configs; without those that make nothing.
        hand_edited: the labels of those whose generated file was edited by hand.
        uses: by the line of each definition.

    Raises:
        PatchgenError: one of those that are selected makes nothing, or its generated file was edited by hand.
    """

    def __init__(
        self,
        project: Project,
        loader: Loader,
        selected: Sequence[LoadedConfig],
        is_new: bool = False,
        file: Path | None = None,
    ) -> None:
        labels = {loaded.label for loaded in selected}
        others = [] if is_new else [loaded for loaded in _load_all(project, loader) if loaded.label not in labels]
        if file is not None:
            others = [loaded for loaded in others if _executes(loaded, file)]
        self.artifacts: dict[str, Artifact] = {}
        self.hand_edited: set[str] = set()
        configs = [*selected, *others]
        for loaded, outcome in zip(configs, make_outcomes(project, configs, loader.sources), strict=True):
            is_selected = loaded.label in labels
            if outcome.artifact is None:
                if is_selected:
                    raise PatchgenError.from_problems(outcome.problems)
                continue
            edit = None if is_new else find_hand_edit(outcome.artifact)
            if edit is not None and is_selected:
                raise PatchgenError.from_problems([edit.problem(str(loaded.path))])
            self.hand_edited |= {loaded.label} if edit is not None else set()
            self.artifacts[loaded.label] = outcome.artifact
        self.uses = _collect(configs, self.artifacts)


def _load_all(project: Project, loader: Loader) -> Iterator[LoadedConfig]:
    for path in project.find_configs():
        try:
            yield from loader.load(path)
        except PatchgenError:  # the gate tells
            continue


def _executes(loaded: LoadedConfig, file: Path) -> bool:
    """Whether a config's loading executes a file."""
    return any(namespace.get("__file__") == str(file) for namespace in loaded.modules.values())


def _collect(configs: Iterable[LoadedConfig], artifacts: Mapping[str, Artifact]) -> dict[Location, Uses]:
    uses: dict[Location, Uses] = {}
    for loaded in configs:
        artifact = artifacts.get(loaded.label)
        if artifact is None:
            continue
        for planned in artifact.plan.patches:
            replacements = [part.replacement for part in planned.declared]
            for replacement in filter(None, replacements):
                entry = uses.setdefault(replacement.location, Uses(replacement.location))
                if planned.patch.is_edit or planned.patch.kind not in _REPLACEMENTS:
                    entry.has_others = True
                else:
                    entry.entries.append(Use(loaded, planned))
        for helper in artifact.plan.helpers:
            location = helper.replacement.location
            uses.setdefault(location, Uses(location)).has_others = True
    return uses
