"""How alike definitions are: what was renamed or moved, and new code that is like what a patch changes."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache
from itertools import takewhile

from patchgen_core.syntax.forms import body_form
from patchgen_core.syntax.nodes import Definition, all_methods
from patchgen_core.upgrade.results import Finding
from patchgen_core.upgrade.verdicts.module_view import ModuleView, TargetDefinitions, TargetName
from patchgen_core.upgrade.verdicts.replacements import ConfigReplacements, PatchReplacement

RENAMED = 0.7
"""How alike a definition of another name must be to be the same one renamed."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_TOKENS = re.compile(r"\w+")


@dataclass(frozen=True)
class Likeness:
    """A definition that is like another, with how alike their bodies are, from 0 to 1."""

    name: str
    ratio: float

    @property
    def percent(self) -> str:
        """The ratio as a sentence has it."""
        return f"{self.ratio:.0%} alike"


@lru_cache(maxsize=2048)
def tokens_of(node: Definition, package: str = "") -> tuple[str, ...]:
    """The words of what a definition does."""
    return tuple(_TOKENS.findall(body_form(node, package)))


def ratio(a: Sequence[str], b: Sequence[str]) -> float:
    """How alike two sequences of words are, their order regarded."""
    if _bound(Counter(a), Counter(b)) < RENAMED / 2:
        return 0.0
    return SequenceMatcher(None, a, b, autojunk=False).ratio()


def _bound(a: Counter[str], b: Counter[str]) -> float:
    """The most that the ratio can be, whatever the order."""
    total = a.total() + b.total()
    return 2 * (a & b).total() / total if total else 1.0


def nearest(node: Definition, package: str, candidates: Iterable[tuple[str, Definition, str]]) -> Likeness | None:
    """The most alike of candidates (name, node, package), if it is alike enough to be the same one renamed."""
    words = tokens_of(node, package)
    counts = Counter(words)
    ranked = []
    for name, other, other_package in candidates:
        if isinstance(node, ast.ClassDef) != isinstance(other, ast.ClassDef):
            continue
        other_words = tokens_of(other, other_package)
        bound = _bound(counts, Counter(other_words))
        if bound >= RENAMED:
            ranked.append((bound, name, other_words))
    best = Likeness("", 0.0)
    for bound, name, other_words in sorted(ranked, reverse=True)[:8]:
        if bound > best.ratio:
            alike = ratio(words, other_words)
            best = Likeness(name, alike) if alike > best.ratio else best
    return best if best.ratio >= RENAMED else None


def moved(target_name: TargetName, old: ModuleView, new: ModuleView) -> tuple[str, str] | None:
    """Where what a patch changes is now, as its new name and a sentence; None when nothing is like it."""
    find = _moved_method if target_name.method and new.classes(target_name.name) else _moved_name
    return find(target_name, old, new)


def _moved_name(target_name: TargetName, old: ModuleView, new: ModuleView) -> tuple[str, str] | None:
    """A class or function that the module has under another name, or imports."""
    rest = ".".join(filter(None, (target_name.method, target_name.accessor)))
    if target_name.name in new.imports:
        modules = sorted(f"{module}.{name}" if name else module for module, name in new.imports[target_name.name])
        where = ".".join(filter(None, (modules[0], rest)))
        return where, f"the module imports '{target_name.name}' from {modules[0].rpartition('.')[0]} now"
    nodes = old.definitions(target_name.name)
    similar = nearest(nodes[0], old.package, new_definitions(old, new)) if nodes else None
    return (".".join(filter(None, (similar.name, rest))), similar.percent) if similar is not None else None


def _moved_method(target_name: TargetName, old: ModuleView, new: ModuleView) -> tuple[str, str] | None:
    """A method that its class has under another name; one that a base has is found by its own."""
    target = old.find(target_name)
    if target is None:
        return None
    method_names = {f.name for node in old.classes(target_name.name) for f in all_methods(node)}
    fresh = [f for node in new.classes(target_name.name) for f in all_methods(node) if f.name not in method_names]
    similar = nearest(target.nodes[0], target.package, [(f.name, f, new.package) for f in fresh])
    return (f"{target_name.name}.{similar.name}", similar.percent) if similar is not None else None


def new_definitions(old: ModuleView, new: ModuleView) -> list[tuple[str, Definition, str]]:
    """The definitions of the new module whose names the old one lacks."""
    names = [name for name in new.index.definitions if name not in old.index.definitions]
    return [(name, node, new.package) for name in names for node in new.definitions(name)[:1]]


def moved_module(name: str, modules: Iterable[str]) -> str:
    """The module that one that is gone became: one of the same last part, else one of a like name; empty for none."""
    last = name.rpartition(".")[2]
    others = [module for module in modules if module != name]
    same = [module for module in others if module.rpartition(".")[2] == last]
    if same:
        return same[0]
    names = {module.rpartition(".")[2]: module for module in others}
    near = get_close_matches(last, names, n=1, cutoff=0.85)
    return names[near[0]] if near else ""


# --- new code ----------------------------------------------------------------------------------------

ALIKE = 0.75
"""How alike the code of a new definition must be to what a patch changes, where its name is of the same kind."""
SAME = 0.9
"""How alike it must be where its name says nothing."""
_HEADS = 0.5
"""How alike two heads must be, which are patched for their losses."""
_HEAD = re.compile(r"For[A-Z]\w+$")
_SHORT = 8
"""Fewer words than this say nothing about likeness."""


def new_code_findings(
    patched: ConfigReplacements, old: ModuleView, new: ModuleView, moved_to: Collection[str] = ()
) -> dict[int, list[Finding]]:
    """New code that the reason of a patch may apply to, by the ``id`` of the patch that is most like it."""
    names = {*patched.config.exclude, *(place.partition(".")[0] for place in (*patched.targets, *moved_to))}
    examples = [(entry, new.find(entry.target_name) or old.find(entry.target_name)) for entry in patched.patches]
    targets = [(entry, target) for entry, target in examples if target is not None]
    results: dict[int, list[Finding]] = {}
    for name, node, _ in new_definitions(old, new) if targets else ():
        best = _most_alike(name, node, targets, new) if name not in names else None
        if best is not None:
            entry, finding = best
            results.setdefault(id(entry.patch), []).append(finding)
    return results


def _most_alike(
    name: str, node: Definition, targets: Sequence[tuple[PatchReplacement, TargetDefinitions]], new: ModuleView
) -> tuple[PatchReplacement, Finding] | None:
    """The patch whose target a new definition is most like, if it is like one."""
    best: tuple[float, PatchReplacement, str] | None = None
    for entry, target in targets:
        other = _counterpart(name, node, entry, new)
        if other is None:
            continue
        words, others = tokens_of(target.nodes[0], target.package), tokens_of(other.nodes[0], other.package)
        needed = _needed(name, entry)
        if _bound(Counter(words), Counter(others)) < needed or min(len(words), len(others)) < _SHORT:
            continue
        alike = ratio(words, others)
        if alike >= needed and (best is None or alike > best[0]):
            dotted = f"{name}.{entry.target_name.method}" if entry.target_name.method else name
            best = (alike, entry, dotted)
    if best is None:
        return None
    alike, entry, dotted = best
    like = entry.target_name.dotted
    detail = f"it is new, no patch is of it, and it is {alike:.0%} alike '{like}', which is patched"
    return entry, Finding("new code", dotted, "alike", detail, "review")


def _counterpart(name: str, node: Definition, entry: PatchReplacement, new: ModuleView) -> TargetDefinitions | None:
    """What of a new definition corresponds to what a patch changes."""
    target_name = entry.target_name
    if target_name.method == "__init__":
        return None  # constructors are alike whatever they construct
    if isinstance(node, ast.ClassDef) or not target_name.method:
        counterpart = new.find(TargetName(name, target_name.method, target_name.accessor))
        is_here = counterpart is not None and counterpart.home is not None and counterpart.home.module is new.module
        return counterpart if counterpart is not None and len(counterpart.nodes) == 1 and not is_here else None
    return None


def _needed(name: str, entry: PatchReplacement) -> float:
    """How alike a new definition must be to what a patch changes."""
    if _HEAD.search(name) and _HEAD.search(entry.target_name.name):
        return _HEADS
    return ALIKE if _same_kind(name, entry.target_name.name) else SAME


def _same_kind(name: str, other: str) -> bool:
    """Whether two names end in the same words: ``Qwen3RMSNorm`` and ``Qwen3VLTextRMSNorm``."""
    words, others = (_WORDS.findall(text)[::-1] for text in (name, other))
    common = len([*takewhile(lambda pair: pair[0] == pair[1], zip(words, others))])
    return common >= 2 or (common == 1 and len(words[0]) > 3)
