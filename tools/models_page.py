"""The page of the zoo's models: what is patched in each, what is checked, and what the checks measured.

python -m tools.models_page      # runs the gate over the zoo and writes docs/models.md
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.syntax.source import SourceCache

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "models.md"
_TITLE = """\
# The models of the zoo

`examples/zoo` is a project like a framework's own: a folder for each model, with its patch configs, the generated
modules, a registration, and the code that loads and splits its checkpoints. The configs are written for transformers
5.23.0. Start your own config from the nearest one, or with `patchgen new`.

`make models` writes this page: it runs the gate and records the results. *Error* is the patched model's largest
error against float64 with the kernels bound, as a part of the allowed error. The allowed error is four times that of
Hugging Face eager; `eager` itself is compared bit for bit. *Seconds* is the time of all checks of a config, one after
the other on a CPU, with kernels in Triton's interpreter. The gate also checks every config for drift, imports its
module and applies the contract rules.

"""
_SHARE = "largest part of what is allowed"


@dataclass(frozen=True)
class Row:
    """A config of the zoo.

    Attributes:
        loaded: the config.
        items: the names of its checks.
    """

    loaded: LoadedConfig
    items: tuple[str, ...]

    @property
    def slots(self) -> list[str]:
        """The op slots that its module has, without the prefix."""
        blocks = "\n".join(self.loaded.config.post_import_blocks)
        return re.findall(r"^\s*slot_(\w+) = OpSlot", blocks, re.MULTILINE)


def find_rows(project: Project) -> list[Row]:
    """The configs of the project and the checks that the gate has for each, in their order."""
    command = [sys.executable, "-m", "pytest", "-p", "pytest_patchgen", "--collect-only", "-q", project.search_root]
    env = {**os.environ, "PYTEST_ADDOPTS": ""}
    collection = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    items: dict[str, list[str]] = {}
    for line in collection.stdout.splitlines():
        path, separator, name = line.partition("::")
        if separator:
            items.setdefault(path, []).append(name)
    loader = Loader(project, SourceCache())
    rows = []
    for path in project.find_configs():
        names = tuple(items.get(path.relative_to(ROOT).as_posix(), ()))
        rows += [Row(loaded, names) for loaded in loader.load(path)]
    return rows


def page(rows: Sequence[Row], results: Iterable[Mapping[str, object]]) -> str:
    """The page, of what a report of the gate says."""
    measured = _measured(results)
    return _TITLE + _table(rows, measured) + "".join(_section(row) for row in rows)


def _measured(results: Iterable[Mapping[str, object]]) -> dict[str, tuple[dict[str, float], float]]:
    """By config: the largest error of every implementation, and the seconds of all checks."""
    measurements: dict[str, tuple[dict[str, float], float]] = {}
    for result in results:
        errors, seconds = measurements.get(str(result["config"]), ({}, 0.0))
        name = re.search(r"\[(.+)\]", str(result["item"]))
        figures = result["figures"]
        assert isinstance(figures, dict)
        shares = [value for key, value in figures.items() if key.endswith(_SHARE)]
        if name and shares and result["check"] == "parity":
            errors[name[1]] = max(shares)
        measurements[str(result["config"])] = errors, seconds + float(str(result["seconds"]))
    return measurements


def _table(rows: Sequence[Row], measured: Mapping[str, tuple[dict[str, float], float]]) -> str:
    lines = ["| config | patches | op slots | checks | error | seconds |", "|---|--:|---|---|---|--:|"]
    for row in rows:
        errors, seconds = measured.get(row.loaded.label, ({}, 0.0))
        worst = ", ".join(f"{name} {value:.2f}" for name, value in errors.items() if value)
        cells = (
            f"[{_heading(row)}](#{_heading(row)})",
            str(len(_reasons(row))),
            ", ".join(row.slots),
            _checks(row),
            worst,
            f"{seconds:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _checks(row: Row) -> str:
    """The checks that not every config has, parity with its implementations and sharded with its meshes."""
    variants = {kind: re.findall(rf"(?m)^{kind}\[(.*)\]$", "\n".join(row.items)) for kind in ("parity", "sharded")}
    others = [name for name in row.items if name in ("converter", "plan")]
    return "; ".join([*(f"{kind}: {', '.join(names)}" for kind, names in variants.items() if names), *others])


def _reasons(row: Row) -> dict[str, str]:
    """Why each target is patched, in the words of the first of its edits."""
    reasons: dict[str, str] = {}
    for patch in row.loaded.config.patches:
        reasons.setdefault(patch.target, patch.description)
    return reasons


def _heading(row: Row) -> str:
    return row.loaded.path.stem.removesuffix("_patch_gen_config")


def _section(row: Row) -> str:
    config = row.loaded.config
    where = row.loaded.path.relative_to(ROOT).as_posix()
    lines = [f"\n## {_heading(row)}\n", f"{config.description}: [`{where}`](../{where}).\n"]
    lines += [f"- `{target}`: {reason}" for target, reason in _reasons(row).items()]
    if config.exclude:
        lines.append(f"- left out: {', '.join(f'`{name}`' for name in config.exclude)}")
    lines += [f"- allowed: {a.code}{f' of `{a.target}`' if a.target else ''}: {a.reason}" for a in config.allowed]
    return "\n".join(lines) + "\n"


def gate_results() -> list[dict[str, object]]:
    """What the gate over the zoo finds, which must be green."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pytest", "-p", "pytest_patchgen", "-q", f"--patchgen-report={report}"]
        gate = subprocess.run([*command, "examples/zoo"], cwd=ROOT, env={**os.environ, "PYTEST_ADDOPTS": ""})
        if gate.returncode:
            raise SystemExit(
                f"the gate over the zoo ended with {gate.returncode}: the page says what a green one does"
            )
        results: list[dict[str, object]] = json.loads(report.read_text(encoding="utf-8"))["results"]
    return results


def main() -> None:
    """Write the page."""
    argparse.ArgumentParser(prog="python -m tools.models_page", description=__doc__).parse_args()
    rows = find_rows(load_project(ROOT))
    PAGE.write_text(page(rows, gate_results()), encoding="utf-8")


if __name__ == "__main__":
    main()
