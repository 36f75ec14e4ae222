"""The fields of a PatchConfig, as lists and as sets; what comes in through them keeps the line it was declared on."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from patchgen.patch_spec import Helper, ImportSpec, Patch, PatchConfig
from patchgen_core.errors import Location
from tests.conftest import UPSTREAM, UPSTREAM_TEXT, Workspace


def helped(x: int) -> int:
    """Double it."""
    return x * 2


def other(x: int) -> int:
    return x


def make() -> PatchConfig:
    return PatchConfig(UPSTREAM, "patched.py")


def here() -> Location:
    """The line that asks."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return Location(str(Path(__file__).absolute()), frame.f_back.f_lineno)


def add_names(config: PatchConfig) -> None:
    config.drop_imported_names = config.drop_imported_names | {"b", "c"}


def augment(config: PatchConfig) -> None:
    config.drop_imported_names |= {"c", "b"}


def extend(config: PatchConfig) -> None:
    config.drop_imported_names += ["b", "c"]


CHANGES: dict[str, Callable[[PatchConfig], object]] = {
    "update": lambda config: config.drop_imported_names.update({"b"}, ["c", "a"]),
    "add": lambda config: [config.drop_imported_names.add(name) for name in "abc"],
    "extend": lambda config: config.drop_imported_names.extend(name for name in "bc"),
    "append": lambda config: [config.drop_imported_names.append(name) for name in "bc"],
    "insert": lambda config: [config.drop_imported_names.insert(1, name) for name in "cb"],
    "|": add_names,
    "|=": augment,
    "+=": extend,
    "assign": lambda config: setattr(config, "drop_imported_names", {"c", "a", "b"}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_names_come_in_as_into_a_list_or_a_set(change: Callable[[PatchConfig], object]) -> None:
    config = make()
    config.drop_import_names("a")
    change(config)
    assert list(config.drop_imported_names) == ["a", "b", "c"]
    assert config.drop_imported_names == ["a", "b", "c"]
    assert config.drop_imported_names == {"c", "b", "a"}
    assert config.drop_imported_names != {"a", "b"}


def test_names_are_taken_out_as_of_a_list_or_a_set() -> None:
    config = make()
    config.drop_imported_names.update("abcdefg")
    config.drop_imported_names.discard("a")
    config.drop_imported_names.discard("nowhere")
    config.drop_imported_names.remove("b")
    config.drop_imported_names -= {"c"}
    config.drop_imported_names.difference_update(["d"])
    config.drop_imported_names &= {"e", "f", "h"}
    assert config.drop_imported_names == ["e", "f"]
    assert config.drop_imported_names - {"e"} == ["f"]
    assert {"e", "h"} - config.drop_imported_names == ["h"]
    assert {"h"} | config.drop_imported_names == ["h", "e", "f"]
    assert {"e", "h"} & config.drop_imported_names == ["e"]
    assert config.drop_imported_names.issubset({"e", "f", "g"})
    assert config.drop_imported_names.issuperset(["f"])
    assert config.drop_imported_names.isdisjoint({"h"})


def test_a_set_comes_in_in_one_order() -> None:
    names = {f"name{number}" for number in range(50)}
    config = make()
    config.exclude.update(names)
    config.drop_imported_names.extend(frozenset(names))
    assert list(config.exclude) == list(config.drop_imported_names) == sorted(names)


@pytest.mark.parametrize("field", ["drop_imported_names", "exclude"])
def test_names_of_another_config_keep_their_line(field: str) -> None:
    base, config = make(), make()
    call = {"drop_imported_names": "drop_import_names", "exclude": "exclude_from_output"}[field]
    getattr(base, call)("a", "b")
    declared = Location(here().file, here().line - 1)
    getattr(config, field).update(name for name in getattr(base, field) if name != "b")
    getattr(config, field).add("b")
    added = Location(here().file, here().line - 1)
    assert config.location_of(call, "a") == declared
    assert config.location_of(call, "b") == added
    assert config.location_of(call, "c") == config.location


def test_blocks_and_decorators_of_another_config_keep_their_line() -> None:
    base, config = make(), make()
    base.add_post_import_block("A = 1")
    base.drop_decorators("Norm", "deco")
    line = here().line
    config.post_import_blocks.extend(block for block in base.post_import_blocks if "A" in block)
    config.dropped_decorators.extend(pair for pair in base.dropped_decorators if pair[0] == "Norm")
    assert config.location_of("post_import_block", "A = 1").line == line - 2
    assert config.location_of("drop_decorators", ("Norm", "deco")).line == line - 1


def test_declarations_made_by_hand_get_the_line_that_adds_them() -> None:
    config = make()
    config.patches.append(Patch("function_replacement", "rotate", helped))
    config.additional_imports.extend([ImportSpec("fast")])
    config.helpers += [helped]
    config.positioned_helpers.append(Helper(other, "Norm"))
    line = here().line
    entries = (config.patches[0], config.additional_imports[0], config.helpers[0], config.positioned_helpers[0])
    assert [entry.location.line for entry in entries if entry.location] == [line - 4, line - 3, line - 2, line - 1]


def test_a_helper_is_taken_for_its_function() -> None:
    base, config = make(), make()
    base.add_helper(helped)
    base.add_helper(other, name_map={"Toy": "Toy2"})
    base.add_helper_after("Norm", helped)
    helper = base.helpers[0]
    assert (helper.__name__, helper.__module__, helper.__doc__) == ("helped", __name__, "Double it.")
    assert inspect.getsource(helper) == inspect.getsource(helped)
    assert helper(3) == 6
    assert helper == helped
    assert helper in {helped}
    assert helped in base.helpers
    assert other not in base.positioned_helpers
    assert (base.positioned_helpers[0].target, base.positioned_helpers[0].helper) == ("Norm", helped)
    config.helpers.extend(h for h in base.helpers if h.__name__ != "helped")
    assert [helper.definition for helper in config.helpers] == [other]
    assert config.helpers[0].name_map == {"Toy": "Toy2"}
    assert config.helpers[0].location == base.helpers[1].location


def test_a_helper_can_be_declared_again() -> None:
    base, config = make(), make()
    base.add_helper(other, name_map={"Toy": "Toy2"})
    for helper in base.helpers:
        config.add_helper(helper)
        config.replace_function("rotate", replacement=helper)
    assert config.helpers == base.helpers
    assert config.helpers[0].location == base.helpers[0].location
    assert config.patches[0].replacement is other


def test_assigning_copies() -> None:
    base, config = make(), make()
    base.add_helper(helped)
    config.helpers = base.helpers
    config.helpers.append(other)
    assert (len(base.helpers), len(config.helpers)) == (1, 2)
    config.helpers = (helper for helper in base.helpers)
    assert config.helpers == base.helpers


def test_a_copy_of_a_config_is_its_own() -> None:
    base = make()
    base.add_helper(helped)
    base.exclude_from_output("Norm")
    config = copy.deepcopy(base)
    config.exclude.add("Head")
    assert (base.exclude, config.exclude) == (["Norm"], ["Norm", "Head"])
    assert config.helpers == base.helpers
    assert config.location_of("exclude_from_output", "Norm") == base.location_of("exclude_from_output", "Norm")


BASE = """
@config.override_method("Norm.forwrad")
def forward(self, x):
    return x


@config.add_helper
def rotate(x):
    return x


config.exclude_from_output("Nrom")
config.drop_import_names("ATC")
config.add_import("fast", names=["Head"])
config.add_post_import_block("x =")
config.drop_decorators("Head", "nowhere")
"""
TAKE = """
from .base import config as base

config.patches.extend(patch for patch in base.patches)
config.helpers.extend(helper for helper in base.helpers if helper.__name__ != "x")
config.exclude.extend(name for name in base.exclude)
config.drop_imported_names.update(base.drop_imported_names)
config.additional_imports.extend(spec for spec in base.additional_imports)
config.post_import_blocks.extend(block for block in base.post_import_blocks)
config.dropped_decorators.extend(pair for pair in base.dropped_decorators)
"""


def test_messages_name_the_line_of_the_config_that_declares(work: Workspace) -> None:
    work.upstream(UPSTREAM_TEXT)
    preamble = f'from patchgen import PatchConfig\nconfig = PatchConfig("{UPSTREAM}", "a.py")\n'
    work.config(BASE, "toy/base.py", preamble)
    work.config(TAKE)
    places = [line.partition(": ")[0] for line in work.errors().splitlines() if not line.startswith(" ")]
    assert places == [f"toy/base.py:{number}" for number in (4, 9, 14, 15, 16, 17, 18)]
