"""A PostgreSQL server of one's own, for tests and benchmarks of the service: Debian's, on a socket in a new folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import psycopg

USER = "postgres"
_SECONDS_TO_START = 30


class PostgresServer:
    """A server that is started, stopped and killed at will; as root, it runs as the system's user for it.

    Nothing is synchronized to the disk: what it committed outlives its processes, not the machine.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="patchgen-pg-", dir=parent))
        self.owner: dict[str, str] = {}
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER, USER)
            self.owner = {"user": USER, "group": USER}
        command = [_find("initdb"), "-D", str(self.data), "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8"]
        self._run([*command, "--locale=C"])

    @property
    def data(self) -> Path:
        """The folder of its data."""
        return self.folder / "data"

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, or start it again, and wait until it answers."""
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off -c max_connections=60"
        log = self.folder / "log"
        command = [_find("pg_ctl"), "-D", str(self.data), "-w", "-t", "60", "-l", str(log), "-o", options, "start"]
        deadline = time.monotonic() + _SECONDS_TO_START
        while True:
            try:
                return self._run(command)
            except RuntimeError:  # children of a server that was killed are still there
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def stop(self) -> None:
        """Stop it at once."""
        subprocess.run(
            [_find("pg_ctl"), "-D", str(self.data), "-m", "immediate", "-w", "stop"], capture_output=True, **self.owner
        )

    def kill(self) -> None:
        """End it as a machine's failure would: by SIGKILL, with no word to anyone."""
        process = int((self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
        os.kill(process, signal.SIGKILL)

    @property
    def processor_seconds(self) -> float:
        """The processor time that those of its processes have taken which are there now."""
        main = int((self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
        seconds = 0.0
        for process in Path(f"/proc/{main}/task/{main}/children").read_text(encoding="utf-8").split():
            with contextlib.suppress(OSError):  # it has ended
                seconds += int(Path(f"/proc/{process}/schedstat").read_text(encoding="utf-8").split()[0]) / 1e9
        return seconds

    def make_database(self, name: str, template: str = "template0") -> str:
        """Make a database like another, or an empty one, and return its URL; one of that name goes before."""
        with psycopg.connect(f"host={self.folder} user={USER} dbname=postgres", autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'.encode())
        return f"postgresql://{USER}@/{name}?host={self.folder}"

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, **self.owner)
        if done.returncode:
            raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr or done.stdout}")


def _find(name: str) -> str:
    """A program of PostgreSQL, which Debian keeps out of the search path."""
    if path := shutil.which(name):
        return path
    paths = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if not paths:
        raise RuntimeError(f"PostgreSQL's {name} is not installed: run `make server`")
    return str(paths[-1])
