"""Light and full loading, `real_imports`, and configs that cannot be loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.selection import Selection
from patchgen_core.config.loading import Loader
from patchgen_core.syntax.source import SourceCache
from tests.config.loading import FOLDER, MAKE, SIBLING, generated, load, site
from tests.conftest import PREAMBLE, Workspace

pytestmark = pytest.mark.usefixtures("toy_upstream")


def load_error(work: Workspace, text: str, preamble: str = PREAMBLE) -> str:
    work.config(text, preamble=preamble)
    return work.errors()


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
@pytest.mark.mostly_slow(4)
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
        "toy/toy_gpu_patch_gen_config.py:5: replace_function: there is no argument 'zebra'\n"
        "  It takes target, replacement, name_map, description.",
    ),
    "no such declaration": (
        "config.replace_func('rotate')",
        "toy/toy_gpu_patch_gen_config.py:5: PatchConfig has no 'replace_func'\n  Did you mean 'replace_function'?",
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
