"""Is a generated module without a patch found to compute what upstream computes, for every family?

A project with one config for every modeling file of transformers that has a causal language model or an
image-text-to-text model, none of which patches anything. Its parity must be green, bit for bit.

    python -m tools.parity_sweep [--models PATTERN...] [--level thorough] [--jobs N]

Without a patch the level "standard" varies evaluation and a step of generation alone; "thorough" varies everything.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import transformers

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


def main(arguments: Sequence[str]) -> int:
    """Make the project, run its gate, print what is not green, and return 0 when all is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["*"], help="model folders, shell patterns")
    parser.add_argument("--level", choices=LEVELS, default=STANDARD, help="how much is varied")
    parser.add_argument("--jobs", default="2", help="workers")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / "pyproject.toml").write_text(PROJECT.format(level=options.level), encoding="utf-8")
        for module in sorted(set(modules(options.models))):
            name = module.rpartition(".")[2]
            config = project / f"acme/{name}/{name}_patch_gen_config.py"
            config.parent.mkdir(parents=True)
            config.write_text(CONFIG.format(module=module, name=name), encoding="utf-8")
        subprocess.run([sys.executable, "-m", "patchgen_core", "--all"], cwd=project, check=True, capture_output=True)
        gate = ["-p", "pytest_patchgen", "-p", "no:randomly", "--patchgen-checks=parity", "-n", options.jobs]
        command = [sys.executable, "-m", "pytest", *gate, "--patchgen-report=gate.json", "-q", "--tb=no", "-rN"]
        subprocess.run(command, cwd=project, stdout=subprocess.DEVNULL)
        return report(json.loads((project / "gate.json").read_text(encoding="utf-8")))


def modules(patterns: Sequence[str]) -> Iterator[str]:
    """The modeling modules of the models that the tasks have."""
    for names, _ in TASKS.values():
        for given in names.values():
            name = given if isinstance(given, str) else given[0]
            module: str = getattr(transformers, name).__module__
            if any(fnmatch.fnmatch(module.split(".")[-2], pattern) for pattern in patterns):
                yield module


def report(gate: dict) -> int:
    """Print what the gate says."""
    statuses = Counter(record["status"] for record in gate["results"])
    for record in gate["results"]:
        if record["status"] != "clean":
            messages = [error["message"] for error in record["errors"]] or [record["reason"]]
            for message in messages:
                print(f"{record['config']:48} {record['status']}: {message}")
    print(", ".join(f"{count} {status}" for status, count in statuses.most_common()))
    return 0 if set(statuses) <= {"clean"} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
