"""A target that upstream deprecates and uses no more: what replaces it stays, where that is right."""

from __future__ import annotations

import pytest

from patchgen_core.upgrade.results import PatchVerdict
from tests.conftest import Workspace
from tests.upgrade.edit_releases import EditUpgrade, changed, upgrade_edits

OLD = """
import warnings


def interpolate(grid, size):
    return [row * size for row in grid]


class Vision:
    def __init__(self, config):
        self.size = config.size

    def turn(self, grid):
        return [row / self.size for row in grid]

    def positions(self, grid):
        steps = [row[0] for row in grid]
        weights = interpolate(steps, self.size)
        return weights

    def forward(self, x, grid):
        x = x + self.positions(grid)
        x = self.blocks(x)
        return x
"""
WARNING = 'warnings.warn("positions is deprecated and will be removed in v5.11. Use more.", FutureWarning)'
DEPRECATED = changed(
    ("import warnings\n", "import warnings\n\nfrom .parts import weigh\n"),
    (
        "        steps = [row[0] for row in grid]\n        weights = interpolate(steps, self.size)\n",
        f"        {WARNING}\n        weights = weigh(grid)\n",
    ),
    ("x = x + self.positions(grid)", "x = x + weigh(grid)"),
    text=OLD,
)
POSITIONS = """
@config.override_method("Vision.positions")
def fast_positions(self, grid):
    return [self.size for _ in grid]
"""
FORWARD = """
@config.override_method("Vision.forward")
def own_forward(self, x, grid):
    x = x + self.positions(grid)
    x = self.blocks(x)
    return x * 2
"""
LEFT = FORWARD.replace("self.positions(grid)", "self.positions(list(grid))")
"""Upstream's change of its statement cannot be merged with ours."""


def positions(upgraded: EditUpgrade) -> PatchVerdict:
    return next(patch for patch in upgraded.config.patches if patch.target == "Vision.positions")


def told(patch: PatchVerdict) -> tuple[str, str]:
    return patch.risk, patch.findings[0].detail


def test_a_replacement_that_a_patch_calls_stays(work: Workspace) -> None:
    upgraded = upgrade_edits(work, POSITIONS + LEFT, DEPRECATED, OLD)
    patch = positions(upgraded)
    assert told(patch) == (
        "safe",
        "upstream deprecates it, will remove it in v5.11, and uses it nowhere; the patch of Vision.forward calls it",
    )
    assert patch.rebase is not None
    assert (patch.rebase.merged.how, patch.rebase.diff) == ("kept", "")


def test_a_replacement_that_nothing_calls_is_to_review(work: Workspace) -> None:
    patch = positions(upgrade_edits(work, POSITIONS, DEPRECATED, OLD))
    assert told(patch) == (
        "review",
        "upstream deprecates it, will remove it in v5.11, and uses it nowhere; no other patch does: it has no effect "
        "now",
    )


def test_a_replacement_whose_caller_takes_upstreams_change_is_to_review(work: Workspace) -> None:
    upgraded = upgrade_edits(work, POSITIONS + FORWARD, DEPRECATED, OLD)
    assert told(positions(upgraded)) == (
        "review",
        "upstream deprecates it, will remove it in v5.11, and uses it nowhere; the patch of Vision.forward calls it, "
        "but not once it is carried over: then nothing does",
    )
    applied = upgraded.apply()
    assert (len(applied.merged), applied.left, applied.problems) == (1, (), ())
    assert "x = x + weigh(grid)" in upgraded.code


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (WARNING, "note(grid)"),
        (WARNING, f"if grid is None:\n            {WARNING}"),
        (WARNING, WARNING.replace("FutureWarning", "UserWarning")),
        ("weigh(grid)\n        x = self", "self.positions(grid)\n        x = self"),
        ("x = x + weigh(grid)", 'x = x + getattr(self, "positions")(grid)'),
    ],
)
def test_what_is_not_deprecated_or_still_used_is_a_conflict(work: Workspace, old: str, new: str) -> None:
    patch = positions(upgrade_edits(work, POSITIONS + LEFT, changed((old, new), text=DEPRECATED), OLD))
    assert patch.risk == "review"
    assert "deprecates" not in patch.findings[0].detail
    assert patch.rebase is None or patch.rebase.merged.conflicts


def test_what_was_deprecated_before_is_merged(work: Workspace) -> None:
    old = changed(("        steps = [", f"        {WARNING}\n        steps = ["), text=OLD)
    patch = positions(upgrade_edits(work, POSITIONS + LEFT, DEPRECATED, old))
    assert patch.rebase is not None
    assert patch.rebase.merged.conflicts


def test_another_signature_is_no_mere_deprecation(work: Workspace) -> None:
    new = changed(("def positions(self, grid)", "def positions(self, grid, *, size=1)"), text=DEPRECATED)
    patch = positions(upgrade_edits(work, POSITIONS + LEFT, new, OLD))
    assert (patch.verdict, patch.risk) == ("signature changed", "review")
    assert patch.rebase is not None
    assert patch.rebase.merged.how != "kept"


def test_a_replacement_that_calls_what_changed_is_merged(work: Workspace) -> None:
    config = POSITIONS.replace("return [", "grid = self.turn(grid)\n    return [") + LEFT
    new = changed(("def turn(self, grid)", "def turn(self, width, height)"), text=DEPRECATED)
    patch = positions(upgrade_edits(work, config, new, OLD))
    assert patch.risk == "must change"
    assert patch.rebase is not None
    assert patch.rebase.merged.conflicts
