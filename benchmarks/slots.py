"""What an op slot costs a call: unbound, bound for the module, bound for one model, and without a slot.

    python benchmarks/slots.py [--repeats 11]

All four are timed in turn in every round, and the medians compared. ``nothing`` is a forward that does no more than
return, for which every nanosecond shows; ``norm`` an RMSNorm of 64 values, the smallest work there is to hide behind.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import timeit
import types
import warnings
from collections.abc import Callable

import torch

from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec, bind_ops

TEXT = """
import torch
from patchgen_core.ops import OpSlot

slot = OpSlot("benchmark")


class Layer(torch.nn.Module):
    def forward(self, x):
        if slot.has_kernel:
            return slot(x)
        return work(x)


class Plain(torch.nn.Module):
    def forward(self, x):
        return work(x)


class Direct(torch.nn.Module):
    def forward(self, x):
        return kernel(x)
"""
WORKS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nothing": lambda x: x,
    "norm": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
}


def make_module(work: Callable[[torch.Tensor], torch.Tensor], number: int) -> types.ModuleType:
    """A module like a generated one."""
    module = types.ModuleType(f"benchmark_{number}")
    sys.modules[module.__name__] = module
    module.__dict__.update(work=work, kernel=work)
    exec(TEXT, module.__dict__)
    return module


def main() -> None:
    """Print nanoseconds a call and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=11)
    repeats: int = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    x = torch.randn(64)
    for number, (name, work) in enumerate(WORKS.items()):
        spec = KernelSpec("fast", "benchmark", "standard", lambda work=work: work)
        KERNEL_REGISTRY.register(spec, force=True)
        unbound, bound, own = (make_module(work, 3 * number + offset) for offset in range(3))
        bind_ops(bound, {"benchmark_implementation": "fast"})
        model = own.Layer()
        bind_ops(model, {"benchmark_implementation": "fast"})
        layers = {
            "no slot": unbound.Plain(),
            "unbound": unbound.Layer(),
            "no slot, kernel": unbound.Direct(),
            "module's": bound.Layer(),
            "model's": model,
        }
        times: dict[str, list[float]] = {label: [] for label in layers}
        count = 20_000
        for _ in range(repeats):
            for label, layer in layers.items():
                times[label].append(timeit.timeit(lambda layer=layer: layer(x), number=count) / count * 1e9)
        medians = {label: statistics.median(values) for label, values in times.items()}
        for label, value in medians.items():
            base = medians["no slot, kernel" if label in ("module's", "model's") else "no slot"]
            print(f"{name:8} {label:16} {value:8.0f} ns  {value - base:+6.0f} ns  {value / base:5.2f}")
        shared, single = medians["module's"], medians["model's"]
        print(f"{name:8} model's against module's: {single / shared:.2f}")


if __name__ == "__main__":
    main()
