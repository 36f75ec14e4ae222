"""What a save costs under ``patchgen --watch``, beside the goal: exit code 1 when it is missed.

On the project of 29 configs that ``benchmarks/project.py`` makes in a temporary folder, ``patchgen --watch`` runs as a
process of its own. Configs that no other one imports are saved in turn, each time with another text in their patches,
so that a save concerns one config and changes its generated module. Times are from just before the config is written
until the generated module is replaced, and until the line below the printed diff is read. The ratios are those to
``python -c "import torch"``, which runs between the saves.

    python benchmarks/watch.py [--saves 24]
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from itertools import cycle, islice
from pathlib import Path

from processes import apart, measure
from project import PATCHGEN, amounts, make_project

GOAL = 0.2
_IMPORTED = re.compile(r"^from bench\.models\.(\w+)\.(\w+) import config as base", re.MULTILINE)
_LONGEST = 30
_BETWEEN_LOOKS = 0.0005


class Watch:
    """``patchgen watch`` in a process, with arguments."""

    def __init__(self, root: Path, environment: Mapping[str, str], *arguments: str) -> None:
        self._process = subprocess.Popen(
            [*PATCHGEN, "watch", *arguments], cwd=root, env=environment, stdout=subprocess.PIPE, text=True
        )
        self._lines: queue.Queue[tuple[float, str]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put((time.perf_counter(), line))

    def until(self, text: str, longest: float = _LONGEST) -> float:
        """When the first line was read that holds this text."""
        while True:
            try:
                at, line = self._lines.get(timeout=longest)
            except queue.Empty:
                raise SystemExit(f"'{text}' was not printed") from None
            if text in line:
                return at

    def stop(self) -> None:
        """End it as a user does."""
        self._process.send_signal(signal.SIGINT)
        if code := self._process.wait(_LONGEST):
            raise SystemExit(f"patchgen watch ended with {code}")


def unimported(root: Path) -> list[Path]:
    """The configs that no other one imports."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(root.glob("bench/models/*/*_config.py"))}
    imported = {"/".join(found) for text in texts.values() for found in _IMPORTED.findall(text)}
    return [path for path in texts if f"{path.parent.name}/{path.stem}" not in imported]


def save(watch: Watch, path: Path, number: int) -> tuple[float, float]:
    """Save a config; seconds until its module is replaced, and until the diff is printed."""
    text = re.sub(r'mark_step\("(edit \d+: )?', f'mark_step("edit {number}: ', path.read_text(encoding="utf-8"))
    module = path.parent / "generated" / f"patched_modeling_{path.name.removesuffix('_patch_gen_config.py')}.py"
    before = module.stat().st_ino
    started = time.perf_counter()
    path.write_text(text, encoding="utf-8")
    while module.stat().st_ino == before:
        if time.perf_counter() - started > _LONGEST:
            raise SystemExit(f"{module} was not replaced")
        time.sleep(_BETWEEN_LOOKS)
    replaced = time.perf_counter()
    return replaced - started, watch.until("1 config: 1 fixed.") - started


def run(root: Path, saves: int) -> int:
    """Measure and print; 1 when the goal is missed."""
    environment = {**os.environ, "PATCHGEN_CACHE_DIR": str(root / "cache")}
    apart(make_project, root)
    print(", ".join(f"{value:,} {what}" for what, value in amounts(root).items()), flush=True)
    configs = unimported(root)
    watch, taken, torch = Watch(root, environment), [], []
    watch.until("Watching")
    time.sleep(3)  # as long as a user takes to change something
    for number, path in enumerate(islice(cycle(configs), saves)):
        torch.append(measure([sys.executable, "-c", "import torch"], root)[0])
        time.sleep(0.5)
        taken.append(save(watch, path, number))
    watch.stop()
    replaced, printed = zip(*taken)
    base = statistics.median(torch)
    title = f"{saves} saves of {len(configs)} configs in turn"
    print(f"\n{title:<44}{'median':>12}{'worst':>10}{'ratio':>8}{'goal':>9}")
    print_row("until the generated module is replaced", replaced, base)
    print_row("until the diff is printed", printed, base, GOAL)
    print(f'python -c "import torch": {base:.2f} s')
    return int(statistics.median(printed) > GOAL)


def print_row(label: str, seconds: Iterable[float], torch: float, goal: float | None = None) -> None:
    """Print a row of the table."""
    values = list(seconds)
    median = statistics.median(values)
    verdict = f"{1000 * goal:>6.0f} ms  {'missed' if median > goal else 'reached'}" if goal is not None else ""
    print(f"{label:<44}{1000 * median:>9.0f} ms{1000 * max(values):>7.0f} ms{median / torch:>8.3f}{verdict}")


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--saves", type=int, default=24, help="how many saves are measured (default: 24)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as folder:
        return run(Path(folder).resolve(), options.saves)


if __name__ == "__main__":
    sys.exit(main())
