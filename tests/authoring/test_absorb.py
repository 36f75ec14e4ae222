"""Hand edits of a generated file become patches of its config."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from patchgen_core.authoring.absorb.absorb import Absorbed, absorb
from patchgen_core.build.selection import Selection
from patchgen_core.errors import PatchgenError
from tests.conftest import CONFIG, UPSTREAM, Workspace, generated

UPSTREAM_TEXT = """
import os  # noqa: F401

LIMIT = 4


class Norm:
    eps = 1

    def __init__(self, size):
        self.size = size

    def forward(self, x):
        return x

    @property
    def width(self):
        return self.size


class Head:
    def forward(self, x):
        # a comment
        return x + 1


class Tail:
    def forward(self, x):
        return x - 1


class Body:
    def forward(self, x):
        residual = x
        x = self.norm(x)
        x = self.inner(x)
        return x + residual


def rotate(x):
    return -x
"""
CONFIG_TEXT = """
SIZE = 3   # as it is written


@config.override_method("Norm.forward", name_map={"twice": "double"})
def norm_forward(self, x):
    y = twice( x )   # spaces that ruff would take away
    return y * 2


@config.modify_init("Norm")
def norm_init(original_init, self, size):
    original_init(self, size)
    self.depth = 1


@config.replace_class("Tail")
class NewTail:
    def forward(self, x):
        return x - 2

    def backward(self, x):
        return x


@config.add_helper(name_map={"twice": "double"})
def twice(x):
    return x + x
"""
Edit = Callable[[str, str], None]


@pytest.fixture
def work(work: Workspace) -> Workspace:
    """A project whose one config has a patch of each kind, generated."""
    work.upstream(UPSTREAM_TEXT)
    work.config(CONFIG_TEXT)
    assert work.patchgen("--all", "--diff").returncode == 0
    return work


@pytest.fixture
def edit(work: Workspace) -> Edit:
    """Replaces a text, which is there once, in the generated module."""

    def replace(old: str, new: str) -> None:
        path = generated(work)
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))

    return replace


def _absorb(work: Workspace, dry_run: bool = False) -> Absorbed:
    [result] = absorb(Selection(work.project), dry_run)
    return result


def _config(work: Workspace) -> str:
    return (work.models / CONFIG).read_text()


def _statements(work: Workspace) -> list[str]:
    """The statements of the generated module, in alphabetical order."""
    return sorted(map(ast.unparse, ast.parse(generated(work).read_text()).body))


def _is_clean(work: Workspace) -> bool:
    return work.check().exit_code == 0


def test_nothing_was_edited(work: Workspace) -> None:
    assert absorb(Selection(work.project)) == []


def test_an_edit_of_what_a_patch_makes_changes_the_patch(work: Workspace, edit: Edit) -> None:
    edit("    return y * 2\n", "    return double(y) * 3\n")
    assert _absorb(work).changes == ("Norm.forward: edited",)
    assert _config(work).endswith(CONFIG_TEXT.replace("return y * 2", "return twice(y) * 3"))
    assert "return double(y) * 3" in generated(work).read_text()
    assert _is_clean(work)


def test_an_edit_of_upstreams_own_says_only_what_it_changes(work: Workspace, edit: Edit) -> None:
    edit("        x = self.inner(x)\n", "        x = self.inner(x)\n        x = x * 2  # louder\n")
    assert _absorb(work).changes == ("Body.forward: edited",)
    declared = '@config.edit_method("Body.forward", at="x = self.inner(...)")\ndef body_forward(x):\n'
    assert _config(work).endswith(f"{CONFIG_TEXT}\n\n{declared}    ...\n    x = x * 2  # louder\n")
    assert _is_clean(work)


def test_lines_that_the_config_has_in_another_layout_become_the_edited_ones(work: Workspace, edit: Edit) -> None:
    edit("        y = double(x)  # spaces", "        y = double(x + 1)  # spaces")
    assert _absorb(work).changes == ("Norm.forward: edited",)
    assert "    y = twice(x + 1)  # spaces that ruff would take away\n    return y * 2\n" in _config(work)
    assert _is_clean(work)


def test_an_edit_of_upstreams_own_becomes_a_patch(work: Workspace, edit: Edit) -> None:
    edit("        return x + 1\n", "        return x + 2\n")
    assert _absorb(work).changes == ("Head.forward: overridden",)
    declared = (
        '@config.override_method("Head.forward")\ndef head_forward(self, x):\n    # a comment\n    return x + 2\n'
    )
    assert _config(work).endswith(f"{CONFIG_TEXT}\n\n{declared}")
    assert _is_clean(work)


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("def rotate(x):\n    return -x\n", "def rotate(x, sign=-1):\n    return sign * x\n", "rotate: replaced"),
        ("LIMIT = 4\n", "import math as m\n\nLIMIT = 4\nE = m.e\n", "import math as m: imported; E = m.e: added"),
        ("import os  # noqa: F401\n", "", "import os: dropped"),
        ("LIMIT = 4\n", "", "LIMIT = 4: excluded"),
        ("LIMIT = 4\n", "LIMIT = 4\nTEXT = 'a\\nb'\n", 'TEXT = "a\\nb": added'),
        ("class Head:", "class Neck:\n    pass\n\n\nclass Head:", "Neck: added"),
        ("def rotate(x):\n    return -x\n", "", "rotate: excluded"),
        ("def rotate(x):", "def turn(x):\n    return rotate(x)\n\n\ndef rotate(x):", "turn: added"),
        (
            "        return x + 1\n",
            "        return x + 1\n\n    def more(self):\n        pass\n",
            "Head.more: added",
        ),
        ("class Head:\n", "class Head:\n    scale = 2\n", "Head: edited"),
        ("        return x - 2\n", "        return x - 3\n", "Tail: edited"),
        ("    return x + x\n", "    return 2 * x\n", "double: edited"),
        ("    @property\n    def width", "    def width", "Norm.width: overridden"),
        ("        return self.size\n", "        return 2 * self.size\n", "Norm.width: overridden"),
        ("        x = self.norm(x)\n", "        x = self.norm(x) + 1\n", "Body.forward: edited"),
        ("        return x + residual\n", "        x = x + 3\n        return x + residual\n", "Body.forward: edited"),
    ],
    ids=lambda value: value.partition(": ")[2] if ": " in value else "",
)
@pytest.mark.mostly_slow(2)
def test_every_kind_of_edit_is_absorbed(work: Workspace, edit: Edit, old: str, new: str, change: str) -> None:
    edit(old, new)
    edited = _statements(work)
    result = _absorb(work)
    assert "; ".join(result.changes) == change
    assert result.left == ()
    assert _statements(work) == edited
    assert _is_clean(work)


@pytest.mark.parametrize(
    ("old", "new", "made"),
    [
        ("        return x + 1\n", "        return x[ 'a' ]  #why\n", '        return x["a"]  # why\n'),
        ("    return -x\n", "    return dict(a=-x, b=[x,\n      -x])\n", "    return dict(a=-x, b=[x, -x])\n"),
        (
            "        x = self.inner(x)\n",
            "        x = self.inner(x);x=(x)\n",
            "        x = self.inner(x)\n        x = x\n",
        ),
        ("LIMIT = 4\n", "LIMIT = 4\nTEXT = 'a'\n", 'TEXT = "a"\n'),
    ],
)
def test_an_edit_need_not_be_laid_out_as_what_is_generated(
    work: Workspace, edit: Edit, old: str, new: str, made: str
) -> None:
    edit(old, new)
    result = _absorb(work)
    assert (len(result.changes), result.left) == (1, ())
    assert made in generated(work).read_text()
    assert _is_clean(work)


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("def rotate(x):\n", "def rotate(x: int) -> int:\n", "rotate: replaced"),
        ("def rotate(x):\n", 'def rotate(x):\n    """Turns."""\n', "rotate: replaced"),
    ],
)
def test_what_no_edit_says_is_declared_as_a_whole(
    work: Workspace, edit: Edit, old: str, new: str, change: str
) -> None:
    edit(old, new)
    result = _absorb(work)
    assert (result.changes, result.left) == ((change,), ())
    assert new in generated(work).read_text()
    assert _is_clean(work)


@pytest.mark.parametrize(
    ("new", "declared"),
    [
        ("class Norm:\n    eps = 2\n", "class EditedNorm:\n    eps = 2\n    ...\n"),
        ("class Norm(dict):\n    eps = 1\n", "class EditedNorm(dict): ...\n"),
        ("class Norm:\n", 'config.delete_code("Norm", "eps = 1")\n'),
    ],
    ids=["attribute", "base", "attribute that goes"],
)
def test_a_class_statement_is_edited_where_its_methods_are_patched(
    work: Workspace, edit: Edit, new: str, declared: str
) -> None:
    edit("class Norm:\n    eps = 1\n", new)
    result = _absorb(work)
    assert (result.changes, result.left) == (("Norm: edited",), ())
    assert _config(work).endswith(declared)
    assert _is_clean(work)


@pytest.mark.parametrize("call", ["add_post_import_block(", 'add_block_after("rotate", '])
def test_what_a_block_of_the_config_makes_is_edited_there(work: Workspace, call: str) -> None:
    config = work.config(f'config.{call}"SLOT = 1")\n')
    assert work.patchgen("--all", "--diff").returncode == 0
    text = generated(work).read_text()
    generated(work).write_text(text.replace("SLOT = 1", "SLOT = 2"))
    result = _absorb(work)
    line = config.read_text().splitlines().index(f'config.{call}"SLOT = 1")') + 1
    reason = f"the block at {config}:{line} makes it: edit that"
    assert (result.changes, [p.message for p in result.left]) == ((), [f"SLOT = 2: {reason}", f"SLOT = 1: {reason}"])


def test_what_the_same_patch_changes_elsewhere_is_told(work: Workspace) -> None:
    work.config(
        "from patchgen import Edits\nshared = Edits()\n\n\n@shared.edit\ndef count(x):\n    x = x + 10\n    ...\n\n\n"
        'config.edit_method("Head.forward", edit=shared)\nconfig.edit_function("rotate", edit=shared)\n'
    )
    assert work.patchgen("--all", "--diff").returncode == 0
    text = generated(work).read_text()
    assert text.count("x + 10") == 2
    generated(work).write_text(text.replace("x + 10", "x + 20", 1))
    result = _absorb(work)
    as_well = "changed as well, by the same patch"
    assert result.changes in (
        ("Head.forward: edited", f"rotate: {as_well}"),
        ("rotate: edited", f"Head.forward: {as_well}"),
    )
    assert result.left == ()


def test_what_the_config_makes_otherwise_by_itself_is_not_told(work: Workspace, edit: Edit) -> None:
    config = work.models / CONFIG
    config.write_text(config.read_text().replace("return y * 2", "return y * 5"))
    edit("        return x + 1\n", "        return x + 2\n")
    assert _absorb(work).changes == ("Head.forward: overridden",)


def test_an_edit_of_the_layout_alone_is_no_patch(work: Workspace, edit: Edit) -> None:
    before = generated(work).read_text()
    edit("        return x + 1\n", "        return (x + 1)\n")
    result = _absorb(work)
    assert (result.changes, result.left) == ((), ())
    assert generated(work).read_text() == before
    assert _config(work).endswith(CONFIG_TEXT)


def test_a_comment_that_is_lost_is_told_at_its_own_line(work: Workspace, edit: Edit) -> None:
    edit("class Head:\n", "VALUES = [\n  1,\n  2]\n\n#Why a head?\nclass Head:\n")
    line = generated(work).read_text().splitlines().index("#Why a head?") + 1
    [left] = _absorb(work).left
    assert left.location is not None
    assert (left.location.line, left.message.partition("'")[2].partition("'")[0]) == (line, "# Why a head?")


def test_what_cannot_be_declared_is_told_and_the_generated_file_keeps_all(work: Workspace, edit: Edit) -> None:
    edit("        self.depth = 1\n", "        self.depth = 2\n")
    edit("        return x + 1\n", "        return x + 2\n")
    before = generated(work).read_text()
    done = work.patchgen("absorb", "--json")
    [result] = json.loads(done.stdout)["configs"]
    assert done.returncode == 1
    assert result["changes"] == ["Head.forward: overridden"]
    [left] = result["left"]
    assert left["message"].startswith("Norm.__init__: the init_modification at ")
    assert generated(work).read_text() == before
    assert "return x + 2" in _config(work)
    again = _absorb(work)
    assert (again.changes, len(again.left)) == ((), 1)


def test_an_import_that_nothing_uses_is_told(work: Workspace, edit: Edit) -> None:
    edit("class Head:\n", "import math\n\n\nclass Head:\n")
    [left] = _absorb(work).left
    assert left.message == "import math: nothing uses it, and generated files have no such imports"


def test_a_comment_between_definitions_is_not_lost(work: Workspace, edit: Edit) -> None:
    edit("class Head:\n", "# Why a head?\nclass Head:\n")
    before = generated(work).read_text()
    [left] = _absorb(work).left
    assert left.message.startswith("'# Why a head?' is between definitions")
    assert generated(work).read_text() == before


def test_a_dry_run_writes_nothing(work: Workspace, edit: Edit) -> None:
    edit("        return x + 1\n", "        return x + 2\n")
    before = generated(work).read_text()
    result = _absorb(work, dry_run=True)
    assert work.models / CONFIG in result.written
    assert _config(work).endswith(CONFIG_TEXT)
    assert generated(work).read_text() == before


def test_configs_that_share_what_was_edited_are_told(work: Workspace, edit: Edit) -> None:
    other = f'''
    from patchgen import PatchConfig
    from proj.models.toy.toy_gpu_patch_gen_config import norm_forward, twice

    config = PatchConfig("{UPSTREAM}", "patched_modeling_toy_npu.py")
    config.override_method("Norm.forward", replacement=norm_forward, name_map={{"twice": "double"}})
    config.add_helper(twice, name_map={{"twice": "double"}})
    '''
    work.config(other, CONFIG.replace("gpu", "npu"), preamble="")
    assert work.patchgen("--all", "--diff").returncode == 0
    edit("        return y * 2\n", "        return y * 3\n")
    done = work.patchgen("absorb", str(work.models / CONFIG))
    assert done.returncode == 0
    assert "proj.models.toy.toy_npu_patch_gen_config shared what was edited" in done.stdout


def test_what_was_edited_cannot_be_told_without_the_diff(work: Workspace, edit: Edit) -> None:
    edit("        return x + 1\n", "        return x + 2\n")
    generated(work, ".diff").unlink()
    work.config(CONFIG_TEXT.replace("y * 2", "y * 4"))
    with pytest.raises(PatchgenError, match=r"the hand edits are unknown"):
        absorb(Selection(work.project))


def test_a_file_that_is_no_python_any_more_is_an_error(work: Workspace, edit: Edit) -> None:
    edit("        return x + 1\n", "        return x +\n")
    before = _config(work)
    done = work.patchgen("absorb")
    assert done.returncode == 2
    assert "not valid Python" in done.stderr
    assert _config(work) == before


def test_a_config_with_other_line_ends_keeps_them(work: Workspace, edit: Edit) -> None:
    path: Path = work.models / CONFIG
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    edit("        return x + 1\n", "        return x + 2\n")
    _absorb(work)
    assert b"\n" not in path.read_bytes().replace(b"\r\n", b"")
    assert _is_clean(work)
