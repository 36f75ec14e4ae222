"""From a config file to its PatchConfig: stubs, siblings, real imports when they are needed, errors."""

from __future__ import annotations

import pytest

from patchgen_core.config.loading import Loader
from patchgen_core.syntax.source import SourceCache
from tests.config.loading import FOLDER, MAKE, SIBLING, generated, load, site
from tests.conftest import PREAMBLE, Workspace

pytestmark = pytest.mark.usefixtures("toy_upstream")

# --- siblings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("from .sibling import helper", "helper"),
        ("from . import sibling", "sibling.helper"),
        ("from . import sibling as s", "s.helper"),
        ("from ..toy.sibling import helper", "helper"),
        ("from .. import toy\nfrom ..toy import sibling", "toy.sibling.helper"),
        ("from proj.models.toy.sibling import helper", "helper"),
        ("from proj.models.toy import sibling", "sibling.helper"),
        ("import proj.models.toy.sibling", "proj.models.toy.sibling.helper"),
        ("import proj.models.toy.sibling as s", "s.helper"),
        ("def late():\n    from .sibling import helper\n    return helper", "late()"),
    ],
)
@pytest.mark.parametrize("packages", [False, True], ids=["folders", "packages"])
def test_siblings_load_as_files(work: Workspace, statement: str, name: str, packages: bool) -> None:
    work.write(f"{FOLDER}/sibling.py", SIBLING)
    for package in ("proj", "proj/models", FOLDER) if packages else ():
        work.write(f"{package}/__init__.py", "raise RuntimeError('a package was imported')\n")
    loaded = load(work, f"{statement}\nconfig.add_helper({name})\n")
    assert loaded.mode == "stubbed"
    assert loaded.modules["proj.models.toy.sibling"]["__file__"] == str(work.root / FOLDER / "sibling.py")
    assert "[ADDED HELPER] helper" in work.raw()


def test_a_sibling_is_executed_once(work: Workspace) -> None:
    work.write(f"{FOLDER}/sibling.py", "class Marker: ...\n")
    work.write(f"{FOLDER}/other.py", "from .sibling import Marker\n")
    loaded = load(work, "from . import other, sibling\nassert other.Marker is sibling.Marker\n")
    assert loaded.mode == "stubbed"


def test_patches_of_a_base_config_are_taken_over(work: Workspace) -> None:
    work.write(
        f"{FOLDER}/base.py",
        PREAMBLE + "import nowhere\n\n\n@config.replace_function('rotate')\ndef turn(x, y):\n    return y\n",
    )
    work.config("from .base import config as base\nconfig.patches.extend(base.patches)\n")
    assert "def rotate(x, y):\n    return y\n" in work.raw()


# --- imports that may fail -------------------------------------------------------------------------


GUARDS = {
    "ImportError": "try:\n    import {0}\nexcept ImportError:\n    {0} = None",
    "ModuleNotFoundError": "try:\n    import {0}\nexcept ModuleNotFoundError:\n    {0} = None",
    "one of several": "try:\n    import {0}\nexcept (OSError, ImportError) as error:\n    {0} = None",
    "Exception": "try:\n    import {0}\nexcept Exception:\n    {0} = None",
    "bare": "try:\n    import {0}\nexcept:\n    {0} = None",
    "nested": "if True:\n    try:\n        import {0}\n    except ImportError:\n        {0} = None",
    "suppress": "import contextlib\n{0} = None\nwith contextlib.suppress(ImportError):\n    import {0}",
}


@pytest.mark.usefixtures("third")
@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_a_guarded_import_decides_as_in_real_life(work: Workspace, guard: str) -> None:
    there, absent = guard.format("third"), guard.format("nowhere")
    text = f"{there}\n{absent}\nconfig.exclude = [str(third is not None), str(nowhere is None)]\n"
    loaded = load(work, text)
    assert (loaded.mode, loaded.config.exclude) == ("stubbed", ["True", "True"])


@pytest.mark.parametrize("packages", [False, True], ids=["folders", "packages"])
@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("from . import sibling", True),
        ("from .sibling import helper as sibling", True),
        ("from proj.models.toy import sibling", True),
        ("from . import absent as sibling", False),
        ("from .absent import helper as sibling", False),
        ("from .sibling import absent as sibling", False),
        ("from proj.models.toy import absent as sibling", False),
    ],
)
def test_a_guarded_import_of_a_sibling_decides_as_in_real_life(
    work: Workspace, statement: str, found: bool, packages: bool
) -> None:
    work.write(f"{FOLDER}/sibling.py", SIBLING)
    for package in ("proj", "proj/models", FOLDER) if packages else ():
        work.write(f"{package}/__init__.py", "")
    guarded = f"try:\n    {statement}\nexcept ImportError:\n    sibling = None\n"
    loaded = load(work, f"{guarded}config.exclude = [str(sibling is not None)]\n")
    assert (loaded.mode, loaded.config.exclude) == ("stubbed", [str(found)])


# --- TYPE_CHECKING ---------------------------------------------------------------------------------


HIDDEN = """
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    @config.replace_function("rotate")
    def turn(x, y):
        return y
"""


@pytest.mark.parametrize("full", [False, True], ids=["light", "full"])
def test_patches_under_type_checking_count(work: Workspace, full: bool) -> None:
    work.config(HIDDEN)
    assert "def rotate(x, y):\n    return y\n" in generated(work, full)


@pytest.mark.parametrize("full", [False, True], ids=["light", "full"])
def test_patches_under_type_checking_in_a_sibling_count(work: Workspace, full: bool) -> None:
    work.write(f"{FOLDER}/base.py", PREAMBLE + HIDDEN)
    work.config("from .base import config\n", preamble="")
    assert "def rotate(x, y):\n    return y\n" in generated(work, full)


# --- a DSL that the project re-exports -------------------------------------------------------------


REEXPORTS = {
    "a module": (
        "from theirs.patchgen.patch_spec import PatchConfig",
        {"patchgen/patch_spec.py": "from patchgen import *"},
    ),
    "a package": (
        "from theirs.patchgen import PatchConfig",
        {
            "patchgen/__init__.py": "from .patch_spec import PatchConfig",
            "patchgen/patch_spec.py": "from patchgen.patch_spec import *",
        },
    ),
    "a package by its alias": (
        "import theirs.patchgen as own\nPatchConfig = own.PatchConfig",
        {"patchgen/__init__.py": "from patchgen import PatchConfig"},
    ),
    "a shim": ("from theirs.shim import PatchConfig", {"shim.py": "import nowhere\nfrom patchgen import *"}),
    "a subclass": (
        "from theirs.shim import PatchConfig",
        {"shim.py": "from patchgen import PatchConfig as Base\nclass PatchConfig(Base): ..."},
    ),
}


@pytest.mark.parametrize("installed", [False, True], ids=["in the project", "installed"])
@pytest.mark.parametrize(("statement", "files"), REEXPORTS.values(), ids=REEXPORTS)
def test_a_reexported_dsl_is_loaded_by_file(
    work: Workspace, statement: str, files: dict[str, str], installed: bool
) -> None:
    for path, text in {"__init__.py": "raise RuntimeError('a package was imported')", **files}.items():
        if installed:
            site(work, f"theirs/{path}", text + "\n")
        else:
            work.write(f"theirs/{path}", text + "\n")
    loaded = load(work, f"import nowhere\n{statement}\nconfig = {MAKE}\nfor _ in config.patches: ...\n", preamble="")
    assert (loaded.mode, loaded.config.target_file) == ("stubbed", "a.py")


def test_a_reexported_dsl_serves_configs_of_any_name(work: Workspace) -> None:
    work.write("theirs/__init__.py", "raise RuntimeError('a package was imported')\n")
    work.write("theirs/shim.py", "from patchgen import *\n")
    loaded = load(work, f"from theirs.shim import PatchConfig\ngpu = {MAKE}\n", preamble="")
    assert (loaded.name, loaded.mode) == ("gpu", "stubbed")


def test_an_external_patch_of_a_reexported_dsl_counts(work: Workspace) -> None:
    work.write("theirs/__init__.py", "raise RuntimeError('a package was imported')\n")
    work.write("theirs/shim.py", "from patchgen import *\n")
    work.config(
        """
        from theirs.shim import create_patch_from_external as external
        config.patches.append(external("Norm", "fast", "FastNorm"))
        """
    )
    assert "from fast import FastNorm as Norm" in work.raw()
    assert work.load().mode == "stubbed"


# --- which configs a file makes --------------------------------------------------------------------


FACTORY = """
from patchgen import PatchConfig


def make(name):
    return PatchConfig("acme.models.toy.modeling_toy", f"{name}.py")
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f"config = {MAKE}\ngpu = {MAKE}\n_private = {MAKE}\n", ["config", "gpu"]),
        (f"gpu = {MAKE}\nnpu = {MAKE}\n", ["gpu", "npu"]),
        (f"gpu = config = {MAKE}\n", ["config"]),
        (f"from .sibling import config as base\nconfig = {MAKE}\n", ["config"]),
        ("from .sibling import config\n", ["config"]),
        ("from .factory import make\nconfig = make('a')\n", ["config"]),
        ("from .factory import make\nconfig = make('a')\nother = make('b')\n", ["config", "other"]),
        ("from .factory import make\ngpu = make('a')\n", ["gpu"]),
    ],
)
@pytest.mark.parametrize("full", [False, True], ids=["light", "full"])
def test_every_config_that_a_file_makes_is_found(work: Workspace, text: str, names: list[str], full: bool) -> None:
    work.write(f"{FOLDER}/sibling.py", PREAMBLE)
    work.write(f"{FOLDER}/factory.py", FACTORY)
    path = work.config(f"from patchgen import PatchConfig\n{text}", preamble="")
    loaded = Loader(work.project, SourceCache(), full=full).load(path)
    assert [config.name for config in loaded] == names


def test_a_config_is_chosen_by_name(work: Workspace) -> None:
    path = work.config(f"gpu = {MAKE}\n")
    loaded = Loader(work.project, SourceCache()).load(path, "gpu")
    assert [(c.name, c.label) for c in loaded] == [("gpu", "proj.models.toy.toy_gpu_patch_gen_config:gpu")]
