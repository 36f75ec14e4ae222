"""The whole gate over a release of VeOmni on a CPU, and a table of what is not green.

    python -m tools.real_models 0.1.12 FOLDER [--patchgen-checks=parity ...]

writes the project there (``tools.real_project``), with the set-ups of tests/checks/real_project and these settings,
and prints config, items and reason. Some minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools.real_project import make_real_project

SETUPS = Path(__file__).parents[1] / "tests/checks/real_project"
SETTINGS = """
setup = "veomni_inputs:setup"
optional_packages = ["torch_npu"]

[tool.patchgen.parity]
tolerance = {tolerance}

[tool.patchgen.parity.leave_out]
"*ForSequenceClassification" = "its labels are those of tokens"
"*::trainer" = "its trainer passes neither shift_labels nor num_items_in_batch"
"Qwen2_5_VL*::embedded" = "its models take token ids"
"Qwen*Omni*::embedded" = "its models take token ids"
"Qwen3_5*" = "on a CPU its linear attention takes no packed rows, which its layers ask for"
"""
TOLERANCES = {"qwen3_vl": "Qwen3VL*", "qwen2_5_omni": "Qwen2_5Omni*"}
"""The classes whose eager kernels may be further off, by what their config files' names begin with."""


def read_settings(folder: Path) -> str:
    """The settings for a release; one that names a class which that has not is an error."""
    there = [classes for name, classes in TOLERANCES.items() if any(folder.rglob(f"{name}_*_patch_gen_config.py"))]
    entries = ", ".join(f'"{classes}::eager" = 4' for classes in there)
    return SETTINGS.replace("{tolerance}", f"{{ {entries} }}")


def set_up_project(folder: Path, settings: str, setups: Iterable[Path]) -> None:
    """Add settings and files with set-ups to a project that ``make_real_project`` wrote."""
    for file in setups:
        shutil.copy(file, folder)
    pyproject = folder / "pyproject.toml"
    table, ruff, rest = pyproject.read_text(encoding="utf-8").partition("\n[tool.ruff]")
    pyproject.write_text(f"{table}{settings}{ruff}{rest}", encoding="utf-8")


def run_gate(folder: Path, upstream: Path, arguments: Iterable[str]) -> list[dict[str, Any]]:
    """The results of the gate on a CPU, its generated files rewritten before, as its JSON report has them."""
    report = folder / "report.json"
    options = ["-p", "pytest_patchgen", "-p", "no:randomly", "--patchgen-fix", "--patchgen-device=cpu"]
    command = [sys.executable, "-m", "pytest", *options, f"--patchgen-report={report}", *arguments]
    subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(upstream)}, check=False)
    results: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["results"]
    return results


def describe_results(results: Iterable[dict[str, Any]]) -> str:
    """How many items have which status, and a Markdown table of those that are neither clean nor fixed, by reason."""
    rows: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for result in results:
        name = result["config"].rpartition(".")[2].removesuffix("_patch_gen_config")
        item = result["item"].rpartition("::")[2] or result["check"]
        counts[f"{result['check']} {result['status']}"] += 1
        reasons = [error["message"] for error in result["errors"]] or [result["reason"]]
        for reason in reasons if result["status"] not in ("clean", "fixed") else []:
            rows.setdefault(f"{result['status']}: {reason}", []).append(f"{name} {item}")
    lines = [f"| {reason} | {', '.join(dict.fromkeys(items))} |" for reason, items in sorted(rows.items())]
    summary = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    return "\n".join([summary, "", "| reason | items |", "| --- | --- |", *lines])


if __name__ == "__main__":
    version, folder, *arguments = sys.argv[1:]
    project = make_real_project(version, Path(folder))
    set_up_project(Path(folder), read_settings(Path(folder)), SETUPS.glob("*.py"))
    print(describe_results(run_gate(Path(folder), project.upstream[0], arguments)))
