"""Sources as they come: encodings, layouts and statements of every kind."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from patchgen_core.build.artifacts import make_artifacts
from patchgen_core.build.selection import Selection
from patchgen_core.config.loading import Loader
from patchgen_core.syntax.source import SourceCache
from tests.conftest import CONFIG, PREAMBLE, UPSTREAM, Workspace


def run(text: str) -> dict[str, Any]:
    """The namespace of a generated module."""
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(compile(text, "generated.py", "exec"), namespace)
    return namespace


# --- what is not patched ---------------------------------------------------------------------------

EVERYTHING = '''"""Doc: from .not_this import x."""
# -*- licence -*-

from __future__ import annotations

import os, sys as system
from . import x
from .. import (
    y,  # why
    z as zz,
)
from.act import ACT
from .import near
from ...top \\
    import A, \\
    B
from \\
    . \\
    .up import C
from .star import *

if TYPE_CHECKING:
    from .typed import T
elif x: from .one import liner
else:
    from ... import everything

X = 1; Y = 2
X += 1
Z: int
W: "from .w import w" = 2
with open(os.devnull) as f, open(os.devnull):
    from .w import inside
for i in range(3):
    pass
else:
    X = 4
while False:
    from .loop import l
else:
    pass
match X:
    case 1:
        from .m import q
    case _:
        pass
del i
global g
assert X, "from . import x"
print(X)
lambda: 0
if (n := 1): ...
raise_ = [k for k in X if k]
try:
    from .t import u
except (ImportError, ValueError) as e:
    from .t import v
except Exception:
    u = v = None
else:
    from .t import w
finally:
    from .t import v as vv


@deco
# between
@other(
    1,
)
class K(
    Base,
    metaclass=Meta,
):
    from .k import k

    attr: int = 1  # tail

    @property
    def f(self):
        from ....deep import d

        async def g():
            async with x as y:
                from . import h
            await x
        return """
from .text import x
"""  # from .comment import x


async def main(): from .late import z; return z
# the end
'''


def absolute(tree: ast.Module, package: str) -> ast.Module:
    """The tree with absolute imports, as Python resolves them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
            node.module, node.level = f"{base}.{node.module}" if node.module else base, 0
    return tree


def test_statements_of_every_kind_stay_in_their_order(work: Workspace) -> None:
    module = "acme.big.models.toy.modeling_toy"
    work.upstream(EVERYTHING, module)
    work.config("", preamble=PREAMBLE.replace(UPSTREAM, module))
    text = work.raw()
    expected = absolute(ast.parse(EVERYTHING), "acme.big.models.toy")
    assert ast.dump(ast.parse(text)) == ast.dump(expected)
    comments = [line.split("#")[1] for line in EVERYTHING.splitlines() if "#" in line]
    assert [line.split("#")[1] for line in text.splitlines() if "#" in line] == comments
    assert "from acme.big.models import (\n    y,  # why\n    z as zz,\n)\n" in text


def test_relative_import_out_of_the_package_is_an_error(work: Workspace) -> None:
    work.upstream("def f():\n    from .....far import x\n")
    work.config("")
    assert "modeling_toy.py:2: relative import .....far leads out of package 'acme.models.toy'" in work.errors()


def test_relative_imports_of_a_package_start_from_itself(work: Workspace) -> None:
    path = work.upstream("", "acme.models.toy.pack.inner")
    (path.parent / "__init__.py").write_text("from . import a\nfrom .b import c\nfrom .. import d\n")
    work.config("", preamble=PREAMBLE.replace(UPSTREAM, "acme.models.toy.pack"))
    assert work.raw() == (
        "from acme.models.toy.pack import a\nfrom acme.models.toy.pack.b import c\nfrom acme.models.toy import d\n"
    )


def test_an_empty_upstream_takes_helpers(work: Workspace) -> None:
    work.upstream("")
    work.config("@config.add_helper\ndef f():\n    return 1\n")
    assert run(work.raw())["f"]() == 1


# --- encodings and newlines ------------------------------------------------------------------------

PLAIN = (
    '"""Dóc."""\nfrom .x import é, b; ü = "ß"; c = 1\n\n\n'
    'class A:\n    ö = "日本"; z = """a\n  b"""\n\n    def f(self): return "ä"  # ü\n'
)


@pytest.mark.parametrize(
    "encoded",
    [
        pytest.param(PLAIN.encode(), id="plain"),
        pytest.param(PLAIN.replace("\n", "\r\n").encode(), id="crlf"),
        pytest.param(PLAIN.replace("\n", "\r").encode(), id="cr"),
        pytest.param(b"\xef\xbb\xbf" + PLAIN.encode(), id="bom"),
        pytest.param(b"\xef\xbb\xbf" + PLAIN.replace("\n", "\r\n").encode(), id="bom-crlf"),
        pytest.param(PLAIN.rstrip("\n").encode(), id="no-newline-at-the-end"),
    ],
)
def test_bytes_on_disk_do_not_change_the_result(work: Workspace, encoded: bytes) -> None:
    path = work.upstream(PLAIN)
    config = work.config(
        """
        config.drop_import_names("é")
        config.exclude_from_output("c")


        @config.override_method("A.f")
        def f(self):
            return "ö", '''x
          y'''  # ñ
        """
    )
    expected = work.raw()
    assert 'from acme.models.toy.x import b; ü = "ß"\n' in expected
    assert "    def f(self):\n        return \"ö\", '''x\n  y'''  # ñ\n" in expected
    path.write_bytes(encoded)
    assert work.raw() == expected
    newline = b"\r\n" if b"\r\n" in encoded else b"\r" if b"\r" in encoded else b"\n"
    config.write_bytes(
        (b"\xef\xbb\xbf" if encoded.startswith(b"\xef") else b"") + config.read_bytes().replace(b"\n", newline)
    )
    assert work.raw() == expected


def test_encoding_cookie_is_honoured_and_its_text_survives(work: Workspace) -> None:
    path = work.upstream("")
    path.write_bytes('# -*- coding: latin-1 -*-\nname = "é"\n\n\nclass A:\n    text = "ü"\n'.encode("latin-1"))
    work.config("@config.override_method('A.f', add=True)\ndef f(self):\n    return name + self.text\n")
    outcome = work.outcome()
    assert outcome.artifact is not None
    namespace: dict[str, Any] = {}
    exec(compile(outcome.artifact.text.encode(), "generated.py", "exec"), namespace)
    assert namespace["A"]().f() == "éü"


def test_form_feeds_and_odd_line_separators_are_no_newlines(work: Workspace) -> None:
    work.upstream('import x\n\x0c\nTEXT = "a\u2028b\x85c\x1cd"\n\x0cclass A:\n    def f(self):\n        return TEXT\n')
    work.config("@config.override_method('A.f')\ndef f(self):\n    return TEXT, '\u2028'\n")
    text = work.raw().replace("import x\n", "")
    assert run(text)["A"]().f() == ("a\u2028b\x85c\x1cd", "\u2028")


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
    assert run(work.raw())["A"]().f() == 2
    assert run(work.text())["A"]().f() == 2


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
    expected = run(TEXTS)["f"](None)
    work.upstream(upstream)
    depth = "    " * guard.count("\n")
    work.config(f"from typing import TYPE_CHECKING\n\n{guard}{depth}@config.{target}\n{_indented(TEXTS, depth)}\n")
    made = run(work.raw())
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
