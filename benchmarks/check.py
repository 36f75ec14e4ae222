"""How long a check takes and how much memory, as ratios to ``python -c "import torch"`` in the same run.

Writes a project of 29 configs over 18 modeling files of the installed transformers into a temporary folder,
generates it, and then runs ``import torch`` and ``patchgen --check`` in turn, each as a process of its own:
15 configs patch a model for a GPU, 11 re-use such a config's functions for an NPU, and 3 re-use a sibling
model's functions through ``name_map``. A second table shows where a check's time goes.

    python benchmarks/check.py [--runs 7] [--keep FOLDER]

With ``--keep`` the project stays there, to profile a check of it.
"""

from __future__ import annotations

import argparse
import ast
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

PATCHGEN = [sys.executable, "-m", "patchgen_core"]
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
OWN = '''
config.add_import("torch.distributed", names=["get_world_size"])
config.add_post_import_block("""
try:
    from fast_kernels import fused_loss
except ImportError:
    fused_loss = None
""")
config.exclude_from_output(*{excluded})
config.patches.append(
    create_patch_from_external("{norm}", "liger_kernel.transformers.rms_norm", "LigerRMSNorm", "Fused RMSNorm")
)

@config.add_helper
def mark_step(name: str, tensor: torch.Tensor | None = None) -> None:
    """Name a step for the profiler."""
    if fused_loss is not None and get_world_size() > 1 and isinstance(tensor, torch.Tensor):
        torch._assert(tensor.dim() > 0, name)

@config.modify_init("{attention}")
def attention_init_patched(original_init, self, *args, **kwargs):
    original_init(self, *args, **kwargs)
    self.is_fused = True

@config.override_method("{head}.get_parallel_plan", description="Expert parallelism")
def get_parallel_plan_patched(self):
    return {{"experts": nn.Identity}}
'''
INHERITED = """
config.helpers.extend(base.helpers)
config.post_import_blocks.extend(base.post_import_blocks)
config.additional_imports.extend(base.additional_imports)
config.modify_init("{attention}", replacement=attention_init_patched)
config.override_method("{head}.get_parallel_plan", replacement=get_parallel_plan_patched)
"""


class Upstream:
    """A modeling file, and what the configs for it patch."""

    def __init__(self, model: str, models: Path) -> None:
        self.model, self.module = model, f"transformers.models.{model}.modeling_{model}"
        self.config = f"{model}.{model}_gpu_patch_gen_config"
        self.lines = (models / model / f"modeling_{model}.py").read_text(encoding="utf-8").split("\n")
        tree = ast.parse("\n".join(self.lines))
        classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        bound = {alias.asname or alias.name for node in tree.body for alias in getattr(node, "names", [])}
        bound |= {getattr(name, "id", "") for node in tree.body for name in getattr(node, "targets", [])}
        self.names = {*classes, *functions, *bound} - {"torch", "nn"}
        self.excluded = [name for name in classes if name.endswith("ForTokenClassification")]
        self.norm = next(name for name in classes if name.endswith("RMSNorm"))
        self.attention = next(name for name in classes if "Attention" in name)
        self.head = next(name for name in reversed(classes) if name.endswith(("ForCausalLM", "Generation", "Model")))
        mlp = next(name for name in classes if name.endswith(("MLP", "Experts")))
        rotary = min(functions, key="apply_rotary_pos_emb".__ne__)
        self.methods = {
            f"{name}.{node.name}": node
            for name, cls in classes.items()
            for node in cls.body
            if name not in (self.norm, mlp, *self.excluded) and isinstance(node, ast.FunctionDef)
        }
        del self.methods[f"{self.attention}.__init__"]
        longest = sorted(self.methods, key=lambda name: len(self._text(self.methods[name])), reverse=True)
        chosen = [name for name in longest if "\n        from ." not in "\n".join(self._text(self.methods[name]))]
        self.patched = {mlp: classes[mlp], rotary: functions[rotary]} | {n: self.methods[n] for n in chosen[:7]}
        self.norm_forward = next(node for node in classes[self.norm].body if getattr(node, "name", "") == "forward")

    def _text(self, node: ast.stmt) -> list[str]:
        return [line.removeprefix(" " * node.col_offset) for line in self.lines[node.lineno - 1 : node.end_lineno]]

    def used(self, nodes: Iterable[ast.AST]) -> set[str]:
        """Names of the module that definitions use."""
        return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)} & self.names

    def head_text(self, device: str, nodes: Iterable[ast.AST], inherits: str = "") -> str:
        """The top of a config with patches that hold these definitions."""
        names = ", ".join(sorted({self.norm, *self.used(nodes)}))
        return HEAD.format(**vars(self) | {"device": device, "names": names, "inherits": inherits})

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


def function_name(target: str) -> str:
    """What a config calls its replacement."""
    return f"{target.replace('.', '_').lower()}_patched"


def call(target: str) -> str:
    """The method of the DSL for a target."""
    return "override_method" if "." in target else "replace_class" if target[0].isupper() else "replace_function"


def gpu_config(upstream: Upstream) -> str:
    """A config with 12 patches."""
    text = upstream.head_text("gpu", upstream.patched.values()) + OWN.format(**vars(upstream))
    return text + "".join(upstream.patch(target, node) for target, node in upstream.patched.items())


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
    """Write the project and generate it."""
    from patchgen_core.upstream import find_upstream

    models = find_upstream("transformers.models").path.parent
    found = {model: Upstream(model, models) for model in [*GPU.split(), *SIBLINGS]}
    configs = {(model, "gpu"): gpu_config(found[model]) for model in GPU.split()}
    configs |= {(model, "npu"): inheriting_config("npu", found[model], found[model]) for model in NPU.split()}
    for model, (base, old, new) in SIBLINGS.items():
        configs[model, "gpu"] = inheriting_config("gpu", found[model], found[base], old, new)
    (root / "pyproject.toml").write_text(PYPROJECT)
    for (model, device), text in configs.items():
        folder = root / "bench" / "models" / model
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text("import torch\nimport transformers\n")
        (folder / f"{model}_{device}_patch_gen_config.py").write_text(text, encoding="utf-8")
    subprocess.run([*PATCHGEN, "--all", "--diff"], cwd=root, check=True, stdout=subprocess.DEVNULL)


def measure(command: list[str], root: Path) -> tuple[float, float]:
    """Seconds that a process takes, and the MiB of it or of the largest of its children."""
    started = time.perf_counter()
    with subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return time.perf_counter() - started, usage.ru_maxrss / (1024 if sys.platform == "linux" else 2**20)


def apart(function: Callable[[Path], Any], root: Path) -> Any:
    """Call a function in a fresh process: the peak memory of later ones starts at that of this process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, root).result()


def phases(root: Path) -> tuple[dict[str, float], dict[str, int]]:
    """One check in this process: the seconds of each phase, none counted twice, and how much there was to do."""
    started = time.perf_counter()
    from patchgen_core import artifacts, drift, loading, normalize, project

    seconds: dict[str, float] = defaultdict(float)
    seconds["importing patchgen"] = time.perf_counter() - started
    inner = [0.0]

    def clock(owner: Any, name: str, phase: str | Callable[..., str]) -> None:
        function = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            inner.append(0.0)
            begin = time.perf_counter()
            result = function(*args, **kwargs)
            spent = time.perf_counter() - begin
            seconds[phase if isinstance(phase, str) else phase(*args)] += spent - inner.pop()
            inner[-1] += spent
            return result

        setattr(owner, name, timed)

    clock(loading.Loader, "load", "loading configs")
    clock(artifacts, "find_upstream", "finding upstream")
    clock(artifacts, "make_plan", "planning")
    clock(artifacts, "generate", "generating")
    clock(artifacts, "normalize", "ruff: writing and reading files")
    clock(normalize, "_ruff", lambda arguments, folder: f"ruff {' '.join(arguments[:2])}")
    clock(artifacts, "unified_diff", "making diffs")
    clock(drift, "compare", "comparing")
    report = drift.check(project.load_project(root))
    seconds["everything else"] = time.perf_counter() - started - sum(seconds.values())
    outcomes = [result.outcome for result in report.results]
    made = [outcome.artifact for outcome in outcomes if outcome.artifact]
    upstream = {artifact.plan.upstream.path: artifact.plan.source.text.count("\n") for artifact in made}
    amounts = {
        "configs": len(made),
        "imported for real": sum(outcome.loaded.mode == "imported" for outcome in outcomes if outcome.loaded),
        "patches": sum(len(artifact.plan.patches) for artifact in made),
        "upstream files": len(upstream),
        "upstream lines": sum(upstream.values()),
        "generated lines": sum(artifact.text.count("\n") for artifact in made),
    }
    return dict(seconds), amounts


def print_tables(root: Path, runs: int) -> None:
    """Make the project in ``root``, measure its check and say what was measured."""
    apart(make_project, root)
    commands = {"import torch": [sys.executable, "-c", "import torch"], "patchgen --check": [*PATCHGEN, "--check"]}
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    inside = []
    for _ in range(runs + 1):  # the first run fills the operating system's caches and does not count
        for name, command in commands.items():
            samples[name].append(measure(command, root))
        inside.append(apart(phases, root))
    print(", ".join(f"{value:,} {name}" for name, value in inside[0][1].items()))
    print(f"\n{f'medians of {runs} runs':<40}{'s':>8}{'ratio':>8}{'MiB':>8}{'ratio':>8}")
    base = [1.0, 1.0]
    for name, taken in samples.items():
        seconds, memory = (statistics.median(column) for column in zip(*taken[1:]))
        base = [seconds, memory] if name == "import torch" else base
        print(f"{name:<40}{seconds:>8.2f}{seconds / base[0]:>8.2f}{memory:>8.0f}{memory / base[1]:>8.2f}")
    print("\nwhere the time of a check goes")
    for phase in inside[0][0]:
        print(f"{phase:<40}{statistics.median(seconds[phase] for seconds, _ in inside[1:]):>8.2f}")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=7, help="how often each command runs (default: 7)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the project in this folder and leave it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as folder:
        root = (options.keep or Path(folder, "project")).resolve()
        root.mkdir(parents=True)
        print_tables(root, options.runs)


if __name__ == "__main__":
    main()
