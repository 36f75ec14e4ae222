"""From a config file to its PatchConfig: stubs, siblings, real imports when they are needed, errors."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.selection import Selection
from patchgen_core.config.loading import LoadedConfig, Loader
from patchgen_core.syntax.source import SourceCache
from tests.conftest import CONFIG, PREAMBLE, Workspace

UPSTREAM = """
from torch import nn

LIMIT = 3


class Norm(nn.Module):
    def forward(self, x):
        return x


def rotate(x, y):
    return x + y


def unused():
    return 1
"""
THIRD = """
FLAG = True
NUMBER = 3
NAME = "unused"
NAMES = ["unused"]
CODE = "EXTRA = 1"
TABLE = {}
__version__ = "1.0"


class Base:
    pass


class Kind:
    pass


def deco(function):
    return function


def for_methods(function):
    return type(function).__mro__[5]


def made(name):
    return for_methods
"""
FOLDER = "proj/models/toy"


@pytest.fixture(autouse=True)
def _upstream(work: Workspace) -> Iterator[None]:
    work.upstream(UPSTREAM)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] in ("proj", "third", "theirs", "acme")]:
        del sys.modules[name]


@pytest.fixture
def third(work: Workspace) -> Path:
    """A third-party package that really imports."""
    site(work, "third/consts.py", "NAMES = ['unused']\n")
    return site(work, "third/__init__.py", THIRD)


def site(work: Workspace, path: str, text: str) -> Path:
    """Write a file beside the upstream packages."""
    file = work.site / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text))
    return file


def load(work: Workspace, text: str, preamble: str = PREAMBLE, full: bool = False) -> LoadedConfig:
    work.config(text, preamble=preamble)
    return work.load(full=full)


def load_error(work: Workspace, text: str, preamble: str = PREAMBLE) -> str:
    work.config(text, preamble=preamble)
    return work.errors()


def generated(work: Workspace, full: bool, path: str = CONFIG) -> str:
    loader = Loader(work.project, SourceCache(), full=full)
    outcome = make_artifacts(Selection(work.project, [work.models / path]), loader=loader)[0]
    assert outcome.artifact is not None, "\n".join(map(str, outcome.problems))
    return outcome.artifact.text


# --- what stubs stand for --------------------------------------------------------------------------

ALLOWED = {
    "bases": "class A(nowhere.Module, nowhere.Mixin, nowhere.Other): ...",
    "a base beside a real one": "class A(nowhere.Module, dict): ...",
    "a subscripted base": "class A(nowhere.Generic[int]): ...",
    "a metaclass": "class A(metaclass=nowhere.Meta): ...",
    "a decorator": "@nowhere.script\ndef f(): ...\nassert f.__name__ == 'f'",
    "a called decorator": "@nowhere.compile(fullgraph=True)\ndef f(): ...\nassert f.__name__ == 'f'",
    "a class decorator": "@nowhere.register('a')\nclass A: ...\nassert A.__name__ == 'A'",
    "decorated property": "class A:\n    @nowhere.hook\n    @property\n    def x(self): ...\nA.x.fget",
    "union with None": "def f(x: nowhere.Tensor | None, y: None | nowhere.Tensor, z: int | nowhere.Tensor): ...",
    "Optional": "from typing import Optional\ndef f(x: Optional[nowhere.Tensor] = None): ...",
    "Union": "from typing import Union\ndef f(x: Union[nowhere.Tensor, nowhere.Cache, None] = None): ...",
    "Union of one twice": "from typing import Union\nX = Union[nowhere.Tensor, nowhere.Tensor]",
    "typing's Callable": "from typing import Callable\nX = Callable[[nowhere.Tensor], nowhere.Tensor]",
    "abc's Callable": "from collections.abc import Callable\nX = Callable[[nowhere.Tensor], nowhere.Tensor]",
    "Dict, List, Tuple": "from typing import Dict, List, Tuple\nX = Dict[str, List[Tuple[nowhere.A, ...]]]",
    "Annotated": "from typing import Annotated\nX = Annotated[nowhere.Tensor, nowhere.Shape]",
    "TypeVar": "from typing import TypeVar\nT = TypeVar('T', bound=nowhere.Module)",
    "Generic beside a base": "from typing import Generic, TypeVar\n"
    "T = TypeVar('T')\nclass A(nowhere.Module[int], Generic[T]): ...",
    "Unpack": "from nowhere.utils import Unpack\ndef f(**kwargs: Unpack[nowhere.A]) -> tuple[nowhere.A, ...]: ...",
    "dataclass": "from dataclasses import dataclass, field\n@dataclass\nclass A(nowhere.Output):\n"
    "    x: nowhere.Tensor | None = None\n    y: list[nowhere.A] = field(default_factory=list)\nA(x=1)",
    "enum": "import enum\nclass A(enum.Enum):\n    X = nowhere.float32\n    Y = nowhere.float16",
    "NamedTuple": "from typing import NamedTuple\nclass A(NamedTuple):\n    x: nowhere.Tensor\n    y: int = nowhere.B",
    "class attributes": "class A(nowhere.Module):\n    dtype = nowhere.float32\n    y = nowhere.Table(nowhere.X[0])",
    "dict keys": "X = {nowhere.float32: 1, nowhere.float16: 2}",
    "lists and tuples": "X = [nowhere.a, nowhere.b], (nowhere.c, *[nowhere.d])",
    "a lambda": "X = lambda: nowhere.a + 1",
    "a submodule": "import nowhere.nn.functional as F\nfrom nowhere.nn import functional\nX = F.gelu, functional.gelu",
    "a conditional import": "import importlib.util\nif importlib.util.find_spec('nowhere'):\n    import nowhere.extra",
    "TYPE_CHECKING": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from nowhere import A",
}


@pytest.mark.parametrize("text", ALLOWED.values(), ids=ALLOWED)
def test_stubs_stand_for_what_configs_do_with_third_party_names(work: Workspace, text: str) -> None:
    work.config(f"import nowhere\n{text}\n")
    loaded = work.load()
    assert (loaded.mode, loaded.reason) == ("stubbed", "")


def test_dataclass_with_string_annotations(work: Workspace) -> None:
    text = """
    from __future__ import annotations

    import dataclasses
    from typing import ClassVar

    import nowhere
    from patchgen import PatchConfig

    config = PatchConfig("acme.models.toy.modeling_toy", "a.py")


    @config.add_helper
    @dataclasses.dataclass
    class Output(nowhere.ModelOutput):
        loss: nowhere.Tensor | None = None
        names: ClassVar[list[str]] = []
        rest: nowhere.Tensor = dataclasses.field(default=None)


    assert [f.name for f in dataclasses.fields(Output)] == ["loss", "rest"]
    """
    assert load(work, text, preamble="").mode == "stubbed"


USES = {
    "if third.FLAG: pass": "it tests the truth of third.FLAG",
    "third.FLAG and 1": "it tests the truth of third.FLAG",
    "len(third.NAMES)": "it takes the length of third.NAMES",
    "for _ in third.NAMES: pass": "it iterates over third.NAMES",
    "[*third.NAMES]": "it iterates over third.NAMES",
    "'a' in third.NAMES": "it iterates over third.NAMES",
    "dict(**third.TABLE)": "it iterates over third.TABLE.keys()",
    "third.NUMBER == 3": "it compares third.NUMBER",
    "third.NUMBER in (1, 3)": "it compares third.NUMBER",
    "third.__version__ >= '1'": "it compares third.__version__",
    "max(third.NUMBER, 1)": "it compares third.NUMBER",
    "third.NUMBER + 1": "it computes with third.NUMBER",
    "2 * third.NUMBER": "it computes with third.NUMBER",
    "-third.NUMBER": "it computes with third.NUMBER",
    "range(third.NUMBER)": "it needs the number or text of third.NUMBER",
    "[1, 2, 3, 4][third.NUMBER]": "it needs the number or text of third.NUMBER",
    "f'{third.NAME}'": "it needs the number or text of third.NAME",
    "'%s' % third.NAME": "it needs the number or text of third.NAME",
    "f'{third.NAME!r}'": "it needs the number or text of third.NAME",
    "repr([third.NAME])": "it needs the number or text of third.NAME",
    "hasattr(third, 'NAME')": "it asks for an attribute of third",
    "getattr(third, 'nothing', None)": "it asks for an attribute of third",
    "callable(third.deco)": "it asks whether it can call third.deco",
    "vars(third)": "it lists the names of third",
    "isinstance(3, third.Kind)": "it checks the type with third.Kind",
    "issubclass(int, third.Kind)": "it checks the type with third.Kind",
    "isinstance(third.NUMBER, int)": "it checks the type of third.NUMBER",
    "third.TABLE['a'] = 1": "it sets an item of third.TABLE",
    "third.Kind.x = 1": "it sets x on third.Kind",
    "from third import *": "it imports every name of third",
    "config.replace_class('Norm', third.Base)": "it copies the source of third.Base",
    "config.add_helper(third.deco)": "it copies the source of third.deco",
}


@pytest.mark.usefixtures("third")
@pytest.mark.parametrize("use", USES)
def test_a_value_that_stubs_lack_is_imported_for_real(work: Workspace, use: str) -> None:
    work.config(f"import third\n{use}\n")
    loaded = work.load()
    assert (loaded.mode, loaded.reason) == ("imported", USES[use])


@pytest.mark.usefixtures("third")
@pytest.mark.parametrize(
    ("declaration", "visible"),
    [
        ("config.exclude_from_output(third.NAME)", "#  Excluded:\n#    - unused\n"),
        ("config.exclude.append(third.NAME)", "#  Excluded:\n#    - unused\n"),
        ("config.add_post_import_block(third.CODE)", "EXTRA = 1\n"),
        ("config.post_import_blocks.append(third.CODE)", "EXTRA = 1\n"),
        ("config.description = third.CODE", "#  EXTRA = 1\n"),
        ("config.transformers_version = third.__version__", "Based on: acme==1.0\n"),
        ("config.replace_function('rotate', turn, description=third.CODE)", "# Reason: EXTRA = 1\n"),
        (
            "config.patches.append(create_patch_from_external('Norm', third.__name__, third.NAME))",
            "import unused as Norm",
        ),
    ],
)
def test_a_third_party_value_in_a_declaration_is_its_real_value(
    work: Workspace, declaration: str, visible: str
) -> None:
    work.config(f"import third\ndef turn(x, y):\n    return x\n{declaration}\n")
    assert visible in work.text()


# --- siblings --------------------------------------------------------------------------------------

SIBLING = """
import nowhere


def helper():
    return 1
"""


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

MAKE = 'PatchConfig("acme.models.toy.modeling_toy", "a.py")'
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


# --- light and full, order, traces -----------------------------------------------------------------

SAME = {
    "a function": "import third\n@config.replace_function('rotate')\n@third.deco\ndef turn(x, y):\n    return y\n"
    "config.add_import('third', is_from_import=False)\n",
    "a class": "from third import Base\n# Fast.\n@config.replace_class('Norm')\nclass Fast(Base):\n"
    "    def forward(self, x):\n        return super(Fast, self).forward(x)\n"
    "config.add_import('third', names=['Base'])\n",
    "a class without methods": "@config.replace_class('Norm')\nclass Fast:\n    x = 1\n",
    "helpers": "@config.add_helper\nclass Helper:\n    x = 1\n"
    "@config.add_helper_after('Norm')\ndef late():\n    return Helper\n",
    "a third-party decorator that wants a method": "from third import for_methods, made\n"
    "config.add_import('third', names=['for_methods', 'made'])\n"
    "@config.replace_function('rotate')\n@for_methods\n@made('x')\ndef f(x, y):\n    return x\n"
    "@config.replace_class('Norm')\n@for_methods\nclass Fast:\n    x = 1\n",
    "decorators that count": "import functools\nfrom .base import keep\n"
    "config.add_import('functools', is_from_import=False)\nconfig.add_helper(keep)\n"
    "@config.override_method('Norm.forward')\n@keep\n@functools.cache\ndef f(self, x):\n    return x\n",
    "a sibling's": "from .base import config as base\nconfig.patches.extend(base.patches)\n"
    "config.helpers.extend(base.helpers)\nconfig.exclude.extend(base.exclude)\n",
    "a sibling's class": "from .base import Fast\nconfig.replace_class('Norm', Fast)\n",
}


@pytest.mark.usefixtures("third")
@pytest.mark.parametrize("text", SAME.values(), ids=SAME)
def test_light_and_full_loading_generate_the_same_bytes(work: Workspace, text: str) -> None:
    base = (
        "@config.override_method('Norm.forward')\ndef fast_forward(self, x):\n    return helper(x)\n"
        "@config.add_helper\ndef helper(x):\n    return x\n@config.add_helper\nclass Extra: ...\n"
        "class Fast:\n    def forward(self, x):\n        return x\nconfig.exclude_from_output('unused')\n"
        "def keep(function):\n    return function\n"
    )
    work.write(f"{FOLDER}/base.py", PREAMBLE + base)
    work.config(text)
    assert generated(work, full=True) == generated(work, full=False)


@pytest.mark.usefixtures("third")
def test_a_class_of_a_config_that_is_imported_for_real_keeps_its_source(work: Workspace) -> None:
    work.config(
        """
        import third

        if third.FLAG:
            @config.replace_class("Norm")
            class Fast:
                def forward(self, x):
                    return x + 1
        """
    )
    assert "class Norm:\n    def forward(self, x):\n        return x + 1\n" in work.raw()
    assert work.load().mode == "imported"


@pytest.mark.usefixtures("third")
@pytest.mark.parametrize("full", [False, True], ids=["light", "full"])
def test_a_replacement_that_wraps_a_third_party_function_keeps_its_own_source(work: Workspace, full: bool) -> None:
    work.config(
        """
        import functools
        import third

        @config.replace_function("rotate")
        @functools.wraps(third.deco)
        def turn(x, y):
            return y

        config.add_import("functools", is_from_import=False)
        config.add_import("third", is_from_import=False)
        """
    )
    assert "@functools.wraps(third.deco)\ndef rotate(x, y):\n    return y\n" in generated(work, full)


@pytest.mark.parametrize("full", [False, True], ids=["light", "full"])
@pytest.mark.parametrize("packages", [False, True], ids=["folders", "packages"])
def test_a_config_that_changes_its_sibling_changes_no_other(work: Workspace, full: bool, packages: bool) -> None:
    for package in ("proj", "proj/models", FOLDER) if packages else ():
        work.write(f"{package}/__init__.py", "")
    base = work.config("@config.add_helper\ndef helper():\n    return 1\n", "toy/base_patch_gen_config.py")
    greedy = (
        "from . import base_patch_gen_config as base\nconfig.helpers, base.config.helpers = base.config.helpers, []\n"
    )
    paths = [work.config(greedy, f"toy/{name}_patch_gen_config.py") for name in "ab"]
    loader = Loader(work.project, SourceCache(), full=full)
    counts = [len(loader.load(path)[0].config.helpers) for path in (base, *paths, base, *paths)]
    assert counts == [1] * 6


@pytest.mark.parametrize("full", [False, True], ids=["light", "full"])
@pytest.mark.parametrize("packages", [False, True], ids=["folders", "packages"])
@pytest.mark.parametrize("end", ["", "raise ValueError('late')\n"], ids=["fine", "raising"])
def test_loading_leaves_nothing_behind(work: Workspace, full: bool, packages: bool, end: str) -> None:
    for package in ("proj", "proj/models", FOLDER) if packages else ():
        work.write(f"{package}/__init__.py", "")
    work.write(f"{FOLDER}/sibling.py", SIBLING.replace("import nowhere", ""))
    path = work.config(f"from . import sibling\nfrom .sibling import helper\n{end}")
    modules, import_path = set(sys.modules), list(sys.path)
    make_artifacts(Selection(work.project, [path]), loader=Loader(work.project, SourceCache(), full=full))
    assert {name for name in set(sys.modules) - modules if name.startswith("proj")} == set()
    assert sys.path == import_path


def test_the_gate_imports_neither_torch_nor_transformers(work: Workspace) -> None:
    for package in ("torch", "transformers"):
        site(work, f"{package}/__init__.py", "")
    work.config(
        """
        import torch
        from torch import nn
        from transformers.models.llama.modeling_llama import LlamaMLP

        @config.replace_class("Norm")
        class Fast(nn.Module):
            @torch.no_grad()
            def forward(self, x: torch.Tensor | None) -> torch.Tensor:
                return x

        config.add_import("torch", is_from_import=False)
        """
    )
    code = (
        "import sys; from patchgen_core.cli.main import main; codes = main(['--check', '--fix']), main(['--check']); "
    )
    code += "print(codes, sorted({'torch', 'transformers', 'pytest'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=work.root,
        env={"PYTHONPATH": os.pathsep.join([str(work.site), str(Path(__file__).parents[2])])},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1:] == ["(0, 0) []"], done.stderr


def test_the_working_directory_does_not_matter(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    work.write(f"{FOLDER}/sibling.py", "def helper():\n    return 1\n")
    work.config("from . import sibling\nfrom proj.models.toy.sibling import helper\nconfig.add_helper(helper)\n")
    texts = set()
    for folder in (work.root, work.root / FOLDER, work.site):
        monkeypatch.chdir(folder)
        texts |= {generated(work, full) for full in (False, True)}
    assert len(texts) == 1


# --- real_imports ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("third")
@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("third", "from third import NAMES"),
        ("third", "from third.consts import NAMES"),
        ("third.consts", "from third.consts import NAMES"),
        ("third.consts", "from third import consts\nNAMES = consts.NAMES"),
        ("third.consts", "import third.consts\nNAMES = third.consts.NAMES"),
        ("proj.consts", "from proj.consts import NAMES"),
    ],
)
def test_named_modules_are_imported_for_real(work: Workspace, module: str, statement: str) -> None:
    work.write("proj/consts.py", "NAMES = ['unused']\n")
    with (work.root / "pyproject.toml").open("a") as file:
        file.write(f'real_imports = ["{module}"]\n')
    loaded = load(work, f"import nowhere\n{statement}\nconfig.exclude_from_output(*NAMES)\n")
    assert (loaded.mode, loaded.config.exclude) == ("stubbed", ["unused"])


# --- configs that cannot be loaded -----------------------------------------------------------------

BROKEN = {
    "raises": (
        "raise ValueError('boom')",
        "toy/toy_gpu_patch_gen_config.py:5: the config cannot be loaded: ValueError: boom",
    ),
    "exits": (
        "import sys\nsys.exit(3)",
        "toy/toy_gpu_patch_gen_config.py:6: the config cannot be loaded: SystemExit: 3",
    ),
    "syntax error": (
        "x = 1\ndef f(:",
        "toy/toy_gpu_patch_gen_config.py:6: not valid Python: invalid syntax\n  def f(:",
    ),
    "syntax error in a sibling": ("from .bad import x", "toy/bad.py:2: not valid Python: invalid syntax\n  def f(:"),
    "missing sibling": (
        "from .absent import x",
        "toy/toy_gpu_patch_gen_config.py:5: the config cannot be loaded: "
        "ModuleNotFoundError: No module named 'proj.models.toy.absent'",
    ),
    "missing package": (
        "import nowhere\nif nowhere.x:\n    pass",
        "toy/toy_gpu_patch_gen_config.py:5: the config cannot be loaded: "
        "ModuleNotFoundError: No module named 'nowhere'\n"
        "  It was imported for real because it tests the truth of nowhere.x.",
    ),
    "argument of a declaration": (
        "config.replace_function('rotate', zebra='')",
        "toy/toy_gpu_patch_gen_config.py:5: the config cannot be loaded: TypeError: "
        "PatchConfig.replace_function() got an unexpected keyword argument 'zebra'",
    ),
    "no such declaration": (
        "config.replace_func('rotate')",
        "toy/toy_gpu_patch_gen_config.py:5: the config cannot be loaded: AttributeError: "
        "'PatchConfig' object has no attribute 'replace_func'",
    ),
    "declaration that says no": (
        "config.add_import('.x', names=['y'])",
        "toy/toy_gpu_patch_gen_config.py:5: add_import: '.x' is relative\n  Name the module absolutely.",
    ),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_a_config_that_cannot_be_executed_says_why_and_where(work: Workspace, text: str, message: str) -> None:
    work.write(f"{FOLDER}/bad.py", "x = 1\ndef f(:\n")
    assert load_error(work, text + "\n") == message


def test_an_error_in_a_sibling_names_the_siblings_line(work: Workspace) -> None:
    work.write(f"{FOLDER}/bad.py", "x = 1\nraise ValueError('boom')\n")
    message = load_error(work, "from .bad import x\n")
    assert "ValueError: boom" in message
    assert "toy/bad.py:2" in message


NO_CONFIG = {
    "nothing": ("x = 1\n", "it makes no PatchConfig called 'config'"),
    "near": (f"confg = 1\n_gpu = {MAKE}\n", "it makes no PatchConfig called 'config'\n  It has: _gpu."),
    "int": ("config = 1\n", "'config' is of type int, not a PatchConfig of patchgen"),
    "None": ("config = None\n", "'config' is of type NoneType, not a PatchConfig of patchgen"),
    "class": ("config = PatchConfig\n", "'config' is of type type, not a PatchConfig of patchgen"),
}


@pytest.mark.parametrize(("text", "message"), NO_CONFIG.values(), ids=NO_CONFIG)
def test_a_file_without_a_config_says_so(work: Workspace, text: str, message: str) -> None:
    error = load_error(work, text, preamble="from patchgen import PatchConfig\n")
    assert error == f"toy/toy_gpu_patch_gen_config.py: {message}"


def test_a_config_name_that_is_not_there_names_those_that_are(work: Workspace) -> None:
    path = work.config(f"gpu = {MAKE}\n")
    outcome = make_artifacts(Selection(work.project, [path], name="npu"))[0]
    message = str(outcome.problems[0]).replace(f"{path}: ", "")
    assert message == "it makes no PatchConfig called 'npu'\n  It has: config, gpu."


def test_annotations_of_a_config_are_never_evaluated(work: Workspace) -> None:
    """They may name what only upstream has, and unions of generics would compare stubs."""
    work.upstream("class A:\n    def f(self): ...\n\n\nclass Known: ...\n")
    work.config(
        """
        import torch

        @config.override_method("A.f")
        def f(self, x: tuple[torch.Tensor] | tuple[torch.Tensor, torch.Tensor] | None = None) -> Known:
            return x
        """
    )
    assert work.load().mode == "stubbed"
    assert "-> Known:" in work.raw()
