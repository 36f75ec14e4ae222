"""Configs whose DSL comes by way of a module of the project, and what one config may do to another."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen_core.config.sandbox import Sandbox
from tests.config.loading import MAKE, load, site
from tests.config.test_input_recording import reason_not_to_keep
from tests.conftest import PREAMBLE, Workspace

pytestmark = pytest.mark.usefixtures("toy_upstream")

FORWARD = "from patchgen.patch_spec import *\n"
BASE = """
import nowhere


@config.replace_function("rotate")
def turn(x, y):
    return y


@config.add_helper
def helped(x):
    return x


config.add_import("fast", names=["quick"])
"""
USE = """
for patch in base.patches:
    config.patches.append(patch)
for helper in base.helpers:
    config.helpers.append(helper)
config.additional_imports.extend(spec for spec in base.additional_imports if spec.module != "slow")
config.exclude.extend(name for name in base.exclude)
"""
FORWARDERS = {
    "a module": ("from theirs.patchgen.patch_spec import PatchConfig", {"patchgen/patch_spec.py": FORWARD}),
    "a package": (
        "from theirs.patchgen import PatchConfig",
        {"patchgen/__init__.py": "import patchgen as _own\nfrom patchgen import *\n__all__ = list(_own.__all__)\n"},
    ),
    "one by another": (
        "from theirs.dsl import PatchConfig",
        {"dsl.py": "from .inner import *\n", "inner.py": "from .deeper.patch_spec import PatchConfig\n"}
        | {"deeper/patch_spec.py": FORWARD},
    ),
    "an attribute": ("from theirs import patchgen\nPatchConfig = patchgen.PatchConfig", {"patchgen.py": FORWARD}),
    "a file for a package": (
        "from theirs.patchgen.patch_spec import PatchConfig",
        {"patchgen.py": "from patchgen import *\nfrom patchgen import patch_spec\n"},
    ),
    "a guarded import": (
        "from theirs.dsl import PatchConfig",
        {"dsl.py": "try:\n    from patchgen import PatchConfig\nexcept ImportError:\n    PatchConfig = None\n"},
    ),
    "its own name for it": (
        "from theirs.dsl import Config as PatchConfig",
        {"dsl.py": f"{FORWARD}Config = PatchConfig\n"},
    ),
}


def write_project(work: Workspace, statement: str, files: dict[str, str]) -> None:
    """A package ``theirs`` that cannot be imported, and a base config that uses it."""
    for path, text in {"__init__.py": "raise RuntimeError('a package was imported')\n", **files}.items():
        work.write(f"theirs/{path}", text)
    work.config(BASE, "toy/base.py", preamble=f"{statement}\nconfig = {MAKE}\n")


@pytest.mark.parametrize(("statement", "files"), FORWARDERS.values(), ids=FORWARDERS)
def test_what_a_config_does_to_another_needs_no_import(work: Workspace, statement: str, files: dict[str, str]) -> None:
    write_project(work, statement, files)
    loaded = load(work, f"from .base import config as base\n{USE}")
    assert loaded.mode == "stubbed"
    assert "def rotate(x, y):\n    return y\n" in work.raw()
    assert "[ADDED HELPER] helped" in work.raw()
    assert "from fast import quick" in work.raw()


@pytest.mark.parametrize("name", [name for name in FORWARDERS if name != "its own name for it"])
def test_a_module_that_hands_the_dsl_on_is_recognised_before_the_first_try(
    work: Workspace, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write_project(work, *FORWARDERS[name])
    executed: list[str] = []
    execute = Sandbox.execute

    def counted(self: Sandbox, name: str, path: Path) -> object:
        executed.append(path.name)
        return execute(self, name, path)

    monkeypatch.setattr(Sandbox, "execute", counted)
    load(work, f"from .base import config as base\n{USE}")
    assert executed.count("toy_gpu_patch_gen_config.py") == 1


@pytest.mark.parametrize("name", FORWARDERS)
def test_a_config_through_a_forwarder_is_kept(work: Workspace, name: str) -> None:
    write_project(work, *FORWARDERS[name])
    assert reason_not_to_keep(work, f"from .base import config as base\n{USE}") == ""


@pytest.mark.parametrize(
    ("use", "reason"), [("", ""), ("list_patch_configs()", "it calls patchgen.list_patch_configs while it is loaded")]
)
def test_a_function_that_came_with_every_name_counts_once_it_is_called(work: Workspace, use: str, reason: str) -> None:
    write_project(
        work, "from theirs.patchgen import PatchConfig", {"patchgen/__init__.py": "from patchgen import *\n"}
    )
    code = f"from theirs.patchgen import PatchConfig, list_patch_configs\ntry:\n    {use or 'pass'}\n"
    assert reason_not_to_keep(work, f"{code}except Exception: ...\n") == reason


def test_a_config_of_an_installed_package_can_be_extended(work: Workspace) -> None:
    site(work, "theirs/__init__.py", "raise RuntimeError('a package was imported')\n")
    site(work, "theirs/models/base_patch_gen_config.py", PREAMBLE + BASE)
    loaded = load(work, f"from theirs.models.base_patch_gen_config import config as base\n{USE}")
    assert loaded.mode == "stubbed"
    assert "def rotate(x, y):\n    return y\n" in work.raw()


@pytest.mark.parametrize("statement", ["from theirs.ops import turn", "import theirs.ops\nturn = theirs.ops.turn"])
def test_a_replacement_outside_the_search_root_is_read_from_its_file(work: Workspace, statement: str) -> None:
    work.write("theirs/__init__.py", "raise RuntimeError('a package was imported')\n")
    work.write("theirs/ops.py", "import nowhere\n\n\ndef turn(x, y):\n    return y\n")
    loaded = load(work, f"{statement}\nconfig.replace_function('rotate', replacement=turn)\n")
    assert loaded.mode == "stubbed"
    assert "def rotate(x, y):\n    return y\n" in work.raw()


def test_a_module_that_only_has_such_a_name_is_stubbed(work: Workspace) -> None:
    work.write("theirs/patch_spec.py", "raise RuntimeError('executed')\n")
    assert load(work, "from theirs.patch_spec import thing\nthing.use()\n").mode == "stubbed"
