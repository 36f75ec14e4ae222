"""What patches do to upstream's text."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest

from patchgen_core.errors import PatchgenError
from tests.conftest import Workspace

UPSTREAM = '''
from torch import nn

from ...activations import ACT


class Norm(nn.Module):
    """A norm."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x  # upstream


def rotate(x, y):
    return x + y


class Head(Norm): ...
'''


@pytest.fixture(autouse=True)
def _upstream(work: Workspace) -> None:
    work.upstream(UPSTREAM)


def unmarked(text: str) -> str:
    """A generated text without the markers of its patches."""
    return re.sub(r"(?m)^ *# ={70}\n(?: *# .*\n)+? *# ={70}\n", "", text)


def run(text: str) -> dict[str, Any]:
    """The namespace of a generated module."""
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(compile(text, "generated.py", "exec"), namespace)
    return namespace


def test_no_patch_is_upstream_with_absolute_imports(work: Workspace) -> None:
    work.config("")
    assert work.raw() == UPSTREAM.replace("...activations", "acme.activations")


def test_replaced_class_takes_the_targets_name_everywhere(work: Workspace) -> None:
    work.config(
        '''
        # Why it is fast.
        @config.replace_class("Norm", description="Faster")
        class FastNorm:
            """Stands for FastNorm."""

            def forward(self, x):
                return super(FastNorm, self).forward(x)


        @config.replace_function("rotate")
        def fast_rotate(x, y):
            return FastNorm(x)
        '''
    )
    text = work.raw()
    assert "# [PATCHED CLASS] Norm\n# Reason: Faster\n" in text
    assert '# Why it is fast.\nclass Norm:\n    """Stands for FastNorm."""\n' in text
    assert "super(Norm, self).forward(x)" in text
    assert "def rotate(x, y):\n    return Norm(x)\n" in text


def test_added_method_opens_a_one_line_class(work: Workspace) -> None:
    work.config(
        """
        @config.override_method("Head.forward")
        def head_forward(self, x):
            return x * 2
        """
    )
    text = work.raw()
    assert "# Methods added: forward\n" in text
    assert "class Head(Norm):\n    def forward(self, x):\n        return x * 2\n" in text


# --- whole classes and functions -------------------------------------------------------------------


def test_replacement_brings_its_own_decorators_and_comments_and_upstreams_go(work: Workspace) -> None:
    work.upstream(
        """
        import torch

        # upstream's comment
        @old
        # between
        @older(
            1,
        )
        class Norm:
            # inside
            pass
            # at the end


        # not Norm's

        @old
        def rotate(x): return x  # tail
        z = 1
        """
    )
    work.config(
        """
        from lib import new

        # replaces Norm
        @new
        # between as well
        @config.replace_class("Norm")
        class FastNorm:
            pass
            # still inside

        # not FastNorm's

        @config.replace_function("rotate")
        @new(
            1,  # one
        )
        async def fast(x): return 1  # fast
        """
    )
    assert unmarked(work.raw()) == (
        "\nimport torch\n\n"
        "# replaces Norm\n# between as well\n@new\nclass Norm:\n    pass\n    # still inside\n\n\n"
        "# not Norm's\n\n"
        "@new(\n    1,  # one\n)\nasync def rotate(x): return 1  # fast\nz = 1\n"
    )


def test_replacement_stands_in_every_branch_that_defines_its_target(work: Workspace) -> None:
    work.upstream(
        """
        if FAST:
            class Norm:
                pass
        else:
            try:
                # old
                @deco
                class Norm: ...
            finally:
                z = 1
        """
    )
    work.config(
        '''
        @config.replace_class("Norm")
        class FastNorm:
            text = """
          kept
        """

            def forward(self):
                return 1
        '''
    )
    text = unmarked(work.raw())
    norm = 'class Norm:\n{0}    text = """\n  kept\n"""\n\n{0}    def forward(self):\n{0}        return 1\n'
    first, second = (f"{i}{norm.format(i)}" for i in ("    ", "        "))
    assert text == f"\nif FAST:\n{first}else:\n    try:\n{second}    finally:\n        z = 1\n"


def test_replacing_an_overloaded_function_leaves_one_definition(work: Workspace) -> None:
    work.upstream(
        """
        from typing import overload

        @overload
        def rotate(x: int) -> int: ...
        @overload
        def rotate(x: str) -> str: ...
        def rotate(x):
            return x
        """
    )
    work.config("@config.replace_function('rotate')\ndef fast(x):\n    return 2\n")
    text = work.raw()
    assert text.count("[PATCHED FUNCTION] rotate") == 1
    assert text.endswith("def rotate(x):\n    return 2\n")


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
    made = run(work.raw())["A"]()
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


# --- what the generated code does ------------------------------------------------------------------


def test_overridden_property_setter_works(work: Workspace) -> None:
    work.upstream(
        "class A:\n    @property\n    def f(self):\n        return self._f\n\n"
        "    @f.setter\n    def f(self, v):\n        self._f = v\n"
    )
    work.config(
        """
        @config.override_method("A.f.setter")
        def set_f(self, v):
            self._f = v * 2
        """
    )
    made = run(work.text())["A"]()
    made.f = 4
    assert made.f == 8


def test_zero_argument_super_works_in_every_kind_of_patch(work: Workspace) -> None:
    work.upstream(
        "class Base:\n    def f(self):\n        return 'base'\n\n\n"
        "class A(Base):\n    def f(self):\n        return 0\n\n\n"
        "class C(Base):\n    pass\n\n\nclass D(Base):\n    pass\n"
    )
    work.config(
        """
        @config.override_method("A.f")
        def f(self):
            return "a", super().f(), __class__.__name__

        @config.override_method("C.f", add=True)
        def g(self):
            return "c", super().f()

        class Base: ...

        @config.replace_class("D")
        class Fast(Base):
            def f(self):
                return "d", super(Fast, self).f(), super().f()
        """
    )
    made = run(work.text())
    assert made["A"]().f() == ("a", "base", "A")
    assert made["C"]().f() == ("c", "base")
    assert made["D"]().f() == ("d", "base", "base")


INIT = (
    "\n    def __init__(self, size, *, eps=1):\n        super().__init__()\n        self.size, self.eps = size, eps\n"
)
WRAPPED = """
        @config.modify_init("A")
        def wrapped(original_init, self, size, eps=2):
            original_init(self, size, eps=eps)
            self.extra = self.size * 10
"""


@pytest.mark.parametrize(
    ("upstream", "config"),
    [
        pytest.param(f"class A:{INIT}", WRAPPED, id="own"),
        pytest.param(f"class Base:{INIT}\n\nclass A(Base):\n    pass\n", WRAPPED, id="inherited"),
        pytest.param(f"class Base:{INIT}\n\nclass A(Base): ...\n", WRAPPED, id="inherited-one-line"),
        pytest.param(
            "import functools\n\n\ndef twice(f):\n    @functools.wraps(f)\n    def g(self, size, **k):\n"
            f"        f(self, size, **k)\n        self.size *= 1\n    return g\n\n\nclass A:{INIT}".replace(
                "\n    def __init__", "\n    @twice\n    def __init__"
            ),
            WRAPPED,
            id="decorated",
        ),
        pytest.param(
            f"class A:\n    if len('x'):{INIT}".replace("\n    def", "\n        def").replace(
                "\n        s", "\n            s"
            ),
            WRAPPED,
            id="in-a-branch",
        ),
        pytest.param(
            "def shared(self, size, *, eps=1):\n    self.size, self.eps = size, eps\n\n\n"
            "class A:\n    __init__ = shared\n",
            WRAPPED,
            id="assigned",
        ),
        pytest.param(
            f"class A:{INIT}",
            """
            @config.modify_init("A")
            def wrapped(run_upstream, this, size, *args, **kwargs):
                '''Calls run_upstream.'''
                def later(original_init=run_upstream):
                    (lambda: original_init(this, size, *args, eps=2, **kwargs))()
                later()
                this.extra = this.size * 10
            """,
            id="closure-and-other-names",
        ),
        pytest.param(
            f"class A:{INIT}",
            """
            @config.modify_init("A")
            def wrapped(original_init, self, /, size):
                original_init(self, size, eps=2)
                self.extra = self.size * 10
            """,
            id="positional-only",
        ),
    ],
)
def test_modified_init_runs_upstreams(work: Workspace, upstream: str, config: str) -> None:
    work.upstream(upstream)
    work.config(config)
    made = run(work.text())["A"](3)
    assert (made.size, made.eps, made.extra) == (3, 2, 30)


def test_modified_inits_of_a_class_and_its_subclass_each_run_once(work: Workspace) -> None:
    work.upstream(
        "class A:\n    def __init__(self, log):\n        log.append('A')\n\n\n"
        "class B(A):\n    def __init__(self, log):\n        super().__init__(log)\n        log.append('B')\n\n\n"
        "class C(B): ...\n"
    )
    work.config(
        """
        @config.modify_init("A")
        def a(original_init, self, log):
            original_init(self, log)
            log.append("a")

        @config.modify_init("B")
        def b(original_init, self, log):
            original_init(self, log)
            log.append("b")

        @config.modify_init("C")
        def c(original_init, self, log):
            log.append("c")
            original_init(self, log)
        """
    )
    log: list[str] = []
    run(work.text())["C"](log)
    assert log == ["c", "A", "a", "B", "b"]


def test_modified_init_shows_both(work: Workspace) -> None:
    work.config(
        '''
        # Why.
        @config.modify_init("Norm")
        def wrapped(original_init, self, size):
            # first
            original_init(self, size)  # upstream's
            text = """
        kept
        """
        '''
    )
    assert unmarked(work.raw()) == UPSTREAM.replace("...activations", "acme.activations").replace(
        "    def __init__(self, size):\n        super().__init__()\n        self.size = size\n",
        "    def _original_init(self, size):\n        super().__init__()\n        self.size = size\n\n"
        "    # Why.\n    def __init__(self, size):\n        # first\n"
        '        Norm._original_init(self, size)  # upstream\'s\n        text = """\nkept\n"""\n',
    )


def test_modified_init_loses_its_first_parameter_with_its_line(work: Workspace) -> None:
    """What stands below it moves, the strings as well."""
    work.upstream("class Norm:\n    def __init__(self): ...\n")
    work.config(
        '''
        @config.modify_init("Norm")
        def wrapped(
            original_init: object = None,  # upstream's
            # the layer
            self=None, size=1,
        ):
            original_init(self)
            text = f"""
        kept {size}
            """
            return text
        '''
    )
    assert work.raw().endswith(
        "    def __init__(\n        self=None, size=1,\n    ):\n        Norm._original_init(self)\n"
        '        text = f"""\nkept {size}\n    """\n        return text\n'
    )


@pytest.mark.parametrize(
    ("signature", "body", "message"),
    [
        ("original_init, self, x", "self.x = x", "never calls 'original_init'"),
        ("original_init", "original_init()", "must take original_init and self first"),
        ("original_init, self, x", "original_init = None; original_init(self, x)", "assigns its parameter"),
        ("original_init, self, x", "original_init(self, x); del original_init", "assigns its parameter"),
        (
            "original_init, self, x",
            "def g():\n        nonlocal original_init\n        original_init = x\n    original_init(self, g())",
            "assigns its parameter",
        ),
        ("original_init, self, x", "return [original_init for original_init in x]", "never calls 'original_init'"),
        ("original_init, self, Norm", "original_init(self, Norm)", "Norm"),
    ],
    ids=["unused", "no-self", "assigned", "deleted", "assigned-inside", "used-by-another-name", "class-hidden"],
)
def test_init_that_would_not_run_upstreams_is_an_error(
    work: Workspace, signature: str, body: str, message: str
) -> None:
    work.config(f"@config.modify_init('Norm')\ndef wrapped({signature}):\n    {body}\n")
    with pytest.raises(PatchgenError, match=message):
        work.raw()
