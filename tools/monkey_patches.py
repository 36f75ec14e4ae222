"""What do the contract rules find in monkey patches that nobody here wrote? `python -m tools.monkey_patches --help`

Reads the modules of an unpacked package for assignments such as ``LlamaAttention.forward = fast_forward``, in which a
class of transformers gets a function of the package, and writes a config for each modeling file with those functions
as overrides. What they use beside upstream's names is imported from where the package has it. Nothing of the package
is run. Then the rules run over what the configs generate, and every finding is printed, errors first.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.selection import Selection
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.config.loading import Loader
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.project.project import CONFIG_SUFFIX, Project
from patchgen_core.syntax.nodes import last_name
from patchgen_core.syntax.source import SourceCache
from tools.sweep import METHODS, Method

_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
_HEAD = """from __future__ import annotations

from patchgen import PatchConfig

config = PatchConfig("{module}", "patched_{name}.py")
"""


@dataclass(frozen=True)
class MonkeyPatch:
    """A method of a class of transformers that a package assigns a function to.

    Attributes:
        module: upstream's modeling module.
        target: ``Class.method``.
        function: the function, without its decorators and annotations.
        imports: the names that it uses and upstream's module lacks, each with an import of it.
    """

    module: str
    target: str
    function: Method
    imports: dict[str, str]


class Package:
    """The modules of an unpacked package, by name."""

    def __init__(self, folder: Path, upstream: Path) -> None:
        paths = [path for path in sorted(folder.rglob("*.py")) if ".data" not in path.parts[0]]
        self.trees = {_dotted(path.relative_to(folder)): tree for path in paths if (tree := _parsed(path)) is not None}
        self.upstream = upstream
        paths = sorted(upstream.glob("transformers/models/*/modeling_*.py"))
        classes = [(name, path) for path in paths for name in _CLASS.findall(path.read_text(encoding="utf-8"))]
        counts = Counter(name for name, _ in classes)
        self.homes = {name: path for name, path in classes if counts[name] == 1}

    def patches(self) -> Iterator[MonkeyPatch]:
        """Every assignment of a function to a method of a class of transformers; the first of each target.

        A class counts where the module names the model's folder: others may have a class of that name.
        """
        seen: set[str] = set()
        texts = {module: ast.unparse(tree) for module, tree in self.trees.items()}
        for module, tree in self.trees.items():
            for node, around in _assignments(tree, (tree,)):
                cls, method, value = _parts(node)
                if (
                    cls not in self.homes
                    or f"{cls}.{method}" in seen
                    or self.homes[cls].parent.name not in texts[module]
                ):
                    continue
                function = self._function(module, value, around)
                if function is not None:
                    seen.add(f"{cls}.{method}")
                    yield self._patch(self.homes[cls], f"{cls}.{method}", *function)

    def _function(
        self, module: str, name: str, around: Sequence[ast.AST] = (), depth: int = 4
    ) -> tuple[str, Method] | None:
        """What a name means inside some functions of a module: a function there, or one of another module."""
        if module not in self.trees or not depth:
            return None
        for block in reversed(around or (self.trees[module],)):
            for node in _own_statements(block):
                if isinstance(node, METHODS) and node.name == name:
                    return module, node
                if isinstance(node, ast.ImportFrom):
                    for alias in node.names:
                        if (alias.asname or alias.name) == name:
                            return self._function(_absolute(module, node, self.trees), alias.name, (), depth - 1)
        return None

    def _patch(self, path: Path, target: str, module: str, function: Method) -> MonkeyPatch:
        upstream = ast.parse(path.read_text(encoding="utf-8"))
        known = {n.id for n in ast.walk(upstream) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        known |= {node.name for node in upstream.body if isinstance(node, (ast.ClassDef, *METHODS))} | {*dir(builtins)}
        known |= {a.asname or a.name for n in upstream.body if hasattr(n, "names") for a in getattr(n, "names", ())}
        function.decorator_list, function.returns = [], None
        for argument in [n for n in ast.walk(function.args) if isinstance(n, ast.arg)]:
            argument.annotation = None
        bound = {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
        bound |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        bound |= {n.name for n in ast.walk(function) if isinstance(n, (ast.ClassDef, *METHODS))}
        used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        imports = {name: f"from {module} import {name}" for name in sorted(used - bound - known)}
        name = _dotted(path.relative_to(self.upstream))
        return MonkeyPatch(name, target, function, imports)


def _parsed(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return None


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _absolute(module: str, node: ast.ImportFrom, trees: dict[str, ast.Module]) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    is_package = any(name.startswith(f"{module}.") for name in trees)
    base = parts[: len(parts) - node.level + is_package]
    return ".".join([*base, *([node.module] if node.module else [])])


def _own_statements(block: ast.AST) -> Iterator[ast.AST]:
    """What stands in a block, without what stands in the functions of it."""
    for child in ast.iter_child_nodes(block):
        yield child
        if not isinstance(child, (ast.ClassDef, *METHODS)):
            yield from _own_statements(child)


def _assignments(block: ast.AST, around: tuple[ast.AST, ...]) -> Iterator[tuple[ast.Assign, tuple[ast.AST, ...]]]:
    """The assignments of names to attributes, each with the functions around it."""
    for node in _own_statements(block):
        if isinstance(node, METHODS):
            yield from _assignments(node, (*around, node))
        elif isinstance(node, ast.ClassDef):
            yield from _assignments(node, around)
        elif isinstance(node, ast.Assign) and _is_patch(node):
            yield node, around


def _is_patch(node: ast.Assign) -> bool:
    return isinstance(node.value, ast.Name) and [type(target) for target in node.targets] == [ast.Attribute]


def _parts(node: ast.Assign) -> tuple[str, str, str]:
    """The class, the method and the function's name of ``Class.method = function``."""
    target, value = node.targets[0], node.value
    assert isinstance(target, ast.Attribute)
    return last_name(target.value), target.attr, last_name(value)


def write_configs(patches: Sequence[MonkeyPatch], folder: Path) -> list[Path]:
    """A config for each modeling module, in a folder of its own."""
    by_module: dict[str, list[MonkeyPatch]] = {}
    for patch in patches:
        by_module.setdefault(patch.module, []).append(patch)
    paths = []
    for module, own in by_module.items():
        name = module.rpartition(".")[2]
        texts = [_HEAD.format(module=module, name=name)]
        imports = {key: line for patch in own for key, line in patch.imports.items()}
        for key, line in imports.items():
            texts.append(f'config.add_import("{line.split()[1]}", names=["{key}"])')
        for number, patch in enumerate(own):
            patch.function.name = f"{patch.function.name}_{number}"
            texts.append(f'\n\n@config.override_method("{patch.target}")\n{ast.unparse(patch.function)}')
        path = folder / name / f"{name}{CONFIG_SUFFIX}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(texts) + "\n", encoding="utf-8")
        paths.append(path)
    return paths


def examine(paths: Sequence[Path], folder: Path, upstream: Path) -> Iterator[tuple[str, str, Problem]]:
    """The findings in each config: its folder, how much they matter and what they are; what does not generate too."""
    sys.path.insert(0, str(upstream))
    project = Project(search_root=folder, package_prefix=folder.name, root=folder.parent)
    sources = SourceCache()
    contracts = Contracts(project, sources)
    for path in paths:
        try:
            (outcome,) = make_artifacts(Selection(project, [path]), loader=Loader(project, sources))
        except PatchgenError as error:
            yield from ((path.parent.name, "refused", problem) for problem in error.problems)
            continue
        if outcome.artifact is None:
            yield from ((path.parent.name, "refused", problem) for problem in outcome.problems)
            continue
        result = contracts.examine(outcome.artifact, path)
        for weight, problems in (("error", result.errors), ("warning", result.warnings)):
            yield from ((path.parent.name, weight, problem) for problem in problems)


def main(argv: Sequence[str] | None = None) -> int:
    """Print what is found in a package's patches; 0 whatever it is."""
    parser = argparse.ArgumentParser(prog="python -m tools.monkey_patches", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("package", type=Path, help="folder that a wheel of the package is unpacked in")
    parser.add_argument("--upstream", type=Path, required=True, help="folder with the transformers it is written for")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the configs")
    options = parser.parse_args(argv)
    folder = options.output.resolve() / "patches"
    patches = list(Package(options.package, options.upstream).patches())
    paths = write_configs(patches, folder)
    findings = list(examine(paths, folder, options.upstream.resolve()))
    for weight in ("refused", "error", "warning"):
        for model, kind, problem in findings:
            if kind == weight:
                print(f"{weight:<8} {model}: {problem.title}")
    counts = Counter((problem.code, weight) for _, weight, problem in findings)
    print(f"{len(patches)} patches in {len(paths)} configs;", dict(sorted(counts.items(), key=str)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
