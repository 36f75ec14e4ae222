"""One cause is told once."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.result import CheckResult
from patchgen_core.errors import Location, Problem
from patchgen_core.report.gate.details import print_told
from patchgen_core.report.same_causes import find_told
from tests.conftest import Workspace

UPSTREAM = """
class Norm:
    def __init__(self, size, eps=1):
        self.size = size


class Attention:
    def __init__(self, config):
        self.q_norm = Norm(config.size, eps=2)
        self.k_norm = Norm(config.size, eps=2)


class Layer:
    def __init__(self, config):
        self.norm = Norm(config.size, eps=3)
"""
NARROW = "@config.override_method('Norm.__init__')\ndef init(self, size):\n    self.size = size\n"


def test_calls_that_misfit_one_patch_are_told_once_with_all_their_lines(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    work.config(NARROW)
    fix(work.check())
    lines = work.patchgen("check").stdout.splitlines()
    (first,) = (number for number, line in enumerate(lines) if "error: PG202" in line)
    assert "'Attention.__init__' calls 'Norm' and passes 'eps', which is not a parameter" in lines[first]
    assert lines[first + 2] == "  The same in 'Layer.__init__'."
    marked = [line.partition("| ")[2].strip() for line in lines if line.startswith("  > ") and "Norm(" in line]
    names = ("self.q_norm", "self.k_norm", "self.norm")
    assert marked == [f"{name} = Norm(config.size, eps={2 + (name == 'self.norm')})" for name in names]


def test_every_call_stays_a_finding_of_its_own_in_data(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    work.config(NARROW)
    fix(work.check())
    commands = work.patchgen("check", "--output-format", "github").stdout.splitlines()
    assert sum("PG202" in command for command in commands) == 3


MESSAGE = (
    "LlamaForCausalLM differs from Hugging Face eager in '{}' (LlamaMLP): look at the patch of 'LlamaMLP.forward'"
)
PROBLEM = Problem(MESSAGE.format("layers.0.mlp"), Location("a.py", 7), "Batch 'rows'", target="LlamaMLP.forward")
EAGER = CheckResult("a", "a.py", 1, "parity", "failed", errors=(PROBLEM,), item="a.py::parity[eager]")
LIGER = replace(
    EAGER,
    item="a.py::parity[liger]",
    errors=(replace(PROBLEM, message=MESSAGE.format("model.layers.0.mlp"), hint="Batch 'padded'"),),
)


def test_an_implementation_that_fails_at_the_same_patch_is_named_beside_the_first() -> None:
    told = find_told(LIGER, [EAGER])
    assert told is EAGER
    console = Console(file=StringIO(), width=200)
    print_told(console, LIGER, told)
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue().splitlines() == [
        f"a.py:7: error: {LIGER.errors[0].message}",
        "  As in parity[eager], above; -v shows its own figures.",
    ]


def test_what_differs_is_told_in_full() -> None:
    elsewhere = replace(PROBLEM, location=Location("a.py", 9))
    assert find_told(replace(LIGER, errors=(elsewhere,)), [EAGER]) is None
    assert find_told(replace(LIGER, errors=(*LIGER.errors, elsewhere)), [EAGER]) is None
    assert find_told(replace(LIGER, config="b"), [EAGER]) is None
    assert find_told(replace(LIGER, errors=(replace(PROBLEM, target=""),)), [EAGER]) is None
    assert find_told(EAGER, [EAGER]) is None


def test_a_missing_package_is_told_by_the_check_that_imports() -> None:
    missing = "does not import: ModuleNotFoundError: No module named 'fused'"
    first = CheckResult("a", "a.py", 1, "import", "failed", errors=(Problem(f"b.py, line 3 {missing}"),))
    second = replace(first, check="parity", errors=(Problem(f"checking b.py raises {missing[17:]}"),))
    assert find_told(second, [first]) is first
    other = replace(second, errors=(Problem("checking b.py raises ModuleNotFoundError: No module named 'f'"),))
    assert find_told(other, [first]) is None
