"""``pytest --patchgen`` in a project of its own."""

from __future__ import annotations

import pytest

from patchgen_core import drift
from tests.conftest import Workspace

CONFIG = "proj/models/toy/toy_gpu_patch_gen_config.py"


@pytest.fixture
def gated(work: Workspace, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    work.upstream("class Norm:\n    def forward(self, x):\n        return x\n")
    work.config("")
    drift.fix(work.check())
    monkeypatch.chdir(work.root)
    monkeypatch.setenv("PYTHONPATH", str(work.site))
    return work


def run(pytester: pytest.Pytester, work: Workspace, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(f"--rootdir={work.root}", "-p", "no:cacheprovider", *arguments)


def test_clean_config_passes(gated: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, gated, "--patchgen", "-v", "-m", "patchgen_drift", str(gated.models))
    result.stdout.fnmatch_lines([f"{CONFIG}::drift PASSED*"])
    result.assert_outcomes(passed=1)


def test_drift_fails_with_its_cause_and_no_traceback(gated: Workspace, pytester: pytest.Pytester) -> None:
    path = gated.models / "toy/generated/patched_modeling_toy_gpu.py"
    path.write_text(path.read_text().replace("return x", "return -x"))
    result = run(pytester, gated, "--patchgen", str(gated.models))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*edited by hand: Norm.forward changed", "-        return -x", "+        return x"])
    result.stdout.no_fnmatch_line("*runtest*")


def test_broken_config_is_a_failing_item(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.config("config.exclude_from_output('Nrom')\n")
    result = run(pytester, gated, "--patchgen", str(gated.models))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*exclude_from_output: upstream defines no 'Nrom'", "*Did you mean 'Norm'?"])


def test_switched_off_it_collects_nothing(gated: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, gated, str(gated.models))
    result.assert_outcomes()
