"""What is left over when a config excludes what used it (PG211)."""

from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import examine, found

UPSTREAM = """
__all__ = ["Model", "Talker", "Shared"]

ACTIVATIONS = {"tanh": Tanh, "relu": Relu}


class Relu:
    def forward(self, x):
        return x


class Tanh:
    def forward(self, x):
        return x


class Snake(Base):
    def forward(self, x):
        return x


class Base:
    def forward(self, x):
        return x


def mark(cls):
    return cls


@mark
class Block:
    def __init__(self, act: Snake = None):
        self.act = Snake()
        self.tanh = Tanh()
        self.again = Block


class Shared:
    def forward(self, x):
        return x


def both(x):
    return x


class Talker:
    def __init__(self):
        self.blocks = [Block(), Shared()]

    def forward(self, x):
        return both(x) + kept(x)


def kept(x):
    return x


def plain(x):
    return x


class Model:
    _no_split_modules = ["Block"]

    def forward(self, x):
        return both(x) + plain(x)


class Alone:
    def forward(self, x):
        return Alone, kept(x)
"""
EXCLUDE = "config.exclude_from_output('Talker')\n"


def left(work: Workspace, config: str, upstream: str = UPSTREAM) -> list[str]:
    """The names that the rule reports."""
    work.upstream(upstream)
    work.config(config)
    return sorted(message.split("'")[1] for message in found(work, "PG211"))


def test_all_that_only_excluded_code_led_to(work: Workspace) -> None:
    assert left(work, EXCLUDE) == ["Base", "Block", "Snake", "mark"]
    assert "PG211 'Block' is still in the module, but only 'Talker' (excluded) used it" in found(work)
    assert "PG211 'Base' is still in the module, but only 'Snake' (also left over) used it" in found(work)


def test_hint_excludes_it_and_says_where_a_string_names_it(work: Workspace) -> None:
    left(work, EXCLUDE)
    hints = [problem.hint for problem in examine(work, select=["PG211"]).warnings]
    assert "Leave it out as well: config.exclude_from_output('Snake')." in hints
    block = "config.exclude_from_output('Block'). 'Model' names it in a string: take it out there too."
    assert f"Leave it out as well: {block}" in hints


def test_finding_is_at_the_exclusion_that_used_it(work: Workspace) -> None:
    upstream = f"{UPSTREAM}\n\ndef once(x):\n    return x\n\n\ndef late(x):\n    return once(x)\n"
    assert "once" in left(work, f"{EXCLUDE}config.exclude_from_output('late')\n", upstream)
    lines = {p.message.split("'")[1]: p.location.line for p in examine(work).warnings if p.location}
    assert lines["once"] == lines["Block"] + 1
    assert lines["Base"] == lines["Block"]


@pytest.mark.parametrize(
    "config",
    [
        pytest.param("", id="no exclusion"),
        pytest.param("config.exclude_from_output('Alone')", id="used nothing"),
        pytest.param(
            "config.exclude_from_output('Talker', 'Block', 'Snake', 'Base', 'mark')\n"
            "@config.replace_class('Model')\nclass M:\n    def forward(self, x):\n        return both(x)\n",
            id="all of them",
        ),
        pytest.param(
            f"{EXCLUDE}@config.override_method('Model.forward')\ndef forward(self, x):\n    return Block()(both(x))\n",
            id="a patch uses it",
        ),
        pytest.param(
            f"{EXCLUDE}@config.add_helper\ndef make():\n    return Block()\n",
            id="a helper uses it",
        ),
        pytest.param(f"{EXCLUDE}config.add_post_import_block('LATE = lambda: Block')", id="a block uses it"),
        pytest.param(
            f"{EXCLUDE}@config.add_helper\nclass Talker:\n    def __init__(self):\n        self.block = Block()\n",
            id="added again with the same",
        ),
        pytest.param(
            "@config.override_method('Talker.__init__')\ndef init(self):\n    pass\n", id="replaced and not excluded"
        ),
    ],
)
@pytest.mark.mostly_slow(4)
def test_nothing_is_left_over(work: Workspace, config: str) -> None:
    assert left(work, config) == []


def test_patched_definitions_are_wanted(work: Workspace) -> None:
    patch = "@config.override_method('Snake.forward')\ndef forward(self, x):\n    return -x\n"
    assert left(work, EXCLUDE + patch) == ["Block", "mark"]


def test_patched_code_that_no_longer_uses_it_is_named(work: Workspace) -> None:
    patch = "@config.override_method('Model.forward')\ndef forward(self, x):\n    return -x\n"
    assert "both" in left(work, EXCLUDE + patch)
    message = "'both' is still in the module, but only 'Talker' (excluded) used it; 'Model' no longer uses it"
    assert f"PG211 {message}" in found(work)


def test_what_only_a_patch_made_needless_is_no_matter_of_exclusions(work: Workspace) -> None:
    patch = "@config.override_method('Model.forward')\ndef forward(self, x):\n    return -x\n"
    assert "plain" not in left(work, EXCLUDE + patch)


def test_definition_added_again_may_use_less(work: Workspace) -> None:
    again = f"{EXCLUDE}@config.add_helper\nclass Talker:\n    def __init__(self):\n        self.tanh = Tanh()\n"
    assert left(work, again) == ["Base", "Block", "Snake", "mark"]


def test_excluded_constant_counts_as_excluded_code(work: Workspace) -> None:
    assert left(work, "config.exclude_from_output('Talker', 'ACTIVATIONS')") == [
        *("Base", "Block", "Relu", "Snake", "Tanh", "mark")
    ]
