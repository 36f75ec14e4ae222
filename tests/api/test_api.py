"""The Python API, under the names of the reference documentation."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import patchgen
import patchgen_core
from patchgen import (
    ModelingCodeGenerator,
    build_check_cli,
    build_run_codegen_cli,
    list_patch_configs,
    run_codegen,
)
from patchgen.codegen import get_module_source
from patchgen.run_codegen import load_patch_config_module
from patchgen_core.errors import PatchgenError
from tests.api.toy_project import GENERATED, MODULE, PATCH, UPSTREAM, command_line_text, discovery
from tests.conftest import UPSTREAM as UPSTREAM_MODULE
from tests.conftest import Workspace

LIBRARY_API = [
    "DiscoveryConfig",
    "Edits",
    "ModelingCodeGenerator",
    "PatchConfig",
    "build_check_cli",
    "build_run_codegen_cli",
    "create_patch_from_external",
    "list_patch_configs",
    "run_codegen",
]
HEAVY = "[name for name in ('libcst', 'rich', 'pytest', 'torch', 'transformers') if name in sys.modules]"
OTHER = "proj.models.other.other_patch_gen_config"


@pytest.fixture
def real(toy: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Imports modules of the project as Python does."""
    monkeypatch.syspath_prepend(str(toy.root))

    def load(name: str) -> ModuleType:
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield load
    for name in [name for name in sys.modules if name.partition(".")[0] == "proj"]:
        del sys.modules[name]


def python(code: str) -> str:
    """What code prints in an interpreter of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# --- names -----------------------------------------------------------------------------------------


def test_each_name_is_the_same_in_both_packages() -> None:
    differ = f"[n for n in {LIBRARY_API} if getattr(patchgen, n) is not getattr(patchgen_core, n)]"
    assert python(f"import patchgen, patchgen_core; print({differ})") == "[]"


@pytest.mark.parametrize("package", [patchgen, patchgen_core])
def test_all_names_exactly_what_there_is(package: ModuleType) -> None:
    assert set(LIBRARY_API) <= set(package.__all__)
    assert all(getattr(package, name) is not None for name in package.__all__)
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'PatchConfi'"):
        _ = package.PatchConfi


def test_star_import() -> None:
    namespace: dict[str, Any] = {}
    exec("from patchgen import *", namespace)
    assert sorted(name for name in namespace if not name.startswith("__")) == LIBRARY_API


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("patchgen.patch_spec", ["PatchConfig", "create_patch_from_external"]),
        ("patchgen.codegen", ["ModelingCodeGenerator", "get_module_source"]),
        ("patchgen.cli", ["main"]),
        ("patchgen._normalize", ["normalize"]),
        ("patchgen.run_codegen", ["DiscoveryConfig", "build_cli", "list_patch_configs", "load_patch_config_module"]),
        ("patchgen.check_patchgen", ["DiscoveryConfig", "build_cli"]),
    ],
)
def test_documented_modules(module: str, names: list[str]) -> None:
    found = importlib.import_module(module)
    assert set(names) <= set(found.__all__)
    for name in set(names) & set(patchgen_core.__all__):
        assert getattr(found, name) is getattr(patchgen_core, name)


@pytest.mark.parametrize("module", ["patchgen", "patchgen.cli", "patchgen.run_codegen", "patchgen.check_patchgen"])
@pytest.mark.mostly_slow(1)
def test_modules_run_the_command(toy: Workspace, module: str) -> None:
    def run(*arguments: str) -> int:
        command = [sys.executable, "-m", module, *arguments]
        env = {**os.environ, "PYTHONPATH": str(toy.site)}
        done = subprocess.run(command, cwd=toy.root, env=env, capture_output=True, text=True)
        assert done.stdout, done.stderr
        return done.returncode

    check = [] if module == "patchgen.check_patchgen" else ["--check"]
    assert run(*check) == 1
    assert run(*check, "--fix") == 0
    assert run(*check) == 0


def test_source_of_a_module_that_is_not_imported(toy: Workspace) -> None:
    assert get_module_source(UPSTREAM_MODULE) == (toy.site / f"{UPSTREAM_MODULE.replace('.', '/')}.py").read_text()
    assert UPSTREAM_MODULE not in sys.modules


def test_a_config_file_is_a_module(toy: Workspace) -> None:
    module = load_patch_config_module(MODULE, project=toy.project)
    assert (module.__name__, module.config.target_file) == (MODULE, "patched_modeling_toy_gpu.py")
    assert module.norm_forward.__name__ == "norm_forward"


def test_each_command_line_module_builds_its_own_command() -> None:
    assert importlib.import_module("patchgen.run_codegen").build_cli is build_run_codegen_cli
    assert importlib.import_module("patchgen.check_patchgen").build_cli is build_check_cli


@pytest.mark.parametrize(
    "first",
    ["import patchgen.run_codegen", "from patchgen.run_codegen import build_cli", "from patchgen import run_codegen"],
)
def test_function_and_module_of_one_name_do_not_hide_each_other(first: str) -> None:
    code = f"{first}\nfrom patchgen import run_codegen\nfrom patchgen.run_codegen import build_cli\n"
    assert python(f"{code}print(callable(run_codegen), build_cli.__name__)") == "True build_run_codegen_cli"


def test_importing_is_light() -> None:
    assert python(f"import sys, patchgen, patchgen_core; print({HEAVY})") == "[]"
    names = "import sys; from patchgen import *; from patchgen_core import *"
    modules = "import patchgen.run_codegen, patchgen.check_patchgen, patchgen.codegen, patchgen.patch_spec"
    assert python(f"{names}; {modules}; print({HEAVY})") == "[]"


def test_a_config_imports_only_the_dsl() -> None:
    code = "import sys; from patchgen import PatchConfig, create_patch_from_external; print(*sys.modules)"
    loaded = {name for name in python(code).split() if name.startswith("patchgen_core.")}
    names = (
        "config",
        "config.arguments",
        "config.declarations",
        "config.edit_calls",
        "config.edit_patches",
        "config.entries",
        "config.patch_calls",
        "config.shared_edits",
        "config.spec",
        "config.text_field",
        "errors",
        "project",
        "project.parity_settings",
        "project.subtable",
    )
    assert loaded == {f"patchgen_core.{name}" for name in names}


# --- ModelingCodeGenerator -------------------------------------------------------------------------


@pytest.mark.parametrize("folder", [".", "proj/models/toy", "/"])
@pytest.mark.mostly_slow(1)
def test_generator_makes_what_the_command_line_writes(
    toy: Workspace, real: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    wanted = command_line_text(toy)
    assert "first_argument=x * 2,\n" in wanted
    monkeypatch.chdir(toy.root / folder)
    generator = ModelingCodeGenerator(real(MODULE).config)
    generator.load_source()
    assert generator.generate() == wanted


def test_generator_of_a_config_under_another_name(toy: Workspace, real: Callable[[str], ModuleType]) -> None:
    toy.config(f'{PATCH}second = PatchConfig("{toy.plan().upstream.module}", "second.py")\n')
    wanted = command_line_text(toy, file="toy/generated/second.py")
    assert ModelingCodeGenerator(real(MODULE).second).generate() == wanted
    assert ModelingCodeGenerator(real(MODULE).config).generate() == (toy.models / GENERATED).read_text()


def test_generator_of_a_config_made_by_a_function(toy: Workspace, real: Callable[[str], ModuleType]) -> None:
    """The config belongs to the module that holds it, not to the file that calls ``PatchConfig``."""
    preamble = (toy.models / "toy/toy_gpu_patch_gen_config.py").read_text().split("@config")[0]
    toy.write("proj/models/toy/making.py", preamble.replace("config = ", "def make():\n    return "))
    toy.config(PATCH, preamble="from proj.models.toy.making import make\n\nconfig = make()\n")
    assert ModelingCodeGenerator(real(MODULE).config).generate() == command_line_text(toy)


def test_generator_of_a_config_that_extends_another(toy: Workspace, real: Callable[[str], ModuleType]) -> None:
    toy.config(
        """
        from proj.models.toy.toy_gpu_patch_gen_config import config as gpu

        config.patches.extend(gpu.patches)

        @config.replace_function("rotate")
        def turn(x):
            return +x
        """,
        "other/other_patch_gen_config.py",
        'from patchgen import PatchConfig\nconfig = PatchConfig("acme.models.toy.modeling_toy", "patched.py")\n',
    )
    wanted = command_line_text(toy, file="other/generated/patched.py")
    assert ModelingCodeGenerator(real(OTHER).config).generate() == wanted


def test_generator_leaves_no_patch_out(toy: Workspace, real: Callable[[str], ModuleType]) -> None:
    """A config may declare patches under ``TYPE_CHECKING``, which is false where it is really imported."""
    patch = PATCH.replace("\n", "\n    ")
    toy.config(f"from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:{patch}")
    wanted = command_line_text(toy)
    assert "x * 2" in wanted
    try:
        made = ModelingCodeGenerator(real(MODULE).config).generate()
    except PatchgenError as error:
        made = str(error)
    assert made == wanted or "TYPE_CHECKING" in made


def test_load_source_gives_upstreams_text(toy: Workspace, real: Callable[[str], ModuleType]) -> None:
    generator = ModelingCodeGenerator(real(MODULE).config)
    assert generator.load_source() == UPSTREAM
    assert generator.upstream is not None
    assert (generator.upstream.distribution, generator.upstream.version) == ("acme", "1.0")


@pytest.mark.parametrize("kind", [str, Path])
def test_generator_writes_to_the_path_it_is_given(
    toy: Workspace, real: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, kind: Callable[[str], Any]
) -> None:
    monkeypatch.chdir(toy.root)
    text = ModelingCodeGenerator(real(MODULE).config).generate(kind("build/patched.py"))
    assert (toy.root / "build/patched.py").read_text() == text
    assert sorted(os.listdir(toy.root / "build")) == ["patched.py"]
    assert not (toy.models / GENERATED).exists()


def test_generator_raises_every_problem_and_writes_nothing(
    toy: Workspace, real: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    toy.config("config.exclude_from_output('Nrom', 'rotat')\n")
    with pytest.raises(PatchgenError) as caught:
        ModelingCodeGenerator(real(MODULE).config).generate(tmp_path / "patched.py")
    assert [problem.hint for problem in caught.value.problems] == ["Did you mean 'Norm'?", "Did you mean 'rotate'?"]
    assert not (tmp_path / "patched.py").exists()


def test_generator_says_that_upstream_is_missing(toy: Workspace, real: Callable[[str], ModuleType]) -> None:
    toy.config("", preamble='from patchgen import PatchConfig\nconfig = PatchConfig("acme.models.toi", "a.py")\n')
    with pytest.raises(PatchgenError, match=r"upstream has no module 'acme\.models\.toi'"):
        ModelingCodeGenerator(real(MODULE).config).load_source()


def test_generator_in_a_given_project(toy: Workspace, real: Callable[[str], ModuleType]) -> None:
    isolated = discovery(toy, ruff_isolated=True, root=toy.root)
    made = ModelingCodeGenerator(real(MODULE).config, project=isolated).generate()
    assert "return dict(first_argument=x * 2, second_argument=x, third_argument=ACT)" in made


# --- DiscoveryConfig -------------------------------------------------------------------------------


def test_discovery_config_takes_strings_and_lists(toy: Workspace) -> None:
    given = discovery(toy, search_root="proj/models", ruff_extra_ignore=["E501"], root=str(toy.root))
    paths = discovery(toy, ruff_extra_ignore=("E501",), root=toy.root)
    assert given == paths
    assert hash(given) == hash(paths)
    assert given.search_root == toy.models
    assert list_patch_configs(given) == [MODULE]


@pytest.mark.parametrize("folder", [".", "proj", "proj/models", "proj/models/toy", "/"])
@pytest.mark.mostly_slow(2)
def test_discovery_config_means_the_same_in_any_working_directory(
    toy: Workspace, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    wanted = command_line_text(toy, "--diff")
    monkeypatch.chdir(toy.root / folder)
    (result,) = run_codegen(MODULE, dry_run=True, project=discovery(toy))
    assert result.artifact.text == wanted
    assert result.artifact.diff == (toy.models / GENERATED).with_suffix(".diff").read_text()


def test_list_patch_configs_of_the_working_directory(toy: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy.models)
    assert list_patch_configs() == [MODULE]


def test_discovery_config_of_a_folder_that_does_not_exist(toy: Workspace) -> None:
    with pytest.raises(PatchgenError, match=r"search_root '.*/nowhere' is not a folder"):
        list_patch_configs(discovery(toy, search_root=toy.root / "nowhere"))
