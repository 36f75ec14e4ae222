"""PG226: attributes of ``self`` that nothing sets."""

from __future__ import annotations

import pytest

from patchgen_core.checks.contract.outside_members import TORCH_MODULE
from tests.conftest import Workspace
from tests.contract.support import examine, found

UPSTREAM = """
from torch import nn
from acme.base import Base, Unknown as Hidden


class MLP(nn.Module):
    scale = 2
    shape: int

    def __init__(self, config):
        super().__init__()
        self.gate_proj, (self.up_proj, *self.rest) = config.gates
        self.register_buffer("inv_freq", None)
        for self.last in config.layers:
            self.count += 1

    @property
    def size(self):
        return self.scale

    def forward(self, x):
        return self.up_proj(self.gate_proj(x))


class Fast(MLP):
    def __init__(self, config):
        super().__init__(config)
        self.kernel = config.kernel


class Other(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.q_proj = config.linear

    def forward(self, x):
        return self.q_proj(x)


class Mixin:
    def forward(self, x):
        return x


class Model(Base):
    def forward(self, x):
        return x


class Open(nn.Module):
    def __init__(self, config):
        super().__init__()
        for name in config.names:
            setattr(self, name, 1)

    def forward(self, x):
        return x


class Foreign(Hidden):
    def forward(self, x):
        return x


def late(mlp):
    mlp.late = 1
"""
BASE = """
from torch import nn


class Parent(nn.Module):
    def __init__(self):
        self.config = 1


class Base(Parent):
    def post_init(self): ...
"""
FORWARD = "@config.override_method('{}.forward')\ndef f(self, x):\n    {}\n"


def attribute_findings(work: Workspace, target: str, body: str, more: str = "") -> list[str]:
    work.upstream(UPSTREAM)
    (work.site / "acme" / "base.py").write_text(BASE, encoding="utf-8")
    work.config(more + FORWARD.format(target, body))
    return [title.removeprefix(f"PG226 '{target}.forward' uses ") for title in found(work, "PG226")]


def unknown(name: str, owner: str = "MLP") -> list[str]:
    return [f"'self.{name}', but neither '{owner}' nor its bases have '{name}'"]


KNOWN = [
    "scale",
    "shape",
    "gate_proj",
    "up_proj",
    "rest",
    "inv_freq",
    "last",
    "size",
    "training",
    "_modules",
    "__dict__",
]
KNOWN += ["kernel", "late"]


@pytest.mark.parametrize("name", KNOWN)
def test_what_a_class_has_is_known(work: Workspace, name: str) -> None:
    assert attribute_findings(work, "MLP", f"return self.{name}") == []


def test_a_slip_is_told_at_its_line_with_the_nearest_name(work: Workspace) -> None:
    assert attribute_findings(work, "MLP", "y = x\n    return self.gate_porj(y)") == unknown("gate_porj")
    (problem,) = examine(work, select=["PG226"]).errors
    assert problem.hint.startswith("Did you mean 'self.gate_proj'? ")
    assert problem.location is not None
    assert "> " in problem.excerpt
    assert "self.gate_porj(y)" in problem.excerpt.split("> ", 1)[1].split("\n")[0]


def test_what_another_class_has_is_unknown_here(work: Workspace) -> None:
    assert attribute_findings(work, "MLP", "return self.q_proj(x)") == unknown("q_proj")
    assert attribute_findings(work, "MLP", "return [self.q_proj(y) for y in x]") == unknown("q_proj")
    assert attribute_findings(work, "MLP", "return (lambda: self.q_proj)()") == unknown("q_proj")
    assert attribute_findings(work, "MLP", "return self.late_one") == unknown("late_one")


def test_a_function_of_the_module_is_named(work: Workspace) -> None:
    assert attribute_findings(work, "MLP", "return self.late(x)") == []  # something assigns it
    assert attribute_findings(work, "Other", "return self.MLP(x)") == unknown("MLP", "Other")
    (problem,) = examine(work, select=["PG226"]).errors
    assert problem.hint.startswith("Did you mean 'MLP', which the module binds?")


QUIET = [
    ("Mixin", "return self.nothing"),
    ("Open", "return self.nothing"),
    ("Foreign", "return self.nothing"),
    ("Model", "return self.config, self.post_init(), self.named_parameters()"),
    ("MLP", "return getattr(self, 'nothing', None), self.nothing"),
    ("MLP", "self.nothing = 1\n    return self.nothing"),
    ("MLP", "def inner(self):\n        return self.nothing\n    return inner"),
]


@pytest.mark.parametrize(("target", "body"), QUIET)
def test_nothing_is_said_where_the_attribute_may_be_there(work: Workspace, target: str, body: str) -> None:
    assert attribute_findings(work, target, body) == []


def test_a_base_in_another_module_is_read(work: Workspace) -> None:
    assert attribute_findings(work, "Model", "return self.confg") == unknown("confg", "Model")
    (problem,) = examine(work, select=["PG226"]).errors
    assert problem.hint.startswith("Did you mean 'self.config'? ")


def test_what_a_patch_of_init_or_a_block_sets_is_known(work: Workspace) -> None:
    init = "@config.modify_init('MLP')\ndef init(original_init, self, config):\n"
    init += "    original_init(self, config)\n    self.added = 1\n"
    assert attribute_findings(work, "MLP", "return self.added", init) == []
    block = "config.add_block_after('MLP', 'MLP.added = 1')\n"
    assert attribute_findings(work, "MLP", "return self.added", block) == []


def test_what_the_projects_code_sets_is_known(work: Workspace) -> None:
    trainer = work.root / "trainer.py"
    trainer.write_text("def prepare(model):\n    model.mlp.group = None\n", encoding="utf-8")
    assert attribute_findings(work, "MLP", "return self.group") == []
    trainer.write_text("def prepare(model):\n    return model.mlp.group == None\n", encoding="utf-8")
    assert attribute_findings(work, "MLP", "return self.group") == unknown("group")


def test_only_lines_of_an_edit_count(work: Workspace) -> None:
    work.upstream(UPSTREAM.replace("return self.up_proj(self.gate_proj(x))", "x = self.missing\n        return x + 1"))
    work.config("config.replace_code('MLP.forward', 'return x + 1', 'return x + self.scal')\n")
    assert found(work, "PG226") == [f"PG226 'MLP.forward' uses {message}" for message in unknown("scal")]


@pytest.mark.torch
def test_what_every_module_of_torch_has_is_known() -> None:
    from torch import nn

    names = {name for name in dir(nn.Module()) if not name.startswith("__")}
    of_others = {name for name in names if is_of_transformers(getattr(nn.Module, name, None))}
    assert names - of_others <= TORCH_MODULE


def is_of_transformers(value: object) -> bool:
    """Whether it is what transformers puts there once it has initialized a model in this process."""
    return getattr(value, "__module__", "").partition(".")[0] == "transformers"
