"""Patch configs that do at generation what a package's monkey patches do at run time."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.project.project import CONFIG_SUFFIX
from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS, Definition, all_methods
from tools.monkey_patches.names import BUILTINS, Defined, Names, Upstream
from tools.monkey_patches.reading import MonkeyPatch
from tools.monkey_patches.subclasses import split_class

VARIANTS = 4
"""How many configs are written at most for patches that options decide between."""
_HEAD = """from __future__ import annotations

from patchgen import PatchConfig
{imports}
config = PatchConfig("{module}", "patched_{name}.py")
"""


@dataclass(frozen=True)
class _Import:
    """A name that a replacement needs, and where it is from; ``original`` is what it is called there."""

    name: str
    module: str
    original: str

    @property
    def origin(self) -> str:
        """The dotted name that it has where it is from."""
        return f"{self.module}.{self.original}" if self.original else self.module

    @property
    def statement(self) -> str:
        """An import statement of it."""
        if not self.original:
            return f"import {self.module}" + (f" as {self.name}" if self.name != self.module else "")
        return f"from {self.module} import {self.original} as {self.name}"

    @property
    def call(self) -> str:
        """A call that adds it to the generated module."""
        if not self.original:
            alias = f', alias="{self.name}"' if self.name != self.module else ""
            return f'config.add_import("{self.module}"{alias})'
        alias = f', alias="{self.name}"' if self.name != self.original else ""
        return f'config.add_import("{self.module}", names=["{self.original}"]{alias})'


def write_configs(patches: Iterable[MonkeyPatch], names: Names, upstream: Upstream, folder: Path) -> list[Path]:
    """A config for each modeling module and place that patches it, and for each choice between replacements."""
    groups: dict[tuple[str, str], list[MonkeyPatch]] = {}
    for patch in patches:
        groups.setdefault((patch.module, patch.group), []).append(patch)
    paths = []
    for number, ((module, group), own) in enumerate(groups.items()):
        name = module.rpartition(".")[2]
        places = {f"{r.module}.{r.node.name}": p.target for p in own if "." not in p.target for r in p.replacements}
        for variant in range(min(VARIANTS, max(len(patch.replacements) for patch in own))):
            path = folder / f"{name}_{number}_{variant}" / f"{name}{CONFIG_SUFFIX}"
            path.parent.mkdir(parents=True, exist_ok=True)
            chosen = [(p, p.replacements[min(variant, len(p.replacements) - 1)]) for p in own]
            chosen = [pair for patch, defined in chosen for pair in split_class(patch, defined, names, upstream)]
            text = _config(module, chosen, places, names, upstream)
            path.write_text(f"# {group}\n{text}", encoding="utf-8")
            paths.append(path)
    return paths


def _config(
    module: str,
    chosen: Sequence[tuple[MonkeyPatch, Defined]],
    places: dict[str, str],
    names: Names,
    upstream: Upstream,
) -> str:
    bound = _bound_at_top(upstream.tree(module))
    own = {p.target for p, _ in chosen if "." not in p.target}
    imports: dict[str, _Import] = {}
    early: dict[str, None] = {}
    parts = []
    for number, (patch, replacement) in enumerate(chosen):
        node = copy.deepcopy(replacement.node)
        node.name = f"{node.name}_{number}"
        _strip_annotations(node)
        needs = list(_needs(node, replacement, names, module, bound, own))
        needs, taken = [n for n in needs if n[1].origin not in places], [n for n in needs if n[1].origin in places]
        renamed = {old: new.name for old, new in needs if old != new.name}
        _Renamer(renamed | {old: places[new.origin] for old, new in taken}).visit(node)
        imports.update({new.name: new for _, new in needs})
        early.update(dict.fromkeys(_evaluated_early(node)))
        parts.append(f"\n\n{_declaration(patch, upstream)}\n{ast.unparse(node)}")
    lines = [imports[name].statement for name in early if name in imports]
    lines += [f"from {module} import {name}" for name in early if name not in imports and name in bound]
    head = _HEAD.format(module=module, name=module.rpartition(".")[2], imports="\n".join(lines))
    return "\n".join([head, *(entry.call for entry in imports.values()), *parts]) + "\n"


def _declaration(patch: MonkeyPatch, upstream: Upstream) -> str:
    owner, _, method = patch.target.partition(".")
    if method:
        definition = upstream.definition(patch.module, owner)
        is_new = isinstance(definition, ast.ClassDef) and method not in [f.name for f in all_methods(definition)]
        return f'@config.override_method("{patch.target}", keep_decorators=False{", add=True" * is_new})'
    is_class = isinstance(upstream.definition(patch.module, owner), ast.ClassDef)
    return f'@config.replace_{"class" if is_class else "function"}("{owner}")'


def _needs(
    node: Definition, replacement: Defined, names: Names, module: str, bound: set[str], own: set[str]
) -> Iterator[tuple[str, _Import]]:
    """The free names of a replacement that the generated module does not have, or has for something else.

    A class that ``own`` replaces is upstream's for the replacement, which may derive from it.
    """
    for name in sorted(_free(node)):
        meaning = names.resolve(replacement.module, ast.Name(name), replacement.scopes)
        home, _, last = meaning.rpartition(".")
        is_original = home == module and last in own
        if home == "builtins" or (name in bound and not is_original and not _is_of_package(home, names)):
            continue
        if meaning.startswith("?") or not meaning:
            home, last = replacement.module, name
        if not home:
            home, last = last, ""
        new = name if name not in bound else f"Upstream{name}" if is_original else f"{name}_of_package"
        yield name, _Import(new, home, last)


def _is_of_package(module: str, names: Names) -> bool:
    return bool(module) and any(tree == module or tree.startswith(f"{module}.") for tree in names.trees)


def _free(node: Definition) -> set[str]:
    bound = {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    loads = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    bound |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    bound |= {n.name for n in ast.walk(node) if isinstance(n, DEFINITIONS) and n is not node}
    bound |= {n.name for n in ast.walk(node) if isinstance(n, ast.ExceptHandler) and n.name}
    imports = [n for n in ast.walk(node) if isinstance(n, (ast.Import, ast.ImportFrom))]
    bound |= {(a.asname or a.name).partition(".")[0] for n in imports for a in n.names}
    return loads - bound - BUILTINS


def _bound_at_top(tree: ast.Module) -> set[str]:
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {n.name for n in ast.walk(tree) if isinstance(n, DEFINITIONS)}
    imports = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    return bound | {(a.asname or a.name).partition(".")[0] for n in imports for a in n.names}


def _evaluated_early(node: Definition) -> list[str]:
    """The names that a definition needs when it is defined: in decorators, bases and defaults."""
    inner = list(ast.walk(node)) if isinstance(node, ast.ClassDef) else [node]
    parts: list[ast.AST] = []
    for child in inner:
        if isinstance(child, ast.ClassDef):
            parts += [*child.decorator_list, *child.bases, *(s for s in child.body if not isinstance(s, DEFINITIONS))]
        elif isinstance(child, FUNCTIONS):
            parts += [*child.decorator_list, *child.args.defaults, *(d for d in child.args.kw_defaults if d)]
    return [n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name) and n.id not in BUILTINS]


def _strip_annotations(node: Definition) -> None:
    for child in ast.walk(node):
        if isinstance(child, FUNCTIONS):
            child.returns = None
        elif isinstance(child, ast.arg):
            child.annotation = None


class _Renamer(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._names.get(node.id, node.id)
        return node
