"""Odd layouts of upstream's text survive, and additions come below its imports."""

from __future__ import annotations

import ast

import pytest

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.selection import Selection
from patchgen_core.config.loading import Loader
from patchgen_core.syntax.source import SourceCache
from tests.conftest import CONFIG, PREAMBLE, Workspace, execute

# --- layouts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("upstream", "config"),
    [
        ("class A:\n\tdef f(self):\n\t\tif self:\n\t\t\treturn 1\n", "def f(self):\n    if self:\n        return 2\n"),
        ("class A:\n    def f(self):\n        return 1\n", "def f(self):\n\tif self:\n\t\treturn 2\n"),
        ("class A:\n  def f(self):\n   return 1\n  x = 1\n", "def f(self):\n      if self:\n        return 2\n"),
        ("if 1:\n\tclass A: ...\n", "def f(self):\n    if self:\n        return 2\n"),
    ],
    ids=["tabs-upstream", "tabs-in-config", "two-spaces", "added-below-tabs"],
)
def test_any_indentation_works(work: Workspace, upstream: str, config: str) -> None:
    work.upstream(upstream)
    work.config(f"@config.override_method('A.f', add=True)\n{config}")
    assert execute(work.raw())["A"]().f() == 2
    assert execute(work.text())["A"]().f() == 2


TEXTS = '''
def f(self, x=1):
    a = """
  two
\ttab
    four
"""
    b = f"""{
  x
}
 {x:>3}
""".strip()
    c = "one\\
  two"
    d = ("e"
  "f"
        # comment
      """
g""")
    e = 1 + \\
  x
    f = [
1,
    ]
# at the margin
    g = rb"""
  \\x00"""
    return a, b, c, d, e, f, g
'''


@pytest.mark.parametrize(
    "guard", ["", "if TYPE_CHECKING:\n", "if True:\n    if True:\n"], ids=["top", "type-checking", "nested"]
)
@pytest.mark.parametrize(
    ("upstream", "target"),
    [
        ("class A:\n    def f(self): ...\n", "override_method('A.f')"),
        ("if 1:\n    class A:\n        class B: ...\n        def f(self): ...\n", "override_method('A.f')"),
        ("class A: ...\n", "override_method('A.f', add=True)"),
        ("if 1:\n    def f(self): ...\n", "replace_function('f')"),
    ],
    ids=["method", "deeper", "added", "function"],
)
def test_texts_keep_their_value_wherever_the_code_moves(
    work: Workspace, guard: str, upstream: str, target: str
) -> None:
    expected = execute(TEXTS)["f"](None)
    work.upstream(upstream)
    depth = "    " * guard.count("\n")
    work.config(f"from typing import TYPE_CHECKING\n\n{guard}{depth}@config.{target}\n{_indented(TEXTS, depth)}\n")
    made = execute(work.raw())
    assert (made["A"]().f() if "A" in made else made["f"](None)) == expected


def _indented(source: str, indent: str) -> str:
    """A source, indented where its lines do not start inside a text."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            inside.update(range(node.lineno + 1, (node.end_lineno or 0) + 1))
    lines = source.strip("\n").splitlines()
    return "\n".join(line if number in inside else indent + line for number, line in enumerate(lines, 2))


def test_docstring_of_a_moved_method_keeps_its_text(work: Workspace) -> None:
    work.upstream("class A:\n    def f(self): ...\n")
    work.config(
        '''
        @config.override_method("A.f")
        def f(self):
            """Doc.

            Args:
                x: it.
            """
        '''
    )
    method = next(node for node in ast.walk(ast.parse(work.raw())) if isinstance(node, ast.FunctionDef))
    assert ast.get_docstring(method, clean=False) == "Doc.\n\n    Args:\n        x: it.\n    "
    assert '        """Doc.\n\n        Args:\n            x: it.\n        """\n' in work.text()


def test_a_decorator_in_parentheses_is_one_decorator(work: Workspace) -> None:
    work.upstream("class A:\n    # above\n    @(\n        old\n    )\n    def f(self):\n        return 1\n")
    work.config(
        """
        from lib import new

        @config.override_method("A.f", keep_decorators=False)
        @(
            new
        )
        def f(self):
            return 2
        """
    )
    text = ast.unparse(ast.parse(work.raw()))
    assert text == "class A:\n\n    @new\n    def f(self):\n        return 2"


def test_comment_blocks_directly_above_come_along_and_others_do_not(work: Workspace) -> None:
    work.upstream("def f():\n    return 1\n\n\nclass A: ...\n")
    work.config(
        """
        # apart

        # =====
        #  Patch: f
        #
        # 1. why
        # =====
        @config.replace_function("f")
        # between
        @config.add_helper
        # last
        def g():
            # --- Patch.1 ---
            return 2
            # --- Patch.1 ---

        # below


        # of h
        def h(self): return 3

        config.override_method("A.forward", h)
        """
    )
    text = work.raw()
    above = "# =====\n#  Patch: f\n#\n# 1. why\n# =====\n# between\n# last\n"
    assert f"{above}def f():\n    # --- Patch.1 ---\n    return 2\n    # --- Patch.1 ---\n" in text
    assert f"{above}def g():\n" in text
    assert "class A:\n    # of h\n    def forward(self): return 3\n" in text
    assert "# apart" not in text
    assert "# below" not in text


# --- what goes below the imports -------------------------------------------------------------------


BELOW = """
config.add_import("lib", names=["one"])
config.add_post_import_block('''
    try:
        import two
    except ImportError:
        two = None
''')


@config.add_helper
def bare(): return one, two


@config.add_helper()
def called(): ...


def direct(): ...


config.add_helper(direct)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""Doc."""\nfrom __future__ import annotations\nimport a\n', "\n\nclass A: ...\n"),
        ("import a\n# why\nif TYPE_CHECKING:\n    from .b import B\nX = 1\nfrom c import d\n", "\n\nclass A: ...\n"),
        ("try:\n    import a\nexcept ImportError:\n    a = None\n", "\nX = 1\n"),
        ('"""Doc."""\n', "\n\nclass A: ...\n"),
        ("# licence\n\n", "# A\nclass A: ...\n"),
        (
            "import a\ntry:\n    from b import k\nexcept ImportError:\n    def k(): ...\nfrom torch import nn\n",
            "\n\nclass A(nn.Module): ...\n",
        ),
        ("import a\nX = a.x\nif X:\n    import b\nelse:\n    class b: ...\n", "\n\nclass A: ...\n"),
    ],
    ids=["future", "late-import", "try", "only-a-docstring", "nothing", "fallback-function", "fallback-class"],
)
def test_additions_go_below_the_imports(work: Workspace, before: str, after: str) -> None:
    work.upstream(before + after)
    work.config(BELOW)
    text = work.raw()
    start = before.replace("from .b", "from acme.models.toy.b")
    assert text.startswith(
        f"{start}from lib import one\n\ntry:\n    import two\nexcept ImportError:\n    two = None\n"
    )
    assert text.endswith(after)
    places = [text.index(f"def {name}()") for name in ("bare", "called", "direct")]
    assert places == sorted(places)
    ast.parse(text)


def test_added_future_import_is_the_first_statement(work: Workspace) -> None:
    work.upstream('"""Doc."""\nimport torch\n\nif TYPE_CHECKING:\n    from .x import T\n\nX: T = torch\n')
    work.config('config.add_import("__future__", names=["annotations"])\n')
    compile(work.text(), "generated.py", "exec")
    assert "from __future__ import annotations\n" in work.text()


def test_submodule_import_is_kept_beside_its_package(work: Workspace) -> None:
    """``import xml`` does not import ``xml.dom``."""
    work.upstream("import xml\n\n\ndef f():\n    return xml\n")
    work.config(
        """
        config.add_import("xml.dom")
        config.add_import("xml.sax", is_from_import=False)


        @config.replace_function("f")
        def g():
            return xml.dom, xml.sax
        """
    )
    text = work.text()
    assert "import xml.dom\n" in text
    assert "import xml.sax\n" in text


def test_an_import_that_upstream_has_is_not_added_again(work: Workspace) -> None:
    work.upstream("import torch\nfrom torch import nn\nfrom ...act import ACT as A\n\nX = torch, nn, A\n")
    work.config(
        """
        config.add_import("torch")
        config.add_import("torch", names=["nn", "Tensor"])
        config.add_import("acme.act", names=["ACT as A"])
        config.add_import("acme.act", names=["ACT"], alias="A")
        config.add_post_import_block("Y = Tensor")
        """
    )
    assert work.raw().count("import") == 4
    assert "from torch import Tensor\n" in work.raw()


def test_helpers_follow_their_target_in_every_branch_and_in_order(work: Workspace) -> None:
    work.upstream("if X:\n    class A: ...\n    y = 1\nelse:\n    class A:\n        pass\n        # in A\nz = A\n")
    work.config(
        """
        class A: ...


        @config.add_helper_after("A")
        class B(A):
            text = '''
        kept
        '''


        def c(): return B


        config.add_helper_after("A", c)
        """
    )
    text = work.raw()
    tree = ast.parse(text)
    branch = tree.body[0]
    assert isinstance(branch, ast.If)
    assert [ast.unparse(s).split("(")[0].split(":")[0] for s in branch.body] == [
        "class A",
        "class B",
        "def c",
        "y = 1",
    ]
    assert [ast.unparse(s).split("(")[0].split(":")[0] for s in branch.orelse] == ["class A", "class B", "def c"]
    assert text.count("'''\nkept\n'''") == 2
    assert text.endswith("z = A\n")


def test_a_config_in_another_folder_depth_generates_the_same(work: Workspace) -> None:
    work.upstream("class A:\n    def f(self): ...\n")
    body = "@config.override_method('A.f')\ndef f(self):\n    return 2\n"
    work.config(body)
    work.config(body, "deep/er/toy_gpu_patch_gen_config.py")
    assert work.raw() == work.raw("deep/er/toy_gpu_patch_gen_config.py")


def test_a_config_is_generated_from_a_text_that_is_on_no_disk(work: Workspace) -> None:
    work.upstream("class Norm:\n    def forward(self, x):\n        return x\n")
    path, sources = work.models / CONFIG, SourceCache()
    text = '@config.override_method("Norm.forward")\ndef norm_forward(self, x):\n    return x * 2\n'
    sources.put(path, f"{PREAMBLE}\n\n{text}")
    [outcome] = make_artifacts(Selection(work.project, [path]), loader=Loader(work.project, sources))
    assert outcome.artifact is not None, outcome.problems
    assert "return x * 2" in outcome.artifact.text
    assert not path.exists()
