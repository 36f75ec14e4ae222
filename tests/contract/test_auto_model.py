from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import examine, found

UPSTREAM = """
from transformers import AutoModel, Base, TextConfig, TowerConfig, WholeConfig


def rotate(x):
    return x


def scale(x):
    return x


class TowerNorm(Base):
    def forward(self, x):
        return rotate(scale(x))


class Norm(Base):
    def forward(self, x):
        return scale(x)


class TowerBlock(Base):
    def __init__(self, config):
        self.norm, self.other = TowerNorm(), Norm()


class BasePreTrainedModel(Base):
    def _init_weights(self, module):
        return isinstance(module, (TowerNorm, Norm))


class TowerModel(Base):
    config: TowerConfig

    def __init__(self, config):
        self.block = TowerBlock(config)


class CoreModel(Base):
    config: TowerConfig


class DerivedModel(CoreModel): ...


class TextModel(Base):
    config: TextConfig

    def __init__(self, config):
        self.norm = Norm()


class WholeModel(Base):
    config: WholeConfig

    def __init__(self, config):
        self.tower = AutoModel.from_config(config.tower)
        self.text = TextModel._from_config(config.text)
        self.derived = DerivedModel(config)


class FrameModel(Base):
    def __init__(self, config: WholeConfig):
        self.model = WholeModel(config)
"""


@pytest.mark.parametrize(
    ("name", "is_warned"),
    [
        pytest.param("TowerModel", True, id="built by AutoModel alone"),
        pytest.param("TextModel", False, id="built by the module"),
        pytest.param("CoreModel", False, id="base of one that the module builds"),
        pytest.param("WholeModel", False, id="builds the others"),
        pytest.param("FrameModel", False, id="takes the config of the whole model"),
    ],
)
def test_patch_of_a_model_that_auto_model_builds(work: Workspace, name: str, is_warned: bool) -> None:
    work.upstream(UPSTREAM)
    work.config(f"@config.override_method('{name}.forward')\ndef f(self, x):\n    return x\n")
    message = f"PG221 '{name}.forward' may have no effect: nothing in the module creates a '{name}'"
    assert found(work) == ([message] if is_warned else [])


@pytest.mark.parametrize(
    ("target", "is_warned"),
    [
        pytest.param("TowerBlock.forward", True, id="made by it"),
        pytest.param("TowerNorm.forward", True, id="made by what it makes, and named by _init_weights"),
        pytest.param("rotate", True, id="function that only these call"),
        pytest.param("Norm.forward", False, id="made by another model too"),
        pytest.param("scale", False, id="function that others call too"),
    ],
)
def test_patch_of_what_only_such_a_model_uses(work: Workspace, target: str, is_warned: bool) -> None:
    work.upstream(UPSTREAM)
    declare = "override_method" if "." in target else "replace_function"
    arguments = "self, x" if "." in target else "x"
    work.config(f"@config.{declare}('{target}')\ndef f({arguments}):\n    return x\n")
    message = (
        f"PG221 '{target}' may have no effect: nothing in the module creates a 'TowerModel', and nothing else uses it"
    )
    assert found(work, "PG221") == ([message] if is_warned else [])


def test_finding_shows_where_auto_model_builds(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    work.config("@config.override_method('TowerModel.forward')\ndef f(self, x):\n    return x\n")
    (warning,) = examine(work).warnings
    assert warning.generated is not None
    line = next(line for line in warning.generated.text.splitlines() if line.startswith(">"))
    assert "AutoModel.from_config(config.tower)" in line
