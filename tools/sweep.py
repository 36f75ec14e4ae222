"""Every modeling file of the installed transformers: does the generator change nothing, do the rules find nothing?

For each file ``transformers/models/*/modeling_*.py`` two configs are written into a temporary project and
taken through loading, planning and generating, up to the text before ruff:

(a) one without a patch,
(b) one that overrides a method of every class with the method's own text, and replaces every class that
    has no method with its own text.

Both must give back upstream's syntax tree with absolute imports. What that tree is, which classes and
methods there are and what their text is, is worked out here with ``ast`` and nothing of the generator.

(c) Then every contract rule runs over what two configs generate: one without a patch, and one that overrides
every method with its own text. Whatever a rule finds there is a defect of transformers, or one of the rule.

    python -m tools.sweep [--jobs N] [--files PATTERN] [--every-method]
"""

from __future__ import annotations

import argparse
import ast
import copy
import fnmatch
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from typing import Any

from patchgen_core.codegen.generate import generate
from patchgen_core.codegen.plan import make_plan
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upstream.module import find_upstream
from tools import sweep_findings

Method = ast.FunctionDef | ast.AsyncFunctionDef
METHODS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (ast.ClassDef, *METHODS)
ORDINARY = ("plain", "decorated")
SPECIAL = ("setter", "deleter", "property", "cached_property", "staticmethod", "classmethod", "overload")


@dataclass(frozen=True)
class Target:
    """What one patch is about: a method, or a whole class that has none."""

    cls: ast.ClassDef
    method: Method | None = None

    @property
    def name(self) -> str:
        """The target as a config names it."""
        if self.method is None:
            return self.cls.name
        kind = kind_of(self.method)
        return f"{self.cls.name}.{self.method.name}" + (f".{kind}" if kind in ("setter", "deleter") else "")


@dataclass
class Result:
    """What the sweep saw in one modeling file.

    Attributes:
        module: its dotted name.
        lines: how many lines it has.
        classes: how many of its classes are of each :func:`fate`, apart for those in a module-level block.
        kinds: how many methods of each kind were overridden.
        unpatched: what is wrong with (a); empty when nothing is.
        failures: what is wrong with (b), one entry for each patch.
        imported: the configs that stubs did not do for, and why.
    """

    module: str
    lines: int
    classes: Counter[tuple[str, bool]] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    unpatched: str = ""
    failures: list[str] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)


def modeling_modules(pattern: str = "*") -> list[str]:
    """The dotted names of the installed modeling modules whose last part matches ``pattern``."""
    models = find_upstream("transformers.models").path.parent
    files = sorted(models.glob("*/modeling_*.py"))
    return [f"transformers.models.{f.parent.name}.{f.stem}" for f in files if fnmatch.fnmatch(f.stem, pattern)]


def sweep(module: str, folder: Path, every_method: bool = False) -> Result:
    """Run (a) and (b) over one module, with its configs in ``folder``."""
    text = find_upstream(module).path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    expected = Absolute(module.rpartition(".")[0]).visit(ast.parse(text))
    dumped = ast.dump(expected)
    classes = fates(tree)
    targets = choose_targets(tree, every_method)
    result = Result(module, text.count("\n"))
    result.classes.update((fate, node not in tree.body) for node, fate in classes)
    result.kinds.update(kind_of(target.method) for target in targets if target.method)

    def problem(name: str, chosen: Sequence[Target]) -> str:
        config = folder / f"{module.rpartition('.')[2]}_{name}_patch_gen_config.py"
        config.write_text(config_text(module, text, tree, chosen), encoding="utf-8")
        try:
            loaded, sources = load(config, folder)
            if loaded.mode == "imported":
                result.imported.append(f"{module}, config '{name}': {loaded.reason}")
            made = ast.parse(generated_text(loaded, sources))
        except Exception as error:  # one file's failure must not end the sweep
            kind = "" if isinstance(error, PatchgenError) else f"{type(error).__name__}: "
            return f"{kind}{error}".replace(f"{folder}/", "").replace("\n", "\n    ")
        return "" if ast.dump(made) == dumped else difference(expected, made)

    result.unpatched = problem("none", [])
    together = problem("own", targets)
    if together:
        alone = [(target, problem(f"own{number}", [target])) for number, target in enumerate(targets)]
        result.failures = [f"{target.name}: {message}" for target, message in alone if message]
        result.failures = result.failures or [f"all patches together: {together}"]
    return result


def contracts(module: str, folder: Path) -> list[sweep_findings.SweepFinding]:
    """Run (c) over one module."""
    text = find_upstream(module).path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    findings = []
    for mode, targets in (("none", []), ("own", choose_targets(tree, every_method=True))):
        config = folder / f"{module.rpartition('.')[2]}_c_{mode}_patch_gen_config.py"
        config.write_text(config_text(module, text, tree, targets), encoding="utf-8")
        loaded, sources = load(config, folder)
        findings += sweep_findings.examine(mode, project_of(folder), loaded, sources)
    return findings


def project_of(folder: Path) -> Project:
    """The project whose search root is a folder."""
    return Project(search_root=folder, package_prefix=folder.name, root=folder.parent)


def load(config: Path, folder: Path) -> tuple[LoadedConfig, SourceCache]:
    """A config of the project whose search root is ``folder``, and the sources it was read from."""
    sources = SourceCache()
    return Loader(project_of(folder), sources).load(config)[0], sources


def generated_text(loaded: LoadedConfig, sources: SourceCache) -> str:
    """What is generated from a config before ruff, by the way that ``patchgen`` goes."""
    upstream = find_upstream(loaded.config.source_module)
    return generate(make_plan(loaded.config, upstream, sources, loaded.modules, loaded.label)).text


# --- what should come out --------------------------------------------------------------------------


class Absolute(ast.NodeTransformer):
    """Makes the relative imports of a tree absolute, as seen from ``package``."""

    def __init__(self, package: str) -> None:
        self.parts = package.split(".")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.level:
            base = self.parts[: len(self.parts) + 1 - node.level]
            node.module = ".".join(base + ([node.module] if node.module else []))
            node.level = 0
        return node


def difference(expected: Any, made: Any) -> str:
    """The first place where two trees differ, in one line; empty when they are the same."""
    if isinstance(expected, ast.AST) and type(expected) is type(made):
        pairs = ((getattr(expected, name, None), getattr(made, name, None)) for name in expected._fields)
        inner = next(filter(None, (difference(*pair) for pair in pairs)), "")
        line = getattr(expected, "lineno", None)
        return f"upstream's line {line}: {inner}" if inner and line and "upstream's line" not in inner else inner
    if isinstance(expected, list) and isinstance(made, list):
        return next(filter(None, (difference(*pair) for pair in zip_longest(expected, made))), "")
    same = type(expected) is type(made) and expected == made
    return "" if same else f"expected {_shown(expected)}, got {_shown(made)}"


def _shown(value: Any) -> str:
    text = ast.unparse(value) if isinstance(value, ast.AST) else repr(value)
    return text.strip().split("\n")[0][:100]


# --- what goes in ----------------------------------------------------------------------------------


def top_level(node: ast.AST) -> Iterator[ast.AST]:
    """The statements of a module or class, those in its ``if``, ``try`` and the like as well."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield child
            if not isinstance(child, DEFINITIONS):
                yield from top_level(child)


def kind_of(method: Method) -> str:
    """What the decorators make of a method; ``async`` comes first."""
    marks = [ast.unparse(decorator).rpartition(".")[2] for decorator in method.decorator_list]
    kind = next((mark for mark in SPECIAL if mark in marks), "decorated" if marks else "plain")
    return "async" if isinstance(method, ast.AsyncFunctionDef) else kind


def own_methods(cls: ast.ClassDef) -> list[Method]:
    """The methods of a class itself; of several with one name the last."""
    methods = {Target(cls, node).name: node for node in top_level(cls) if isinstance(node, METHODS)}
    return [method for method in methods.values() if kind_of(method) != "overload"]


def fates(tree: ast.Module) -> list[tuple[ast.ClassDef, str]]:
    """Each top-level class and what (b) does to it.

    A class without a method, whose name another branch gives to a class with methods, is left alone:
    replacing it would replace both.
    """
    classes = [node for node in top_level(tree) if isinstance(node, ast.ClassDef)]
    with_methods = {cls.name for cls in classes if own_methods(cls)}
    return [
        (cls, "overridden" if own_methods(cls) else "left alone" if cls.name in with_methods else "replaced")
        for cls in classes
    ]


def choose_targets(tree: ast.Module, every_method: bool = False) -> list[Target]:
    """What to patch in each class: the last method of a special kind, or ``forward`` and the others in turn."""
    targets = []
    for number, (cls, fate) in enumerate(fates(tree)):
        methods = own_methods(cls)
        special = [node for node in methods if kind_of(node) not in ORDINARY]
        forward = [node for node in methods if node.name == "forward" and number % 2]
        if fate == "replaced":
            targets.append(Target(cls))
        elif fate == "overridden" and every_method:
            targets += [Target(cls, method) for method in methods]
        elif fate == "overridden":
            targets.append(Target(cls, (special or forward or [methods[number % len(methods)]])[-1]))
    return targets


def config_text(module: str, text: str, tree: ast.Module, targets: Sequence[Target]) -> str:
    """A config that patches each target with its own text; it has every name of upstream's module."""
    own_names = {"annotations", "config", "PatchConfig"}
    names = [name for name in bound_names(tree) if not name.startswith("__") and name not in own_names]
    parts = [
        "from __future__ import annotations",
        f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")" if targets and names else "",
        "from patchgen import PatchConfig",
        f'config = PatchConfig("{module}", "patched_{module.rpartition(".")[2]}.py")',
    ]
    for number, target in enumerate(targets):
        if target.method is None:
            parts.append(f'@config.replace_class("{target.name}")\n{own_text(module, text, target.cls)}')
        else:
            own = own_text(module, text, target.method)
            name = f"{target.cls.name.lower()}_{target.method.name.strip('_')}_{number}"
            own = re.sub(rf"\A((?:async\s+)?def\s+){target.method.name}\b", rf"\g<1>{name}", own)
            parts.append(f'@config.override_method("{target.name}")\n{own}')
    return "\n\n".join(parts) + "\n"


def own_text(module: str, text: str, node: ast.ClassDef | Method) -> str:
    """A definition at column 0 with absolute imports; a class with its decorators, a method without.

    Lines that start inside a string stay as they are.
    """
    lines = text.split("\n")
    inside: set[int] = set()
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Constant, ast.JoinedStr)):
            inside.update(range(inner.lineno + 1, last_line(inner) + 1))
        elif isinstance(inner, ast.ImportFrom) and inner.level:
            absolute = Absolute(module.rpartition(".")[0]).visit_ImportFrom(copy.copy(inner))
            lines[inner.lineno - 1] = " " * inner.col_offset + ast.unparse(absolute)
            lines[inner.lineno : last_line(inner)] = [""] * (last_line(inner) - inner.lineno)
    decorators = node.decorator_list if isinstance(node, ast.ClassDef) else []
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    indent = " " * node.col_offset
    kept = range(first, last_line(node) + 1)
    return "\n".join(lines[n - 1] if n in inside else lines[n - 1].removeprefix(indent) for n in kept)


def last_line(node: ast.stmt | ast.expr) -> int:
    assert node.end_lineno is not None
    return node.end_lineno


def bound_names(tree: ast.Module) -> list[str]:
    """Every name that a module binds at its top level, once."""
    names: dict[str, None] = {}
    for node in top_level(tree):
        if isinstance(node, DEFINITIONS):
            names[node.name] = None
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(dict.fromkeys(alias.asname or alias.name.split(".")[0] for alias in node.names))
        elif not hasattr(node, "body"):
            stored = (n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            names.update(dict.fromkeys(name.id for name in stored))
    return list(names)


# --- the command -----------------------------------------------------------------------------------


def report(results: Sequence[Result], seconds: float, jobs: int) -> str:
    """What the sweep prints."""
    classes = sum((result.classes for result in results), Counter[tuple[str, bool]]())
    kinds = sum((result.kinds for result in results), Counter[str]())
    unpatched = [f"(a) {result.module}: {result.unpatched}" for result in results if result.unpatched]
    failures = [f"(b) {result.module}: {failure}" for result in results for failure in result.failures]
    imported = [f"imported for real: {entry}" for result in results for entry in result.imported]
    patches = sum(kinds.values()) + sum(count for (fate, _), count in classes.items() if fate == "replaced")

    def row(title: str, *wanted: str) -> str:
        direct, guarded = (sum(classes[fate, inside] for fate in wanted) for inside in (False, True))
        return f"    {title:<56}{direct:>7,}{guarded:>7,}"

    return "\n".join(
        [
            f"transformers {version('transformers')}: {len(results):,} modeling files, "
            f"{sum(result.lines for result in results):,} lines; {seconds:.0f} s with {jobs} processes",
            f"(a) no patch: {len(results) - len(unpatched):,} of {len(results):,} files give back upstream's tree",
            f"(b) own text: {patches - len(failures):,} of {patches:,} patches give back upstream's tree",
            f"    {'':<56}{'module':>7}{'in if':>7}",
            row("classes with a method overridden", "overridden"),
            row("classes without a method, replaced as a whole", "replaced"),
            row("classes without a method, in a branch: left alone", "left alone"),
            row("classes", "overridden", "replaced", "left alone"),
            f"    methods: {', '.join(f'{count:,} {kind}' for kind, count in kinds.most_common())}",
            *imported,
            *unpatched,
            *failures,
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sweep; 1 when a tree is not upstream's or a rule finds what it should not, 2 for nothing to sweep."""
    parser = argparse.ArgumentParser(prog="python -m tools.sweep", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--files", default="*", metavar="PATTERN", help="such as 'modeling_q*'")
    parser.add_argument("--every-method", action="store_true", help="override every method, not one a class")
    options = parser.parse_args(argv)
    modules = modeling_modules(options.files)
    if not modules:
        parser.error(f"no modeling file matches {options.files!r}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sweep-") as root, ProcessPoolExecutor(options.jobs) as pool:
        folder = Path(root).resolve() / "models"
        folder.mkdir()
        one = partial(sweep, folder=folder, every_method=options.every_method)
        results = list(pool.map(one, modules, chunksize=4))
        print(report(results, time.monotonic() - started, options.jobs), flush=True)
        parts = pool.map(partial(contracts, folder=folder), modules, chunksize=4)
        findings = [finding for part in parts for finding in part]
    print(sweep_findings.report(findings, len(modules)))
    is_bad = any(result.unpatched or result.failures for result in results) or sweep_findings.unexpected(findings)
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main())
