"""Kept results of the contract check: they hang on the files that its rules read, and not on the rest of a package."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from patchgen_core.build.ruff_setup import find_ruff
from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.contract.check import ContractCheck
from patchgen_core.checks.kept.asking import SWITCH
from patchgen_core.checks.kept.explaining import find_changes
from patchgen_core.checks.kept.keeping import KeptResults
from patchgen_core.checks.registry import BUILT_IN
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import CONTRACT, DRIFT, Settings
from tests.checks.kept_project import OTHER, TOY, run_gate
from tests.conftest import UPSTREAM, Workspace

CHECKS = [check for check in BUILT_IN if check.name in (DRIFT, CONTRACT)]
SETTINGS = """
[tool.patchgen]
search_root = "proj/models"
package_prefix = "proj.models"

[tool.patchgen.severity]
PG225 = "warning"
"""
UPSTREAM_TEXT = """
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.eps = 1

    def forward(self, x):
        return x + self.eps


class Head(nn.Module):
    def forward(self, x):
        return x


def rotate(x):
    return -x
"""
PREAMBLE = f"""
from patchgen import PatchConfig

config = PatchConfig("{UPSTREAM}", "patched_modeling_NAME_gpu.py")
"""
READS = '''
config.add_import("proj.kit.ops", names=["OpSlot", "scale"])
config.add_post_import_block('fused = OpSlot("norm", "standard")')
config.add_post_import_block("""
def _late():
    from proj.kit import late

    return late.VALUE
""")

@config.override_method("Norm.forward")
def norm_forward(self, x):
    return scale(x, self.eps) + _late() + self.added
'''
BORROWS = """
from proj.models.toy.toy_gpu_patch_gen_config import lent

config.override_method("Head.forward", replacement=lent)
"""
LENT = """

def lent(self, x, more):
    return x + more
"""
SCALE = "from proj.kit.slots import OpSlot\n\n\ndef scale(x, factor):\n    return x * factor\n"
FILES = {
    "proj/__init__.py": "",
    "proj/models/__init__.py": "def _load():\n    from proj.models.toy.generated import patched_modeling_toy_gpu\n",
    "proj/kit/__init__.py": "",
    "proj/kit/ops.py": SCALE,
    "proj/kit/slots.py": "class OpSlot:\n    def __init__(self, op_name, variant):\n        pass\n",
    "proj/kit/late.py": "VALUE = 1\n",
    "proj/kit/kernels.py": 'KernelSpec(name="plain", op_name="norm", variant="standard")\n',
    "proj/unused.py": "VALUE = 1\n",
    "train.py": "def prepare(model):\n    model.added = 1\n",
}


@pytest.fixture
def project(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Two models: the patches of one read other modules, and the other one borrows from it. One run was clean."""
    monkeypatch.setenv(SWITCH, "1")
    find_ruff()
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not place.endswith("site-packages")])
    run_check, counted = ContractCheck.run, list[str]()

    def count(check: ContractCheck, path: Path, item: str) -> Iterable[CheckResult]:
        if check.session.settings.caching:
            counted.append(path.name.partition("_")[0])
        return run_check(check, path, item)

    monkeypatch.setattr(ContractCheck, "run", count)
    monkeypatch.setattr(sys.modules[__name__], "_counted", counted)
    work.upstream(UPSTREAM_TEXT)
    work.write("pyproject.toml", SETTINGS)
    for path, text in FILES.items():
        work.write(path, text)
    work.config(READS + LENT, TOY, PREAMBLE.replace("NAME", "toy"))
    work.config(BORROWS, OTHER, PREAMBLE.replace("NAME", "other"))
    fix(work.check())
    assert [result.errors for result in run(work)] == [()] * 4
    assert sorted(_rerun(work)) == []
    return work


_counted: list[str] = []


def run(work: Workspace, settings: Settings | None = None) -> list[CheckResult]:
    """The results, as far as they are the same whenever they are made."""
    _counted.clear()
    results = run_gate(work, CHECKS, settings)
    return [replace(result, seconds=0.0, made=0.0) for result in results]


def _rerun(work: Workspace) -> list[str]:
    """The configs of which the rules ran; what is said of all of them is what is said where nothing is kept."""
    results = run(work)
    rerun = sorted(_counted)
    assert results == run(work, Settings(caching=False))
    return rerun


EDITS: dict[str, tuple[str, str, str, list[str]]] = {
    "a module that is imported": ("proj/kit/ops.py", "factor):", "factor, more):", ["toy"]),
    "what that imports": ("proj/kit/slots.py", "class", "# a remark\nclass", ["toy"]),
    "what a patch imports": ("proj/kit/late.py", "1", "2", ["toy"]),
    "a module that nothing imports": ("proj/unused.py", "1", "2", []),
    "an attribute that a script sets": ("train.py", "model.added", "model.aded", ["toy"]),
    "another attribute there": ("train.py", "= 1", "= 1\n    model.more = 2", []),
    "a kernel": ("proj/kit/kernels.py", '"standard"', '"other"', ["toy"]),
    "a registry": ("proj/kit/kernels.py", "KernelSpec", "Spec", ["toy"]),
    "another registry": ("proj/unused.py", "VALUE", "KernelSpec", ["toy"]),
    "the package": ("proj/models/__init__.py", "():", "(self=None):", ["other", "toy"]),
    "a remark in a config": (f"proj/models/{TOY}", "\n\ndef lent", "\n\n# a remark\n\n\ndef lent", ["toy"]),
    "what it declares": (f"proj/models/{TOY}", "+ _late()", "+ _late() * 2", ["toy"]),
    "how what it lends is written": (f"proj/models/{TOY}", "x + more", "x  +  more", ["other", "toy"]),
    "upstream": (f"../site/{UPSTREAM.replace('.', '/')}.py", "-x", "+x", ["other", "toy"]),
}


def _path(work: Workspace, name: str) -> Path:
    return work.site / name.removeprefix("../site/") if name.startswith("../site/") else work.root / name


@pytest.mark.parametrize("name", EDITS)
def test_the_rules_run_for_the_configs_that_an_edit_concerns(project: Workspace, name: str) -> None:
    file, old, new, expected = EDITS[name]
    path = _path(project, file)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    fix(project.check())
    assert _rerun(project) == expected


def test_a_module_that_comes_or_goes_counts(project: Workspace) -> None:
    late = project.root / "proj/kit/late.py"
    late.unlink()
    assert _rerun(project) == ["toy"]
    project.write("proj/kit/late/data.txt", "")  # a folder may be a package
    assert _rerun(project) == ["toy"]
    (project.root / "proj/kit/late/data.txt").unlink()
    (project.root / "proj/kit/late").rmdir()
    assert _rerun(project) == ["toy"]
    project.write("proj/kit/late.cu", "")
    assert _rerun(project) == ["toy"]
    (project.root / "proj/kit/late.cu").unlink()
    assert any("late" in warning.message for result in run(project) for warning in result.warnings)


def test_lines_that_a_warning_quotes_count(project: Workspace) -> None:
    borrowed = "from proj.models.toy import toy_gpu_patch_gen_config as toy\n"
    borrowed += "config.additional_imports.extend(toy.config.additional_imports)\n"
    project.config(BORROWS + borrowed, OTHER, PREAMBLE.replace("NAME", "other"))
    fix(project.check())
    quoted = [problem.excerpt for result in run(project) for problem in result.warnings if problem.code == "PG214"]
    assert any("config.add_import(" in excerpt for excerpt in quoted)
    assert _rerun(project) == []
    path = project.root / "proj/models" / TOY
    path.write_text(path.read_text().replace('"scale"])', '"scale"])  # told'))
    fix(project.check())
    assert _rerun(project) == ["other", "toy"]


def test_a_module_that_gets_the_name_of_an_alias_counts(project: Workspace) -> None:
    path = project.root / "proj/models" / TOY
    block = 'import proj.kit.ops as kit_ops\n\nother = kit_ops.OpSlot("norm", "standard")'
    path.write_text(f"{path.read_text()}\nconfig.add_post_import_block({block!r})\n")
    fix(project.check())
    run(project)
    assert _rerun(project) == []
    for text in (FILES["proj/kit/slots.py"], "class OpSlot:\n    pass\n"):
        project.write("kit_ops.py", text)
        assert _rerun(project) == ["toy"]


def test_all_modules_of_a_package_that_registers_kernels_count(project: Workspace) -> None:
    settings = project.root / "pyproject.toml"
    settings.write_text(settings.read_text().replace("[tool.patchgen]", '[tool.patchgen]\nkernels = ["proj.fast"]'))
    project.write("proj/fast/__init__.py", "")
    norm = project.write("proj/fast/norm.py", FILES["proj/kit/kernels.py"])
    run(project)
    assert _rerun(project) == []
    norm.write_text(norm.read_text().replace("standard", "other"))
    assert _rerun(project) == ["other", "toy"]


def test_why_tells_what_was_asked(project: Workspace) -> None:
    (project.root / "train.py").write_text("")
    (project.root / "proj/kit/kernels.py").write_text("")
    session = Session(project.project, Settings())
    try:
        kept = KeptResults(session, project.project)
        path = f"proj/models/{TOY}"
        (entry,) = kept.store.find_all(path, CONTRACT)
        assert set(find_changes(kept, entry)) == {
            "changed: no code of the project assigns 'added'",
            "changed: the kernels that are registered in proj",
        }
    finally:
        session.close()
