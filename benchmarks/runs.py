"""What the service adds to the gate: the overhead of a run, empty jobs per second, and what an idle process takes."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from patchgen_service.database.engine import open_database
from patchgen_service.database.migrating import upgrade_database
from patchgen_service.git.command import Remote
from patchgen_service.git.mirror import Mirror
from patchgen_service.isolation.probe import find_isolation
from patchgen_service.running.order import RunOrder
from patchgen_service.running.run import Workplace, carry_out
from tools.postgresql import PostgresServer
from tools.service_kills import WorkProcess, make_repository

_REPEATS = 5
_JOBS = 200
_JOBS_CODE = """
import sys, threading, time
from patchgen_service.jobs.engine import Engine

done, lock = 0, threading.Lock()


def count(argument):
    global done
    with lock:
        done += 1


jobs = int(sys.argv[2])
engine = Engine(sys.argv[1], "bench", {"empty": count}, {"empty": 16})
engine.start()
begun = time.perf_counter()
for number in range(jobs):
    engine.submit("empty", f"job-{number}", "")
submitted = time.perf_counter() - begun
while done < jobs:
    time.sleep(0.01)
print(jobs / submitted, jobs / (time.perf_counter() - begun))
engine.stop()
"""


def measure_overhead(folder: Path) -> tuple[float, float]:
    """Median seconds of the gate alone over a checkout, and of a whole run over its commit."""
    sha = make_repository(folder / "repository", 3)
    mirror = Mirror(folder / "mirror", Remote(str(folder / "repository")))
    place = Workplace(folder / "work", folder / "environments", find_isolation(["bubblewrap"]))
    command = [sys.executable, "-m", "patchgen_core", "gate", "--no-cache", "--checks=drift,contract"]
    alone, whole = [], []
    for number in range(_REPEATS):
        start = time.perf_counter()
        subprocess.run(command, cwd=folder / "repository", capture_output=True)
        alone.append(time.perf_counter() - start)
        order = RunOrder(f"run-{number}", "acme", str(folder / "repository"), sha, checks=("drift", "contract"))
        start = time.perf_counter()
        ended = carry_out(order, mirror, place, lambda event: None)
        whole.append(time.perf_counter() - start)
        assert ended.ending == "finished", ended
    return statistics.median(alone), statistics.median(whole)


def measure_jobs(url: str) -> tuple[float, float]:
    """Empty jobs per second: put into a queue, and done."""
    done = subprocess.run([sys.executable, "-c", _JOBS_CODE, url, str(_JOBS)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    submitted, through = map(float, done.stdout.split())
    return submitted, through


def measure_idle(folder: Path, url: str) -> tuple[float, float]:
    """MiB that an idle process of the jobs has, and percent of a core that it takes."""
    (folder / "service").mkdir()
    process = WorkProcess(folder / "service", url)
    process.start()
    time.sleep(5)
    pid = process.pid
    ticks = _read_ticks(pid)
    time.sleep(10)
    used = (_read_ticks(pid) - ticks) / os.sysconf("SC_CLK_TCK") / 10
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    process.stop()
    return resident, 100 * used


def _read_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def main() -> None:
    """Print a line for each measure."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        alone, whole = measure_overhead(folder)
        print(f"a run: {whole:.2f} s, of which the gate alone {alone:.2f} s; overhead {whole - alone:.2f} s")
        server = stack.enter_context(PostgresServer())
        urls = {"SQLite": f"sqlite:///{folder / 'jobs.sqlite'}", "PostgreSQL": server.make_database("bench")}
        for name, url in urls.items():
            submitted, through = measure_jobs(url)
            print(f"{name}: {submitted:.0f} empty jobs a second are queued, {through:.0f} are queued and done")
        idle = f"sqlite:///{folder / 'idle.sqlite'}"
        upgrade_database(open_database(idle))
        resident, percent = measure_idle(folder, idle)
        print(f"an idle process of the jobs: {resident:.0f} MiB, {percent:.1f} % of a core")


if __name__ == "__main__":
    main()
