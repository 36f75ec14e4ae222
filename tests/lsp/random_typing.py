"""Typing at random in configs of the zoo, and after each edit two answers: that of an editor's process, which has seen
all texts before, and a fresh one."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from patchgen_core.checks.checked_in.compare import compare
from patchgen_core.checks.result import CheckResult, drift_result
from patchgen_core.errors import Problem
from patchgen_core.project.table import load_project
from patchgen_lsp.analysis.workbench import Analysis, Workbench

NAMES = ("llama/llama_gpu", "qwen2/qwen2_gpu", "qwen3/qwen3_gpu", "qwen3_moe/qwen3_moe_gpu", "gemma3/gemma3_gpu")
"""Configs that are typed in; some share patches of others."""
_STATEMENTS = (
    "number = 3",
    "self.added = 1",
    "return self.added",
    "hidden_states = self.unheard_of(hidden_states)",
    "setattr(self, name, 1)",
    "helper(self)",
    'getattr(self, "added")',
    "x = 'ünfug' if True else self.weight",
)
_BLOCKS = (
    "\n\n@config.add_helper\ndef helper(module):\n    module.added = 1\n",
    "\n\n@config.add_helper\ndef rotate_half(x, y):\n    return x\n",
    '\n\nconfig.add_import("math", names=["sqrt"])\n',
    '\n\nconfig.add_post_import_block("LIMIT = 3\\nsum = max")\n',
    '\n\nconfig.exclude_from_output("repeat_kv")\n',
    '\n\nconfig.drop_import_names("nn")\n',
    '\n\nconfig.allow("PG226", "it is set elsewhere")\n',
    '\n\nconfig.drop_decorator("*", "use_kernel_forward_from_hub")\n',
    "\n\n# only a remark\n",
    "\n\ndef half_typed(",
)
_Edit = Callable[[random.Random, str], str]


def insert_statement(chance: random.Random, text: str) -> str:
    """A statement at the end of a line of a replacement."""
    places = list(re.finditer(r"\n( {4,8})(?=[a-z_]+ ?[=(.])", text))
    if not places:
        return text
    place = chance.choice(places)
    return f"{text[: place.end()]}{chance.choice(_STATEMENTS)}\n{place[1]}{text[place.end() :]}"


def delete_line(chance: random.Random, text: str) -> str:
    """One indented line less."""
    lines = text.split("\n")
    places = [number for number, line in enumerate(lines) if line.startswith("    ")]
    if places:
        del lines[chance.choice(places)]
    return "\n".join(lines)


def change_parameters(chance: random.Random, text: str) -> str:
    """Another parameter of a method, or one less."""
    places = list(re.finditer(r"def \w+\(\s*self(, \w+)?", text))
    if not places:
        return text
    place = chance.choice(places)
    new = chance.choice(["self", "self, scale", "self, x=1", "self, *, late", f"self{place[1] or ''}, more=None"])
    return f"{text[: place.start()]}{place[0].partition('(')[0]}({new}{text[place.end() :]}"


def change_attribute(chance: random.Random, text: str) -> str:
    """Another attribute of ``self``."""
    places = list(re.finditer(r"self\.(\w+)", text))
    if not places:
        return text
    place, other = chance.choice(places), chance.choice([*places, None])
    return f"{text[: place.start(1)]}{other[1] if other else 'misspelt'}{text[place.end(1) :]}"


def change_word(chance: random.Random, text: str) -> str:
    """A word of a quoted or plain text that gets a letter more, such as a target's."""
    place = chance.choice(list(re.finditer(r"\b[A-Za-z]\w{4,}\b", text)))
    return f"{text[: place.end()]}{chance.choice('xs_')}{text[place.end() :]}"


def move_down(chance: random.Random, text: str) -> str:
    """All below the imports one line further down."""
    place = text.index("\n\n")
    return f"{text[:place]}\n{text[place:]}"


def add_block(chance: random.Random, text: str) -> str:
    """A declaration at the end."""
    return text.rstrip("\n") + chance.choice(_BLOCKS)


EDITS: tuple[_Edit, ...] = (
    insert_statement,
    insert_statement,
    delete_line,
    change_parameters,
    change_attribute,
    change_word,
    move_down,
    add_block,
    add_block,
)


class Typist:
    """Types in configs of a copy of the zoo, and compares what is said of them.

    Attributes:
        counts: how many answers of each kind there were.
    """

    def __init__(self, folder: Path, seed: int, names: tuple[str, ...] = NAMES) -> None:
        self.project = load_project(folder)
        self.bench, self.chance, self.counts = Workbench(self.project), random.Random(seed), Counter[str]()
        paths = [folder / "examples/zoo" / f"{name}_patch_gen_config.py" for name in names]
        self.saved = {path: path.read_text(encoding="utf-8") for path in paths}
        self.texts = dict(self.saved)
        self.broken: set[Path] = set()

    def type(self) -> tuple[Path, str]:
        """Make an edit, which stays until another takes it back; its config, and what it was called."""
        path = self.chance.choice(list(self.texts))
        if self.chance.random() < (0.8 if path in self.broken else 0.2):
            self.texts[path] = self.saved[path]
            return path, "take back"
        edit = self.chance.choice(EDITS)
        self.texts[path] = edit(self.chance, self.texts[path])
        return path, edit.__name__

    def differences(self, changed: Path) -> list[str]:
        """Where the two answers differ about the config that was typed in, and about another open one."""
        other = self.chance.choice(list(self.texts))
        self.bench.show(self.texts)
        fresh = Workbench(self.project)
        fresh.show(self.texts)
        return [line for path in {changed, other} for line in self._compare(path, fresh)]

    def _compare(self, path: Path, fresh: Workbench) -> list[str]:
        now, anew = self.bench.judge(path), fresh.analyse(path)
        ours, theirs = _lines(now), _lines(anew)
        self.counts.update(line.partition(":")[0] for line in ours)
        (self.broken.add if any(outcome.artifact is None for outcome in anew.outcomes) else self.broken.discard)(path)
        full = [drift_result(compare(outcome), with_diffs=False) for outcome in anew.outcomes]
        drift = [result for result in now.results if result.check == "drift"]
        is_same = (now.results, now.problems) == (anew.results, anew.problems) and drift == full
        texts = [[artifact.text for artifact in each.artifacts] for each in (now, anew)]
        is_same = is_same and (not now.outcomes or texts[0] == texts[1])
        return [] if is_same else [f"{path.name}\n  kept  {ours}\n  fresh {theirs}\n  drift {drift} {full}"]


def _lines(analysis: Analysis) -> list[str]:
    return [*map(_line, analysis.problems), *(line for result in analysis.results for line in _of_result(result))]


def _of_result(result: CheckResult) -> list[str]:
    causes = [f"{cause.kind}: {cause.detail}" for cause in result.causes]
    return [*map(_line, (*result.errors, *result.warnings)), *causes]


def _line(problem: Problem) -> str:
    return f"{problem.code or 'error'}: {problem.message} ({problem.location})"


def type_at_random(folder: Path, edits: int, seed: int, names: tuple[str, ...] = NAMES) -> Mapping[str, int]:
    """Type a number of edits; how often each kind of finding came. An AssertionError where answers differ."""
    typist = Typist(folder, seed, names)
    for number in range(edits):
        path, edit = typist.type()
        differences = typist.differences(path)
        assert not differences, f"after {number + 1} edits, the last {edit} in {path.name}: {differences}"
    return typist.counts
