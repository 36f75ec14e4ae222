"""The projects that benchmarks run on, made of the modeling files of the installed transformers.

:func:`make_project` makes one of 29 configs over 18 modeling files: 15 configs patch a model for a GPU, 11 re-use such
a config's functions for an NPU, and 3 re-use a sibling model's functions through ``name_map``.
:func:`make_wide_project` makes one with a config for every modeling file, which overrides its five longest methods.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PATCHGEN = [sys.executable, "-m", "patchgen_core"]
WIDE_METHODS = 5
NPU = "deepseek_v3 llama qwen2 qwen2_5_omni qwen2_5_vl qwen2_vl qwen3_5 qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl"
GPU = f"{NPU} gemma3n glm_moe_dsa gpt_oss mixtral"
SIBLINGS = {  # model: whose functions it re-uses, and the class prefixes
    "qwen3": ("qwen2", "Qwen2", "Qwen3"),
    "qwen3_5_moe": ("qwen3_5", "Qwen3_5", "Qwen3_5Moe"),
    "qwen3_vl_moe": ("qwen3_vl", "Qwen3VL", "Qwen3VLMoe"),
}
PYPROJECT = """[tool.patchgen]
search_root = "bench/models"
package_prefix = "bench.models"
[tool.ruff]
line-length = 119
lint.select = ["E", "F", "I", "W"]
lint.ignore = ["E501"]
"""
HEAD = '''"""{model} on a {device}."""
import torch
from patchgen import PatchConfig, create_patch_from_external
from torch import nn
from {module} import {names}
{inherits}
config = PatchConfig(
    source_module="{module}",
    target_file="patched_modeling_{model}_{device}.py",
    description="{model} with fused kernels for {device} training",
)
'''
HELPER = '''
config.add_import("torch.distributed", names=["get_world_size"])
config.add_post_import_block("""
try:
    from fast_kernels import fused_loss
except ImportError:
    fused_loss = None
""")

@config.add_helper
def mark_step(name: str, tensor: torch.Tensor | None = None) -> None:
    """Name a step for the profiler."""
    if fused_loss is not None and get_world_size() > 1 and isinstance(tensor, torch.Tensor):
        torch._assert(tensor.dim() > 0, name)
'''
OWN = """
config.exclude_from_output(*{excluded})
config.patches.append(
    create_patch_from_external("{norm}", "liger_kernel.transformers.rms_norm", "LigerRMSNorm", "Fused RMSNorm")
)

@config.modify_init("{attention}")
def attention_init_patched(original_init, self, *args, **kwargs):
    original_init(self, *args, **kwargs)
    self.is_fused = True

@config.override_method("{head}.get_parallel_plan", description="Expert parallelism")
def get_parallel_plan_patched(self):
    return {{"experts": nn.Identity}}
"""
INHERITED = """
config.helpers.extend(base.helpers)
config.post_import_blocks.extend(base.post_import_blocks)
config.additional_imports.extend(base.additional_imports)
config.modify_init("{attention}", replacement=attention_init_patched)
config.override_method("{head}.get_parallel_plan", replacement=get_parallel_plan_patched)
"""
_SOURCE = re.compile(r'source_module="(.+)"')
_PATCH = re.compile(r"^@?config\.(?:override_method|replace_\w+|modify_init|patches\.append)\(", re.MULTILINE)


class ModelingFile:
    """A modeling file, and the text of patches of it."""

    def __init__(self, path: Path) -> None:
        self.model = path.stem.removeprefix("modeling_")
        self.module = f"transformers.models.{path.parent.name}.{path.stem}"
        self.lines = path.read_text(encoding="utf-8").split("\n")
        tree = ast.parse("\n".join(self.lines))
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        bound = {alias.asname or alias.name for node in tree.body for alias in getattr(node, "names", [])}
        bound |= {getattr(name, "id", "") for node in tree.body for name in getattr(node, "targets", [])}
        self.names = {*self.classes, *self.functions, *bound} - {"torch", "nn"}

    def _text(self, node: ast.stmt) -> list[str]:
        return [line.removeprefix(" " * node.col_offset) for line in self.lines[node.lineno - 1 : node.end_lineno]]

    def methods_but(self, *left_out: str) -> dict[str, ast.FunctionDef]:
        """The methods of all classes but these."""
        return {
            f"{name}.{node.name}": node
            for name, cls in self.classes.items()
            for node in cls.body
            if name not in left_out and isinstance(node, ast.FunctionDef)
        }

    def longest(self, methods: dict[str, ast.FunctionDef], count: int) -> dict[str, ast.FunctionDef]:
        """The longest of these methods, without those that import a sibling."""
        names = sorted(methods, key=lambda name: len(self._text(methods[name])), reverse=True)
        chosen = [name for name in names if "\n        from ." not in "\n".join(self._text(methods[name]))]
        return {name: methods[name] for name in chosen[:count]}

    def used(self, nodes: Iterable[ast.AST]) -> set[str]:
        """Names of the module that definitions use."""
        return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)} & self.names

    def patch(self, target: str, node: Any) -> str:
        """A patch with upstream's own text and, in a function, two more lines."""
        lines = self._text(node)
        if isinstance(node, ast.FunctionDef):
            first = node.body[1] if ast.get_docstring(node) else node.body[0]
            indent = " " * (first.col_offset - node.col_offset)
            added = [f"{indent}# --- Patch.1: a step of its own in profiles ---", f'{indent}mark_step("{target}")']
            lines[first.lineno - node.lineno : first.lineno - node.lineno] = added
        text = "\n".join(lines).replace(node.name, function_name(target), 1)
        return f'\n\n@config.{call(target)}("{target}", description="Fused")\n{text}\n'


class Upstream(ModelingFile):
    """A modeling file of a language model, and what the configs for it patch."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.config = f"{self.model}.{self.model}_gpu_patch_gen_config"
        classes, functions = self.classes, self.functions
        self.excluded = [name for name in classes if name.endswith("ForTokenClassification")]
        self.norm = next(name for name in classes if name.endswith("RMSNorm"))
        self.attention = next(name for name in classes if "Attention" in name)
        self.head = next(name for name in reversed(classes) if name.endswith(("ForCausalLM", "Generation", "Model")))
        mlp = next(name for name in classes if name.endswith(("MLP", "Experts")))
        rotary = min(functions, key="apply_rotary_pos_emb".__ne__)
        self.methods = self.methods_but(self.norm, mlp, *self.excluded)
        del self.methods[f"{self.attention}.__init__"]
        self.patched = {mlp: classes[mlp], rotary: functions[rotary], **self.longest(self.methods, 7)}
        self.norm_forward = next(node for node in classes[self.norm].body if getattr(node, "name", "") == "forward")

    def head_text(self, device: str, nodes: Iterable[ast.AST], inherits: str = "") -> str:
        """The top of a config with patches that hold these definitions."""
        names = ", ".join(sorted({self.norm, *self.used(nodes)}))
        return HEAD.format(**vars(self) | {"device": device, "names": names, "inherits": inherits})


def function_name(target: str) -> str:
    """What a config calls its replacement."""
    return f"{target.replace('.', '_').lower()}_patched"


def call(target: str) -> str:
    """The method of the DSL for a target."""
    return "override_method" if "." in target else "replace_class" if target[0].isupper() else "replace_function"


def gpu_config(upstream: Upstream) -> str:
    """A config with 12 patches."""
    text = upstream.head_text("gpu", upstream.patched.values()) + HELPER + OWN.format(**vars(upstream))
    return text + "".join(upstream.patch(target, node) for target, node in upstream.patched.items())


def wide_config(upstream: ModelingFile) -> str:
    """A config that overrides the longest methods."""
    methods = {
        name: node
        for name, node in upstream.methods_but().items()
        if node.body[-1].lineno > node.body[0].lineno > node.lineno and not any(map(_is_accessor, node.decorator_list))
    }
    chosen = upstream.longest(methods, WIDE_METHODS)
    names = ", ".join(sorted(upstream.used(chosen.values()))) or "__name__"
    head = HEAD.format(**vars(upstream) | {"device": "gpu", "names": names, "inherits": ""})
    head += 'config.add_import("torch")\n'  # some lack it
    return head + HELPER + "".join(upstream.patch(target, node) for target, node in chosen.items())


def _is_accessor(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).endswith(("property", ".setter"))


def inheriting_config(device: str, upstream: Upstream, base: Upstream, old: str = "", new: str = "") -> str:
    """A config that re-uses the functions of another one, as far as they fit, and adds one of its own."""
    known = {*upstream.methods, *upstream.names}
    needed = {target: [target, *base.used([node])] for target, node in base.patched.items()}
    fitting = [t for t, names in needed.items() if known.issuperset(name.replace(old, new) for name in names)]
    functions = {*map(function_name, fitting), "attention_init_patched", "get_parallel_plan_patched", "mark_step"}
    inherits = f"from bench.models.{base.config} import config as base, {', '.join(sorted(functions))}"
    text = upstream.head_text(device, [upstream.norm_forward], inherits) + INHERITED.format(**vars(upstream))
    name_map = f', name_map={{"{old}": "{new}"}}' if old else ""
    for target in fitting:
        mapped = target.replace(old, new)
        text += f'config.{call(target)}("{mapped}", replacement={function_name(target)}{name_map})\n'
    return text + upstream.patch(f"{upstream.norm}.forward", upstream.norm_forward)


def make_project(root: Path) -> None:
    """Write the project of 29 configs and generate it."""
    models = _models()
    found = {model: Upstream(models / model / f"modeling_{model}.py") for model in [*GPU.split(), *SIBLINGS]}
    configs = {(model, "gpu"): gpu_config(found[model]) for model in GPU.split()}
    configs |= {(model, "npu"): inheriting_config("npu", found[model], found[model]) for model in NPU.split()}
    for model, (base, old, new) in SIBLINGS.items():
        configs[model, "gpu"] = inheriting_config("gpu", found[model], found[base], old, new)
    _write(root, {(model, f"{model}_{device}"): text for (model, device), text in configs.items()})


def make_wide_project(root: Path) -> None:
    """Write a project with a config for every modeling file of transformers, and generate it."""
    files = sorted(_models().glob("*/modeling_*.py"))
    made = [(path.parent.name, ModelingFile(path)) for path in files]
    _write(root, {(folder, f"{upstream.model}_gpu"): wide_config(upstream) for folder, upstream in made})


def _models() -> Path:
    from patchgen_core.upstream.module import find_upstream

    return find_upstream("transformers.models").path.parent


def _write(root: Path, configs: Mapping[tuple[str, str], str]) -> None:
    """Write configs, by their folder and name, and generate what they make."""
    (root / "pyproject.toml").write_text(PYPROJECT)
    for (model, name), text in configs.items():
        folder = root / "bench" / "models" / model
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text("import torch\nimport transformers\n")
        (folder / f"{name}_patch_gen_config.py").write_text(text, encoding="utf-8")
    subprocess.run([*PATCHGEN, "--all", "--diff"], cwd=root, check=True, stdout=subprocess.DEVNULL)


def amounts(root: Path) -> dict[str, int]:
    """How much there is to do in a project."""
    configs = [path.read_text(encoding="utf-8") for path in root.glob("bench/models/*/*_patch_gen_config.py")]
    modules = {module for text in configs for module in _SOURCE.findall(text)}
    upstream = [_models() / Path(*module.split(".")[2:]).with_suffix(".py") for module in modules]
    return {
        "configs": len(configs),
        "lines of them": sum(text.count("\n") for text in configs),
        "patches": sum(len(_PATCH.findall(text)) for text in configs),
        "upstream files": len(upstream),
        "upstream lines": sum(path.read_bytes().count(b"\n") for path in upstream),
        "generated lines": sum(path.read_bytes().count(b"\n") for path in root.glob("bench/models/*/generated/*.py")),
    }
