"""Replacements carried over from one release of upstream to another."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from patchgen_core.authoring.edits.needed_imports import missing_imports
from patchgen_core.codegen.imports import absolute_imports
from patchgen_core.codegen.renaming import map_prefixes, rename_definition, rename_globals
from patchgen_core.codegen.replacement_names import generated_names
from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.config.declarations import EDITS, Patch
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.config.replacement import Replacement
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.syntax.diffs import unified_diff
from patchgen_core.syntax.nodes import FUNCTIONS, Definition, methods, string_lines
from patchgen_core.syntax.source import SourceCache, shift
from patchgen_core.upgrade.carrying.carried_edit import CarriedEdit, DeclaredEdit
from patchgen_core.upgrade.carrying.carry import carry_edit
from patchgen_core.upgrade.carrying.same_effect import Releases, find_doubts_of
from patchgen_core.upgrade.merging.merge import mark_conflicts, merge_definition
from patchgen_core.upgrade.moves.put_back import put_back
from patchgen_core.upgrade.moves.release_functions import ReleaseFunctions
from patchgen_core.upgrade.package_configs import patches_of
from patchgen_core.upgrade.rebasing_deleted import settle_made
from patchgen_core.upgrade.rebasing_edits import rebase_edit
from patchgen_core.upgrade.rebasing_together import rebase_together
from patchgen_core.upgrade.release_module import ReleaseModule
from patchgen_core.upgrade.results import Kind, Merged, PatchVerdict, Rebase
from patchgen_core.upgrade.verdicts.deprecated_targets import deprecation
from patchgen_core.upgrade.verdicts.edit_verdicts import definition_of, other_functions
from patchgen_core.upgrade.verdicts.module_view import read_target_name, view_of
from patchgen_core.upgrade.verdicts.replacements import ConfigReplacements, read_helpers, resolve_patch
from patchgen_core.upgrade.verdicts.target_verdicts import is_upstreams

CARRIED: tuple[Kind, ...] = ("changed", "signature changed", "decorators changed", "moved")
"""The verdicts on a target after which there may be something to carry over."""
EDITS_CARRIED: tuple[Kind, ...] = ("moved", "place moved", "place changed")
"""The verdicts on an edit's target after which there may be something to carry over."""
_MADE: tuple[Kind, ...] = ("now upstream", "place changed", "place ambiguous", "place gone")
"""The verdicts on an edit's target after which upstream may have made the edit itself."""
_COPIES = ("method_override", "class_replacement", "function_replacement")


@dataclass(frozen=True)
class Texts:
    """The texts of a patch that are merged, in the config's words, with decorators if the replacement has its own."""

    replacement: Replacement
    base: str
    ours: str
    theirs: str

    @property
    def is_unchanged(self) -> bool:
        """Whether upstream's two say the same."""
        return ast.dump(ast.parse(self.base)) == ast.dump(ast.parse(self.theirs))


class Rebaser:
    """Carries the replacements of one config over."""

    def __init__(self, loaded: LoadedConfig, old: ReleaseModule, new: ReleaseModule, sources: SourceCache) -> None:
        self.loaded, self.old, self.new, self.sources = loaded, old, new, sources
        self._patches = patches_of(loaded)
        self._helpers = tuple(read_helpers(loaded, sources))
        resolved = (resolve_patch(old, patch, loaded, sources) for patch in self._patches)
        self._planned = [planned for planned in resolved if planned is not None]

    def rebase(self, verdict: PatchVerdict) -> Rebase | None:
        """A patch's replacement as it would be for the new release; None where there is nothing to carry over."""
        patch = next((p for p in self._patches if is_on(verdict, p, self.loaded)), None)
        if patch is not None and patch.is_edit:
            return self._rebase_edit(patch, verdict)
        texts = self.texts(patch, verdict.new_name) if patch is not None and verdict.verdict in CARRIED else None
        if patch is None or texts is None or (texts.is_unchanged and verdict.verdict != "moved"):
            return None
        ours, text = texts.replacement, texts.ours
        merged = self._as_it_is(patch, verdict, text) or self.merge(patch, texts)
        file = self.sources.get(Path(ours.location.file))
        needs = missing_imports(merged.text, file, self.new.source, self.new.upstream) if merged.text != text else ()
        diff = unified_diff(f"{text}\n", f"{merged.text}\n", ours.name, f"{ours.name} (carried over)")
        marked = "" if merged.is_clean else mark_conflicts(text, merged)
        return Rebase(ours.location, text, merged, diff, marked, needs)

    def merge(self, patch: Patch, texts: Texts) -> Merged:
        """The merge of a patch's texts. Where it has conflicts, code that upstream only moved between functions is put
        back, if it merges cleanly then."""
        merged = merge_definition(texts.base, texts.ours, texts.theirs)
        if merged.is_clean or texts.replacement.is_class:
            return merged
        functions = ReleaseFunctions(read_target_name(patch), view_of(self.old), view_of(self.new))
        result = put_back(texts.base, texts.theirs, functions)
        if result.text == texts.theirs or not self._calls_the_same(texts.ours, result.calls, functions):
            return merged
        again = merge_definition(texts.base, texts.ours, result.text)
        how = "kept" if again.how == "same" else again.how
        return replace(again, how=how, notes=(*result.notes, *again.notes)) if again.is_clean else merged

    def _calls_the_same(self, ours: str, calls: Sequence[ast.Call], functions: ReleaseFunctions) -> bool:
        """Whether a replacement calls functions with what upstream passed to them, or the project's own instead."""
        own = [node for node in ast.walk(ast.parse(ours)) if isinstance(node, ast.Call)]
        replaced = {planned.dotted for planned in self._planned if planned.patch.kind in _COPIES}
        for call in calls:
            same = [node for node in own if ast.dump(node.func) == ast.dump(call.func)]
            is_own = functions.dotted(call) in replaced
            if not same or not (is_own or all(ast.dump(node) == ast.dump(call) for node in same)):
                return False
        return True

    def _as_it_is(self, patch: Patch | None, verdict: PatchVerdict, text: str) -> Merged | None:
        """A replacement that need not be merged, since upstream's function is there for others alone now; None where
        it must be, or what it relies on must change."""
        is_broken = any(finding.risk == "must change" for finding in verdict.findings)
        if patch is None or verdict.verdict != "changed" or is_broken:
            return None
        reason = deprecation(read_target_name(patch), view_of(self.old), view_of(self.new))
        return Merged(text, "kept", notes=(reason,)) if reason else None

    def _rebase_edit(self, patch: Patch, verdict: PatchVerdict) -> Rebase | None:
        """An edit as it would be for the new release; None where there is nothing to carry over."""
        planned = resolve_patch(self.old, patch, self.loaded, self.sources)
        if planned is None or verdict.verdict not in EDITS_CARRIED or patch.kind == "class_edit":
            return None
        edit, old, new = DeclaredEdit(planned), view_of(self.old), view_of(self.new)
        name = read_target_name(patch)
        target = read_target_name(replace(patch, target=verdict.new_name)) if verdict.verdict == "moved" else name
        before, after = definition_of(old.find(name)), definition_of(new.find(target))
        if before is None or after is None:
            return None
        carried = carry_edit(edit, before, after, other_functions(old, new, name))
        return rebase_edit(carried, edit, self.new, self.sources)

    def settle_deprecated(self, verdicts: Sequence[PatchVerdict]) -> list[PatchVerdict]:
        """The verdicts; a patch that stays since upstream deprecated its target is to review where nothing calls it
        once the others are carried over."""
        results = []
        for verdict in verdicts:
            is_kept = verdict.rebase is not None and verdict.rebase.merged.how == "kept"
            if is_kept and verdict.findings[0].risk == "safe" and not self._is_called(verdict, verdicts):
                detail = f"{verdict.findings[0].detail}, but not once it is carried over: then nothing does"
                finding = replace(verdict.findings[0], detail=detail, risk="review")
                verdict = replace(verdict, findings=(finding, *verdict.findings[1:]), risk="review")
            results.append(verdict)
        return results

    def _is_called(self, verdict: PatchVerdict, verdicts: Sequence[PatchVerdict]) -> bool:
        """Whether another patch, carried over, has the name of a patch's target."""
        word = re.compile(rf"\b{verdict.target.rpartition('.')[2]}\b")
        merged = {
            v.target: v.rebase.merged.text for v in verdicts if v.rebase is not None and v.rebase.merged.is_clean
        }
        return any(
            word.search(merged.get(planned.patch.target, planned.replacement.text))
            for planned in self._planned
            if planned.replacement is not None and planned.patch.target != verdict.target
        )

    def settle_made(self, verdicts: Sequence[PatchVerdict]) -> list[PatchVerdict]:
        """The verdicts; edits that upstream has made by itself by now go where that is certain, and else are
        conflicts."""
        results = list(verdicts)
        for target in dict.fromkeys(v.target for v in verdicts if v.verdict in _MADE and v.kind in EDITS):
            patches = [patch for patch in self._patches if patch.target == target and patch.is_edit]
            numbers = [next(n for n, v in enumerate(results) if is_on(v, p, self.loaded)) for p in patches]
            planned = [resolve_patch(self.old, patch, self.loaded, self.sources) for patch in patches]
            edits = [DeclaredEdit(plan) for plan in planned if plan is not None]
            sides = self._definitions(patches[0])
            if sides is None or len(edits) < len(patches) or not isinstance(sides[1].node, FUNCTIONS):
                continue
            carried = self._carry(edits, sides)
            group = [results[number] for number in numbers]
            settled = settle_made(group, edits, carried, sides, self._is_upstreams, self.new, self.sources)
            for number, verdict in zip(numbers, settled):
                results[number] = verdict
        return results

    def _carry(self, edits: Sequence[DeclaredEdit], sides: Releases) -> list[CarriedEdit]:
        """What becomes of all edits of a function."""
        name = read_target_name(edits[0].patch)
        others = other_functions(view_of(self.old), view_of(self.new), name)
        return [carry_edit(edit, *sides, others) for edit in edits]

    @cached_property
    def _replacements(self) -> ConfigReplacements:
        """What the config puts into the new release's generated module."""
        return ConfigReplacements(self.loaded, (view_of(self.new), view_of(self.old)), self.sources)

    def _is_upstreams(self, name: str) -> bool:
        return is_upstreams(name, view_of(self.new), self._replacements)

    def _definitions(self, patch: Patch) -> Releases | None:
        """The definition that a patch's target is in both releases, where it is one of the module's own."""
        name = read_target_name(patch)
        before, after = (definition_of(view_of(side).find(name)) for side in (self.old, self.new))
        return (before, after) if before is not None and after is not None else None

    def rebase_together(self, verdicts: Sequence[PatchVerdict], project: Project) -> list[PatchVerdict]:
        """The verdicts; edits of a target of which one cannot be carried over by itself are carried over as one."""
        results = list(verdicts)
        groups: dict[str, list[int]] = {}
        for number, verdict in enumerate(results):
            if verdict.kind in EDITS:
                groups.setdefault(verdict.target, []).append(number)
        for numbers in groups.values():
            rebase = self._together([results[number] for number in numbers], project)
            for number in numbers if rebase is not None else ():
                results[number] = replace(results[number], rebase=rebase)
        return results

    def _together(self, verdicts: Sequence[PatchVerdict], project: Project) -> Rebase | None:
        stuck = [v for v in verdicts if v.rebase is None and v.verdict in ("place gone", "place ambiguous")]
        stuck += [v for v in verdicts if v.rebase is not None and not v.rebase.merged.is_clean]
        patches = [p for p in self._patches if any(is_on(verdict, p, self.loaded) for verdict in verdicts)]
        planned = [resolve_patch(self.old, patch, self.loaded, self.sources) for patch in patches]
        edits = [DeclaredEdit(plan) for plan in planned if plan is not None and plan.patch.kind != "class_edit"]
        if not stuck or len(patches) < 2 or len(edits) < len(patches):
            return None
        sides = self._definitions(patches[0])
        if sides is None:
            return None
        carried = self._carry(edits, sides)

        def has_doubts(text: str) -> bool:
            function = ast.parse(text).body[0]
            assert isinstance(function, FUNCTIONS)
            return bool(find_doubts_of(function, edits, carried, sides, self._is_upstreams))

        return rebase_together(project, self.loaded, edits, sides, self.sources, has_doubts)

    def texts(self, patch: Patch, new_name: str = "") -> Texts | None:
        """What is merged for a patch; None where its replacement is no copy of upstream's code, or a release lacks the
        target or has several definitions of it. In the new release the target may have a new name."""
        old = resolve_patch(self.old, patch, self.loaded, self.sources)
        renamed = replace(patch, target=new_name) if new_name else patch
        new = resolve_patch(self.new, renamed, self.loaded, self.sources)
        if patch.kind not in _COPIES or old is None or new is None or old.replacement is None:
            return None
        base, theirs = _definition(self.old, old), _definition(self.new, new)
        if base is None or theirs is None:
            return None
        ours, names = old.replacement, self._names_of_ours(old)
        with_decorators = not old.method or not patch.keep_decorators
        sides = (self._as_ours(base, ours, names, patch), ours, self._as_ours(theirs, ours, names, patch))
        return Texts(ours, *(_text(side, with_decorators) for side in sides))

    def _names_of_ours(self, patch: PlannedPatch) -> dict[str, str]:
        """What the replacement calls the classes and functions of the generated module, by their names there."""
        names = generated_names(patch, self._planned, self._helpers)
        results: dict[str, str] = {}
        for ours, generated in names.items():
            if "." not in generated:
                results.setdefault(generated, ours)
        return results

    def _as_ours(
        self, upstream: Replacement, ours: Replacement, names: Mapping[str, str], patch: Patch
    ) -> Replacement:
        """Upstream's definition in the words of the config: its own name, and those that it knows classes by."""
        unmapped = {new: old for old, new in patch.name_map.items()}
        text = map_prefixes(upstream.text, unmapped)
        decorators = tuple(map_prefixes(decorator, unmapped) for decorator in upstream.decorators)
        mapped = upstream.with_text(text, decorators)
        with contextlib.suppress(PatchgenError):  # a local name is in the way: the difference stays one of ours
            mapped = rename_globals(mapped, names)
        return rename_definition(mapped, ours.name)


def _definition(side: ReleaseModule, planned: PlannedPatch) -> Replacement | None:
    """Upstream's definition that a patch is about, as a replacement; None when there are several."""
    nodes: list[Definition] = list(planned.nodes)
    if planned.method:
        nodes = [method for node in nodes for method in methods(node, planned.method, planned.accessor)]
    if len(nodes) != 1:
        return None
    node, source = nodes[0], side.source
    first, last = source.first_line(node), source.last_line(node)
    keep = {line - first for line in range(first, last + 1) if line in source.string_lines}
    lines = shift(source.lines[first - 1 : last], source.indent(node.lineno), "", keep)
    text = "\n".join(lines[node.lineno - first :])
    text = absolute_imports(text, side.upstream.package, Location(str(source.path), node.lineno))
    spans = [source.decorator_lines(decorator) for decorator in node.decorator_list]
    return Replacement(
        name=node.name,
        is_class=isinstance(node, ast.ClassDef),
        package=side.upstream.package,
        comments=(),
        decorators=tuple("\n".join(lines[start - first : end - first + 1]) for start, end in spans),
        text=text,
        string_lines=frozenset(line - 1 for line in string_lines(ast.parse(text))),
        namespace={},
        location=Location(str(source.path), node.lineno),
    )


def _text(replacement: Replacement, with_decorators: bool) -> str:
    """The text that is merged; a method keeps upstream's decorators, which are no part of it then."""
    return "\n".join([*replacement.decorators, replacement.text]) if with_decorators else replacement.text


def is_on(verdict: PatchVerdict, patch: Patch, loaded: LoadedConfig) -> bool:
    """Whether a verdict is on a patch of a config."""
    return (patch.location or loaded.config.location, patch.target) == (verdict.location, verdict.target)
