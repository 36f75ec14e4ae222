"""What ranks cost: seconds of the check ``sharded``, bytes between ranks, memory of a rank that loads its part.

    python benchmarks/sharded.py [--models llama,qwen3_moe] [--tokens 2048] [--memory 512]

The seconds are those of the items of this repository's zoo, one after the other. The bytes are counted where a rank
hands them to a collective, without the part that it keeps, and stand beside the formulas: sequence parallelism moves
queries, keys, values and what attention gives, each ``tokens * width / ranks``, forward and backward; expert
parallelism moves a row for each chosen expert of another rank, there and back. The memory is what a rank holds beyond
what it held before, while it loads a checkpoint of ``--memory`` MiB, against the whole checkpoint.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from processes import apart

ROOT = Path(__file__).parents[1]
ZOO = "examples/zoo"
MIB = 2**20
EXPERTS, CHOSEN = 16, 2
QUERY_HEADS, KEY_HEADS, HEAD_WIDTH = 8, 4, 16
LAYERS = 2
TIME_LIMIT = 300.0
BETWEEN_SAMPLES = 0.002
SEQUENCES, EXCHANGED, LOADED = "sequences", "experts", "checkpoint"


class Task(NamedTuple):
    """What every rank does.

    Attributes:
        kind: SEQUENCES, EXCHANGED or LOADED.
        tokens: of one batch.
        folder: of the checkpoint.
    """

    kind: str
    tokens: int = 0
    folder: str = ""


def qwen3_moe(**sizes: int) -> Any:
    """The configuration of a small mixture of experts."""
    from transformers import Qwen3MoeConfig

    given = {
        "vocab_size": 64,
        "hidden_size": QUERY_HEADS * HEAD_WIDTH,
        "intermediate_size": 64,
        "moe_intermediate_size": 32,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": QUERY_HEADS,
        "num_key_value_heads": KEY_HEADS,
        "head_dim": HEAD_WIDTH,
        "num_experts": EXPERTS,
        "num_experts_per_tok": CHOSEN,
        "max_position_embeddings": 8192,
    }
    return Qwen3MoeConfig(**given | sizes)


def generated_class() -> Any:
    """The zoo's mixture of experts, whose attention is patched for split sequences."""
    from zoo.qwen3_moe.generated import patched_modeling_qwen3_moe_gpu

    return patched_modeling_qwen3_moe_gpu.Qwen3MoeForCausalLM


def expert_plan() -> Any:
    """The zoo's plan for it."""
    from zoo.qwen3_moe.parallel_plan import get_parallel_plan

    return get_parallel_plan()


@contextmanager
def count_bytes(ranks: int) -> Iterator[dict[str, int]]:
    """Count what this rank sends to others, by collective."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    sent: dict[str, int] = defaultdict(int)

    class Counter(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = str(func)
            if name.startswith("_c10d_functional.all_to_all_single"):
                rows, group = args[0], args[3]
                own = args[2][torch.distributed.distributed_c10d._resolve_process_group(group).rank()]
                sent["all-to-all"] += (rows.shape[0] - own) * rows[:1].numel() * rows.element_size()
            elif name.startswith("_c10d_functional.all_reduce"):
                sent["all-reduce"] += 2 * args[0].numel() * args[0].element_size() * (ranks - 1) // ranks
            return func(*args, **kwargs or {})

    with Counter():
        yield sent


def measure_exchange(task: Task, ranks: int) -> dict[str, int]:
    """The bytes of a forward and a backward pass, by collective."""
    import torch

    from patchgen_core.runtime.parallel import init_parallel_state, parallelize, slice_batch, use_parallel_state

    splits = task.kind == SEQUENCES
    state = init_parallel_state(1 if splits else ranks, ranks if splits else 1, 1 if splits else ranks, "cpu")
    torch.manual_seed(0)
    with use_parallel_state(state):
        model = generated_class()(qwen3_moe())
        parallelize(model, state, expert_plan())
        ids = torch.randint(64, (1, task.tokens))
        batch = {"input_ids": ids, "labels": ids, "position_ids": torch.arange(task.tokens)[None]}
        inputs = slice_batch({**batch, "use_cache": False})
        with count_bytes(ranks) as sent:
            model(**inputs).loss.backward()
    return dict(sent)


class Peak:
    """The most memory that a process holds of its own, in bytes, beyond what it held first."""

    def __init__(self) -> None:
        self._before = self._now()
        self.bytes = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(BETWEEN_SAMPLES):
            self.bytes = max(self.bytes, self._now() - self._before)

    @staticmethod
    def _now() -> int:
        rows = Path("/proc/self/status").read_text().splitlines()
        return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("RssAnon:"))


def measure_loading(task: Task, ranks: int) -> tuple[int, int, float]:
    """The peak of memory while this rank loads, what its parameters take, and seconds."""
    import torch
    from torch.distributed.tensor import DTensor
    from transformers import AutoConfig

    from patchgen_core.checkpoint import PerExpertConverter, load_state_dict_streaming
    from patchgen_core.runtime.parallel import init_parallel_state, materialize, parallelize

    with torch.device("meta"):
        model = generated_class()(AutoConfig.from_pretrained(task.folder)).to(torch.bfloat16)
    parallelize(model, init_parallel_state(ep_size=ranks, device_type="cpu"), expert_plan())
    started = time.perf_counter()
    with Peak() as peak:
        materialize(model)
        load_state_dict_streaming(model, task.folder, PerExpertConverter(EXPERTS))
    own = sum((p.to_local() if isinstance(p, DTensor) else p).nbytes for p in model.parameters())
    return peak.bytes, own, time.perf_counter() - started


def run_on_rank(rank: Any, task: Task) -> Any:
    """What a rank measures, in a process group of its own."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.FileStore(str(rank.folder / task.kind), rank.size)
    dist.init_process_group("gloo", store=store, rank=rank.number, world_size=rank.size)
    try:
        measure = measure_loading if task.kind == LOADED else measure_exchange
        return measure(task, rank.size)
    finally:
        dist.destroy_process_group()


def ask_ranks(ranks: int, task: Task) -> list[Any]:
    """What each of some new ranks measures."""
    from patchgen_core.workers.rank_group import RankGroup

    with RankGroup("sharded:run_on_rank", ranks) as group:
        return group.ask(task, TIME_LIMIT)


def save_checkpoint(folder: Path, mebibytes: int) -> int:
    """Write a checkpoint with a file of its own for each expert's tensors; returns its bytes."""
    import torch
    from transformers import Qwen3MoeForCausalLM
    from transformers.utils import logging

    layers = 4 * LAYERS
    one = 2 * layers * EXPERTS * 3 * QUERY_HEADS * HEAD_WIDTH  # bytes for each unit of an expert's width
    config = qwen3_moe(num_hidden_layers=layers, moe_intermediate_size=mebibytes * MIB // one)
    logging.disable_progress_bar()
    Qwen3MoeForCausalLM(config).to(torch.bfloat16).save_pretrained(folder, max_shard_size="64MB")
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def print_seconds(models: list[str]) -> None:
    """Seconds of the zoo's items, by mesh; a process of its own runs them, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        zoos = [f"{ZOO}/{model}" for model in models] or [ZOO]
        command = [sys.executable, "-m", "patchgen_core", "gate", *zoos, "--checks", "sharded"]
        process = subprocess.run([*command, "--report", str(report)], cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
        if process.returncode not in (0, 1):
            raise SystemExit(f"the gate ended with {process.returncode}")
        results = json.loads(report.read_text())["results"]
    seconds: dict[str, list[float]] = defaultdict(list)
    for result in results:
        seconds[result["check"]].append(result["seconds"])
    print(f"{'check':24} {'items':>5} {'s':>7} {'mean':>6}")
    for check, taken in sorted(seconds.items()):
        print(f"{check:24} {len(taken):5} {sum(taken):7.1f} {sum(taken) / len(taken):6.2f}")


def print_bytes(tokens: int) -> None:
    """The bytes that a rank sends in one step, beside the formulas."""
    width, moved = QUERY_HEADS * HEAD_WIDTH, 2 * (QUERY_HEADS + KEY_HEADS) * HEAD_WIDTH
    print(f"\n{'a step of ' + str(tokens) + ' tokens':32} {'ranks':>5} {'KiB a rank':>11} {'formula':>9} {'ratio':>6}")
    for ranks in (2, 4):
        away = (ranks - 1) / ranks
        for kind, formula in (
            (SEQUENCES, 2 * LAYERS * moved * (tokens / ranks) * 4 * away),
            (EXCHANGED, 4 * LAYERS * CHOSEN * width * tokens * 4 * away),
        ):
            sent = [answer["all-to-all"] for answer in ask_ranks(ranks, Task(kind, tokens))]
            mean = sum(sent) / ranks
            print(f"{kind:32} {ranks:5} {mean / 1024:11.0f} {formula / 1024:9.0f} {mean / formula:6.2f}")


def print_memory(mebibytes: int) -> None:
    """The most that a rank holds while it loads, against the whole checkpoint."""
    print(f"\n{'loading':32} {'ranks':>5} {'peak MiB':>11} {'of whole':>9} {'own MiB':>8} {'s':>6}")
    with tempfile.TemporaryDirectory() as folder:
        whole = apart(save_checkpoint, Path(folder), mebibytes)
        for ranks in (1, 2, 4):
            answers = ask_ranks(ranks, Task(LOADED, folder=folder))
            peak, own = (max(answer[at] for answer in answers) for at in (0, 1))
            seconds = max(answer[2] for answer in answers)
            print(
                f"{'a checkpoint of ' + str(whole // MIB) + ' MiB':32} {ranks:5} {peak / MIB:11.0f}"
                f" {peak / whole:9.2f} {own / MIB:8.0f} {seconds:6.1f}"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="", help="of the zoo, with commas; by default all")
    parser.add_argument("--tokens", type=int, default=2048, help="of the batch whose bytes are counted")
    parser.add_argument("--memory", type=int, default=512, help="MiB of the checkpoint that is loaded")
    options = parser.parse_args()
    sys.path[1:1] = [str(ROOT), str(ROOT / "examples")]
    print_bytes(options.tokens)
    print_memory(options.memory)
    print()
    print_seconds([name for name in options.models.split(",") if name])


if __name__ == "__main__":
    import sharded  # ranks know what they are sent by the name of this file

    sharded.main()
