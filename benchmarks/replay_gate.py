"""The gate over one release that a walk of the replay came to, with that release's transformers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from patchgen_core.checks.result import unpack
from patchgen_core.upgrade.writing.gating import verdict_line
from tools.releases import NEEDED, ROOT, find_release

CHECKS = "drift,import,contract,parity"
OLDER = ("huggingface-hub", "tokenizers")
"""What older releases of transformers import in releases that the newest refuses; the first of them suffices for
some."""
LIMIT = 3 * 3600


def read_red(folder: Path, name: str = "gate") -> dict[str, list[str]]:
    """What is red by config of a release that a walk came to, of those that the gate ran for.

    Args:
        name: ``gate``; or ``control`` for what is red at the release before without the patches that were left out.
    """
    kept = gate_file(folder, name)
    red: dict[str, list[str]] = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    return red


def gate_file(folder: Path, name: str = "gate") -> Path:
    """Where that is kept, beside the folder."""
    return folder.with_name(f"{folder.name}.{name}.json")


def find_new(folder: Path, before: Path) -> dict[str, list[str]]:
    """What is red by config at a release and was not at the one before, of configs that were judged at both; an item
    that is red there too, without the patches that were left out, tells nothing of the others."""
    known, control, now = read_red(before), read_red(folder, "control"), read_red(folder)
    blind = {config: {_item(text) for text in texts} for config, texts in control.items()}
    return {
        config: [t for t in texts if t not in known[config] and _item(t) not in blind.get(config, ())]
        for config, texts in now.items()
        if config in known
    }


def _item(text: str) -> str:
    return text.partition(": ")[0]


def find_unjudged(folder: Path, patterns: Sequence[str] = ()) -> tuple[str, ...]:
    """The paths of configs that the gate has not run for.

    Args:
        patterns: parts of the names of those that are wanted; none for all.
    """
    red = read_red(folder)
    paths = [path for path in sorted(folder.rglob("*_patch_gen_config.py")) if _is_chosen(path, patterns)]
    missing = [path for path in paths if not any(config.endswith(path.stem) for config in red)]
    return tuple(path.relative_to(folder).as_posix() for path in missing)


def judge_configs(folder: Path, paths: Sequence[Path], version: str) -> tuple[dict[str, list[str]], str]:
    """What is red by config, of those that parity ran for; and why nothing was judged, where nothing was."""
    environment = find_environment(version)
    if environment is None:
        return {}, f"transformers {version} does not import here with any of the releases that it could need"
    return _run(folder, paths, environment)


def _is_chosen(path: Path, patterns: Sequence[str]) -> bool:
    return not patterns or any(pattern in path.name for pattern in patterns)


def find_environment(version: str) -> dict[str, str] | None:
    """The environment in which a release of transformers imports; None where there is none."""
    release = find_release(version)
    for more in ((), OLDER[:1], OLDER):
        folders = [str(find_release(NEEDED[name], name).folder) for name in more]
        folders += [] if release.origin == "installed" else [str(release.folder)]
        psutil = find_release(NEEDED["psutil"], "psutil")
        folders += [] if psutil.origin == "installed" else [str(psutil.folder)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, str(ROOT)]), "PYTHONWARNINGS": "ignore"}
        command = [
            sys.executable,
            "-c",
            "import transformers.modeling_utils, transformers.models.llama.modeling_llama",
        ]
        if subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0:
            return environment
    return None


def _run(folder: Path, paths: Sequence[Path], environment: dict[str, str]) -> tuple[dict[str, list[str]], str]:
    with tempfile.TemporaryDirectory(prefix="patchgen-replay-") as temporary:
        report = Path(temporary, "report.json")
        command = [sys.executable, "-m", "patchgen_core", "gate", "--checks", CHECKS, "--device", "cpu", "-j", "1"]
        command += ["--level", "quick", "--report", str(report), *map(str, paths)]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
        )
        if not report.is_file():
            return {}, f"the gate ended with exit code {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}"
        results = json.loads(report.read_text(encoding="utf-8"))["results"]
    ran = {result["config"] for result in results if result["check"] == "parity" and result["status"] != "skipped"}
    red: dict[str, list[str]] = {config: [] for config in ran}
    for result in (unpack({**record, "files": []}) for record in results):
        if result.is_bad:
            red.setdefault(result.config, []).append(f"{result.name}: {verdict_line(result)}")
    return red, ""
