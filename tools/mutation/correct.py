"""Correct configs to break: those of the zoo, and some that override all of a modeling file with its own text."""

from __future__ import annotations

import ast
import gc
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.codegen.generate import generate
from patchgen_core.codegen.plan import make_plan
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.project.project import CONFIG_SUFFIX, Project
from patchgen_core.project.table import load_project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upstream.module import find_upstream
from tools.mutation.configs import Config, split
from tools.sweep import METHODS, choose_targets, config_text

ROOT = Path(__file__).parents[2]
ZOO_MODELS = ("llama", "qwen3_moe")
SLOTS = """
config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_post_import_block('''
fused_norm = OpSlot("rms_norm", "standard")
fused_rotary = OpSlot(op_name="apply_rotary_pos_emb", variant="full")
fused = {op: OpSlot(op, "standard") for op in ("swiglu_mlp", "cross_entropy_loss")}
''')
"""
KERNELS = """
from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec

KERNEL_REGISTRY.register(KernelSpec(name="liger", op_name="rms_norm", variant="standard", factory=print))
KERNEL_REGISTRY.register(KernelSpec("liger", "apply_rotary_pos_emb", "full", print))
for op in ("swiglu_mlp", "cross_entropy_loss"):
    KERNEL_REGISTRY.register(KernelSpec(name="liger", op_name=op, variant="standard", factory=print))
"""
_COLLECTED_AFTER = 100
"""Looking for garbage among syntax trees takes as long as making them: it is done once in so many mutants."""


class Generator:
    """Generates configs in one folder of a project.

    Args:
        project: the project.
        folder: where configs are written.
        sources: files that are parsed already.
    """

    def __init__(self, project: Project, folder: Path, sources: SourceCache | None = None) -> None:
        self.project, self.folder, self.number = project, folder, 0
        self.sources = SourceCache() if sources is None else sources
        self.contracts = Contracts(self.project, self.sources)
        self.upstream = cache(find_upstream)

    def load(self, text: str) -> LoadedConfig:
        """A config of the folder."""
        self.number += 1
        if self.number % _COLLECTED_AFTER == 0:
            gc.collect()
        path = self.folder / f"m{self.number}_patch_gen_config.py"
        path.write_text(text, encoding="utf-8")
        return Loader(self.project, self.sources).load(path)[0]

    def make(self, loaded: LoadedConfig) -> Artifact:
        """What a config generates, before ruff."""
        upstream = self.upstream(loaded.config.source_module)
        plan = make_plan(loaded.config, upstream, self.sources, loaded.modules, loaded.label)
        path = self.folder / "generated" / loaded.config.target_file
        return Artifact(plan, path, generate(plan).text, lambda: plan.source.text)

    def errors(self, text: str) -> list[str]:
        """What all error rules say of a config."""
        loaded = self.load(text)
        return [problem.title for problem in self.contracts.examine(self.make(loaded), loaded.path).errors]


def own_text(model: str, folder: Path) -> tuple[Config, Generator]:
    """A config that overrides every method and function of a model with its own text."""
    (folder / "__init__.py").touch()
    (folder / "kernels.py").write_text(KERNELS, encoding="utf-8")
    kernels = (f"{folder.name}.kernels",)
    project = Project(search_root=folder, package_prefix=folder.name, root=folder.parent, kernels=kernels)
    generator = Generator(project, folder)
    module = f"transformers.models.{model}.modeling_{model}"
    text = find_upstream(module).path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    own = config_text(module, text, tree, choose_targets(tree, every_method=True))
    for node in tree.body:
        if isinstance(node, METHODS):
            own += f'\n\n@config.replace_function("{node.name}")\n{ast.unparse(node)}\n'
    return _config(f"own text: {model}", f"{own}\n{SLOTS}", generator, is_alone=True), generator


def zoo_configs(folder: Path) -> list[tuple[Config, Generator]]:
    """Configs of the zoo that have a patch of every kind, in a copy of it."""
    zoo = load_project(ROOT)
    copy = folder / zoo.search_root.name
    shutil.copytree(zoo.search_root, copy, ignore=shutil.ignore_patterns("__pycache__", "generated"))
    project = replace(zoo, search_root=copy, root=folder)
    configs = []
    for model in ZOO_MODELS:
        path = copy / model / f"{model}_gpu{CONFIG_SUFFIX}"
        generator = Generator(project, path.parent)
        text = path.read_text(encoding="utf-8")
        configs.append((_config(f"zoo: {path.name.removesuffix(CONFIG_SUFFIX)}", text, generator), generator))
    return configs


def _config(name: str, text: str, generator: Generator, is_alone: bool = False) -> Config:
    artifact = generator.make(generator.load(text))
    package = generator.project.package_prefix
    return Config(name, split(text), artifact.text, artifact.plan.source.text, is_alone, package)
