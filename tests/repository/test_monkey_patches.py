"""The tool that the contract rules are judged with reads the commonest shapes of monkey patches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.monkey_patches.names import Upstream, read_trees
from tools.monkey_patches.reading import Reading, read_patches

ROOT = Path(__file__).parents[2]
MODELING = """
from torch import nn


def rotate(q, k, cos):
    return q, k


class ToyNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x


class ToyMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = ToyNorm(config.size)

    def forward(self, x, mask=None):
        return self.norm(x)
"""
FORWARDS = """
import transformers

SCALE = 2


def norm_forward(self, x):
    return x * SCALE


def mlp_forward(self, x):
    return self.norm(x)


def older_forward(self, x, mask):
    return x


def rotate(q, k, cos):
    return q * cos, k * cos


class FastNorm:
    def forward(self, x):
        return x
"""
IMPORTS = """
import transformers
from transformers.models.toy import modeling_toy
from transformers.models.toy.modeling_toy import ToyMLP, ToyNorm
from acme.forwards import FastNorm, mlp_forward, norm_forward, older_forward, rotate
"""


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A package that patches, and the transformers that it is written for."""
    package, upstream = tmp_path / "wheel", tmp_path / "site"
    model = upstream / "transformers" / "models" / "toy"
    model.mkdir(parents=True)
    for folder in (model, model.parent):
        (folder / "__init__.py").touch()
    (model / "modeling_toy.py").write_text(MODELING, encoding="utf-8")
    (upstream / "transformers" / "__init__.py").write_text('__version__ = "5.9.0"\n', encoding="utf-8")
    (package / "acme").mkdir(parents=True)
    (package / "acme" / "__init__.py").touch()
    (package / "acme" / "forwards.py").write_text(FORWARDS, encoding="utf-8")
    return package, upstream


def read(folders: tuple[Path, Path], text: str) -> Reading:
    """What the tool reads of a module of the package."""
    package, upstream = folders
    (package / "acme" / "patches.py").write_text(IMPORTS + text, encoding="utf-8")
    return read_patches(read_trees(package), Upstream(upstream), "5.9.0")[0]


def replacements(reading: Reading) -> dict[str, list[str]]:
    """The names of what takes the place of each target."""
    return {patch.target: [replacement.node.name for replacement in patch.replacements] for patch in reading.patches}


@pytest.mark.parametrize(
    ("text", "target", "replacement"),
    [
        ("ToyMLP.forward = mlp_forward", "ToyMLP.forward", "mlp_forward"),
        ("modeling_toy.ToyMLP.forward = mlp_forward", "ToyMLP.forward", "mlp_forward"),
        ("transformers.models.toy.modeling_toy.ToyMLP.forward = mlp_forward", "ToyMLP.forward", "mlp_forward"),
        ("modeling_toy.rotate = rotate", "rotate", "rotate"),
        ("modeling_toy.ToyNorm = FastNorm", "ToyNorm", "FastNorm"),
        ("setattr(ToyMLP, 'forward', mlp_forward)", "ToyMLP.forward", "mlp_forward"),
        ("def apply():\n    ToyMLP.forward = mlp_forward\napply()", "ToyMLP.forward", "mlp_forward"),
        ("def apply():\n    own = mlp_forward\n    ToyMLP.forward = own\napply()", "ToyMLP.forward", "mlp_forward"),
        ("def f(self, x):\n    return x\nToyMLP.forward = f", "ToyMLP.forward", "f"),
        ("def apply(model):\n    convert_forward(model, ToyMLP, mlp_forward)", "ToyMLP.forward", "mlp_forward"),
        ("def apply(model):\n    patch_method(ToyMLP, 'extra', mlp_forward)", "ToyMLP.extra", "mlp_forward"),
        ("ToyMLP.forward = FastNorm.forward", "ToyMLP.forward", "forward"),
    ],
)
def test_shapes_of_monkey_patches_are_read(
    folders: tuple[Path, Path], text: str, target: str, replacement: str
) -> None:
    reading = read(folders, text)
    assert replacements(reading) == {target: [replacement]}
    assert [patch.module for patch in reading.patches] == ["transformers.models.toy.modeling_toy"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('if transformers.__version__ < "5.0":\n    {old}\nelse:\n    {new}', ["mlp_forward"]),
        (
            'if version.parse(transformers.__version__) >= version.parse("5.9"):\n    {new}\nelse:\n    {old}',
            ["mlp_forward"],
        ),
        (
            'def is_old():\n    return Version(transformers.__version__) < Version("5")\n'
            "if is_old():\n    {old}\nelse:\n    {new}",
            ["mlp_forward"],
        ),
        ('if Version(metadata.version("transformers")) < Version("5"):\n    {old}\nelse:\n    {new}', ["mlp_forward"]),
        ("if fused:\n    {new}\nelse:\n    {old}", ["mlp_forward", "older_forward"]),
    ],
)
def test_guards_of_the_version_are_followed(folders: tuple[Path, Path], text: str, names: list[str]) -> None:
    """What other options decide between is read as several replacements."""
    text = text.format(new="ToyMLP.forward = mlp_forward", old="ToyMLP.forward = older_forward")
    assert replacements(read(folders, text)) == {"ToyMLP.forward": names}


def test_what_is_no_patch_of_a_modeling_file_is_counted_apart(folders: tuple[Path, Path]) -> None:
    reading = read(
        folders,
        "class OwnModel:\n    pass\n"
        "OwnModel.forward = mlp_forward\n"
        "ToyMLP.forward = make_forward(3)\n"
        "ToyMLP.is_fast = True\n"
        'def old():\n    ToyNorm.forward = norm_forward\nif transformers.__version__ < "5.0":\n    old()\n',
    )
    assert reading.patches == []
    assert reading.left_out == {"of something else": 1, "no plain function": 1, "not run with that version": 1}


def test_rules_run_over_configs_that_replace_the_same(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """In a process of its own: one that has imported the installed transformers finds no other."""
    package, upstream = folders
    read(folders, "def apply():\n    ToyMLP.forward = mlp_forward\n    ToyNorm.forward = norm_forward\napply()\n")
    command = [sys.executable, "-m", "tools.monkey_patches", package, "--upstream", upstream, "-o", tmp_path / "out"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (config,) = (tmp_path / "out").rglob("*_patch_gen_config.py")
    text = config.read_text(encoding="utf-8")
    assert 'config.add_import("acme.forwards", names=["SCALE"])' in text
    assert "PG201 'ToyMLP.forward' drops upstream's parameter 'mask'" in done.stdout
    assert "2 patches in 1 configs; {('PG201', 'error'): 1}" in done.stdout
