"""A Ray cluster of several nodes on this machine."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
from collections.abc import Iterator
from typing import Any

PORT = 20_000
"""The first of the ports at which clusters take clients."""


class LocalCluster:
    """A head that runs nothing, and nodes of one processor each, of which the last has what else is said.

    Args:
        are_apart: whether each node has a processor of its own, of those that this process may use, for everything
            that runs there; else it only counts one.
    """

    def __init__(self, nodes: int, are_apart: bool = False, **resources: float) -> None:
        os.environ.setdefault("RAY_raylet_start_wait_time_s", "180")  # of a busy machine
        self.port = PORT + os.getpid() % 20_000
        head = {"num_cpus": 0, "include_dashboard": False, "ray_client_server_port": self.port}
        cluster = importlib.import_module("ray.cluster_utils").Cluster  # which only make slow installs
        self._cluster = cluster(initialize_head=True, head_node_args=head)
        of_nodes = [*({} for _ in range(nodes - 1)), resources]
        own = sorted(os.sched_getaffinity(0))
        self._nodes: list[Any] = []
        for number, more in enumerate(of_nodes):
            with _on_processors({own[number]} if are_apart else set(own)):
                self._nodes.append(self._cluster.add_node(num_cpus=1, resources=more))

    @property
    def address(self) -> str:
        """What ``RAY_ADDRESS`` is to be."""
        return str(self._cluster.address)

    def add_node(self) -> None:
        """Start one more."""
        self._nodes.append(self._cluster.add_node(num_cpus=1))

    def kill_node(self) -> None:
        """Kill the node that was started last, as when its machine is gone."""
        node = self._nodes.pop()
        for processes in list(node.all_processes.values()):
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.process.pid, signal.SIGKILL)
        with contextlib.suppress(Exception):  # which asks the node to end
            self._cluster.remove_node(node, allow_graceful=False)

    def close(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()


@contextlib.contextmanager
def _on_processors(processors: set[int]) -> Iterator[None]:
    """Have this process, and what it starts meanwhile, use some processors alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def start_cluster(nodes: int, are_apart: bool = False, **resources: float) -> Iterator[LocalCluster]:
    """A cluster that ends with the block; the last of its nodes has resources such as ``NPU=1``."""
    cluster = LocalCluster(nodes, are_apart, **resources)
    try:
        yield cluster
    finally:
        cluster.close()
