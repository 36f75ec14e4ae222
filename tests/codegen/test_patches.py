"""What patches do to upstream's text."""

from __future__ import annotations

import pytest

from patchgen_core.errors import PatchgenError
from tests.codegen.patching import UPSTREAM, unmarked
from tests.conftest import Workspace, execute

pytestmark = pytest.mark.usefixtures("toy_upstream")


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
    made = execute(work.text())["A"]()
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
    made = execute(work.text())
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
    made = execute(work.text())["A"](3)
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
    execute(work.text())["C"](log)
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
