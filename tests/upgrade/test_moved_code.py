"""Upstream moves code into a function, or out of one that it deprecates: a replacement that changed it is carried over
where that is certainly all."""

from __future__ import annotations

import pytest

from patchgen_core.upgrade.results import PatchVerdict
from tests.conftest import Workspace
from tests.upgrade.edit_releases import EditUpgrade, changed, upgrade_edits
from tests.upgrade.merging import merge, reasons

OLD = """
import warnings
from torch import cumulate, fill, turn


class Vision:
    def positions(self, grid):
        table = [row for row in grid]
        return table

    def forward(self, x, grid, **kwargs):
        x = self.embed(x)
        places = self.positions(grid)
        x = x + places

        lengths = cumulate(grid, step=self.step)
        lengths = fill(lengths, 0)

        x = self.blocks(x, lengths)
        return x
"""
LOOKED_UP = 'if kwargs is not None and (lengths := kwargs.pop("lengths", None)) is not None:\n        return lengths'
HELPER = f"""
def find_lengths(grid, step, kwargs=None):
    {LOOKED_UP}
    lengths = cumulate(grid, step=step)
    return fill(lengths, 0)


class Vision:"""
WARNING = 'warnings.warn("positions is deprecated and will be removed in v5.11.", FutureWarning)'
NEW = changed(
    ("\nclass Vision:", HELPER),
    ("        table = [row for row in grid]\n        return table\n",
     f"        {WARNING}\n        angles = turn(grid)\n        return angles * self.size\n"),
    ("        x = self.embed(x)\n        places = self.positions(grid)\n",
     "        lengths = find_lengths(grid, self.step, kwargs=kwargs)\n        angles = turn(grid)\n\n"
     "        x = self.embed(x)\n        places = angles * self.size\n"),
    ("        lengths = cumulate(grid, step=self.step)\n        lengths = fill(lengths, 0)\n\n", ""),
    ("x = x + places", "x = x + places.to(x.dtype)"),
    text=OLD,
)  # fmt: skip
FORWARD = """
config.add_import("mine", names=["pad", "tally"])

@config.override_method("Vision.forward")
def own_forward(self, x, grid, **kwargs):
    x = self.embed(x)
    places = self.positions(grid)
    places = pad(places, 4)
    x = x + places

    lengths = tally(kwargs.pop("own_lengths"))

    x = self.blocks(x, lengths)
    return x
"""
POSITIONS = """
@config.override_method("Vision.positions")
def own_positions(self, grid):
    return [self.size for _ in grid]
"""
LISTED = FORWARD.replace("self.positions(grid)", "self.positions(list(grid))")


def forward(upgraded: EditUpgrade) -> PatchVerdict:
    return next(patch for patch in upgraded.config.patches if patch.target == "Vision.forward")


def conflicts(patch: PatchVerdict) -> int:
    assert patch.rebase is not None
    return len(patch.rebase.merged.conflicts)


def test_what_upstream_only_moved_stays_and_the_rest_merges(work: Workspace) -> None:
    upgraded = upgrade_edits(work, FORWARD, NEW, OLD)
    patch = forward(upgraded)
    assert (patch.risk, conflicts(patch)) == ("review", 0)
    assert patch.rebase is not None
    assert patch.rebase.merged.notes == (
        "upstream put the code of 'positions', which it will remove in v5.11, in the place of its call: yours still "
        "calls it",
        "upstream only moved `lengths = cumulate(grid, step=self.step)` into 'find_lengths': yours stays",
        "upstream's 'find_lengths' takes 'lengths' from what the caller passes, if it is there; yours does not",
        "upstream casts 'places' to the dtype that it is added to, and so yours",
    )
    assert upgraded.apply().problems == ()
    expected = FORWARD.partition("own_forward")[2].replace("x + places", "x + places.to(x.dtype)")
    assert f"def own_forward{expected}" in upgraded.text


def test_what_upstream_only_moved_leaves_a_replacement_as_it_is(work: Workspace) -> None:
    patch = forward(upgrade_edits(work, FORWARD, changed((".to(x.dtype)", ""), text=NEW), OLD))
    assert patch.rebase is not None
    assert (patch.risk, patch.rebase.merged.how, patch.rebase.diff) == ("review", "kept", "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return fill(lengths, 0)", "return fill(lengths, 1)"),
        ("return fill(lengths, 0)", "grid.append(0)\n    return fill(lengths, 0)"),
        ("is not None:\n        return lengths", "is not None:\n        step = 0"),
        ("return angles * self.size", "return self.size * angles"),
        ("angles = turn(grid)\n\n", "angles = turn(grid)\n        grid = grid[:1]\n"),
        ("places = angles * self.size", "places = angles * self.size\n        x = x + angles"),
        ("kwargs=kwargs", "kwargs=self.lengths"),
        ("self.step, kwargs=kwargs", "self.step, kwargs"),
        ("from torch import cumulate, fill", "from jax import cumulate, fill"),
        ("        x = self.embed(x)\n        places", "        x = self.embed(x, lengths)\n        places"),
    ],
)  # fmt: skip
@pytest.mark.mostly_slow(5)
def test_what_may_be_another_thing_is_a_conflict(work: Workspace, old: str, new: str) -> None:
    assert conflicts(forward(upgrade_edits(work, POSITIONS + LISTED, changed((old, new), text=NEW), OLD)))


def test_other_arguments_are_for_a_function_of_the_project_alone(work: Workspace) -> None:
    """Upstream's own new one may not take them."""
    new = changed((".to(x.dtype)", ""), text=NEW)
    assert conflicts(forward(upgrade_edits(work, LISTED, new, OLD)))


def test_other_arguments_for_a_function_of_the_project(work: Workspace) -> None:
    assert conflicts(forward(upgrade_edits(work, POSITIONS + LISTED, NEW, OLD))) == 0


CAST = "def f(self, x, size):\n    y = self.angles(size)\n    x = x + y\n    return x"


@pytest.mark.parametrize(
    "own", ["y = pad(y, 4)", "if size:\n        y = pad(y, dim=0)", "y = self.shard(y)", "y = pad(y, self.size)"]
)
def test_a_cast_to_the_other_operand_is_ours_too(own: str) -> None:
    merged = merge(CAST, CAST.replace("    x = x", f"    {own}\n    x = x"), CAST.replace("+ y", "+ y.to(x.dtype)"))
    assert merged.conflicts == ()
    assert "x = x + y.to(x.dtype)" in merged.text
    assert merged.notes == ("upstream casts 'y' to the dtype that it is added to, and so yours",)


@pytest.mark.parametrize(
    ("own", "cast"),
    [
        ("y = upcast(y)", "y.to(x.dtype)"),
        ("y = pad(y, dtype=d)", "y.to(x.dtype)"),
        ("y = y.float()", "y.to(x.dtype)"),
        ("y = as_float32(y)", "y.to(x.dtype)"),
        ("y = y * 2", "y.to(x.dtype)"),
        ("y = other(size)", "y.to(x.dtype)"),
        ("y = pad(y)", "y.to(size.dtype)"),
        ("y = pad(y)", "y.to(x)"),
        ("y = pad(y)", "y.sum() + y.to(x.dtype)"),
    ],
)
def test_a_value_that_may_be_of_another_dtype_on_purpose_is_a_conflict(own: str, cast: str) -> None:
    ours = CAST.replace("    x = x", f"    {own}\n    x = x")
    assert "'y' has another value here" in reasons(merge(CAST, ours, CAST.replace("+ y", f"+ {cast}")))
