"""How many defects do the contract rules find?

Correct configs are broken by machine (:mod:`tools.defects`), one defect at a time and in every place it fits: the
configs of ``examples/zoo``, and configs over modeling files of transformers that override every method and function
with its own text. For each defect the rule of that defect runs over what the broken config generates; it is found when
the rule says the right thing about the right target.

    python -m tools.mutations [--jobs N] [--models NAMES] [--select CODES] [--missed]
"""

from __future__ import annotations

import argparse
import ast
import gc
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.checks.contract.rule import Finding, Rule
from patchgen_core.checks.contract.rules import RULES
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.codegen.generate import generate
from patchgen_core.codegen.plan import make_plan
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import CONFIG_SUFFIX, Project, load_project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upstream.module import find_upstream
from tools.defects import BY_RULE
from tools.defects.base import Base, Expected, Mutant, split
from tools.sweep import METHODS, choose_targets, config_text

ROOT = Path(__file__).parents[1]
MODELS = ("llama", "qwen3", "qwen3_moe", "qwen3_vl_moe", "deepseek_v3", "gpt_oss", "qwen2_5_omni")
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

RULES_BY_CODE: dict[str, Rule] = {rule.code: rule for rule in RULES}


@dataclass
class Score:
    """What came of the mutants of one kind.

    Attributes:
        owed: how many findings they should give.
        found: how many of them were there.
        refused: how many configs are refused for another reason than the rule's; they owe nothing.
        missed: the findings that were not there, and why configs were refused.
    """

    owed: int = 0
    found: int = 0
    refused: int = 0
    missed: list[str] = field(default_factory=list)

    def add(self, other: Score) -> None:
        """Count another score in."""
        self.owed, self.found = self.owed + other.owed, self.found + other.found
        self.refused, self.missed = self.refused + other.refused, self.missed + other.missed


Scores = dict[tuple[str, str], Score]
"""By rule and kind of mutant."""


class Bench:
    """Generates configs in one folder of a project, and runs one rule over what they make."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project, self.folder, self.number = project, folder, 0
        self.sources = SourceCache()
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
        return Artifact(plan, path, generate(plan).text, path.with_suffix(".diff"), "", plan.source.text)

    def errors(self, text: str) -> list[str]:
        """What all error rules say of a config."""
        loaded = self.load(text)
        return [problem.title for problem in self.contracts.examine(self.make(loaded), loaded.path).errors]

    def judge(self, mutant: Mutant) -> Score:
        """Which of the findings that are owed for a mutant are there."""
        try:
            findings = list(
                RULES_BY_CODE[mutant.code].check(self.contracts.subject(self.make(self.load(mutant.text))))
            )
        except PatchgenError as error:
            if not any(problem.code == mutant.code for problem in error.problems):
                return Score(refused=1, missed=[f"{mutant.kind}: {mutant.what}: refused: {error}"])
            return Score(len(mutant.expected), len(mutant.expected))
        score = Score(len(mutant.expected))
        for expected in mutant.expected:
            is_found = any(_fits(finding, expected) for finding in findings)
            score.found += is_found
            if not is_found:
                score.missed.append(f"{mutant.kind}: {mutant.what}: {expected.node} in {expected.target or 'any'}")
        return score


def _fits(finding: Finding, expected: Expected) -> bool:
    return (
        expected.target in ("", finding.target)
        and any(text in finding.message for text in expected.mentions)
        and (not expected.node or (finding.node is not None and ast.unparse(finding.node) == expected.node))
    )


# --- correct configs -------------------------------------------------------------------------------------


def own_text(model: str, folder: Path) -> tuple[Base, Bench]:
    """A config that overrides every method and function of a model with its own text."""
    (folder / "kernels.py").write_text(KERNELS, encoding="utf-8")
    kernels = (f"{folder.name}.kernels",)
    bench = Bench(Project(search_root=folder, package_prefix=folder.name, root=folder.parent, kernels=kernels), folder)
    module = f"transformers.models.{model}.modeling_{model}"
    text = find_upstream(module).path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    config = config_text(module, text, tree, choose_targets(tree, every_method=True))
    for node in tree.body:
        if isinstance(node, METHODS):
            config += f'\n\n@config.replace_function("{node.name}")\n{ast.unparse(node)}\n'
    return _base(f"own text: {model}", f"{config}\n{SLOTS}", bench, is_alone=True), bench


def zoo_configs(folder: Path) -> list[tuple[Base, Bench]]:
    """Configs of the zoo that have a patch of every kind, in a copy of it."""
    zoo = load_project(ROOT)
    copy = folder / zoo.search_root.name
    shutil.copytree(zoo.search_root, copy, ignore=shutil.ignore_patterns("__pycache__", "generated"))
    project = replace(zoo, search_root=copy, root=folder)
    found = []
    for model in ZOO_MODELS:
        path = copy / model / f"{model}_gpu{CONFIG_SUFFIX}"
        bench = Bench(project, path.parent)
        text = path.read_text(encoding="utf-8")
        found.append((_base(f"zoo: {path.name.removesuffix(CONFIG_SUFFIX)}", text, bench), bench))
    return found


def _base(name: str, text: str, bench: Bench, is_alone: bool = False) -> Base:
    artifact = bench.make(bench.load(text))
    return Base(name, split(text), artifact.text, artifact.plan.source.text, is_alone)


# --- the command -----------------------------------------------------------------------------------------


def judge_all(base: Base, bench: Bench, codes: Sequence[str]) -> Scores:
    """Break a config in every way and count."""
    scores: Scores = {}
    for code in codes:
        for mutant in BY_RULE[code](base):
            scores.setdefault((code, mutant.kind), Score()).add(bench.judge(mutant))
    for score in scores.values():
        score.missed = [f"{base.name}: {entry}" for entry in score.missed]
    return scores


def judge_model(model: str, codes: Sequence[str]) -> Scores:
    """Break the own-text config of a model, or those of the zoo for an empty name."""
    gc.disable()
    try:
        with tempfile.TemporaryDirectory(prefix="mutations-") as root:
            folder = Path(root).resolve() / "models"
            folder.mkdir()
            bases = [own_text(model, folder)] if model else zoo_configs(folder)
            return merged([judge_all(base, bench, codes) for base, bench in bases])
    finally:
        gc.enable()


def merged(parts: Sequence[Scores]) -> Scores:
    """The sum of scores."""
    scores: Scores = {}
    for part in parts:
        for key, score in part.items():
            scores.setdefault(key, Score()).add(score)
    return scores


def table(scores: Scores) -> str:
    """What was found of what, by kind and by rule."""
    rows = [f"{'defect':<44}{'owed':>8}{'found':>8}{'of 100':>8}{'refused':>9}"]
    for code in sorted({code for code, _ in scores}):
        kinds = {kind: score for (other, kind), score in scores.items() if other == code}
        total = Score()
        for score in kinds.values():
            total.add(score)
        for name, score in {code: total, **{f"  {kind}": score for kind, score in kinds.items()}}.items():
            share = 100 * score.found / score.owed if score.owed else 100
            rows.append(f"{name:<44}{score.owed:>8,}{score.found:>8,}{share:>8.1f}{score.refused:>9,}")
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Run all mutations; 1 when fewer than 95 of 100 are found for a rule."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutations", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--models", default=",".join(MODELS), help="models of transformers to break, beside the zoo")
    parser.add_argument("--select", default=",".join(BY_RULE), metavar="CODES", help="rules to measure")
    parser.add_argument("--missed", action="store_true", help="list what was not found")
    options = parser.parse_args(argv)
    codes = [code for code in options.select.split(",") if code in RULES_BY_CODE]
    models = ["", *filter(None, options.models.split(","))]
    started = time.monotonic()
    with ProcessPoolExecutor(options.jobs) as pool:
        tasks = [(model, [code]) for model in reversed(models) for code in codes]
        scores = merged(list(pool.map(judge_model, *zip(*tasks))))
    print(table(scores))
    print(f"{time.monotonic() - started:.0f} s with {options.jobs} processes")
    if options.missed:
        print(*(entry for score in scores.values() for entry in score.missed), sep="\n")
    shares = Counter[str]()
    for (code, _), score in scores.items():
        shares[code] += 5 * score.owed - 100 * (score.owed - score.found)
    return 1 if any(share < 0 for share in shares.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
