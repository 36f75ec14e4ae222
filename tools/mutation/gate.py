"""How many defects in patched code does the gate find? `python -m tools.mutation.gate [--help]`, or `make mutation`

Defects are put into the patched code of ``examples/zoo``, one at a time, everywhere. Each is made in the text of a
config, as a slip of its author would be; the module is generated anew and goes through contracts and parity, under
every implementation that its code can run under, until one of them fails. A defect that none finds is listed with the
reason, as far as it is known. Those that change nothing for any input are taken out of the figure; all others count.

With ``--own-text llama`` the defects are put into a config that overrides every forward and function of that
modeling file of transformers with its own text, which has places that the zoo's patches have not.

Returns 1 when fewer than 95 of 100 are found.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen_core.errors import PatchgenError, did_you_mean, display_path
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from tools.mutation.code import code_mutants
from tools.mutation.correct import ROOT, own_text
from tools.mutation.forks import Task, judge_all
from tools.mutation.gate_judge import Gate, Outcome
from tools.mutation.mutant import CodeMutant
from tools.mutation.survivors import EQUIVALENT, UNSEEN, Why, explain

GOAL = 95.0
_RUN = re.compile(r"(?<!ForQuestionAnswering)\.forward$")
COLUMNS = ("mutants", "contract", "parity", "crash", "hang", "survived", "equivalent")


@dataclass(frozen=True)
class Result:
    """A defect of one config, what became of it, and why if it was not found."""

    config: str
    mutant: CodeMutant
    outcome: Outcome
    why: Why | None
    reason: str

    @property
    def kind(self) -> str:
        """The column that it counts in."""
        return "equivalent" if self.why == EQUIVALENT else self.outcome.verdict


def run(project: Project, path: Path, options: argparse.Namespace) -> Iterator[Result]:
    """Judge the defects of one config, which must be right as it is.

    Raises:
        PatchgenError: it is not.
    """
    gate = Gate(project, path)
    artifact = gate.artifact()
    chosen = [
        m for m in code_mutants(artifact, gate.sources) if not options.operators or _is_chosen(m, options.operators)
    ]
    if not chosen:
        print(f"{artifact.plan.label}: no code of its own to break{' so' if options.operators else ''}")
        return
    names = gate.warm_up(artifact)
    if options.sample and options.sample < len(chosen):
        chosen = random.Random(0).sample(chosen, options.sample)
    quick_first = sorted(chosen, key=lambda m: any(is_bound for _, is_bound in m.slots))
    tasks = [Task(None, names), *(Task(m, gate.reaching(m, names)) for m in quick_first)]
    for number, (task, outcome) in enumerate(judge_all(gate, tasks, options.jobs)):
        if sys.stderr.isatty():
            print(f"\r{artifact.plan.label}: {number + 1} of {len(tasks)} ", end="", file=sys.stderr, flush=True)
        if task.mutant is None:
            if outcome.verdict != "survived":
                raise PatchgenError(f"{artifact.plan.label} is not right as it is: {outcome.message}")
            continue
        why, reason = explain(task.mutant) if outcome.verdict == "survived" else (None, "")
        yield Result(artifact.plan.label, task.mutant, outcome, why, reason)


def configs(options: argparse.Namespace, folder: Path) -> Iterator[tuple[Project, Path]]:
    """The configs to break, each with its project.

    Raises:
        PatchgenError: the zoo has no such model.
    """
    own, wanted = ([name for name in given.split(",") if name] for given in (options.own_text, options.models))
    for model in own:
        yield own_text_config(model, folder)
    zoo = load_project(ROOT)
    paths = zoo.find_configs()
    folders = [path.parent.name for path in paths]
    for name in wanted or ([] if own else dict.fromkeys(folders)):
        if name not in folders:
            raise PatchgenError(f"examples/zoo has no '{name}'", None, did_you_mean(name, folders))
        yield from ((zoo, path) for path in paths if path.parent.name == name)


def own_text_config(model: str, folder: Path) -> tuple[Project, Path]:
    """A project with one config, which overrides the forwards and functions of a modeling file with their own text."""
    (folder / model).mkdir()
    base, generator = own_text(model, folder / model)
    path = folder / model / f"{model}_patch_gen_config.py"
    idle = {p.index for p in base.pieces if p.call != "replace_function" and not _RUN.search(p.target)}
    statements = [text for number, text in enumerate(base.statements) if number not in idle and "OpSlot" not in text]
    path.write_text("\n\n".join(statements) + "\n", encoding="utf-8")
    return replace(generator.project, kernels=()), path


def _is_chosen(mutant: CodeMutant, words: str) -> bool:
    return any(word in mutant.operator for word in words.split(","))


# --- what is printed -------------------------------------------------------------------------------


def table(results: Sequence[Result]) -> str:
    """What became of the defects, by operator and in all."""
    rows = [f"{'defect':<22}" + "".join(f"{name:>11}" for name in (*COLUMNS, "of 100"))]
    operators = sorted({result.mutant.operator for result in results})
    for name in (*operators, ""):
        chosen = [result for result in results if name in ("", result.mutant.operator)]
        counts = [len(chosen), *(sum(result.kind == kind for result in chosen) for kind in COLUMNS[1:])]
        cells = "".join(f"{count:>11,}" for count in counts)
        rows.append(f"{name or 'all':<22}{cells}{share(chosen):>11.1f}")
    return "\n".join(rows)


def share(results: Sequence[Result], without: Sequence[str] = ()) -> float:
    """How many of a hundred defects are found, of those that change something and are not ``without``."""
    counted = [result for result in results if result.kind not in ("equivalent", *without)]
    caught = sum(result.kind != "survived" for result in counted)
    return 100 * caught / len(counted) if counted else 100.0


def survivors(results: Sequence[Result], missed_only: bool) -> Iterator[str]:
    """The defects that were not found: where, what, and why; the same one of several configs once."""
    by_defect: dict[tuple[str, int, str], list[Result]] = {}
    for result in results:
        if result.why is not None and (not missed_only or result.why == UNSEEN):
            mutant = result.mutant
            by_defect.setdefault((str(mutant.path), mutant.line, mutant.text), []).append(result)
    for same in sorted(by_defect.values(), key=lambda same: (str(same[0].why), same[0].mutant.line)):
        mutant, configs = same[0].mutant, ", ".join(result.config.split(".")[-2] for result in same)
        yield f"{same[0].why}: {mutant.operator} in {mutant.function} ({configs})"
        yield f"  {display_path(str(mutant.path))}:{mutant.line}"
        yield from (f"    {row}" for row in mutant.diff.split("\n"))
        if same[0].reason:
            yield f"  {same[0].reason}"


def as_json(result: Result) -> str:
    """A result as a line of JSON."""
    mutant = result.mutant
    defect = {"operator": mutant.operator, "target": mutant.place}
    defect |= {name: getattr(mutant, name) for name in ("function", "line", "diff")}
    outcome = {"found": result.kind, "by": result.outcome.by, "said": result.outcome.message, "why": result.why}
    return json.dumps({"config": result.config, **defect, **outcome, "seconds": round(result.outcome.seconds, 2)})


def main(argv: Sequence[str] | None = None) -> int:
    """Run all mutants; 1 when fewer than 95 of 100 are found."""
    description = "How many defects in patched code does the gate find?"
    parser = argparse.ArgumentParser(prog="python -m tools.mutation.gate", description=description)
    parser.add_argument("--models", default="", help="folders of examples/zoo (default: all)")
    parser.add_argument("--own-text", default="", metavar="MODELS", help="modeling files of transformers instead")
    parser.add_argument("--operators", default="", help="words in the names of the kinds of defects (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="so many defects of each config")
    parser.add_argument("--missed", action="store_true", help="list only what the gate does not see")
    written = argparse.FileType("w", encoding="utf-8")
    parser.add_argument("--json", metavar="FILE", type=written, help="write every result there, a line of JSON each")
    options = parser.parse_args(argv)
    started = time.monotonic()
    results: list[Result] = []
    try:
        with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
            for project, path in configs(options, Path(folder).resolve()):
                for result in run(project, path, options):
                    results.append(result)
                    if options.json is not None:
                        print(as_json(result), file=options.json, flush=True)
    except PatchgenError as error:
        print(f"\n{error}", file=sys.stderr)
        return 2
    print("", *survivors(results, options.missed), "", table(results), sep="\n")
    reached = share(results)
    print(f"caught: {reached:.1f} of 100; {share(results, ('crash',)):.1f} of those that do not simply raise")
    print(f"{time.monotonic() - started:.0f} s with {options.jobs} processes")
    return 0 if reached >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
