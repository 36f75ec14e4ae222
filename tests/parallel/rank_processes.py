"""Four processes that stay for the session, of which a case takes as many as it has ranks."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

TIME_LIMIT = 120.0
MOST_RANKS = 4
PRELOAD = [
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch._dynamo",
    "patchgen_core.runtime.parallel.sharding",
    "transformers.models.gpt_oss.modeling_gpt_oss",
    "transformers.models.llama.modeling_llama",
    "transformers.models.qwen3_moe.modeling_qwen3_moe",
]
"""What the server of the processes imports once for all of them, where it can."""


class Ranks:
    """Processes in which functions run as the ranks of a gloo group, one group for each call."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOAD)
        self._ends: list[Connection] = []
        self._processes = []
        for _ in range(MOST_RANKS):
            end, other = context.Pipe()
            process = context.Process(target=_serve, args=(other,), daemon=True)
            process.start()
            self._ends.append(end)
            self._processes.append(process)

    def __call__(self, count: int, case: Callable[..., Any], *args: Any) -> list[Any]:
        """What ``case(*args)`` returns on each of ``count`` ranks; the first error of a rank is raised here."""
        with tempfile.TemporaryDirectory() as folder:
            for rank, end in enumerate(self._ends[:count]):
                end.send((case, args, rank, count, str(Path(folder) / "store")))
            answers = []
            for rank, end in enumerate(self._ends[:count]):
                if not end.poll(TIME_LIMIT):
                    self.stop()
                    pytest.fail(f"rank {rank} does not answer: {case.__name__}{args}")
                answers.append(end.recv())
        failures = [f"rank {rank}:\n{text}" for rank, (text, _) in enumerate(answers) if text]
        assert not failures, "\n".join(failures)
        return [value for _, value in answers]

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()


def _serve(end: Connection) -> None:
    import torch

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    while True:
        try:
            case, args, rank, count, store = end.recv()
        except EOFError:
            return
        end.send(_run(case, args, rank, count, store))


def _run(case: Callable[..., Any], args: tuple[Any, ...], rank: int, count: int, store: str) -> tuple[str, Any]:
    import torch
    import torch.distributed as dist

    from patchgen_core.runtime.parallel.state import use_parallel_state

    torch.manual_seed(0)
    try:
        limit = timedelta(seconds=TIME_LIMIT / 4)
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count, timeout=limit)
        with use_parallel_state(None):
            return "", case(*args)
    except BaseException:
        return traceback.format_exc(), None
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
