"""What happened to the target of a patch, and whether its replacement still fits there."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from patchgen_core.codegen.decorators import meaning
from patchgen_core.config.declarations import WRAPPERS
from patchgen_core.syntax.forms import PROSE, form, is_same_code, listed
from patchgen_core.syntax.nodes import FUNCTIONS, Definition
from patchgen_core.upgrade.carrying.carried_edit import CarriedEdit
from patchgen_core.upgrade.results import Finding, Kind, Risk
from patchgen_core.upgrade.verdicts.callers import calls_of
from patchgen_core.upgrade.verdicts.decorator_meanings import harmless_decorators
from patchgen_core.upgrade.verdicts.deprecated_targets import deprecation, find_own_callers
from patchgen_core.upgrade.verdicts.edit_verdicts import carried_edit, definition_of, edit_finding
from patchgen_core.upgrade.verdicts.module_names import used_names
from patchgen_core.upgrade.verdicts.module_view import ModuleView, TargetDefinitions, TargetName
from patchgen_core.upgrade.verdicts.replacements import ConfigReplacements, PatchReplacement
from patchgen_core.upgrade.verdicts.signature_changes import ChangedCallee, Fit, fit
from patchgen_core.upgrade.verdicts.similar_code import moved
from patchgen_core.upgrade.verdicts.target_changes import TargetChange, compare, difference, texts

_PLAIN_BASES = frozenset(["PreTrainedModel", "GenerationMixin", "GradientCheckpointingLayer"])
"""Bases that most classes have and whose own methods change with every release."""


@dataclass(frozen=True)
class TargetVerdict:
    """What happened to a patch's target alone; `new_name` is what it is called now, if it moved. An edit is `carried`
    over where its target changed."""

    finding: Finding
    new_name: str = ""
    carried: CarriedEdit | None = None


def target_verdict(
    entry: PatchReplacement, old: ModuleView, new: ModuleView, patched: ConfigReplacements | None
) -> TargetVerdict:
    """What happened to a patch's target; without `patched`, its replacement is left out of account."""
    return _TargetComparison(entry, entry.target_name, old, new, patched).verdict()


@dataclass(frozen=True)
class _TargetComparison:
    """A patch's target in two releases."""

    entry: PatchReplacement
    name: TargetName
    old: ModuleView
    new: ModuleView
    patched: ConfigReplacements | None

    @property
    def versions(self) -> tuple[str, str]:
        return self.old.side.version, self.new.side.version

    def verdict(self) -> TargetVerdict:
        before, after = self.old.find(self.name), self.new.find(self.name)
        if before is None:
            return self._fresh(after)
        if after is None:
            return self._missing()
        if before.home is None and after.home is not None:
            place = after.home.dotted
            detail = f"'{self.name.name}' inherits it from {place} now"
            diff = difference(self.name.dotted, texts(before), texts(after), self.versions)
            return TargetVerdict(Finding("moved", self.name.dotted, "target", detail, "must change", diff), place)
        by_text = not self.old.side.is_recorded and not self.new.side.is_recorded
        change = compare(self.name.dotted, before, after, self.versions, by_text=by_text)
        return self._edited(after, change) or TargetVerdict(self._finding(before, after, change))

    def _edited(self, after: TargetDefinitions, change: TargetChange) -> TargetVerdict | None:
        """The verdict on the target of an edit that changed."""
        edit, new = self.entry.edit, definition_of(after)
        if edit is None or new is None or change.kind in ("unchanged", "cosmetic"):
            return None
        carried = carried_edit(edit, self.name, self.old, self.new)
        if carried is None:
            return None
        target = carried.edit.patch.target
        finding = edit_finding(self.name.dotted, carried, change, new, edit)
        return TargetVerdict(finding, target if target != edit.patch.target else "", carried)

    def _finding(self, before: TargetDefinitions, after: TargetDefinitions, change: TargetChange) -> Finding:
        name, patched = self.name.dotted, self.patched
        if change.kind in ("unchanged", "cosmetic"):
            return Finding(change.kind, name, "target", change.detail, "safe", change.diff)
        is_new = patched is not None and is_upstream(self.entry, after, self.new, patched)
        if is_new and patched is not None and not is_upstream(self.entry, before, self.old, patched):
            detail = "upstream now does what the patch does: delete it"
            return Finding("now upstream", name, "target", detail, "review", change.diff)
        fits = self._fits(change)
        details = [change.detail, *(one.detail for one in fits)]
        if after.home is not None:
            inherits = "inherits it from" if before.home is not None else "defined it itself, inherits it from"
            details.append(f"the class {inherits} {after.home.dotted}")
        elif before.home is not None:
            details.append(f"the class defines it itself now; it inherited it from {before.home.dotted}")
        is_far = after.home is not None and after.home.node.name in _PLAIN_BASES and not change.signatures
        harmless = self._harmless(before, after, change)
        deprecated, is_called = self._deprecated(change)
        details += filter(None, [harmless, deprecated])
        is_safe = is_far or bool(harmless) or is_called
        risk: Risk = "must change" if any(one.is_broken for one in fits) else "safe" if is_safe else "review"
        return Finding(change.kind, name, "target", "; ".join(filter(None, details)), risk, change.diff)

    def _harmless(self, before: TargetDefinitions, after: TargetDefinitions, change: TargetChange) -> str:
        """Why decorators, if nothing else changed, are none of the patch's business; empty when they may be."""
        if change.kind != "decorators changed" or len(before.nodes) != 1 or len(after.nodes) != 1:
            return ""
        old, new, packages = before.nodes[0], after.nodes[0], (before.package, after.package)
        if form(old, packages[0], [*PROSE, "decorators"]) != form(new, packages[1], [*PROSE, "decorators"]):
            return ""
        ours = self.entry.node if isinstance(self.entry.node, FUNCTIONS) else None
        keeps = bool(self.name.method) and self.entry.patch.keep_decorators
        return harmless_decorators(old, new, packages, ours, keeps)

    def _deprecated(self, change: TargetChange) -> tuple[str, bool]:
        """What upstream and the config still do with a target that upstream deprecated, and whether a patch calls it;
        an empty text for any other."""
        if change.kind != "changed" or self.patched is None or self.entry.patch.is_edit:
            return "", False
        text = deprecation(self.name, self.old, self.new)
        callers = find_own_callers(self.name, self.patched.patches) if text else []
        calls = f"the patch of {listed(callers)} calls it" if callers else "no other patch does: it has no effect now"
        return f"{text}; {calls}" if text else "", bool(callers)

    def _fits(self, change: TargetChange) -> list[Fit]:
        """Whether the replacement takes what the new signatures' callers pass."""
        results = []
        if self.entry.patch.is_edit:  # upstream's signature stays
            return []
        ours = {function.name: function for _, function in self.entry.functions}
        for before, after in change.signatures:
            mine = self.entry.node if isinstance(self.entry.node, FUNCTIONS) else ours.get(before.name)
            if mine is not None:
                callee = ChangedCallee(mine, before, after, bool(self.entry.cls))
                results.append(fit(callee, calls_of(self.old, before), calls_of(self.new, after)))
        return results

    def _fresh(self, after: TargetDefinitions | None) -> TargetVerdict:
        """The verdict on a target that the old release lacks."""
        name, dotted = self.name, self.name.dotted
        if not name.method or not self.old.classes(name.name):
            what = f"'{name.name}'" if name.method else "it"
            if self.new.definitions(name.name):
                return TargetVerdict(
                    Finding("new code", dotted, "target", f"only the new release has {what}", "review")
                )
            return TargetVerdict(Finding("gone", dotted, "target", f"neither release has {what}", "must change"))
        if after is None:
            is_added = bool(self.new.classes(name.name))
            return TargetVerdict(Finding("added", dotted, "target")) if is_added else self._missing()
        kind: Kind = "new code"
        detail = "upstream has the method that the patch adds"
        if after.home is not None and after.home.module is not self.new.module and self.old.library is None:
            detail = f"the class inherits it from {after.home.dotted}, whose old text is not known"
            return TargetVerdict(Finding("added", dotted, "target", detail))
        if after.home is not None:
            detail = f"the class inherits from {after.home.dotted} what the patch adds"
        elif self.patched is not None and is_upstream(self.entry, after, self.new, self.patched):
            kind, detail = "now upstream", "upstream has the very method that the patch adds: delete the patch"
        diff = difference(dotted, "", texts(after), self.versions)
        return TargetVerdict(Finding(kind, dotted, "target", detail, "review", diff))

    def _missing(self) -> TargetVerdict:
        place = moved(self.name, self.old, self.new)
        if place is None:
            has_class = not self.name.method or self.new.classes(self.name.name)
            what = "" if has_class else f"'{self.name.name}' is gone"
            return TargetVerdict(Finding("gone", self.name.dotted, "target", what, "must change"))
        name, detail = place
        detail = f"it is {name} now: {detail}"
        return TargetVerdict(Finding("moved", self.name.dotted, "target", detail, "must change"), name)


def is_upstream(
    entry: PatchReplacement, target: TargetDefinitions, view: ModuleView, patched: ConfigReplacements
) -> bool:
    """Whether upstream's definition is what the patch puts in its place, up to docstring and annotations."""
    node = entry.node
    is_whole = not entry.patch.is_edit and entry.patch.kind not in WRAPPERS
    if node is None or not is_whole or len(target.nodes) != 1 or target.home is not None:
        return False
    theirs = target.nodes[0]
    with_decorators = not (entry.target_name.method and entry.patch.keep_decorators)
    if with_decorators:
        decorators = [{form(d) for d in one.decorator_list} for one in (node, theirs)]
        if decorators[0] != decorators[1]:
            return False
    elif _added_decorators(node, theirs):
        return False
    if not is_same_code(node, theirs, ("", target.package), [*PROSE, "decorators"]):
        return False
    return all(is_upstreams(name, view, patched) for name in used_names(node))


def _added_decorators(ours: Definition, theirs: Definition) -> bool:
    """Whether a replacement has decorators beside those of upstream's that stay."""
    upstreams = {meaning(ast.unparse(decorator)) for decorator in theirs.decorator_list}
    return any(meaning(ast.unparse(decorator)) not in upstreams for decorator in ours.decorator_list)


def is_upstreams(name: str, view: ModuleView, patched: ConfigReplacements) -> bool:
    """Whether a name means the same to the generated module and to upstream's."""
    if name not in patched.added:
        return True
    return name in patched.imports and patched.imports[name] in view.imports.get(name, ())
