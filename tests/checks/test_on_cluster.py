"""A run on a Ray cluster gives the same results, in the same order, as one here; also with nodes dying."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.gate import Gate
from patchgen_core.checks.registry import BUILT_IN
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from tests.conftest import PATCH, TABLE, UPSTREAM_TEXT, Workspace
from tools.ray_cluster import start_cluster

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NAMES = ("a", "b", "c", "d", "e", "f")
SLOW_IMPORT = """

import os, time

with open({log!r}, "a") as file:
    print(os.getpid(), file=file)
time.sleep({seconds})
"""


@pytest.fixture
def several(work: Workspace) -> Workspace:
    """A project of several configs whose modules take long to import, and of which two are wrong."""
    work.upstream(UPSTREAM_TEXT)
    for name in NAMES:
        work.config(PATCH, f"{name}/{name}_gpu_patch_gen_config.py")
    fix(work.check())
    add_to_imports(work, 2)
    (work.models / "b/b_gpu_patch_gen_config.py").write_text("import nothing_that_is_there\n")
    (work.models / "c/generated/patched_modeling_toy_gpu.py").write_text("raise ValueError('wrong')\n")
    return work


def log_of(work: Workspace) -> Path:
    return work.root.parent / "log"


def add_to_imports(work: Workspace, seconds: float) -> None:
    for module in work.models.glob("*/generated/*.py"):
        module.write_text(module.read_text() + SLOW_IMPORT.format(log=str(log_of(work)), seconds=seconds))


def start(work: Workspace, *arguments: str, address: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "patchgen_core", "gate", "--checks=drift,import", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(work.site), "RAY_ADDRESS": address}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=work.root, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def finish(work: Workspace, process: subprocess.Popen[str]) -> dict[str, Any]:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 2, output + errors  # one config cannot be generated
    assert "(raylet)" not in output
    report: dict[str, Any] = json.loads((work.root / "report.json").read_text())
    assert all(result.pop("seconds") > 0 for result in report["results"])
    return report


def started(work: Workspace) -> list[int]:
    return [int(line) for line in log_of(work).read_text().split()] if log_of(work).exists() else []


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    assert condition()


def is_running(process: int) -> bool:
    """Whether a process runs; one that has ended may wait for somebody who takes note of it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def with_site(several: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The project, whose upstream's package is installed on nodes that are started from now on."""
    monkeypatch.setenv("PYTHONPATH", str(several.site))
    return several


def test_a_run_on_a_cluster_is_one_here_also_when_a_node_is_killed(with_site: Workspace) -> None:
    work, report = with_site, "--report=report.json"
    here = finish(work, start(work, report, "--jobs=1"))
    assert {result["status"] for result in here["results"]} >= {"drifted", "error", "failed"}
    with start_cluster(2) as cluster:
        assert finish(work, start(work, report, "--on=ray", address=cluster.address)) == here
        on_client = start(work, report, f"--on=ray://127.0.0.1:{cluster.port}")
        assert finish(work, on_client) == here
        log_of(work).unlink()
        process = start(work, report, "--on=ray", address=cluster.address)
        until(lambda: len(started(work)) >= 2)
        cluster.kill_node()
        assert finish(work, process) == here
        assert len(started(work)) > len(NAMES) - 2


def test_an_interrupt_ends_everything_on_the_cluster(with_site: Workspace) -> None:
    work = with_site
    add_to_imports(work, 600)
    with start_cluster(2) as cluster:
        process = start(work, "--on=ray", address=cluster.address)
        until(lambda: len(started(work)) >= 2)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 130, output + errors
        assert "Traceback" not in errors
        until(lambda: not any(map(is_running, started(work))))


def test_kernels_run_where_the_cluster_has_what_they_are_made_for(
    work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that only claims to have an NPU gets the kernel for one, and is found out; the other gets the rest."""
    work.write("no_more.py", "")
    work.write("pyproject.toml", f'{TABLE}kernels = ["no_more"]\n')
    (kernel,) = (info for info in BUILT_IN if info.name == "kernel")
    session = Session(work.project, Settings(caching=False))
    with start_cluster(2, NPU=1) as cluster:
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        try:
            gate = Gate(session, [kernel], None, "ray")
            items = gate.items([], [work.root])
            names = [f"kernel[rms_norm-standard-{name}]" for name in ("eager", "npu")]
            results = list(gate.run([item for item in items if item.name in names]))
        finally:
            session.close()
    on_cpu, on_npu = results
    assert on_cpu.status == "clean", on_cpu.errors
    (error,) = on_npu.errors
    assert re.search(r"node '.+' .* is refused: models should run on 'npu'", error.message)


def test_a_model_of_the_zoo_on_two_nodes_of_which_one_is_killed(tmp_path: Path) -> None:
    report, stream = tmp_path / "report.json", tmp_path / "stream"
    command = [sys.executable, "-m", "patchgen_core", "gate", "--no-cache", "--level=quick", f"--report={report}"]
    command += ["--checks=drift,import,parity,plan,converter", f"--stream={stream}", "examples/zoo/mixtral"]

    def read_results() -> list[Any]:
        results: list[Any] = json.loads(report.read_text())["results"]
        assert all(result.pop("seconds") > 0 for result in results)
        return results

    done = subprocess.run([*command, "--jobs=1"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    here = read_results()
    with start_cluster(2) as cluster:
        environment = {**os.environ, "RAY_ADDRESS": cluster.address}
        process = subprocess.Popen([*command, "--on=ray"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
        until(lambda: stream.exists() and '"check":"import"' in stream.read_text().replace(" ", ""))
        cluster.kill_node()
        assert process.wait(900) == 0
    assert read_results() == here


def test_a_cluster_without_a_gpu_is_refused_and_so_is_xdist_beside_one(with_site: Workspace) -> None:
    work = with_site
    work.write("no_more.py", "")
    work.write("pyproject.toml", f'{TABLE}kernels = ["no_more"]\n')
    with start_cluster(1) as cluster:
        process = start(work, "--on=ray", "--device=cuda", "--checks=kernel", address=cluster.address)
        output, errors = process.communicate(timeout=120)
        assert "has no GPU, which the device asks for" in errors, output
    command = [sys.executable, "-m", "pytest", "--patchgen-on=ray", "-n", "2"]
    done = subprocess.run(command, cwd=work.root, capture_output=True, text=True)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "leave one out" in done.stderr
