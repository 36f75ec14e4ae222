"""Sources as they come: encodings, layouts and statements of every kind."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from tests.conftest import PREAMBLE, UPSTREAM, Workspace, execute

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
    assert execute(work.raw())["f"]() == 1


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
    assert execute(text)["A"]().f() == ("a\u2028b\x85c\x1cd", "\u2028")
