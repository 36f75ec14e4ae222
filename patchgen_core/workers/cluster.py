"""Processes of a Ray cluster that answer requests."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import pickle
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from patchgen_core.errors import PatchgenError, install_hint
from patchgen_core.workers.addresses import RAY, SCHEME
from patchgen_core.workers.frames import load_answer
from patchgen_core.workers.node import NodeProcess, Place, describe_difference, find_versions
from patchgen_core.workers.sent_folders import pack_folder
from patchgen_core.workers.worker import NoRoom, WorkerDied

_PACKAGE = Path(__file__).resolve().parents[1]
_CODE = (_PACKAGE, _PACKAGE.with_name("patchgen"))
_NOT_SENT = (
    "**/__pycache__/",
    "**/.git/",
    "**/.venv*/",
    "**/venv/",
    "**/node_modules/",
    "**/.*_cache/",
    "**/*.egg-info/",
)
_SECONDS_TO_START = 600.0
_SECONDS_TO_CONNECT = 20.0
_VARIABLES = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # which Ray else warns of at length
}
_LOGGER = logging.getLogger(__name__)
_LINES_SHOWN = 12


class Cluster:
    """A connection to a Ray cluster, whose nodes get this package and a folder as their working directory.

    Args:
        address: ``ray://host:port``; ``ray`` for the cluster that this machine is a node of or that the environment
            variable ``RAY_ADDRESS`` names.
        root: the folder.
        packages: those of which nodes have to have the versions that are installed here.
        sent: folders outside of it that nodes get as well, with the names of what they get of each. Those that are on
            the search path are on it there.

    Raises:
        PatchgenError: there is no Ray, no such cluster, or the folder cannot be sent.
    """

    def __init__(
        self,
        address: str,
        root: Path,
        packages: Sequence[str] = (),
        sent: Mapping[Path, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self._ray = _import_ray()
        _refuse_deaf(address)
        self._place = Place(str(root), _below(os.getcwd(), root), _find_search_path(root, sent))
        self._versions = find_versions(packages)
        environment = {
            "working_dir": str(root),
            "py_modules": [str(folder) for folder in _CODE if folder.is_dir()],
            "excludes": list(_NOT_SENT),
        }
        try:
            with _quiet(), _with_variables():
                self._connection = self._ray.init(
                    address="auto" if address == RAY else address,
                    runtime_env=environment,
                    logging_level=logging.ERROR,
                    log_to_driver=False,
                )
            _log_messages(self._ray)
            self._archives: dict[str, list[Any]] = {}
            for folder, names in sent.items():
                self.send(folder, names)
        except Exception as error:
            text = " ".join(str(error).split())
            raise PatchgenError(f"the Ray cluster '{address}' cannot be used: {text}") from None

    def count(self, resource: str) -> int:
        """How many of a resource the cluster has, such as ``CPU``."""
        return int(self._ray.cluster_resources().get(resource, 0))

    def send(self, folder: Path, names: Sequence[str]) -> None:
        """Have nodes get what is called so in a folder, when a request is about it."""
        if str(folder) not in self._archives:
            self._archives[str(folder)] = [self._ray.put(pack_folder(folder, names))]

    def process(self, handler: str, resources: Mapping[str, float]) -> ClusterProcess:
        """A process of some node, for which the ``package.module:function`` answers; it occupies so much."""
        return ClusterProcess(self._ray, handler, self._place, self._versions, resources, self._archives)

    def close(self) -> None:
        """End the connection, with everything that runs for it."""
        self._ray.shutdown()


class ClusterProcess:
    """A process of a node; another one takes its place, on a node that is there, after it has died."""

    def __init__(
        self,
        ray: Any,
        handler: str,
        place: Place,
        versions: Mapping[str, str],
        resources: Mapping[str, float],
        archives: Mapping[str, Any],
    ) -> None:
        self._ray, self._handler, self._place, self._versions = ray, handler, place, versions
        self._archives = archives
        processors, gpus = resources.get("CPU", 1.0), resources.get("GPU", 0.0)
        others = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU")}
        remote = ray.remote(
            num_cpus=processors, num_gpus=gpus, resources=others, max_restarts=0, scheduling_strategy="SPREAD"
        )
        self._actors = remote(NodeProcess)
        self._actor: Any = None

    def ask(self, request: object) -> Any:
        """The answer to a request.

        Raises:
            PatchgenError: the handler raised it.
            WorkerDied: the process or its node has ended.
        """
        answer, problems = load_answer(self._get(self._actor.ask.remote(pickle.dumps(request), dict(self._archives))))
        if problems is not None:
            raise PatchgenError.from_problems(problems)
        return answer

    def is_ready(self) -> bool:
        """Whether the process is there: its node may have ended since the last answer."""
        try:
            return self._actor is not None and self._get(self._actor.versions.remote(())) is not None
        except WorkerDied:
            return False

    def start(self) -> None:
        """Wait until some node has room for the process.

        Raises:
            PatchgenError: the node has other packages than this machine, or cannot get the project.
            NoRoom: none has room for long.
            WorkerDied: the process ended at once.
        """
        if self.is_ready():
            return
        self._actor = self._actors.remote(self._handler, self._place, dict(self._archives))
        node, versions = self._get(self._actor.versions.remote(tuple(self._versions)), _SECONDS_TO_START)
        if (problem := describe_difference(node, versions, self._versions)) is not None:
            self.close()
            raise PatchgenError.from_problems([problem])

    def _get(self, reference: Any, seconds: float | None = None) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference, timeout=seconds)
        except errors.GetTimeoutError:
            self.close()
            raise NoRoom(f"no node of the cluster had room for it within {seconds:g} s", "") from None
        except (errors.RayActorError, errors.WorkerCrashedError, errors.NodeDiedError) as error:
            self.close()
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            raise WorkerDied("its process on the cluster has ended", "\n".join(lines[:_LINES_SHOWN])) from None
        except (errors.RayError, ConnectionError) as error:
            text = " ".join(str(error).split())
            raise PatchgenError(f"the Ray cluster does not answer: {type(error).__name__}: {text}") from None

    def interrupt(self) -> None:
        """End what the process does for another thread."""
        actor = self._actor
        if actor is not None:
            with contextlib.suppress(Exception):  # it has ended, or the connection has
                self._ray.kill(actor)

    def close(self) -> None:
        """End the process."""
        self.interrupt()
        self._actor = None


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        hint = install_hint("ray") or "pip install 'pytest-patchgen[ray]'"
        raise PatchgenError(f"Ray does not import: {error}", None, hint) from None


def _refuse_deaf(address: str) -> None:
    """Raise a PatchgenError where nobody answers at an address: Ray tries for two minutes."""
    text = os.environ.get("RAY_ADDRESS", "") if address == RAY else address
    host, _, port = text.removeprefix(SCHEME).partition("/")[0].rpartition(":")
    if not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_CONNECT).close()
    except OSError as error:
        message = f"nothing answers at '{text}' for the Ray cluster '{address}': {error.strerror or error}"
        raise PatchgenError(message, None, "Is it running, and is the port that of its clients?") from None


def _log_messages(ray: Any) -> None:
    """Have what Ray tells of nodes logged, which it else prints to standard output, where results go."""
    worker: Any = getattr(getattr(ray, "_private", None), "worker", None)
    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda data, *_, **__: _LOGGER.info("%s", "\n".join(data.get("lines", ())))


@contextlib.contextmanager
def _with_variables() -> Iterator[None]:
    """Have Ray find settings in the environment, which is then as it was: kept results depend on it."""
    before = dict(os.environ)
    os.environ.update({**_VARIABLES, **os.environ})
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Ray tells what it sends by its own logger, whatever level it is given for the rest."""
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _below(folder: str, root: Path) -> str:
    return folder if Path(folder).is_relative_to(root) else str(root)


def _find_search_path(root: Path, sent: Iterable[Path]) -> tuple[str, ...]:
    """The folders of ``sys.path`` that nodes have a copy of."""
    folders, own = map(os.path.abspath, sys.path), set(map(str, sent))
    below = (f for f in folders if f in own or (Path(f).is_relative_to(root) and "site-packages" not in f))
    return tuple(dict.fromkeys(below))
