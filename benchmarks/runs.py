"""What the service costs: the overhead of a run, empty jobs per second, its first page, and what it takes idle."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from patchgen_service.git.command import Remote
from patchgen_service.git.mirror import Mirror
from patchgen_service.isolation.probe import find_isolation
from patchgen_service.running.order import RunOrder
from patchgen_service.running.run import Workplace, carry_out
from tools.postgresql import PostgresServer
from tools.service_kills import make_repository
from tools.service_process import ServiceProcess

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
    make_repository(folder / "repository", 3)
    mirror = Mirror(folder / "mirror", Remote(str(folder / "repository")))
    mirror.fetch()
    sha = mirror.resolve("main")
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


def measure_service(folder: Path) -> tuple[float, float, float, float]:
    """A service: its seconds and its processor seconds to the first page; idle, its MiB and its percent of a core."""
    start = time.perf_counter()
    with ServiceProcess(folder, {"PATCHGEN_INDEX_URL": "http://127.0.0.1:9"}) as service:
        urllib.request.urlopen(service.url).read()
        seconds, processor = time.perf_counter() - start, service.processor_seconds
        time.sleep(15)
        before = service.processor_seconds
        time.sleep(10)
        percent = 10 * (service.processor_seconds - before)
        return seconds, processor, service.resident_mib, percent


def main() -> None:
    """Print a line for each measure."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        alone, whole = measure_overhead(folder)
        print(f"a run: {whole:.2f} s, of which the gate alone {alone:.2f} s; overhead {whole - alone:.2f} s")
        server = stack.enter_context(PostgresServer())
        urls = {"SQLite": f"sqlite:///{folder / 'jobs.sqlite'}", "PostgreSQL": server.make_database("bench")}
        for name, url in urls.items():
            submitted, through = measure_jobs(url)
            print(f"{name}: {submitted:.0f} empty jobs a second are queued, {through:.0f} are queued and done")
        seconds, processor, resident, percent = measure_service(folder / "service")
        print(f"a service: first page after {seconds:.2f} s, of which {processor:.2f} s of processor time")
        print(f"idle, it has {resident:.0f} MiB and takes {percent:.1f} % of a core")


if __name__ == "__main__":
    main()
