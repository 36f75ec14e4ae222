"""Which device of a cluster an item is for."""

from __future__ import annotations

import pytest

from patchgen_core.checks.kernel.check import KernelCheck
from patchgen_core.checks.plan.check import PlanCheck
from patchgen_core.checks.running.on_cluster import choose_device
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

ALL, NONE = {"CPU": 2, "GPU": 1, "NPU": 1}, {"CPU": 2, "GPU": 0, "NPU": 0}


@pytest.mark.parametrize(
    ("device", "kernel", "sizes", "chosen"),
    [
        ("auto", "npu", ALL, "npu"),
        ("auto", "liger_kernel", ALL, "cuda"),
        ("auto", "eager", ALL, "cpu"),
        ("auto", "npu", NONE, "cpu"),
        ("auto", "liger_kernel", {**ALL, "GPU": 0}, "cpu"),
        ("cpu", "npu", ALL, "cpu"),
        ("cuda", "eager", ALL, "cuda"),
        ("npu", "liger_kernel", ALL, "npu"),
    ],
)
def test_kernels_are_for_what_they_are_made_for_and_the_cluster_has(
    work: Workspace, device: str, kernel: str, sizes: dict[str, int], chosen: str
) -> None:
    session = Session(work.project, Settings(device=device))
    item = f"kernel[rms_norm-standard-{kernel}]"
    assert choose_device(device, (KernelCheck(session), work.root / "pyproject.toml", item), sizes) == chosen
    assert choose_device(device, (PlanCheck(session), work.root / "pyproject.toml", "plan"), sizes) == "cpu"
    session.close()
