"""Added imports beside upstream's: the same object in two spellings is no clash, another one is."""

from __future__ import annotations

import pytest

from tests.conftest import Workspace

DEFINITION = "\n\ndef rotate(x):\n    return F.relu(x)\n"
MODULE = 'config.add_import("torch.nn.functional", alias="F", is_from_import=False)'
NAME = 'config.add_import("torch.nn", names=["functional"], alias="F")'
RENAMED = 'config.add_import("torch.nn", names=["functional as F"])'


@pytest.mark.parametrize("upstream", ["from torch.nn import functional as F", "import torch.nn.functional as F"])
@pytest.mark.parametrize("added", [MODULE, NAME, RENAMED, f"{MODULE}\n{NAME}"])
def test_one_object_in_two_spellings_is_imported_once(work: Workspace, upstream: str, added: str) -> None:
    work.upstream(upstream + DEFINITION)
    work.config(f"{added}\n")
    assert [line for line in work.text().splitlines() if "import" in line] == [upstream]


@pytest.mark.parametrize(
    ("upstream", "added", "imports"),
    [
        ("import numpy as np", 'config.add_import("numpy", alias="np")', ["import numpy as np"]),
        (
            "import torch.utils.checkpoint",
            'config.add_import("torch")',
            ["import torch", "import torch.utils.checkpoint"],
        ),
        (
            "import torch",
            'config.add_import("torch.utils.checkpoint")',
            ["import torch", "import torch.utils.checkpoint"],
        ),
        ("from os import path", 'config.add_import("os.path", alias="path")', ["from os import path"]),
    ],
    ids=["alias", "package", "submodule", "attribute"],
)
def test_modules_in_two_spellings(work: Workspace, upstream: str, added: str, imports: list[str]) -> None:
    used = {"np": "np.pi", "path": "path.sep"}.get(upstream.split()[-1], "torch.utils")
    work.upstream(f"{upstream}\n\n\ndef rotate(x):\n    return {used}\n")
    work.config(f"{added}\n")
    assert [line for line in work.text().splitlines() if "import" in line] == imports


@pytest.mark.parametrize(
    "added",
    [
        'config.add_import("torch.fft", alias="F", is_from_import=False)',
        'config.add_import("torch", names=["functional"], alias="F")',
        'config.add_import("torch.nn.functional", names=["F"])',
    ],
)
def test_another_object_of_the_name_is_a_clash(work: Workspace, added: str) -> None:
    work.upstream("from torch.nn import functional as F" + DEFINITION)
    work.config(f"{added}\n")
    assert "PG207 add_import: upstream imports 'F' from elsewhere" in work.errors()
