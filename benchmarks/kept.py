"""What the whole gate over the zoo costs when nothing has changed, and with a patch of one config edited; exit code 1
when a goal is missed.

The first run keeps what it finds, which takes minutes where nothing is kept yet. Then runs of the gate and of
``python -c "import torch"`` follow in turn; the ratio is that of their medians. ``--edited`` adds runs in which the
description of a patch of qwen3 is another one each time and the generated files are written anew; in the end these
files are what they were. ``--watched`` does so while ``patchgen watch --checks`` runs with the checks of the gate,
and measures from the save until the last of them has told its result. ``--models`` has the gate look at some folders
of the zoo alone.

    python benchmarks/kept.py [--runs 5] [--edited] [--watched] [--models qwen3]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path

from watch import Watch

ROOT = Path(__file__).parents[1]
TORCH = [sys.executable, "-c", "import torch"]
GATE = [sys.executable, "-m", "patchgen_core", "gate", "--output-format", "json"]
GOAL, EDITED_GOAL = 1.0, 4.0
ZOO = Path("examples/zoo")
EDITED = ZOO / "qwen3/qwen3_gpu_patch_gen_config.py"
GENERATE = [sys.executable, "-m", "patchgen_core", "zoo.qwen3.qwen3_gpu_patch_gen_config"]
WATCHED = "import,parity,sharded,converter"
SECONDS_TO_WARM_UP = 60.0
MARK = 'description="Op slot for the rotary embedding'


def run(command: Sequence[str]) -> tuple[float, str]:
    """Seconds of a process, and what it wrote; a SystemExit where it fails."""
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(done.stdout[-4000:] + done.stderr)
    return seconds, done.stdout


@contextmanager
def edit_config(runs: int) -> Iterator[Iterator[Callable[[], None]]]:
    """What saves the config with another text each time, so many times; the files are put back in the end."""
    files = [ROOT / EDITED, *sorted((ROOT / EDITED.parent / "generated").glob("*"))]
    before = {file: file.read_bytes() for file in files if file.is_file()}

    def save() -> None:
        text = before[ROOT / EDITED].decode().replace(MARK, f"{MARK} {time.time_ns()}")
        (ROOT / EDITED).write_text(text, encoding="utf-8")

    try:
        yield repeat(save, runs)
    finally:
        for file, data in before.items():
            file.write_bytes(data)


def measure_edited(gate: Sequence[str], runs: int) -> float:
    """Seconds of a run of the gate after an edit of a patch, the median of several."""
    seconds = []
    with edit_config(runs) as saves:
        for save in saves:
            save()
            run(GENERATE)
            seconds.append(run(gate)[0])
    return statistics.median(seconds)


def measure_watched(runs: int) -> float:
    """Seconds from the save of a config until the checks of a watch have told their results, the median of several."""
    seconds = []
    with edit_config(runs) as saves:
        watch = Watch(ROOT, os.environ, "--checks", WATCHED, str(EDITED.parent))
        try:
            watch.until("Watching")
            time.sleep(SECONDS_TO_WARM_UP)
            for save in saves:
                start = time.perf_counter()
                save()
                seconds.append(watch.until(" ok. Took ", 300) - start)
        finally:
            watch.stop()
    return statistics.median(seconds)


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--edited", action="store_true", help="measure an edit of a patch as well")
    parser.add_argument("--models", default="", help="folders of the zoo, separated by commas (default: all)")
    parser.add_argument("--watched", action="store_true", help="measure an edit during a watch as well")
    options = parser.parse_args()
    command = [*GATE, *(str(ZOO / model) for model in filter(None, options.models.split(",")))]
    first, _ = run(command)
    pairs = [(run(TORCH)[0], run(command)[0]) for _ in range(options.runs)]
    torch, gate = (statistics.median(column) for column in zip(*pairs))
    ratio, edited_ratio = gate / torch, 0.0
    print(f"first run {first:.1f} s; import torch {torch:.2f} s, nothing changed {gate:.2f} s")
    print(f"ratio {ratio:.2f} (goal: {GOAL})")
    if options.edited:
        edited = measure_edited(command, options.runs)
        edited_ratio = edited / torch
        print(f"a patch of qwen3 edited {edited:.2f} s, ratio {edited_ratio:.2f} (goal: {EDITED_GOAL})")
    if options.watched:
        watched = measure_watched(options.runs)
        print(f"the same during a watch {watched:.2f} s, ratio {watched / torch:.2f}")
    return int(ratio > GOAL or edited_ratio > EDITED_GOAL)


if __name__ == "__main__":
    sys.exit(main())
