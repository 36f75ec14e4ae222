"""The generator over every modeling file of the installed transformers: does it change nothing by itself?

For each file ``transformers/models/*/modeling_*.py`` two configs are written into a temporary project and
taken through loading, planning and generating, up to the text before ruff:

(a) one without a patch,
(b) one that overrides a method of every class with the method's own text, and replaces every class
    that has no method by its own text.

Both must give back upstream's syntax tree with absolute imports. What that tree is, which classes and
methods there are and what their text is, is worked out here from ``ast`` alone, with nothing of the generator.

    python -m tests.e2e.sweep [--jobs N] [--files PATTERN] [--every-method]
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
from patchgen_core.codegen.source import SourceCache
from patchgen_core.errors import PatchgenError
from patchgen_core.loading import LoadedConfig, Loader
from patchgen_core.project import Project
from patchgen_core.upstream import find_upstream

Method = ast.FunctionDef | ast.AsyncFunctionDef
METHODS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (ast.ClassDef, *METHODS)
PLAIN = "method"


@dataclass(frozen=True)
class Target:
    """One patch of a config: a class's name and line, and the method that is overridden (none: all of it)."""

    cls: ast.ClassDef
    method: Method | None = None

    @property
    def name(self) -> str:
        """The target as a config names it."""
        if self.method is None:
            return self.cls.name
        accessor = {"setter": ".setter", "deleter": ".deleter"}.get(kind_of(self.method), "")
        return f"{self.cls.name}.{self.method.name}{accessor}"


@dataclass
class Result:
    """What the sweep saw in one modeling file.

    Attributes:
        module: its dotted name.
        lines: how many lines it has.
        classes: how many classes stand at its top level.
        guarded: how many more stand in an ``if`` there.
        overridden: classes with a method that was overridden.
        replaced: classes without a method that were replaced.
        shadowed: classes without a method that cannot be named, since a later branch defines the same name.
        kinds: how many methods of each kind were overridden.
        unpatched: what is wrong with (a); empty when nothing is.
        failures: what is wrong with (b), one entry a target.
        imported: why a config was not loaded with stubs, one entry a config.
    """

    module: str
    lines: int = 0
    classes: int = 0
    guarded: int = 0
    overridden: int = 0
    replaced: int = 0
    shadowed: int = 0
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
    wanted = Absolute(module.rpartition(".")[0]).visit(ast.parse(text))
    expected = ast.dump(wanted)
    targets, shadowed = choose_targets(tree, every_method)
    classes = [node for node in top_level(tree) if isinstance(node, ast.ClassDef)]
    result = Result(module, lines=text.count("\n"), shadowed=shadowed)
    result.classes = sum(node in tree.body for node in classes)
    result.guarded = len(classes) - result.classes
    result.overridden = len({id(target.cls) for target in targets if target.method})
    result.replaced = sum(target.method is None for target in targets)
    result.kinds = Counter(kind_of(target.method) for target in targets if target.method)

    def problem(name: str, chosen: Sequence[Target]) -> str:
        config = folder / f"{module.rpartition('.')[2]}_{name}_patch_gen_config.py"
        config.write_text(config_text(module, text, tree, chosen), encoding="utf-8")
        try:
            loaded, generated = generated_text(config, folder)
            if loaded.mode == "imported":
                result.imported.append(f"{module}, config '{name}': {loaded.reason}")
            made = ast.parse(generated)
        except Exception as error:  # one file's failure must not end the sweep
            kind = "" if isinstance(error, PatchgenError) else f"{type(error).__name__}: "
            return f"{kind}{error}".replace("\n", "\n    ")
        return "" if ast.dump(made) == expected else difference(wanted, made)

    result.unpatched = problem("none", [])
    if problem("own", targets):
        alone = [(target, problem(f"own{number}", [target])) for number, target in enumerate(targets)]
        result.failures = [f"{target.name}: {found}" for target, found in alone if found]
        result.failures = result.failures or [f"all together: {problem('own', targets)}"]
    return result


def generated_text(config: Path, folder: Path) -> tuple[LoadedConfig, str]:
    """A config and what is generated from it before ruff, by the way that ``patchgen`` goes."""
    project = Project(search_root=folder, package_prefix=folder.name, root=folder.parent)
    sources = SourceCache()
    loaded = Loader(project, sources).load(config)[0]
    upstream = find_upstream(loaded.config.source_module)
    plan = make_plan(loaded.config, upstream, sources, loaded.modules, loaded.label)
    return loaded, generate(plan).text


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
    """The innermost place where two trees differ, in one line; empty when they are the same."""
    if isinstance(expected, ast.AST) and type(expected) is type(made):
        fields = ((getattr(expected, name, None), getattr(made, name, None)) for name in expected._fields)
        inner = next((found for pair in fields if (found := difference(*pair))), "")
        line = getattr(expected, "lineno", None)
        return f"line {line}: {inner}" if inner and line and not inner.startswith("line ") else inner
    if isinstance(expected, list) and isinstance(made, list):
        return next((found for pair in zip_longest(expected, made) if (found := difference(*pair))), "")
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
    """``async``, a built-in kind of method, ``decorated`` or plain."""
    marks = [ast.unparse(decorator).rpartition(".")[2] for decorator in method.decorator_list]
    special = ("setter", "deleter", "property", "cached_property", "staticmethod", "classmethod", "overload")
    found = next((mark for mark in special if mark in marks), "decorated" if marks else PLAIN)
    return "async" if isinstance(method, ast.AsyncFunctionDef) else found


def choose_targets(tree: ast.Module, every_method: bool = False) -> tuple[list[Target], int]:
    """What to patch in each class, and how many classes cannot be patched.

    Of a class's methods the first that is neither plain nor merely decorated is taken; of a class without such a
    one ``forward``, or for every other class whichever comes next in turn.
    """
    classes = [node for node in top_level(tree) if isinstance(node, ast.ClassDef)]
    named = Counter(node.name for node in classes)
    targets: list[Target] = []
    shadowed = 0
    for number, cls in enumerate(classes):
        methods = {Target(cls, node).name: node for node in top_level(cls) if isinstance(node, METHODS)}
        usable = [node for node in methods.values() if kind_of(node) != "overload"]
        if not usable and named[cls.name] > 1:
            shadowed += 1
        elif not usable:
            targets.append(Target(cls))
        elif every_method:
            targets += [Target(cls, node) for node in usable]
        else:
            special = [node for node in usable if kind_of(node) not in (PLAIN, "decorated")]
            forward = [node for node in usable if node.name == "forward" and number % 2]
            targets.append(Target(cls, (special or forward or usable[number % len(usable) :])[0]))
    return targets, shadowed


def config_text(module: str, text: str, tree: ast.Module, targets: Sequence[Target]) -> str:
    """A config that patches each target with its own text; names in defaults and class bodies come from upstream."""
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
    """A definition's text at column 0 with absolute imports; a class with its decorators, a method without."""
    lines = text.split("\n")
    inside = set()
    for inner in ast.walk(node):
        is_string = isinstance(inner, ast.Constant) and isinstance(inner.value, (str, bytes))
        if is_string or isinstance(inner, ast.JoinedStr):
            inside.update(range(inner.lineno + 1, inner.end_lineno + 1))
        if isinstance(inner, ast.ImportFrom) and inner.level:
            absolute = Absolute(module.rpartition(".")[0]).visit_ImportFrom(copy.copy(inner))
            lines[inner.lineno - 1] = " " * inner.col_offset + ast.unparse(absolute)
            lines[inner.lineno : inner.end_lineno] = [""] * (inner.end_lineno - inner.lineno)
    decorators = node.decorator_list if isinstance(node, ast.ClassDef) else []
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    indent = " " * node.col_offset
    kept = range(first, (node.end_lineno or first) + 1)
    return "\n".join(lines[n - 1] if n in inside else lines[n - 1].removeprefix(indent) for n in kept)


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


def report(results: Sequence[Result], seconds: float, jobs: int) -> tuple[str, bool]:
    """What the sweep prints, and whether everything came out as it went in."""

    def total(name: str) -> int:
        return sum(getattr(result, name) for result in results)

    kinds = sum((result.kinds for result in results), Counter[str]())
    patched = total("overridden") + total("replaced")
    failures = [f"(a) {r.module}: {r.unpatched}" for r in results if r.unpatched]
    unpatched = len(results) - len(failures)
    failed = [f"(b) {r.module}: {failure}" for r in results for failure in r.failures]
    targets = sum(kinds.values()) + total("replaced")
    lines = [
        f"transformers {version('transformers')}: {len(results):,} modeling files, {total('lines'):,} lines; "
        f"{total('classes'):,} classes, and {total('guarded'):,} more in module-level blocks",
        f"(a) no patch: {unpatched:,} of {len(results):,} files have upstream's syntax tree",
        f"(b) own text: {targets - len(failed):,} of {targets:,} patches give upstream's syntax tree, "
        f"over {patched:,} of {total('classes') + total('guarded'):,} classes",
        f"    {sum(kinds.values()):,} overridden methods in {total('overridden'):,} classes: "
        + ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common()),
        f"    {total('replaced'):,} classes without a method, replaced as a whole",
        f"    {total('shadowed'):,} classes without a method that another branch defines with methods: left alone",
        f"loading: {2 * len(results) - sum(bool(r.imported) for r in results):,} of {2 * len(results):,} configs stubbed",
        f"{seconds:.0f} s with {jobs} processes",
    ]
    lines += [entry for result in results for entry in result.imported]
    return "\n".join([*lines, *failures, *failed]), not failures and not failed


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sweep; 0 when everything came out as it went in, 1 when not, 2 when there is nothing to sweep."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.sweep", description=__doc__.split("\n\n")[0])
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
    text, same = report(results, time.monotonic() - started, options.jobs)
    print(text)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
