"""The calls of a patch's target inside the module, and the bases of its class."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from patchgen_core.syntax.forms import contrasted, listed
from patchgen_core.syntax.nodes import FUNCTIONS, Function, methods
from patchgen_core.syntax.scopes import Call
from patchgen_core.syntax.signatures import Signature
from patchgen_core.upgrade.results import Finding, Risk
from patchgen_core.upgrade.verdicts.module_view import ModuleView
from patchgen_core.upgrade.verdicts.replacements import ConfigReplacements, PatchReplacement
from patchgen_core.upgrade.verdicts.signature_changes import ChangedCallee, signature_form
from patchgen_core.upgrade.verdicts.target_changes import CALLED


def caller_findings(
    entry: PatchReplacement, patched: ConfigReplacements, old: ModuleView, new: ModuleView
) -> Iterator[Finding]:
    """What the callers of a target pass now that they did not, and the other way round."""
    for ours, before, after in called_functions(entry, old, new):
        if not entry.cls and _is_called(old, before.name) and not _is_called(new, after.name):
            yield Finding("gone", entry.target_name.dotted, "caller", "nothing in the module uses it now", "review")
            continue
        if entry.patch.is_edit:  # upstream's signature stays
            continue
        for owner in (name for name in new.owners if name in old.owners):
            is_patched = owner in patched.targets or owner.partition(".")[0] in patched.targets
            if is_patched or old.owners[owner] == new.owners[owner]:
                continue
            calls = old.callers(owner).get(id(before)), new.callers(owner).get(id(after))
            if calls[0] and calls[1]:
                yield from _caller(owner, calls[0], calls[1], ChangedCallee(ours, before, after, bool(entry.cls)))


def _is_called(view: ModuleView, name: str) -> bool:
    """Whether the module uses a function of its own, by calling it or otherwise."""
    return any(use.owner != name for use in view.module.uses.get(name, ()))


def called_functions(
    entry: PatchReplacement, old: ModuleView, new: ModuleView
) -> Iterator[tuple[Function | None, Function, Function]]:
    """The functions by which a target is called: the replacement's if it has one, the old and the new."""
    ours = {f.name: f for _, f in entry.functions}
    own = entry.node if isinstance(entry.node, FUNCTIONS) else None
    if entry.target_name.method or not old.classes(entry.target_name.name):
        before, after = old.find(entry.target_name), new.find(entry.target_name)
        nodes = [t.nodes[0] if t is not None and len(t.nodes) == 1 else None for t in (before, after)]
        if isinstance(nodes[0], FUNCTIONS) and isinstance(nodes[1], FUNCTIONS):
            yield own, nodes[0], nodes[1]
        return
    for name in CALLED:
        results = [
            [f for node in view.classes(entry.target_name.name) for f in methods(node, name)] for view in (old, new)
        ]
        if len(results[0]) == 1 and len(results[1]) == 1:
            yield ours.get(name), results[0][0], results[1][0]


def calls_of(view: ModuleView, function: Function) -> list[Call]:
    """The calls in the module that run a function."""
    return [call for owner in view.calls for call in view.callers(owner).get(id(function), ())]


@dataclass(frozen=True)
class _Argument:
    """An argument, as it is written and whatever its function calls its own variables."""

    text: str = field(compare=False)
    anonymous: str


Passed = dict[str, _Argument]
"""What a call passes, by parameter."""


def _caller(owner: str, old: Sequence[Call], new: Sequence[Call], callee: ChangedCallee) -> Iterator[Finding]:
    """How one caller calls the target otherwise."""
    before = [_passed(call, callee.signature(callee.before)) for call in old]
    after = [_passed(call, callee.signature(callee.after)) for call in new]
    is_told = signature_form(callee.before) != signature_form(callee.after)  # by the finding on the target
    broken = "" if is_told else callee.broken(old, new)
    if not broken and sorted(map(_arguments_text, before)) == sorted(map(_arguments_text, after)):
        return
    names = [{name for passed in one for name in passed} for one in (before, after)]
    added, removed = sorted(names[1] - names[0]), sorted(names[0] - names[1])
    phrases = [f"passes {_named(added)} now"] if added else []
    phrases += [f"no longer passes {_named(removed)}"] if removed else []
    is_other = not phrases and not broken
    if is_other:
        phrases.append(_other_arguments(before, after))
    phrases += [f"the replacement does not fit: {broken}"] if broken else []
    is_heard = is_other or callee.ours is None or any(_reads(callee.ours, name) for name in removed)
    is_heard = is_heard or not all(_takes(callee, name) for name in added)
    risk: Risk = "must change" if broken else "review" if is_heard else "safe"
    yield Finding("changed", owner or "the module", "caller", "; ".join(phrases), risk)


def _named(names: Sequence[str]) -> str:
    return listed([{"*": "*args", "**": "**kwargs"}.get(name, f"'{name}'") for name in names])


def _takes(callee: ChangedCallee, name: str) -> bool:
    """Whether the replacement has a parameter."""
    if callee.ours is None:
        return False
    signature = callee.signature(callee.ours)
    stars = {"*": signature.takes_args, "**": signature.takes_kwargs}
    return stars.get(name, signature.find(name) is not None)


def _reads(function: Function, name: str) -> bool:
    """Whether a function uses a parameter."""
    nodes = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return any(node.id == name and isinstance(node.ctx, ast.Load) for node in nodes)


def _other_arguments(before: Sequence[Passed], after: Sequence[Passed]) -> str:
    """Which arguments differ where the same parameters are passed."""
    if len(before) != len(after):
        return f"calls it {len(after)} times instead of {len(before)}"
    for old, new in zip(before, after):
        for name in new:
            if name in old and old[name] != new[name]:
                was, now = contrasted(old[name].text, new[name].text)
                return f"passes {now} as '{name}' instead of {was}"
    return "calls it in another order"


def _passed(call: Call, signature: Signature) -> Passed:
    """What a call passes, by parameter; by number where there is none."""
    names = [p.name for p in signature.positional]
    results: Passed = {}
    for number, argument in enumerate(call.node.args):
        name = names[number] if number < len(names) else str(number)
        results["*" if isinstance(argument, ast.Starred) else name] = _argument(argument, call)
    for keyword in call.node.keywords:
        results[keyword.arg or "**"] = _argument(keyword.value, call)
    return results


def _arguments_text(passed: Passed) -> str:
    return str(sorted((name, argument.anonymous) for name, argument in passed.items()))


def _argument(node: ast.expr, call: Call) -> _Argument:

    def anonymous(match: re.Match[str]) -> str:
        name = match[0]
        return "_" if name != "self" and call.scope.find(name) is not None else name

    text = ast.unparse(node)
    return _Argument(text, re.sub(r"(?<![\w.])[A-Za-z_]\w*", anonymous, text))


def base_findings(entry: PatchReplacement, old: ModuleView, new: ModuleView) -> Iterator[Finding]:
    """Whether the class of a patched method has other bases."""
    nodes = [view.classes(entry.target_name.name) for view in (old, new)] if entry.target_name.method else [[], []]
    if len(nodes[0]) != 1 or len(nodes[1]) != 1:
        return
    written = [", ".join(ast.unparse(base) for base in classes[0].bases) for classes in nodes]
    if written[0] != written[1]:
        detail = f"the bases of '{entry.target_name.name}' are ({written[1]}) instead of ({written[0]})"
        yield Finding("changed", entry.target_name.name, "base", detail, "review")
