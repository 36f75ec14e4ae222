"""Of several patches that ran where models part, the likeliest one is named first."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

from patchgen_core.checks.parity.divergence import Divergence, find_suspects
from patchgen_core.checks.parity.failures import describe_other_suspects
from patchgen_core.checks.parity.request import PatchedCode
from patchgen_core.errors import Location
from patchgen_core.models.execution import Execution, ExecutionRecorder, Span

pytestmark = pytest.mark.torch

FILE = "generated.py"


class Tower(nn.Module):
    def look(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tower = Tower()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tower.look(x)


def patch(target: str, line: int, lines: tuple[int, int], fresh: tuple[int, ...]) -> PatchedCode:
    return PatchedCode(target, Location("config.py", line), (lines,), fresh)


def ran(module: str, *lines: int) -> Execution:
    return Execution({"forward"}, {(FILE, line) for line in lines}, {module})


def test_a_method_runs_in_its_own_module_whichever_calls_it() -> None:
    source, first = inspect.getsourcelines(Tower.look)
    span = Span(inspect.getsourcefile(Tower) or "", first, first + len(source) - 1)
    recorder, model = ExecutionRecorder({"Tower.look": [span]}), Whole()
    with recorder.recording([""], model):
        model(torch.ones(1))
    assert recorder.executions["Tower.look"].modules == {"tower"}


def test_a_patch_of_which_upstreams_lines_alone_ran_comes_last() -> None:
    slot, head = patch("Experts.forward", 1, (10, 20), (11, 12)), patch("Head.forward", 2, (30, 40), (35,))
    executions = {"Experts.forward": ran("mlp.experts", 11, 15), "Head.forward": ran("", 35)}
    divergence = Divergence(("mlp.experts",), is_backward=True)
    assert find_suspects(divergence, (slot, head), executions, {11}) == [head, slot]
    assert find_suspects(divergence, (slot, head), executions) == [slot, head]


def test_of_edits_the_one_above_the_line_is_nearest() -> None:
    above, far, below = (patch("Head.forward", n, (10, 40), (line,)) for n, line in ((1, 18), (2, 12), (3, 21)))
    assert sorted((below, far, above), key=lambda edit: edit.distance_to(20)) == [above, far, below]
    assert above.holds(40)
    assert not above.holds(41)


def test_other_suspects_are_told_once_each_and_without_the_first() -> None:
    edits = [patch("Head.forward", line, (10, 40), ()) for line in (1, 2)]
    other = patch("Tower.forward", 7, (50, 60), ())
    assert (
        describe_other_suspects([*edits, other]) == "Other patches that may be the cause: Tower.forward (config.py:7)."
    )
    assert describe_other_suspects(edits) == ""
