"""How many defects do the contract rules find? `python -m tools.mutation.rules [--help]`

Correct configs are broken in every place that a defect fits: the configs of ``examples/zoo``, and configs over
modeling files of transformers that override every method and function with its own text. For each defect the rule of
that defect runs over what the broken config generates; it is found when the rule says the right thing about the right
target.
"""

from __future__ import annotations

import argparse
import ast
import gc
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from patchgen_core.checks.contract.rule import Finding, Rule
from patchgen_core.checks.contract.rules import RULES
from patchgen_core.errors import PatchgenError
from tools.mutation.configs import Config
from tools.mutation.correct import Generator, own_text, zoo_configs
from tools.mutation.mutant import Expected, RuleMutant
from tools.mutation.operators import BY_RULE

MODELS = ("llama", "qwen3", "qwen3_moe", "qwen3_vl_moe", "deepseek_v3", "gpt_oss", "qwen2_5_omni")
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


def judge(generator: Generator, mutant: RuleMutant) -> Score:
    """Which of the findings that are owed for a mutant are there."""
    try:
        findings = list(
            RULES_BY_CODE[mutant.rule].check(generator.contracts.subject(generator.make(generator.load(mutant.text))))
        )
    except PatchgenError as error:
        if not any(problem.code == mutant.rule for problem in error.problems):
            return Score(refused=1, missed=[f"{mutant.operator}: {mutant.place}: refused: {error}"])
        return Score(len(mutant.expected), len(mutant.expected))
    score = Score(len(mutant.expected))
    for expected in mutant.expected:
        is_found = any(_fits(finding, expected) for finding in findings)
        score.found += is_found
        if not is_found:
            score.missed.append(f"{mutant.operator}: {mutant.place}: {expected.node} in {expected.target or 'any'}")
    return score


def _fits(finding: Finding, expected: Expected) -> bool:
    return (
        expected.target in ("", finding.target)
        and any(text in finding.message for text in expected.mentions)
        and (not expected.node or (finding.node is not None and ast.unparse(finding.node) == expected.node))
    )


def judge_all(config: Config, generator: Generator, codes: Sequence[str]) -> Scores:
    """Break a config in every way and count."""
    scores: Scores = {}
    for code in codes:
        for mutant in BY_RULE[code](config):
            scores.setdefault((code, mutant.operator), Score()).add(judge(generator, mutant))
    for score in scores.values():
        score.missed = [f"{config.name}: {entry}" for entry in score.missed]
    return scores


def judge_model(model: str, codes: Sequence[str]) -> Scores:
    """Break the own-text config of a model, or those of the zoo for an empty name."""
    gc.disable()
    try:
        with tempfile.TemporaryDirectory(prefix="mutations-") as root:
            folder = Path(root).resolve() / "models"
            folder.mkdir()
            configs = [own_text(model, folder)] if model else zoo_configs(folder)
            return merged([judge_all(config, generator, codes) for config, generator in configs])
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
    description = "How many defects do the contract rules find?"
    parser = argparse.ArgumentParser(prog="python -m tools.mutation.rules", description=description)
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
