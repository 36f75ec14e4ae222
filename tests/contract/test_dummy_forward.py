"""Dummy forwards that only fit the variant and dtype at hand (PG219)."""

from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import examine, found

UPSTREAM = """
import torch

ROWS = 16


class Vision:
    def forward(self, x, grid=None):
        return x
"""
PATCH = "import torch\n\nROWS = 16\n\n@config.override_method('Vision.dummy_forward')\ndef dummy_forward(self):\n"
DTYPE = "'Vision.dummy_forward' takes the dtype of its input from 'self.dtype'"


def messages(work: Workspace, body: str, patch: str = PATCH) -> list[str]:
    """What the rule says of a dummy forward with these statements."""
    work.upstream(UPSTREAM)
    work.config(patch + "".join(f"    {line}\n" for line in body.splitlines()))
    return [message.partition(" ")[2] for message in found(work, "PG219")]


@pytest.mark.parametrize(
    ("body", "sizes"),
    [
        ("return self(torch.zeros((1, 3, 224, 224)))", "sizes 3, 224, 224"),
        ("return self(torch.randn(1, 8, self.config.hidden_size))", "size 8"),
        ("return self(torch.ones(size=(4, self.rows)))", "size 4"),
        ("return self(torch.empty((1, 3 * 2 * 14**2)))", "size 1176"),
        ("return self(torch.full((1, 5), 7))", "size 5"),
        ("return self(torch.randint(0, 100, (1, 6)))", "size 6"),
        ("return self(torch.randint(100, size=(1, 6)))", "size 6"),
        ("return self(self.proj.weight.new_zeros(1, 9))", "size 9"),
        ("shape = (1, 3, 14)\nreturn self(torch.rand(shape))", "sizes 3, 14"),
        ("shape = [2, 3]\nreturn self(torch.rand(*shape))", "sizes 2, 3"),
        ("rows, width = 16, self.width\nreturn self(torch.zeros(rows, width))", "size 16"),
        ("return self(torch.zeros(ROWS, self.width))", "size 16"),
        ("return self(None, torch.tensor([[1, 4, 4]], dtype=torch.int32))", "sizes 4, 4"),
        ("return self(None, torch.tensor([[1, 4 * self.sp_size, 4]]))", "size 4"),
        ("sizes = [[1, 2, 2]]\ngrids = torch.tensor(sizes)\nreturn self(None, grids)", "sizes 2, 2"),
        (
            "if self.sp:\n    grid = [[1, 4 * self.n, self.n]]\nelse:\n    grid = [[1, 6, self.n]]\n"
            "return self(None, torch.tensor(grid))",
            "size 6",
        ),
    ],
)
def test_sizes_written_as_numbers(work: Workspace, body: str, sizes: str) -> None:
    assert messages(work, body) == [f"'Vision.dummy_forward' makes its input with the fixed {sizes}"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("return self(torch.zeros((1, 1, self.config.patch_size**2)))", id="config"),
        pytest.param("n = 2 * self.merge_size\nreturn self(None, torch.tensor([[1, n, n]]))", id="multiple"),
        pytest.param("n = 4\nn = n * self.sp_size\nreturn self(torch.zeros(n, self.width))", id="scaled"),
        pytest.param("return self(torch.full((1, 1), 7), torch.tensor(5))", id="values"),
        pytest.param("return self(torch.randint(2, 100, (1, 1)))", id="range"),
        pytest.param("input_ids = torch.tensor([[151655, 2]])\nreturn self(input_ids)", id="tokens"),
        pytest.param("return self(input_ids=torch.tensor([[151655, 2]]))", id="tokens by keyword"),
        pytest.param("return self(torch.tensor([[ROWS]]))", id="constant in a tensor"),
        pytest.param("return self(self.make((4, 4)), scale=8)", id="other calls"),
        pytest.param("return self(torch.zeros(1, dtype=self.proj.weight.dtype))", id="dtype of a weight"),
        pytest.param("d = next(self.parameters()).dtype\nreturn self(torch.zeros(1, dtype=d))", id="live dtype"),
        pytest.param("return self.text.dummy_forward() + self._dummy_rows()", id="dummy methods"),
        pytest.param("self.calls = 1\nreturn self(torch.zeros(1))", id="other attributes"),
    ],
)
def test_dummy_forward_that_fits_every_variant(work: Workspace, body: str) -> None:
    assert messages(work, body) == []


@pytest.mark.parametrize(
    "body",
    [
        "return self(torch.zeros(1, dtype=self.dtype))",
        "dtype = self.dtype\nreturn self(torch.zeros(1, dtype=dtype))",
        "return self(torch.zeros(1).to(self.dtype))",
        "return self(torch.zeros(1).to(self.device, dtype=self.dtype))",
        "x = torch.zeros(1, dtype=self.dtype)\nreturn self(x, torch.ones(1, dtype=self.dtype))",
    ],
)
def test_dtype_that_parameters_are_stored_in(work: Workspace, body: str) -> None:
    assert messages(work, body) == [DTYPE]


@pytest.mark.parametrize(
    ("body", "attribute"),
    [
        ("return self(self._dummy_data)", "self._dummy_data"),
        ("if self._dummy is None:\n    self._dummy = torch.zeros(1)\nreturn self(self._dummy)", "self._dummy"),
        ("self.kept = torch.zeros(1)\nreturn self(self.kept)", "self.kept"),
        ("x = {'x': torch.zeros(1)}\nself.kept = x\nreturn self(**x)", "self.kept"),
    ],
)
def test_input_kept_from_one_call_to_the_next(work: Workspace, body: str, attribute: str) -> None:
    message = f"'Vision.dummy_forward' keeps its input in '{attribute}' from one call to the next"
    assert messages(work, body) == [message]


@pytest.mark.parametrize(
    ("patch", "name"),
    [
        ("import torch\n@config.add_helper\ndef vision_dummy_forward(self):\n", "vision_dummy_forward"),
        (
            "import torch\n@config.replace_class('Vision')\nclass V:\n    def forward(self, x): ...\n"
            "    def dummy_forward(self):\n    ",
            "Vision.dummy_forward",
        ),
    ],
    ids=["helper", "replaced class"],
)
def test_wherever_it_is_declared(work: Workspace, patch: str, name: str) -> None:
    body = "return self(torch.zeros(4, dtype=self.dtype))"
    dtype, shape = sorted(messages(work, body, patch), reverse=True)
    assert (dtype, shape) == (
        f"'{name}' takes the dtype of its input from 'self.dtype'",
        f"'{name}' makes its input with the fixed size 4",
    )


def test_other_methods_are_none_of_its_business(work: Workspace) -> None:
    forward = PATCH.replace("Vision.dummy_forward", "Vision.forward").replace(
        "dummy_forward(self)", "forward(self, x)"
    )
    assert messages(work, "return torch.zeros(4, dtype=self.dtype)", forward) == []


def test_upstreams_own_is_upstreams(work: Workspace) -> None:
    work.upstream(f"{UPSTREAM}\n    def dummy_forward(self):\n        return self(torch.zeros(4, dtype=self.dtype))\n")
    work.config("")
    assert found(work, "PG219") == []


def test_finding_is_at_the_line_of_the_config(work: Workspace) -> None:
    messages(work, "x = 1\nreturn self(torch.zeros(4))")
    (problem,) = examine(work, select=["PG219"]).warnings
    assert str(problem.location).endswith("toy_gpu_patch_gen_config.py:12")


@pytest.mark.parametrize(
    ("body", "decorator"),
    [
        pytest.param("return self(torch.zeros(1)).detach() * 0", "", id="detached"),
        pytest.param("out = self(torch.zeros(1)).detach()\nreturn out.sum() * 0", "", id="in a variable"),
        pytest.param("with torch.no_grad():\n    out = self(torch.zeros(1))\nreturn out.sum()", "", id="a context"),
        pytest.param("return self(torch.zeros(1))", "@torch.inference_mode()\n", id="a decorator"),
        pytest.param("return self(torch.zeros(1)).sum().item() * 0", "", id="a number"),
    ],
)
def test_a_result_without_gradients_is_found(work: Workspace, body: str, decorator: str) -> None:
    patch = PATCH.replace("def dummy", f"{decorator}def dummy")
    found = messages(work, body, patch)
    assert found == ["'Vision.dummy_forward' cuts its result off from the parameters' gradients"]


def test_an_input_may_be_without_gradients(work: Workspace) -> None:
    body = "with torch.no_grad():\n    x = torch.zeros(1).detach() + torch.arange(1)\n"
    body += "out = self(x, grid=self.grid.data)\nreturn out.sum() * 0"
    assert messages(work, body) == []


TOWER = """
import torch
from torch import nn


class PatchEmbed(nn.Module):
    def __init__(self, config):
        self.proj = nn.Linear(config.rows, config.width)

    def forward(self, patches):
        {embed}


class Vision(nn.Module):
    def __init__(self, config):
        self.embed = PatchEmbed(config)

    def forward(self, x, grid=None):
        {forward}
"""
CAST = "return self.proj(patches.view(-1, 4).to(self.proj.weight.dtype))"
STORED = (
    "import torch\n\n@config.override_method('Vision.dummy_forward')\ndef dummy_forward(self):\n"
    "    self.dummy = torch.zeros(1, self.rows, dtype=self.dtype)\n    return self(self.dummy)\n"
)


@pytest.mark.parametrize(
    ("embed", "forward", "is_cast"),
    [
        pytest.param(CAST, "return self.embed(x)", True, id="in the patch embedding"),
        pytest.param(CAST, "x = self.embed(patches=x)\n        return x + self.embed.proj(x)", True, id="by keyword"),
        pytest.param("return patches", "x = x.type(self.embed.proj.weight.dtype)\n        return x", True, id="first"),
        pytest.param(CAST, "x = x.reshape(-1, 4)\n        return self.embed(x[:2])", False, id="a part of it"),
        pytest.param(CAST, "return self.embed(x) + x", False, id="used beside it"),
        pytest.param("return self.proj(patches)", "return self.embed(x)", False, id="not at all"),
        pytest.param("return self.proj(patches.to(grid.device))", "return self.embed(x)", False, id="a device"),
        pytest.param(CAST, "x = pad(x)\n        return self.embed(x)", False, id="through an unknown function"),
        pytest.param(
            CAST, "size = x.shape[0] if x is not None else 0\n        return self.embed(x)", True, id="sizes"
        ),
    ],
)
def test_dtype_is_of_no_matter_to_a_tower_that_casts_its_input(
    work: Workspace, embed: str, forward: str, is_cast: bool
) -> None:
    work.upstream(TOWER.format(embed=embed, forward=forward))
    work.config(STORED)
    assert len(found(work, "PG219")) == (0 if is_cast else 2)
