"""Methods are overridden, and added only on purpose."""

from __future__ import annotations

import ast
import re

import pytest

from patchgen_core.errors import PatchgenError
from tests.codegen.patching import unmarked
from tests.conftest import Workspace, execute

pytestmark = pytest.mark.usefixtures("toy_upstream")

# --- methods ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "target", "replacement", "expected"),
    [
        pytest.param(
            "    def f(self): return 1  # one\n    x = 1\n",
            "f",
            "def g(self):\n    return 2\n",
            "    def f(self):\n        return 2\n    x = 1\n",
            id="one-line",
        ),
        pytest.param(
            "    async def f(self):\n        return 1\n",
            "f",
            "async def g(self):\n    return 2\n",
            "    async def f(self):\n        return 2\n",
            id="async",
        ),
        pytest.param(
            "    @staticmethod\n    def f(x):\n        return 1\n\n    @classmethod\n    def h(cls): ...\n",
            "f",
            "@staticmethod\ndef g(x):\n    return 2\n",
            "    @staticmethod\n    def f(x):\n        return 2\n\n    @classmethod\n    def h(cls): ...\n",
            id="staticmethod",
        ),
        pytest.param(
            "    # above\n    @old\n    # between\n    @new(\n        1,\n    )\n    def f(self):\n        return 1\n"
            "        # tail\n\n    # next\n    x = 1\n",
            "f",
            "@new( 1 )\n@own\ndef g(self):\n    return 2\n    # own tail\n",
            "    # above\n    @old\n    # between\n    @new(\n        1,\n    )\n    @own\n    def f(self):\n"
            "        return 2\n        # own tail\n\n    # next\n    x = 1\n",
            id="decorators",
        ),
        pytest.param(
            "    # above\n    @old\n    # between\n    def f(self):\n        return 1\n",
            "f",
            "# why\n# so\n@own\ndef g(self):\n    return 2\n",
            "    @old\n    # between\n    @own\n    def f(self):\n        return 2\n",
            id="comments",
        ),
        pytest.param(
            "    class Inner:\n        def f(self):\n            return 0\n\n    def f(self):\n        return 1\n",
            "f",
            "def g(self):\n    return 2\n",
            "    class Inner:\n        def f(self):\n            return 0\n\n    def f(self):\n        return 2\n",
            id="nested-class",
        ),
        pytest.param(
            "    def h(self):\n        def f(self):\n            return 0\n\n",
            "f",
            "def g(self):\n    return 2\n",
            "    def h(self):\n        def f(self):\n            return 0\n\n    def f(self):\n        return 2\n\n",
            id="nested-function",
        ),
        pytest.param(
            "    if X:\n        def f(self): return 1\n    else:\n        @old\n        def f(self): ...\n",
            "f",
            "def g(self):\n    return 2\n",
            "    if X:\n        def f(self):\n            return 2\n    else:\n        @old\n        def f(self):\n"
            "            return 2\n",
            id="branches",
        ),
        pytest.param(
            "    @overload\n    def f(self, x: int): ...\n    @typing.overload\n    def f(self, x: str): ...\n"
            "    def f(self, x):\n        return 1\n",
            "f",
            "def g(self, x):\n    return 2\n",
            "    @overload\n    def f(self, x: int): ...\n    @typing.overload\n    def f(self, x: str): ...\n"
            "    def f(self, x):\n        return 2\n",
            id="overloads",
        ),
        pytest.param(
            "    @property\n    def f(self):\n        return 1\n    @f.setter\n    def f(self, v): ...\n",
            "f",
            "def g(self):\n    return 2\n",
            "    @property\n    def f(self):\n        return 2\n    @f.setter\n    def f(self, v): ...\n",
            id="getter",
        ),
        pytest.param(
            "    @property\n    def f(self):\n        return 1\n    @f.setter\n    def f(self, v): ...\n",
            "f.setter",
            "@property\ndef g(self): ...\n\n@g.setter\n@DECLARE\ndef g(self, v):\n    return 2\n",
            "    @property\n    def f(self):\n        return 1\n"
            "    @f.setter\n    def f(self, v):\n        return 2\n",
            id="setter",
        ),
        pytest.param(
            "    @property\n    def f(self):\n        return 1\n    @f.deleter\n    def f(self):\n        pass\n",
            "f.deleter",
            "def g(self):\n    return 2\n",
            "    @property\n    def f(self):\n        return 1\n    @f.deleter\n    def f(self):\n        return 2\n",
            id="deleter",
        ),
    ],
)
def test_overridden_method(work: Workspace, body: str, target: str, replacement: str, expected: str) -> None:
    work.upstream(f"class A(B):\n{body}")
    declare = f'config.override_method("A.{target}")'
    comments, rest = re.match(r"((?:#[^\n]*\n)*)(.*)", replacement, re.DOTALL).groups()  # type: ignore[union-attr]
    rest = rest.replace("DECLARE", declare) if "DECLARE" in rest else f"@{declare}\n{rest}"
    work.config(f"from lib import new, own\n\n\n{comments}{rest}")
    comments = "".join(f"    {line}\n" for line in comments.splitlines())
    assert unmarked(work.raw()) == f"class A(B):\n{comments}{expected}"


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        pytest.param("class A(B): ...\n", "class A(B):\n", id="ellipsis"),
        pytest.param("class A(B): pass  # why\n", "class A(B):  # why\n", id="pass"),
        pytest.param('class A(B): """Doc."""\n', 'class A(B):\n    """Doc."""\n\n', id="doc-on-line"),
        pytest.param("class A(B): x = 1; y = 2\n", "class A(B):\n    x = 1; y = 2\n\n", id="two-on-line"),
        pytest.param('class A(B):\n    """Doc."""\n', 'class A(B):\n    """Doc."""\n\n', id="doc"),
        pytest.param(
            'class A(B):\n    """Doc."""\n\n    pass\n', 'class A(B):\n    """Doc."""\n\n', id="doc-and-pass"
        ),
        pytest.param("class A(B):\n    # why\n    ...\n", "class A(B):\n    # why\n", id="comment"),
        pytest.param("class A(B):\n    pass; pass\n", "class A(B):\n", id="two-fillers"),
        pytest.param("class A(B):\n  x = 1\n  # tail\n", "class A(B):\n  x = 1\n  # tail\n\n", id="two-spaces"),
        pytest.param("class A(B): \\\n    pass\n", "class A(B):\n", id="backslash"),
        pytest.param('class A(B):\n    "Doc."; pass\n', 'class A(B):\n    "Doc."\n\n', id="doc-and-pass-on-line"),
    ],
)
def test_added_method_goes_to_the_end_of_the_class(work: Workspace, upstream: str, expected: str) -> None:
    work.upstream(f"{upstream}z = 1\n")
    work.config("@config.override_method('A.forward')\ndef g(self):\n    return 2\n")
    text = unmarked(work.raw())
    indent = "  " if "\n  x" in upstream else "    "
    assert text == f"{expected}{indent}def forward(self):\n{indent}    return 2\nz = 1\n"


def test_keep_decorators_false_leaves_the_replacements_own(work: Workspace) -> None:
    work.upstream("class A:\n    # above\n    @old\n    # between\n    @older\n    def f(self):\n        return 1\n")
    work.config(
        """
        from lib import own

        @config.override_method("A.f", keep_decorators=False)
        @own
        def g(self):
            return 2
        """
    )
    assert unmarked(work.raw()) == "class A:\n    # above\n    @own\n    def f(self):\n        return 2\n"


def test_setter_stays_a_setter_without_upstreams_decorators(work: Workspace) -> None:
    work.upstream(
        "class A:\n    @property\n    def f(self):\n        return self.v\n\n"
        "    @f.setter\n    @old\n    def f(self, v):\n        self.v = v\n"
    )
    work.config("@config.override_method('A.f.setter', keep_decorators=False)\ndef g(self, v):\n    self.v = v * 2\n")
    made = execute(work.raw())["A"]()
    made.f = 3
    assert made.f == 6


def test_method_of_one_branch_is_patched_there(work: Workspace) -> None:
    """A class that one branch defines with the method and the other without it."""
    work.upstream(
        "if X:\n    class A(B):\n        def f(self):\n            return 1\nelse:\n    class A(B):\n        x = 1\n"
    )
    work.config("@config.override_method('A.f')\ndef g(self):\n    return 2\n")
    assert unmarked(work.raw()) == (
        "if X:\n    class A(B):\n        def f(self):\n            return 2\nelse:\n    class A(B):\n        x = 1\n"
    )


def test_overriding_a_method_with_its_own_text_is_no_patch(work: Workspace) -> None:
    body = '''def forward(self, x, *, scale: "float" = 1.0, **kwargs):
    """Doc.

    Args:
        x: it.
    """
    # comment
    if x:
        text = """
  at two
"""
        return lambda y=x: (y, text,
            scale)
'''
    indented = body.replace("\n", "\n    ").replace("\n      at two\n    ", "\n  at two\n").rstrip(" ")
    work.upstream(f"class A:\n    @deco\n    {indented}")
    work.config("")
    unpatched = work.text()
    work.config(f"@config.override_method('A.forward')\n{body}")
    patched = work.text()
    assert ast.dump(ast.parse(patched)) == ast.dump(ast.parse(unpatched))


def test_markers_name_what_was_patched_and_why(work: Workspace) -> None:
    work.config(
        """
        @config.override_method("Norm.forward", description="Faster,\\n  much")
        def forward(self, x):
            return 2

        @config.override_method("Norm.extra_repr")
        def extra_repr(self):
            return ""

        @config.modify_init("Norm", description="one more")
        def init(original_init, self, size):
            original_init(self, size)
        """
    )
    rule = f"# {'=' * 70}\n"
    assert (
        f"{rule}# [MODIFIED CLASS] Norm\n# Methods patched: __init__, forward\n# Methods added: extra_repr\n"
        f"# Reason (__init__): one more\n# Reason (forward): Faster,\n#   much\n{rule}class Norm(nn.Module):\n"
    ) in work.raw()


def test_marker_stands_directly_above_its_class(work: Workspace) -> None:
    work.upstream(
        "import torch\nclass A:\n    def f(self):\n        return 1\nclass B:\n    def f(self):\n        return 1\n"
    )
    work.config(
        """
        config.add_import("lib", names=["x"])

        @config.add_helper_after("A")
        class C(object): ...

        @config.override_method("A.f")
        def a(self): return x

        @config.override_method("B.f")
        def b(self): return 2
        """
    )
    text = work.raw()
    rule = f"# {'=' * 70}\n"
    for name in "AB":
        assert f"{rule}# [MODIFIED CLASS] {name}\n# Methods patched: f\n{rule}class {name}:\n" in text
    assert text.index("class A:") < text.index("class C(object)") < text.index("[MODIFIED CLASS] B")


# --- adding is deliberate --------------------------------------------------------------------------


@pytest.mark.parametrize("slip", ["foward", "Forward", "forwrad", "extra_rep", "__int__"])
def test_a_method_name_that_looks_like_a_slip_is_an_error(work: Workspace, slip: str) -> None:
    work.config(f"@config.override_method('Norm.{slip}')\ndef g(self):\n    return 2\n")
    with pytest.raises(PatchgenError, match=rf"upstream class 'Norm' has no method '{slip}'"):
        work.raw()


def test_add_makes_a_look_alike_name_deliberate(work: Workspace) -> None:
    work.config("@config.override_method('Norm.forwards', add=True)\ndef g(self):\n    return 2\n")
    assert "# Methods added: forwards\n" in work.raw()


def test_one_method_under_two_spellings_is_patched_twice(work: Workspace) -> None:
    work.upstream("class A:\n    @property\n    def f(self):\n        return 1\n")
    work.config(
        """
        @config.override_method("A.f")
        def g(self): return 2

        @config.override_method("A.f.getter")
        def h(self): return 3
        """
    )
    with pytest.raises(PatchgenError, match="patched twice"):
        work.raw()


def test_a_method_is_patched_where_its_class_is_a_class(work: Workspace) -> None:
    function = "else:\n    def A(x):\n        def f(y): ...\n"
    work.upstream(f"if X:\n    class A(B):\n        def f(self):\n            return 1\n{function}")
    work.config("@config.override_method('A.f')\ndef g(self):\n    return 2\n")
    text = unmarked(work.raw())
    assert text == f"if X:\n    class A(B):\n        def f(self):\n            return 2\n{function}"
