"""What the shortcuts of Triton's interpreter save: kernel parity of Liger's kernels with and without them.

Every run is a process of its own, with and without in turn; seconds are of its CPU, without imports. The figures of
all runs must be the same: shortcuts change no value.

    python benchmarks/interpreter.py [--runs 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

CODE = """
import json, sys, time
from patchgen_core.models import interpreter
if sys.argv[1] == "without":
    interpreter.adapt_descriptions = lambda: ""
interpreter.use_cpu()
interpreter.switch_on()
import torch
from patchgen_core.checks.kernel.comparison import check_kernel
from patchgen_core.ops import KERNEL_REGISTRY
torch.set_num_threads(1)
start = time.process_time()
specs = [spec for spec in KERNEL_REGISTRY.specs() if spec.name == "liger_kernel"]
figures = {spec.label: dict(check_kernel(spec.op_name, spec.variant, spec.name).figures) for spec in specs}
print(json.dumps([time.process_time() - start, figures]))
"""


def measure(mode: str) -> tuple[float, dict[str, Any]]:
    """Seconds of one run, and the figures of every kernel."""
    run = subprocess.run([sys.executable, "-c", CODE, mode], stdout=subprocess.PIPE, text=True, check=True)
    seconds, figures = json.loads(run.stdout.splitlines()[-1])
    return seconds, figures


def main() -> None:
    """Parse the command line, measure and print.

    Raises:
        SystemExit: the figures differ.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="how often to run each way (default: 3)")
    seconds: dict[str, list[float]] = {"with": [], "without": []}
    results = []
    for _ in range(parser.parse_args().runs):
        for mode, measured in seconds.items():
            taken, figures = measure(mode)
            measured.append(taken)
            results.append(figures)
    if any(figures != results[0] for figures in results):
        raise SystemExit("the figures differ")
    medians = {mode: statistics.median(values) for mode, values in seconds.items()}
    for mode, median in medians.items():
        print(f"{mode + ' shortcuts':<24}{median:>8.2f} s")
    print(f"{'ratio':<24}{medians['with'] / medians['without']:>8.2f}")


if __name__ == "__main__":
    main()
