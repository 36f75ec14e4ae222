"""Local names that one side calls otherwise: all three texts are made to call them the same."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from patchgen_core.syntax.edits import Edit, apply_edits
from patchgen_core.syntax.nodes import FUNCTIONS
from patchgen_core.syntax.scope_analysis import find_scopes
from patchgen_core.syntax.signatures import read_parameters
from patchgen_core.upgrade.merging.text import DefinitionText, read_text

_VARIABLE = "variable"


@dataclass(frozen=True)
class Aligned:
    """The three texts with the same names for the same variables; the notes say what was renamed in ours."""

    base: DefinitionText
    ours: DefinitionText
    theirs: DefinitionText
    notes: tuple[str, ...] = ()


def align_names(base: DefinitionText, ours: DefinitionText, theirs: DefinitionText) -> Aligned:
    """Rename local variables and parameters so that a renamed one is no difference.

    What upstream renamed is renamed in ours as well; what we renamed, in upstream's texts; and what both sides added
    under two names gets ours.
    """
    notes = []
    for old, new in find_renames(base, theirs).items():
        renamed = [_renamed(text, old, new) for text in (base, ours)]
        if renamed[0] is not None and renamed[1] is not None:
            if renamed[1] is not ours:
                notes.append(f"upstream renamed '{old}' to '{new}', and the merge does too")
            base, ours = renamed[0], renamed[1]
    for old, new in find_renames(base, ours).items():
        renamed = [_renamed(text, old, new) for text in (base, theirs)]
        if renamed[0] is not None and renamed[1] is not None:
            base, theirs = renamed[0], renamed[1]
    for old, new in find_renames(theirs, ours, base.names).items():
        new_theirs = _renamed(theirs, old, new)
        theirs = new_theirs if new_theirs is not None else theirs
    return Aligned(base, ours, theirs, tuple(notes))


def find_renames(old: DefinitionText, new: DefinitionText, names: frozenset[str] = frozenset()) -> dict[str, str]:
    """The variables of one text that another uses under another name, which is not `known` to be in use elsewhere."""
    removed = {name: what for name, what in _variables(old).items() if name not in new.names | names}
    added = {name: what for name, what in _variables(new).items() if name not in old.names | names}
    if not removed or not added:
        return {}
    pairs: dict[str, Counter[str]] = defaultdict(Counter)
    for one, other in paired_tokens(old, new):
        if one in removed:
            pairs[one][other] += 1
    total = Counter(token.string for token in old.tokens)
    results = {}
    for one, others in pairs.items():
        other, count = others.most_common(1)[0]
        if len(others) == 1 and count > 1 and 2 * count >= total[one] and added.get(other) == removed[one]:
            results[one] = other
    rivals = Counter(results.values())
    return {one: other for one, other in results.items() if rivals[other] == 1}


def paired_tokens(old: DefinitionText, new: DefinitionText) -> Iterator[tuple[str, str]]:
    """The single tokens of two texts that differ where all around is the same; not those of ``name=name``."""
    left, right = ([token.string for token in text.tokens] for text in (old, new))
    for kind, start, end, first, last in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        alone = kind == "replace" and end - start == last - first == 1
        if alone and not (_is_passed_on(left, start) and _is_passed_on(right, first)):
            yield left[start], right[first]


def _is_passed_on(tokens: list[str], at: int) -> bool:
    around = tokens[max(at - 2, 0) : at + 3]
    middle = min(at, 2)
    before, after = around[:middle], around[middle + 1 :]
    return before[-2:] == [tokens[at], "="] or after[:2] == ["=", tokens[at]]


def _variables(text: DefinitionText) -> dict[str, str]:
    """The names of a function that are bound in it alone; for parameters, with annotation and default."""
    node = text.definition
    if not isinstance(node, FUNCTIONS):
        return {}
    scopes = find_scopes(text.source.tree)
    owners = defaultdict(set)
    for name, scope in scopes.bindings:
        owners[name].add(scope.find(name))
    results = {}
    for name, places in owners.items():
        (place, *others) = places
        if not others and place is not None and place.node is node:
            results[name] = _VARIABLE
    return results | _parameters(node)


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    named = [(parameter.node, parameter.default) for parameter in read_parameters(node)]
    parameters = {}
    for argument, default in (*named, (node.args.vararg, None), (node.args.kwarg, None)):
        if argument is not None:
            parts = [ast.unparse(part) if part is not None else "" for part in (argument.annotation, default)]
            parameters[argument.arg] = f"parameter {parts[0]} = {parts[1]}"
    return parameters


def _renamed(text: DefinitionText, old: str, new: str) -> DefinitionText | None:
    """A text with another name for a variable; None when that is not possible."""
    if old not in text.names:
        return text
    if new in text.names or old not in _variables(text):
        return None
    source = text.source
    edits = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id == old:
            edits.append(Edit(source.start(node), source.end(node), new))
        elif isinstance(node, ast.arg) and node.arg == old:
            edits.append(Edit(source.start(node), source.start(node) + len(old), new))
        elif old in (getattr(node, "name", None), getattr(node, "asname", None), getattr(node, "rest", None)):
            return None
        elif isinstance(node, (ast.Global, ast.Nonlocal)) and old in node.names:
            return None
    if any(source.text[edit.start : edit.end] != old for edit in edits):
        return None  # an f-string, whose parts older Pythons misplace
    return read_text(apply_edits(source.text, edits)[0])
