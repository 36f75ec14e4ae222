"""What the kernels of mixtures of experts cost, forward and backward: seconds and memory, against the eager ones.

    python benchmarks/moe.py [--repeats 7] [--tokens 1024] [--threads 1]

Runs in bfloat16 on a CUDA device where there is one, and else in float32 on a CPU, where experts are smaller: each of
them costs the eager backward pass a gradient of the size of all. All kernels of an op are timed in turn in every
round, and the medians compared. Memory is what the autograd graph holds and the peak of a call, both beyond the
inputs; on a CPU the peak is left out.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from patchgen_core.ops import KERNEL_REGISTRY

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HIDDEN, INNER = (2048, 768) if DEVICE == "cuda" else (128, 64)
EXPERTS, CHOICES, LAYERS = 128, 8, 24
DTYPE = torch.bfloat16 if DEVICE == "cuda" else torch.float32


def draw(*shape: int, scale: float = 1.0) -> torch.Tensor:
    """Random numbers that are differentiated."""
    return (torch.randn(shape, device=DEVICE) * scale).to(DTYPE).requires_grad_()


def route(tokens: int) -> dict[str, Any]:
    """Hidden states and the experts that are chosen for them."""
    index = torch.rand(tokens, EXPERTS, device=DEVICE).topk(CHOICES, dim=-1).indices
    weights = torch.rand(tokens, CHOICES, device=DEVICE).softmax(dim=-1).to(DTYPE)
    return {"hidden_states": draw(tokens, HIDDEN), "top_k_index": index, "top_k_weights": weights}


def arguments_of(op: str, variant: str, tokens: int) -> dict[str, Any]:
    """The arguments of an op's variant."""
    if op == "moe_load_balancing_loss":
        layers = tuple(draw(tokens, EXPERTS) for _ in range(LAYERS))
        return {"router_logits": layers, "num_experts": EXPERTS, "top_k": CHOICES}
    if variant == "standard":
        weights = {
            "gate_up_proj": draw(EXPERTS, 2 * INNER, HIDDEN, scale=0.02),
            "down_proj": draw(EXPERTS, HIDDEN, INNER, scale=0.02),
        }
        return {**route(tokens), **weights, "act_fn": F.silu}
    weights = {
        "gate_up_proj": draw(EXPERTS, HIDDEN, 2 * INNER, scale=0.02),
        "gate_up_proj_bias": draw(EXPERTS, 2 * INNER),
        "down_proj": draw(EXPERTS, INNER, HIDDEN, scale=0.02),
        "down_proj_bias": draw(EXPERTS, HIDDEN),
    }
    return {**route(tokens), **weights, "alpha": 1.702, "limit": 7.0}


def step(kernel: Callable[..., torch.Tensor], arguments: dict[str, Any]) -> tuple[float, int, int]:
    """Seconds of a forward and a backward pass, the bytes that the graph holds in between, and the peak."""
    flat = [one for value in arguments.values() for one in (value if isinstance(value, tuple) else (value,))]
    inputs = {one.data_ptr() for one in flat if isinstance(one, torch.Tensor)}
    held: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in inputs:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    if DEVICE == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    start = time.perf_counter()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        kernel(**arguments).sum().backward()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    peak = torch.cuda.max_memory_allocated() - before if DEVICE == "cuda" else 0
    for one in flat:
        if isinstance(one, torch.Tensor):
            one.grad = None
    return seconds, sum(held.values()), peak


def main() -> None:
    """Print a row for each kernel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    device = torch.cuda.get_device_name() if DEVICE == "cuda" else f"a CPU, {given.threads} threads"
    print(f"{given.tokens} tokens, {CHOICES} of {EXPERTS} experts, {DTYPE} on {device}; the loss of {LAYERS} layers")
    for op, variant in (
        ("moe_load_balancing_loss", "standard"),
        ("moe_experts", "standard"),
        ("moe_experts", "gpt_oss"),
    ):
        arguments = arguments_of(op, variant, given.tokens)
        names = [spec.name for spec in KERNEL_REGISTRY.specs(op, variant) if not spec.why_not_here()]
        kernels = {name: KERNEL_REGISTRY.resolve(op, name, variant) for name in names}
        rows: dict[str, list[tuple[float, int, int]]] = {name: [] for name in names}
        for kernel in kernels.values():
            step(kernel, arguments)
        for _ in range(given.repeats):
            for name, kernel in kernels.items():
                rows[name].append(step(kernel, arguments))
        eager = statistics.median(seconds for seconds, _, _ in rows["eager"])
        for name, steps in rows.items():
            median = statistics.median(seconds for seconds, _, _ in steps)
            memory = f"graph {steps[0][1] / 2**20:8.1f} MiB"
            memory += f", peak {steps[0][2] / 2**20:8.1f} MiB" if DEVICE == "cuda" else ""
            print(f"{op + '/' + variant:34} {name:12} {median * 1e3:9.2f} ms {eager / median:7.2f}x  {memory}")


if __name__ == "__main__":
    main()
