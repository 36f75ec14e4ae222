"""Is a generated module without a patch found to compute what upstream computes, for every family?

A project with one config for every modeling file of transformers that has a causal language model or an
image-text-to-text model, none of which patches anything. Its parity must be green, bit for bit.

    python -m tools.parity_sweep [--models PATTERN...] [--level thorough] [--jobs N] [--json FILE]

Configs run a few at a time, in an order that spreads families and is the same each time. FILE gets their findings as
they come; another run skips those that it has.

Without a patch the level "standard" varies evaluation and a step of generation alone; "thorough" varies everything.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import transformers

from patchgen_core.files import write_files
from patchgen_core.project.parity_settings import LEVELS, STANDARD
from tools.toys import TASKS

CONFIG = """
from patchgen import PatchConfig

config = PatchConfig("{module}", "patched_{name}.py")
config.tolerate(0, "nothing is patched")
"""
PROJECT = """
[tool.patchgen]
search_root = "acme"
package_prefix = "acme"

[tool.patchgen.parity]
level = "{level}"
"""

_AT_ONCE = 8

Findings = dict[str, list[tuple[str, str]]]
"""What is found of a module: statuses and messages; a status alone where nothing is told."""


def main(arguments: Sequence[str]) -> int:
    """Run the gate over all of them, print what is not green, and return 0 when all is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["*"], help="model folders, shell patterns")
    parser.add_argument("--level", choices=LEVELS, default=STANDARD, help="how much is varied")
    parser.add_argument("--jobs", default="2", help="workers")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write findings, and read those of before")
    options = parser.parse_args(arguments)
    file: Path | None = options.json
    known: Findings = json.loads(file.read_text(encoding="utf-8")) if file is not None and file.exists() else {}
    wanted = sorted(set(modules(options.models)))
    random.Random(0).shuffle(wanted)
    left = [module for module in wanted if module not in known]
    for start in range(0, len(left), _AT_ONCE):
        new = check(left[start : start + _AT_ONCE], options.level, options.jobs)
        known |= new
        for module, findings in new.items():
            for status, message in findings:
                print(f"{module.rpartition('.')[2]:40} {status} {message}".rstrip(), flush=True)
        if file is not None:
            write_files([(file, json.dumps(known, indent=1) + "\n")])
    statuses = Counter(status for module in wanted for status in {status for status, _ in known[module]})
    print(", ".join(f"{count} {status}" for status, count in statuses.most_common()))
    return 0 if set(statuses) <= {"clean"} else 1


def check(chosen: Sequence[str], level: str, jobs: str) -> Findings:
    """What parity finds of modules of which nothing is patched."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / "pyproject.toml").write_text(PROJECT.format(level=level), encoding="utf-8")
        for module in chosen:
            name = module.rpartition(".")[2]
            config = project / f"acme/{name}/{name}_patch_gen_config.py"
            config.parent.mkdir(parents=True)
            config.write_text(CONFIG.format(module=module, name=name), encoding="utf-8")
        subprocess.run([sys.executable, "-m", "patchgen_core", "--all"], cwd=project, check=True, capture_output=True)
        gate = ["-p", "pytest_patchgen", "-p", "no:randomly", "--patchgen-checks=parity", "-n", jobs]
        command = [sys.executable, "-m", "pytest", *gate, "--patchgen-report=gate.json", "-q", "--tb=no", "-rN"]
        subprocess.run(command, cwd=project, stdout=subprocess.DEVNULL)
        results = json.loads((project / "gate.json").read_text(encoding="utf-8"))["results"]
    by_name = {module.rpartition(".")[2]: module for module in chosen}
    findings: Findings = {module: [] for module in chosen}
    for result in results:
        messages = [problem["message"] for problem in (*result["errors"], *result["warnings"])]
        own = findings[by_name[result["config"].split(".")[1]]]
        own += [(result["status"], message) for message in messages or [result["reason"]]]
    return findings


def modules(patterns: Sequence[str]) -> Iterator[str]:
    """The modeling modules of the models that the tasks have."""
    for names, _ in TASKS.values():
        for given in names.values():
            name = given if isinstance(given, str) else given[0]
            module: str = getattr(transformers, name).__module__
            if any(fnmatch.fnmatch(module.split(".")[-2], pattern) for pattern in patterns):
                yield module


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
