"""What the generated module imports from the project's own packages (PG225)."""

from __future__ import annotations

import pytest

from tests.conftest import PREAMBLE, Workspace
from tests.contract.support import examine, found

UPSTREAM = "class Norm:\n    def forward(self, x):\n        return x\n"
FILES = {
    "proj/__init__.py": "",
    "proj/models/__init__.py": "",
    "proj/ops/__init__.py": "from .norm import fused_norm as fast_norm\nfrom .lists import *\nVERSION: str = '1'\n",
    "proj/ops/norm.py": "def fused_norm(x):\n    return x\n\n\nfor size in (1, 2):\n    pass\n",
    "proj/ops/lists.py": "__all__ = ['listed']\nlisted, hidden = 1, 2\n",
    "proj/ops/stars.py": "from .norm import *\nfrom .lists import *\n",
    "proj/ops/outside.py": "from torch import *\n",
    "proj/ops/open.py": "def __getattr__(name):\n    return name\n",
    "proj/ops/filled.py": "for name in ('a', 'b'):\n    globals()[name] = 1\n",
    "proj/ops/table.py": "def start():\n    global table\n    table = {}\n",
    "proj/ops/inner/deep.py": "x = 1\n",
    "proj/ops/fast.cpython-311.so": "",
    "proj/lazy/__init__.py": "import sys\nsys.modules[__name__] = object()\n",
    "proj/wide/__init__.py": "__path__ = ['/elsewhere']\n",
    "proj/broken.py": "def (\n",
}


@pytest.fixture(autouse=True)
def _project(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    for path, text in FILES.items():
        work.write(path, text)


def using(text: str) -> str:
    """Statements in which each import is used, so that ruff leaves it there."""
    lines = []
    for line in text.splitlines():
        imported = line.strip().partition("import ")[2] if line.strip().startswith(("from ", "import ")) else ""
        names = [entry.split(" as ")[-1].strip() for entry in imported.split(",") if entry]
        lines.append(f"{line}; print({', '.join(names)})" if names else line)
    return "\n".join(lines)


def messages(work: Workspace, *lines: str) -> list[str]:
    """What the rule says of a forward that begins with these lines."""
    body = "".join(f"    {using(line)}\n" for line in lines)
    work.config(f"@config.override_method('Norm.forward')\ndef forward(self, x):\n{body}    return x\n")
    return [message.partition(" ")[2] for message in found(work, "PG225")]


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("from proj.ops.norms import fused_norm", "imports 'proj.ops.norms', but there is no 'proj.ops.norms'"),
        ("from proj.op.norm import fused_norm", "imports 'proj.op.norm', but there is no 'proj.op'"),
        ("from proj.ops.norm.fused import x", "imports 'proj.ops.norm.fused', but there is no 'proj.ops.norm.fused'"),
        ("import proj.ops.norms as other", "imports 'proj.ops.norms', but there is no 'proj.ops.norms'"),
        ("from proj.ops import norms", "imports 'norms' from 'proj.ops', which has no such name"),
        ("from proj.ops.norm import fast", "imports 'fast' from 'proj.ops.norm', which has no such name"),
        ("from proj.ops.stars import hidden", "imports 'hidden' from 'proj.ops.stars', which has no such name"),
        ("if x:\n        from proj.ops import norms", "imports 'norms' from 'proj.ops', which has no such name"),
        (
            "def inner():\n        with x:\n            from proj.ops import norms",
            "imports 'norms' from 'proj.ops', which has no such name",
        ),
        (
            "try:\n        from proj.ops import norms\n    except ValueError:\n        pass",
            "imports 'norms' from 'proj.ops', which has no such name",
        ),
    ],
)
def test_what_is_not_there_is_found_at_any_depth(work: Workspace, line: str, missing: str) -> None:
    assert messages(work, line) == [f"'Norm.forward' {missing}"]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("from proj.ops.norm import fused_norm", id="a function"),
        pytest.param("from proj.ops.norm import fused_norm as other, size", id="names of any statement"),
        pytest.param("from proj.ops import fast_norm, norm, VERSION, inner", id="names and submodules"),
        pytest.param("import proj.ops.inner.deep, proj.ops", id="a namespace package"),
        pytest.param("from proj.ops.inner.other import x", id="what another distribution may have there"),
        pytest.param("from proj.ops import listed", id="through a star"),
        pytest.param("from proj.ops.stars import fused_norm, listed, size", id="through stars"),
        pytest.param("from proj.ops.outside import Tensor", id="through a star of another package"),
        pytest.param("from proj.ops.open import anything", id="__getattr__"),
        pytest.param("from proj.ops.filled import a", id="globals()"),
        pytest.param("from proj.ops.table import table", id="bound by a function"),
        pytest.param("from proj.ops.fast import kernel", id="an extension module"),
        pytest.param("from proj.ops import fast", id="an extension module by name"),
        pytest.param("from proj.lazy import anything", id="a module that takes its own place"),
        pytest.param("from proj.wide.anything import x", id="a package with another path"),
        pytest.param("from proj.broken import x", id="what cannot be read"),
        pytest.param("from proj.ops.norm import __name__", id="what every module has"),
        pytest.param("from elsewhere.ops import x", id="another package"),
        pytest.param(
            "try:\n        from proj.ops import norms\n    except ImportError:\n        norms = None", id="may fail"
        ),
    ],
)
def test_what_is_there_or_may_be_is_not(work: Workspace, line: str) -> None:
    assert messages(work, line) == []


def test_import_for_type_checkers_is_left_out(work: Workspace) -> None:
    block = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from proj.ops import norms\n"
    work.config(f"config.add_post_import_block({block!r})\n")
    assert found(work, "PG225") == []


def test_import_of_the_module_is_found_at_what_adds_it(work: Workspace) -> None:
    work.config(
        """
        config.add_import("proj.ops.norm", names=["fused_norm", "fussed_norm"])

        @config.override_method("Norm.forward")
        def forward(self, x):
            return fused_norm(fussed_norm(x))
        """
    )
    (problem,) = examine(work, select=["PG225"]).errors
    assert problem.message == "the module imports 'fussed_norm' from 'proj.ops.norm', which has no such name"
    assert problem.hint == "Did you mean 'fused_norm'?"
    assert problem.location is not None
    assert problem.location.line == PREAMBLE.count("\n") + 2


def test_nearest_module_is_named(work: Workspace) -> None:
    work.config(
        "@config.override_method('Norm.forward')\ndef f(self, x):\n    import proj.ops.nrom\n    return proj\n"
    )
    (problem,) = examine(work, select=["PG225"]).errors
    assert problem.hint == "Did you mean 'norm'?"
    assert problem.location is not None
    assert problem.location.line == PREAMBLE.count("\n") + 3


def test_package_that_is_no_regular_one_says_nothing(work: Workspace) -> None:
    (work.root / "proj/__init__.py").unlink()
    assert messages(work, "from proj.other.norm import fused_norm") == []
