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

CHECKS = ("import", "parity")
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
    """What running shows by config at a release and not at the one before, of configs that were judged at both.

    Parity tells the first difference of an item alone: one that was red before, or is red there without the patches
    that were left out, hides others, and counts for none. What generating and the contract rules say is in the record
    of the step, with what its report said.
    """
    known, hidden = read_red(before), _find_hidden(folder, before)
    return {
        config: [text for text in texts if _is_run(text) and _item(text) not in hidden.get(config, ())]
        for config, texts in read_red(folder).items()
        if config in known
    }


def find_witnessed(folder: Path, before: Path) -> list[str]:
    """The configs that parity judged at both releases, with nothing red before that could hide what is new."""
    hidden = _find_hidden(folder, before)
    return [config for config in find_new(folder, before) if not hidden.get(config)]


def _find_hidden(folder: Path, before: Path) -> dict[str, set[str]]:
    """By config, the items that are red without the step."""
    hidden: dict[str, set[str]] = {}
    for red in (read_red(before), read_red(folder, "control")):
        for config, texts in red.items():
            hidden.setdefault(config, set()).update(_item(text) for text in texts if _is_run(text))
    return hidden


def _item(text: str) -> str:
    return text.partition(": ")[0]


def _is_run(text: str) -> bool:
    return _item(text).partition("[")[0] in CHECKS


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
        command = [sys.executable, "-m", "patchgen_core", "gate", "--checks", ",".join(CHECKS)]
        command += ["--device", "cpu", "-j", "1", "--level", "quick", "--report", str(report), *map(str, paths)]
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
