"""The zoo as it would have been for older releases, and what a user does to take it to today's, step by step.

``older_zoo/`` has a folder a release: configs named after their models, with replacements, as the zoo had them before
it was written in edits; those of GPUs were made of them by taking back what upstream did since
(``upgrade_history.py``). A model joins at the oldest release that its
patches can be for:

- 5.9.0: the models of text but Qwen3.5, and Qwen2-VL and Qwen2.5-VL.
- 5.17.0: Gemma3, Qwen3-VL and Qwen3-VL-MoE, whose loss took no keywords of a trainer's before.
- Qwen3.5 and both Omni models are not there: they share replacements with Qwen2-VL's, or patch classes, that only the
  last releases have alike.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import libcst as cst

from patchgen_core.authoring.edits.config_file import ConfigFiles
from patchgen_core.authoring.slim.references import EDIT_CALLS, edit_changes
from patchgen_core.authoring.slim.slim import Slimmed, slim
from patchgen_core.build.artifacts import make_outcomes
from patchgen_core.build.selection import Selection
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.errors import Problem
from patchgen_core.files import write_files
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upgrade.package_configs import PackageConfigs, select_configs
from patchgen_core.upgrade.results import ConfigVerdict, PatchVerdict, UpgradeReport
from patchgen_core.upgrade.upgrading import upgrade
from patchgen_core.upgrade.writing.applying import Applied, apply
from patchgen_core.upstream.releases import Release, Releases

ROOT = Path(__file__).parents[2]
ZOO = ROOT / "examples" / "zoo"
OLDER = Path(__file__).parent / "older_zoo"
SUFFIX = "_patch_gen_config.py"
PYPROJECT = '[tool.patchgen]\nsearch_root = "zoo"\npackage_prefix = "zoo"\n'

DENSE = ("llama", "mistral", "qwen2", "qwen3", "seed_oss")
EXPERTS = ("mixtral", "qwen3_moe", "gpt_oss", "deepseek_v3", "glm_moe_dsa")
JOINING = {"5.9.0": (*DENSE, *EXPERTS, "qwen2_vl", "qwen2_5_vl"), "5.17.0": ("gemma3", "qwen3_vl", "qwen3_vl_moe")}
"""The models by the release at which they join."""


@dataclass(frozen=True)
class Edit:
    """What a user changes by hand after a step, where nothing else did.

    Attributes:
        model: the config's.
        old, new: text of the config.
    """

    model: str
    old: str
    new: str


def _renamed(model: str, prefix: str) -> Edit:
    return Edit(model, f'drop_decorators("{prefix}NaiveMoe"', f'drop_decorators("{prefix}Experts"')


GEMMA3_INIT = (
    """\
    self.vision_tower = AutoModel.from_config(config=config.vision_config)
    self.multi_modal_projector = Gemma3MultiModalProjector(config)
    self.vocab_size = config.text_config.vocab_size

    # --- Patch.1 ---
    language_model = Gemma3TextModel._from_config(config.text_config)
    # --- Patch.1 ---
    self.language_model = language_model
""",
    """\
    self.vision_tower = AutoModel.from_config(config.vision_config)
    self.multi_modal_projector = Gemma3MultiModalProjector(config)
    self.vocab_size = config.text_config.vocab_size
    # --- Patch.1 ---
    self.language_model = Gemma3TextModel._from_config(config.text_config)
    # --- Patch.1 ---
""",
)
"""A conflict: upstream joined two statements, of which the patch changes one."""

BY_HAND: dict[str, tuple[Edit, ...]] = {
    "5.13.1": (_renamed("deepseek_v3", "DeepseekV3"), _renamed("glm_moe_dsa", "GlmMoeDsa")),
    "5.20.2": (Edit("gemma3", *GEMMA3_INIT),),
}
"""What is finished by hand when a step comes to a release; an edit whose old text is not there is not needed."""


@dataclass(frozen=True)
class Step:
    """One step of a walk.

    Attributes:
        release: the release that it came to.
        report: what the release does to the project.
        applied: what was written.
        edits: what was finished by hand.
        problems: what is wrong with the project after all, at this release.
    """

    release: Release
    report: UpgradeReport
    applied: Applied
    edits: tuple[Edit, ...]
    problems: tuple[Problem, ...]


def make_project(folder: Path, models: Iterable[str], release: str) -> Project:
    """A project in an empty folder, of models as they would have been for a release; nothing is generated."""
    (folder / "pyproject.toml").write_text(PYPROJECT)
    join(folder, release, models)
    return load_project(folder)


def join(folder: Path, release: str, models: Iterable[str]) -> None:
    """Add models as they would have been for a release: today's, but for the configs that are kept of then."""
    for model in models:
        ignored = shutil.ignore_patterns("generated", "__pycache__")
        shutil.copytree(ZOO / model, folder / "zoo" / model, ignore=ignored)
        for config in (OLDER / release).glob(f"{model}_[gn]pu.py"):
            shutil.copy(config, folder / "zoo" / model / f"{config.stem}{SUFFIX}")
    there = sorted(path.parent.name for path in folder.glob("zoo/*/__init__.py"))
    (folder / "zoo" / "__init__.py").write_text(f"from zoo import {', '.join(there)}\n")


def take_edits(folder: Path) -> None:
    """Have the configs of a project take as edits what `patchgen slim` made edits of in others."""
    paths = sorted(folder.glob(f"zoo/*/*{SUFFIX}"))
    edits = {name for path in paths for name in _edit_names(ast.parse(path.read_text()))}
    files = ConfigFiles()
    for path in paths:
        file = files.get(path)
        calls = [node for node in file.positions if isinstance(node, cst.Call) and _replaces_by(node, edits)]
        path.write_text(file.changed(edit_changes(calls)).text)


def _edit_names(tree: ast.Module) -> Iterator[str]:
    """The names of functions that are edits, and of those that targets share."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "Edits()":
            yield ast.unparse(node.targets[0])
        elif isinstance(node, ast.FunctionDef) and any(".edit" in ast.unparse(d) for d in node.decorator_list):
            yield node.name
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from (ast.unparse(keyword.value) for keyword in node.value.keywords if keyword.arg == "edit")


def _replaces_by(call: cst.Call, names: Collection[str]) -> bool:
    """Whether a call gives a target a replacement of some names."""
    given = [a.value.value for a in call.args if a.keyword is not None and a.keyword.value == "replacement"]
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    return name in EDIT_CALLS and bool(given) and given[0] in names


def generate(project: Project, release: Release) -> tuple[Problem, ...]:
    """Write the generated files of all configs against a release; returns what is wrong with the configs there."""
    there = replace(project, upstream=(release.folder,))
    selection, sources = select_configs(project), SourceCache()
    imported = [loaded.label for loaded in selection.configs if loaded.mode != "stubbed"]
    assert not imported, f"a model that these import is not in the project: {imported}"
    outcomes = make_outcomes(there, selection.configs, sources)
    contracts = Contracts(there, sources)
    problems = [problem for outcome in outcomes for problem in outcome.problems]
    for outcome in outcomes:
        if outcome.artifact is not None:
            problems += contracts.examine(outcome.artifact, outcome.path).errors
            write_files(outcome.artifact.output(save_diff=True))
    return tuple(dict.fromkeys(problems))


_CHANGES = ("changed", "signature changed", "decorators changed")
OF_EDITS = {
    "changed elsewhere": _CHANGES,
    "place changed": _CHANGES,
    "place moved": _CHANGES,
    "place gone": _CHANGES,
    "place ambiguous": _CHANGES,
}
"""The verdicts on edits, with those that the table may have of their targets."""


def slim_configs(project: Project, release: Release) -> list[Slimmed]:
    """Write the replacements of all configs as edits where that says the same against a release."""
    return slim(Selection(replace(project, upstream=(release.folder,))))


def take_step(project: Project, releases: Releases, version: str, *, passing: Iterable[str] = ()) -> Step:
    """Go to a release as ``patchgen upgrade --to VERSION --apply`` does, and finish what is left by hand.

    Args:
        project: the project.
        releases: finds both releases.
        version: the release to come to.
        passing: releases that the step passes over.
    """
    selection = select_configs(project)
    release = releases.find(version)
    report = upgrade(selection, release, releases)
    applied = apply(project, report, release, allow_dirty=True)
    edits = tuple(edit for to in (*passing, version) for edit in finish_by_hand(project.base, to))
    return Step(release, report, applied, edits, generate(project, release))


def finish_by_hand(folder: Path, version: str) -> Iterator[Edit]:
    """Make the edits of a step that are needed; returns those."""
    for edit in BY_HAND.get(version, ()):
        for path in folder.glob(f"zoo/{edit.model}/*{SUFFIX}"):
            text = path.read_text()
            if edit.old in text:
                path.write_text(text.replace(edit.old, edit.new))
                yield edit


def verdicts(report: UpgradeReport) -> Iterator[tuple[ConfigVerdict, PatchVerdict]]:
    """Each patch's verdict with its config's."""
    return ((config, patch) for config in report.configs for patch in config.patches)


def model_of(config: ConfigVerdict) -> str:
    """A config's model."""
    return config.module.split(".")[2]


# --- what came out of it, beside today's zoo -------------------------------------------------------


def differences(project: Project, selection: PackageConfigs) -> dict[tuple[str, str], str]:
    """What the configs' generated files have other than the zoo's: a diff of code by file and patched target.

    Annotations, docstrings and comments are left out: cosmetic changes are not carried over.
    """
    found = {}
    for loaded in selection.configs:
        name = loaded.config.target_file
        ours, zoo = (
            code(folder / loaded.path.parent.name / "generated" / name) for folder in (project.base / "zoo", ZOO)
        )
        for patch in loaded.config.patches:
            if ours.get(patch.target) != zoo.get(patch.target):
                found[name, patch.target] = _diff(zoo.get(patch.target, ""), ours.get(patch.target, ""))
    return found


def _diff(old: str, new: str) -> str:
    from difflib import unified_diff

    return "\n".join(list(unified_diff(old.splitlines(), new.splitlines(), "zoo", "upgraded", lineterm="", n=1)))


def code(path: Path) -> dict[str, str]:
    """The code of a module's classes, functions and methods."""
    tree = _Bare().visit(ast.parse(path.read_text()))
    found = {}
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found[node.name] = ast.unparse(node)
            members = node.body if isinstance(node, ast.ClassDef) else []
            found.update({f"{node.name}.{m.name}": ast.unparse(m) for m in members if isinstance(m, ast.FunctionDef)})
    return found


class _Bare(ast.NodeTransformer):
    """Takes away annotations, docstrings, and what makes losses those of all ranks, which only today's zoo has."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        self.generic_visit(node)
        return None if ast.unparse(node) == "balance = sequence_parallel_load_balancing(balance)" else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return node.args[1] if ast.unparse(node) == "kwargs.get('token_mask', attention_mask)" else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        return None if ast.unparse(node.body[0]).startswith("loss = reduce_loss(") else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)
