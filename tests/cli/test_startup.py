"""What a process loads before it does anything: most of what a short run takes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT, Workspace

RUN = """
import atexit
import sys

from patchgen_core.cli.main import run

atexit.register(lambda: print(*sys.modules, file=sys.stderr))
sys.argv = ["patchgen", *{arguments}]
run()
"""
CHECK = RUN.format(arguments=["--check"])


def test_the_package_loads_nothing_but_itself() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules); import patchgen_core; "
    command = [sys.executable, "-I", "-S", "-c", f"{code}print(*sorted({{*sys.modules}} - before))"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "__future__ patchgen_core\n"


def test_check_of_what_is_known_to_be_clean_loads_no_generator_and_no_rich(gated: Workspace) -> None:
    for _ in range(2):  # the first keeps what is clean, the second which ruff it is
        assert gated.patchgen("--check").stdout == "1 config: 1 clean.\n"
    done = gated.python(CHECK)
    assert (done.returncode, done.stdout) == (0, "1 config: 1 clean.\n")
    loaded = set(done.stderr.split())
    assert "patchgen_core.cli.main" in loaded
    others = ("api", "build.artifacts", "codegen", "checks.contract", "config.loading", "checks.parity", "config.spec")
    outside = {"difflib", "importlib.metadata", "libcst", "msgspec", "rich", "subprocess", "tempfile"}
    heavy = outside | {f"patchgen_core.{other}" for other in others}
    assert loaded & heavy == set()


COLD = {
    "--check": "patchgen_core.build.artifacts",
    "--check --no-cache": "patchgen_core.build.artifacts",
    "--check --select PG2": "patchgen_core.checks.contract.run",
    "gate": "patchgen_core.checks.contract.run",
}


@pytest.mark.parametrize(("arguments", "needed"), COLD.items(), ids=COLD)
@pytest.mark.mostly_slow(2)
def test_a_check_that_nothing_is_kept_of_loads_no_libcst(gated: Workspace, arguments: str, needed: str) -> None:
    done = gated.python(RUN.format(arguments=arguments.split()))
    assert done.returncode == 0, done.stdout
    loaded = set(done.stderr.split())
    assert needed in loaded
    assert "libcst" not in loaded
