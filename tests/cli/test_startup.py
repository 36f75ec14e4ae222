"""What a process loads before it does anything: most of what a short run takes."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import ROOT, Workspace

CHECK = """
import atexit
import sys

from patchgen_core.cli.main import run

atexit.register(lambda: print(*sys.modules, file=sys.stderr))
sys.argv = ["patchgen", "--check"]
run()
"""


def test_the_package_loads_nothing_but_itself() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules); import patchgen_core; "
    command = [sys.executable, "-I", "-S", "-c", f"{code}print(*sorted({{*sys.modules}} - before))"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "__future__ patchgen_core\n"


def test_check_of_what_is_known_to_be_clean_loads_no_generator_and_no_rich(gated: Workspace) -> None:
    assert gated.patchgen("--check").stdout == "1 config: 1 clean.\n"
    done = gated.python(CHECK)
    assert (done.returncode, done.stdout) == (0, "1 config: 1 clean.\n")
    loaded = set(done.stderr.split())
    assert "patchgen_core.cli.main" in loaded
    others = ("api", "build.artifacts", "codegen", "checks.contract", "config.loading", "checks.parity", "config.spec")
    heavy = {"difflib", "importlib.metadata", "libcst", "rich", "tempfile", *(f"patchgen_core.{o}" for o in others)}
    assert loaded & heavy == set()
