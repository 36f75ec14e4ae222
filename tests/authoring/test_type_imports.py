"""Configs import what their patches use under ``if TYPE_CHECKING:``, and nothing else of them changes."""

from __future__ import annotations

import json
import subprocess
import textwrap

import pytest

from patchgen_core.authoring.edits.config_file import ConfigFiles
from patchgen_core.authoring.type_imports.complete import complete_type_imports
from patchgen_core.build.ruff_setup import find_ruff
from patchgen_core.syntax.source import SourceCache
from tests.conftest import CONFIG, TABLE, UPSTREAM, Workspace, generated

UPSTREAM_TEXT = """
import acme.cache
from .outputs import Output

LIMIT = 3


class Norm:
    def forward(self, x):
        return x


class Head:
    def forward(self, x):
        return x + 1


def rotate(x):
    return -x
"""
CONFIG_TEXT = '''\
"""Toy."""

from patchgen import PatchConfig

config = PatchConfig("acme.models.toy.modeling_toy", "patched_modeling_toy_gpu.py")
'''
PATCH = """
config.add_import("math", names=["sqrt as root"])
config.add_import("os.path", alias="places")
config.add_post_import_block("SCALE = 2")


@config.override_method("Norm.forward")
def norm_forward(self, x: Output, head: "Head | None" = None):
    acme.cache.clear(places)
    return rotate(x) * root(SCALE) + LIMIT
"""
BLOCK = '''\
"""Toy."""

from typing import TYPE_CHECKING

from patchgen import PatchConfig

if TYPE_CHECKING:
    import os.path as places
    from math import sqrt as root

    import acme.cache
    from acme.models.toy.modeling_toy import LIMIT, Head, rotate
    from acme.models.toy.outputs import Output
    from proj.models.toy.generated.patched_modeling_toy_gpu import SCALE

config = PatchConfig("acme.models.toy.modeling_toy", "patched_modeling_toy_gpu.py")
'''


@pytest.fixture
def toy(work: Workspace) -> Workspace:
    """A project with an upstream module that imports, assigns and defines."""
    work.upstream(UPSTREAM_TEXT)
    return work


def completed(work: Workspace, *texts: str, path: str = CONFIG) -> str:
    """The text of a config once it is complete, or of another file that it patches with."""
    file = work.config(textwrap.dedent("".join(texts)), preamble="") if texts else work.models / CONFIG
    changed = complete_type_imports(work.project, [file], SourceCache(), ConfigFiles())
    other = work.models / path
    return changed[other].text if other in changed else other.read_text(encoding="utf-8")


def undefined(work: Workspace) -> str:
    """What ruff's F rules say of the config."""
    command = [find_ruff(), "check", "--isolated", "--select", "F", "--output-format", "concise", "--quiet", "."]
    return subprocess.run(command, cwd=work.models, capture_output=True, text=True).stdout


class TestComplete:
    """What a block gets."""

    def test_names_come_from_where_the_generated_module_has_them(self, toy: Workspace) -> None:
        assert completed(toy, CONFIG_TEXT, PATCH) == BLOCK + PATCH

    def test_a_complete_config_stays_as_it_is(self, toy: Workspace) -> None:
        text = completed(toy, CONFIG_TEXT, PATCH)
        assert completed(toy, text) == text

    def test_nothing_of_it_is_in_the_generated_module(self, toy: Workspace) -> None:
        toy.config(CONFIG_TEXT + PATCH, preamble="")
        before = toy.text()
        completed_text = completed(toy)
        assert "TYPE_CHECKING" in completed_text
        toy.config(completed_text, preamble="")
        assert toy.text() == before

    def test_what_python_asks_for_on_loading_is_left_to_the_error(self, toy: Workspace) -> None:
        text = CONFIG_TEXT + "\n\n@config.override_method('Norm.forward')\ndef forward(self, x=LIMIT):\n    return x\n"
        assert completed(toy, text) == text

    def test_names_that_nobody_has_stay_undefined(self, toy: Workspace) -> None:
        text = (
            f"{CONFIG_TEXT}\n\n@config.override_method('Norm.forward')\ndef forward(self, x):\n    return rotat(x)\n"
        )
        assert completed(toy, text) == text

    def test_files_that_hold_shared_edits(self, toy: Workspace) -> None:
        shared = """
        from patchgen import Edits

        norm = Edits()


        @norm.edit()
        def turn(x):
            x = rotate(x) + gain
            ...
        """
        (toy.models / "toy").mkdir()
        (toy.models / "toy" / "shared.py").write_text(textwrap.dedent(shared))
        uses = """
        from proj.models.toy.shared import norm

        config.add_post_import_block("gain = 1")
        config.edit_method("Norm.forward", edit=norm)
        """
        text = completed(toy, CONFIG_TEXT, textwrap.dedent(uses), path="toy/shared.py")
        assert "    from acme.models.toy.modeling_toy import rotate\n" in text
        assert "    from proj.models.toy.generated.patched_modeling_toy_gpu import gain\n" in text

    def test_an_unordered_file_keeps_its_order(self, toy: Workspace) -> None:
        head = "import sys\nfrom patchgen import PatchConfig\nimport os\n"
        text = CONFIG_TEXT.replace("from patchgen import PatchConfig\n", head) + PATCH
        assert head in completed(toy, text)

    def test_newlines_of_windows_stay(self, toy: Workspace) -> None:
        file = toy.config("")
        file.write_bytes((CONFIG_TEXT + PATCH).replace("\n", "\r\n").encode())
        changed = complete_type_imports(toy.project, [file], SourceCache(), ConfigFiles())
        assert changed[file].encoded.count("\n") == changed[file].encoded.count("\r\n") > 10


class TestChanges:
    """What becomes of a block that is there."""

    def test_another_name_joins_and_one_that_nothing_uses_goes(self, toy: Workspace) -> None:
        text = completed(toy, CONFIG_TEXT, PATCH).replace("rotate(x)", "Norm(x)")
        assert f"from {UPSTREAM} import LIMIT, Head, Norm\n" in completed(toy, text)

    def test_the_block_goes_with_its_last_name(self, toy: Workspace) -> None:
        text = completed(toy, CONFIG_TEXT, PATCH).replace(PATCH, "")
        assert completed(toy, text) == CONFIG_TEXT

    def test_a_name_that_upstream_lacks_now_is_imported_from_where_it_is(self, toy: Workspace) -> None:
        moved = 'config.add_import("acme.limits", names=["LIMIT"])\n'
        text = completed(toy, CONFIG_TEXT, PATCH) + moved
        toy.upstream(UPSTREAM_TEXT.replace("LIMIT = 3\n", ""))
        assert "    from acme.limits import LIMIT\n" in completed(toy, text)
        assert f"    from {UPSTREAM} import Head, rotate\n" in completed(toy, text)

    def test_what_a_person_imports_otherwise_stays(self, toy: Workspace) -> None:
        own = """
        import typing

        if typing.TYPE_CHECKING:
            from elsewhere import Head  # the one with a cache
            from acme.models.toy.outputs import Other  # for readers
            from math import sqrt as root, floor
        """
        text = completed(toy, CONFIG_TEXT, textwrap.dedent(own), PATCH)
        assert "    from elsewhere import Head  # the one with a cache\n" in text
        assert "    from acme.models.toy.outputs import Other, Output  # for readers\n" in text
        assert "    from math import sqrt as root\n" in text
        assert text.count("TYPE_CHECKING") == 1

    def test_a_block_that_declares_patches_is_not_touched(self, toy: Workspace) -> None:
        declares = "\nfrom typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    config.drop_import_names('Output')\n"
        text = completed(toy, CONFIG_TEXT, declares, PATCH.replace(": Output", ""))
        assert declares.rpartition("\n\n")[2] in text
        assert text.count("if TYPE_CHECKING:") == 2

    def test_a_file_with_a_starred_import_stays(self, toy: Workspace) -> None:
        text = f"from os import *\n{CONFIG_TEXT}{PATCH}"
        assert completed(toy, text) == text


class TestFix:
    """What mends drift completes configs."""

    def test_ruff_finds_no_undefined_name_afterwards(self, toy: Workspace) -> None:
        file = toy.config(CONFIG_TEXT + PATCH, preamble="")
        assert undefined(toy).count("F821") == 8
        done = toy.patchgen("fix")
        assert done.returncode == 0, done.stderr
        assert f"wrote    proj/models/{CONFIG} (imports under TYPE_CHECKING)" in done.stdout
        assert undefined(toy) == ""
        before = file.read_bytes(), generated(toy).read_bytes()
        again = toy.patchgen("fix")
        assert "wrote" not in again.stdout
        assert (file.read_bytes(), generated(toy).read_bytes()) == before
        assert toy.patchgen("--check").returncode == 0

    def test_a_report_for_programs_stays_one(self, toy: Workspace) -> None:
        toy.config(CONFIG_TEXT + PATCH, preamble="")
        done = toy.patchgen("gate", "--checks=drift", "--fix", "--output-format=json")
        assert json.loads(done.stdout)
        assert "(imports under TYPE_CHECKING)" in done.stderr

    def test_a_config_that_does_not_load_is_told_of_once(self, toy: Workspace) -> None:
        toy.config("config = 1 +\n", preamble="")
        done = toy.patchgen("fix")
        assert done.returncode == 2
        assert done.stdout.count("error:") + done.stderr.count("error:") == 1

    def test_checking_alone_writes_nothing(self, toy: Workspace) -> None:
        file = toy.config(CONFIG_TEXT + PATCH, preamble="")
        toy.patchgen("check")
        assert file.read_text() == CONFIG_TEXT + PATCH

    def test_lines_are_as_long_as_the_project_has_them(self, toy: Workspace) -> None:
        toy.write("pyproject.toml", f"{TABLE}[tool.ruff]\nline-length = 50\n")
        assert "    from acme.models.toy.modeling_toy import (\n" in completed(toy, CONFIG_TEXT, PATCH)
