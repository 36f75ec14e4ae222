"""What functions import that are handed to the registry of models: of one model, not of the others."""

from __future__ import annotations

import sys

import pytest

from patchgen_core.build.ruff_setup import find_ruff
from patchgen_core.checks.kept.asking import SWITCH
from tests.checks.kept_project import make_project, rerun
from tests.conftest import Workspace

IMPORT = "from patchgen_core.registry import MODELING_REGISTRY\n"
REGISTER = '\n\n@MODELING_REGISTRY.register("{name}")\ndef register_{name}(architecture):\n'
"""How a model's package begins, as ``docs/runtime.md`` has it."""
BOTH = ["other", "toy"]


def package(name: str, imports: str, more: str = "") -> str:
    return f"{IMPORT}{REGISTER.format(name=name)}    {imports}\n    return used\n{more}"


@pytest.fixture
def project(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A project whose package imports both models' packages, each of which registers a function that imports a module
    beside it; of another package, which registers too, both know nothing. One run was clean."""
    monkeypatch.setenv(SWITCH, "1")
    find_ruff()
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not place.endswith("site-packages")])
    make_project(work)
    work.write("proj/models/__init__.py", "from proj.models import other, toy\n")
    for name in BOTH:
        work.write(f"proj/models/{name}/__init__.py", package(name, "from . import classes as used"))
        work.write(f"proj/models/{name}/classes.py", "")
    assert rerun(work) == BOTH
    return work


def test_what_one_model_registers_counts_for_that_alone(project: Workspace) -> None:
    project.write("proj/models/toy/classes.py", "VALUE = 1\n")
    assert rerun(project) == ["toy"]
    assert rerun(project) == []


def test_the_function_itself_counts_for_all_that_import_its_package(project: Workspace) -> None:
    project.write("proj/models/toy/__init__.py", package("toy", "from . import classes as used  # these"))
    assert rerun(project) == BOTH


SET_UP = "\n\ndef setup(models):\n    {}.get('toy')\n"
ASKING: dict[str, str] = {
    "names it": f"{IMPORT}{SET_UP.format('MODELING_REGISTRY')}",
    "names it otherwise": f"{IMPORT.rstrip()} as known\n{SET_UP.format('known')}",
    "names its module": f"from patchgen_core import registry\n{SET_UP.format('registry.MODELING_REGISTRY')}",
    "calls what names it": f"{IMPORT}\n\ndef load():\n    return MODELING_REGISTRY\n{SET_UP.format('load()')}",
    "calls a function by another name": (
        f"from proj.models.toy import register_toy as load\n{SET_UP.format('load(1)')}"
    ),
    "names it at its import": f"{IMPORT}TYPES = MODELING_REGISTRY.keys()\n{SET_UP.format('{}')}",
}


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.mostly_slow(2)
def test_all_models_count_where_something_asks_the_registry(project: Workspace, name: str) -> None:
    project.write("proj/testing.py", ASKING[name])
    assert rerun(project) == BOTH
    project.write("proj/models/toy/classes.py", "VALUE = 1\n")
    assert rerun(project) == BOTH


OTHER_WAYS: dict[str, tuple[str, list[str]]] = {
    "by a private function": (
        package("toy", "used = _load()", "\n\ndef _load():\n    from . import classes\n    return classes\n"),
        ["toy"],
    ),
    "by a private function that is called at the import": (
        package(
            "toy", "used = _load()", "\n\ndef _load():\n    from . import classes\n    return classes\n\n\n_load()\n"
        ),
        BOTH,
    ),
    "by a private function that is named in a text": (
        package("toy", "used = 1", "\n\ndef _load():\n    from . import classes\n\n\nLOADERS = ['proj.toy:_load']\n"),
        BOTH,
    ),
    "by a function that anybody may call": (
        package("toy", "used = load()", "\n\ndef load():\n    from . import classes\n    return classes\n"),
        BOTH,
    ),
    "by what the package itself is asked for": (
        package("toy", "used = 1", "\n\ndef __getattr__(name):\n    from . import classes\n    return classes\n"),
        BOTH,
    ),
    "with a decorator of another kind": (
        package("toy", "from . import classes as used").replace("\n@MODELING", "\n@called\n@MODELING"),
        BOTH,
    ),
    "beside another registry's": (
        package("toy", "from . import classes as used").replace("MODELING_REGISTRY", "MODEL_PROCESSOR_REGISTRY"),
        BOTH,
    ),
}


@pytest.mark.parametrize("name", OTHER_WAYS)
@pytest.mark.mostly_slow(3)
def test_imports_count_where_their_function_may_run(project: Workspace, name: str) -> None:
    text, expected = OTHER_WAYS[name]
    project.write("proj/models/toy/__init__.py", text)
    assert rerun(project) == BOTH
    project.write("proj/models/toy/classes.py", "VALUE = 1\n")
    assert rerun(project) == expected


def test_a_registry_of_the_project_is_one_as_well(project: Workspace) -> None:
    project.write("proj/loader.py", "MODELING_REGISTRY = {}\n")
    text = package("toy", "from . import classes as used").replace("patchgen_core.registry", "proj.loader")
    project.write("proj/models/toy/__init__.py", text)
    assert rerun(project) == BOTH
    project.write("proj/models/toy/classes.py", "VALUE = 1\n")
    assert rerun(project) == ["toy"]


def test_a_function_elsewhere_counts_for_the_model_that_it_leads_to(project: Workspace) -> None:
    imports = "from proj.models.toy import classes as used\n    _more()"
    more = "\n\ndef _more():\n    from proj import unused\n\n    return unused\n"
    project.write("proj/registered.py", package("toy_text", imports, more))
    project.write("proj/models/__init__.py", "from proj import registered\nfrom proj.models import other, toy\n")
    assert rerun(project) == BOTH
    project.write("proj/unused.py", "VALUE = 2\n")
    assert rerun(project) == ["toy"]


def test_the_packages_count_that_a_model_lies_in_whoever_imports_them(project: Workspace) -> None:
    (project.models / "other/__init__.py").unlink()
    project.write("proj/models/__init__.py", "from proj import unused\n")
    assert rerun(project) == BOTH
    project.write("proj/unused.py", "VALUE = 2\n")
    assert rerun(project) == BOTH
