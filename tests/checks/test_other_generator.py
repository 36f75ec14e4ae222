"""Checked-in modules that another generator made: what differs in code, and what only in its looks."""

from __future__ import annotations

import pytest

from patchgen_core.checks.checked_in.compare import fix
from patchgen_core.checks.checked_in.other_generator import compare_modules
from tests.conftest import UPSTREAM_TEXT, Workspace, generated

RULE = f"# {'=' * 78}"
HEADER = f"""{RULE}
#  AUTO-GENERATED FILE - DO NOT EDIT DIRECTLY
{RULE}
#
#  Source: acme.models.toy.modeling_toy
#  Based on: acme==1.0
#
#  Patches applied:
#    - method_override: Norm.forward
#
{RULE}

"""
LOOKS = "comments, annotations, layout and order"


@pytest.fixture
def moved(gated: Workspace) -> Workspace:
    """A project whose module has the right code, written by another generator."""
    path = generated(gated)
    _, _, rest = path.read_text().split(f"{RULE}\n", 3)[1:]
    path.write_text(HEADER + rest.replace("# [MODIFIED CLASS]", "# PATCHED CLASS"))
    return gated


def cause(work: Workspace) -> str:
    (result,) = work.check().results
    return " | ".join(map(str, result.causes))


def test_the_same_code_of_another_generator_is_told_and_shown_as_that(moved: Workspace) -> None:
    assert cause(moved) == f"made by another generator: regenerate once; only {LOOKS} differ"
    (result,) = moved.check().results
    assert [(file.path.suffix, file.telling_diff) for file in result.files] == [(".py", "")]
    assert "PATCHED CLASS" in result.files[0].diff


def test_what_differs_in_code_is_named_and_shown_alone(moved: Workspace) -> None:
    path = generated(moved)
    text = path.read_text().replace("return x * 2", "return 2 * x") + "\n\ndef extra():\n    return 1\n"
    path.write_text(text.replace("\n\n\nclass", "\n\nimport math\n\n\nclass", 1))
    changes = "Norm.forward changed; extra removed; `import math` removed"
    assert cause(moved) == f"made by another generator: regenerate once; {changes}; the rest is {LOOKS}"
    diff = moved.check().results[0].files[0].telling_diff
    lines = [line for line in diff.splitlines()[2:] if line[:1] in "+-"]
    assert lines == [
        "-import math",
        "-        return 2 * x",
        "+        return x * 2",
        "-",
        "-def extra():",
        "-    return 1",
    ]


def test_an_older_base_is_said(moved: Workspace) -> None:
    moved.upstream(UPSTREAM_TEXT, version="1.1")
    base = "it is based on acme 1.0, and 1.1 is there now"
    assert cause(moved) == f"made by another generator: regenerate once; {base}; only {LOOKS} differ"


def test_what_is_no_python_is_said(moved: Workspace) -> None:
    generated(moved).write_text(HEADER + "def broken(:\n")
    assert cause(moved) == "made by another generator: regenerate once; it is not valid Python"


def test_one_fix_moves_it_over(moved: Workspace) -> None:
    (result,) = fix(moved.check()).results
    assert (result.status, [cause.kind for cause in result.causes]) == ("fixed", ["made by another generator"])
    assert moved.check().results[0].status == "clean"
    path = generated(moved)
    path.write_text(path.read_text().replace("return x * 2", "return x * 3"))
    assert cause(moved) == "edited by hand: Norm.forward changed"


@pytest.mark.parametrize("line", ["#  Fingerprint: ", "#  Config: "])
def test_a_header_of_this_generator_that_was_edited_is_an_edit(gated: Workspace, line: str) -> None:
    path = generated(gated)
    path.write_text(path.read_text().replace(line, "#  Something: "))
    assert "edited by hand" in cause(gated)


NEW = '''"""A module."""

import math
from torch import nn

__all__ = ["Second", "Head"]


class Second:
    size: int = 1

    def forward(self, x: "int | None") -> int:
        """Adds one."""
        return x + 1


class Head(nn.Module):
    pass
'''
SAME = {
    "nothing": ("", ""),
    "an import in other words": ("from torch import nn", "import torch.nn as nn"),
    "the order of names": ('"Second", "Head"', '"Head", "Second"'),
    "an annotation": ('"int | None"', "Optional[int]"),
    "a docstring": ('"""Adds one."""', '"""Adds 1."""'),
    "layout": ("return x + 1", "return (\n            x + 1  # one\n        )"),
}


@pytest.mark.parametrize("case", SAME)
def test_what_is_the_same_code(case: str) -> None:
    difference = compare_modules(NEW.replace(*SAME[case]), NEW)
    assert difference is not None
    assert not difference
    assert difference.aligned == NEW


def test_a_relative_import_is_the_absolute_one() -> None:
    new = "from acme.models.plan import plan\n\n\ndef get():\n    from acme.models.toy.plan import plan\n"
    old = "from ...plan import plan\n\n\ndef get():\n    from ..plan import plan\n"
    assert not compare_modules(old, new, "acme.models.toy.generated")
    assert str(compare_modules(old, new, "acme.models.cat.generated")) == "get changed"


OTHER = {
    "a name of __all__": ('["Second", "Head"]', '["Second"]'),
    "an import": ("import math\n", ""),
    "a name of an import": ("from torch import nn", "from torch import jit, nn"),
    "a method": ("        return x + 1", "        return x + 2"),
    "a method more": ("class Head", "    def backward(self):\n        pass\n\n\nclass Head"),
    "a method less": ("\n    def forward", "\n    def backward"),
    "an attribute": ("size: int = 1", "size: int = 2"),
    "a base": ("Head(nn.Module)", "Head"),
    "a class less": ("class Head", "class Tail"),
}


@pytest.mark.parametrize("case", OTHER)
def test_what_is_other_code(case: str) -> None:
    old = NEW.replace(*OTHER[case])
    difference = compare_modules(old, NEW)
    assert difference is not None
    assert difference
    assert difference.aligned != NEW
    back = compare_modules(old, difference.aligned)  # the text shown before has the code of the old one
    assert not back, str(back)
