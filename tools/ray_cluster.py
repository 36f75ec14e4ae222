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
    """A head that runs nothing, and nodes of one processor each, of which the last has what else is said."""

    def __init__(self, nodes: int, **resources: float) -> None:
        os.environ.setdefault("RAY_raylet_start_wait_time_s", "180")  # of a busy machine
        self.port = PORT + os.getpid() % 20_000
        head = {"num_cpus": 0, "include_dashboard": False, "ray_client_server_port": self.port}
        cluster = importlib.import_module("ray.cluster_utils").Cluster  # which only make slow installs
        self._cluster = cluster(initialize_head=True, head_node_args=head)
        of_nodes = [*({} for _ in range(nodes - 1)), resources]
        self._nodes: list[Any] = [self._cluster.add_node(num_cpus=1, resources=own) for own in of_nodes]

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
def start_cluster(nodes: int, **resources: float) -> Iterator[LocalCluster]:
    """A cluster that ends with the block; the last of its nodes has resources such as ``NPU=1``."""
    cluster = LocalCluster(nodes, **resources)
    try:
        yield cluster
    finally:
        cluster.close()
