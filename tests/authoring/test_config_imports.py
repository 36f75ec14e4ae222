"""The imports of a config's file follow the text of its replacements."""

from __future__ import annotations

import textwrap
from pathlib import Path

import libcst as cst
import pytest

from patchgen_core.authoring.edits.imports import add_imports
from patchgen_core.authoring.edits.needed_imports import missing_imports, needed_names
from patchgen_core.authoring.edits.unused_imports import remove_unused_imports
from patchgen_core.syntax.source import parse_source
from patchgen_core.upstream.module import UpstreamModule
from tests.conftest import CONFIG, Workspace
from tests.upgrade.upgraded import Upgrading

MODULE = "transformers.models.toy.modeling_toy"
NEW = """
import torch.nn as nn
from torch.nn import functional as F
from ...utils import can_return_tuple, logging
from .configuration_toy import ToyConfig

if is_flex_available():
    from torch.nn.attention import BlockMask

logger = logging.get_logger(__name__)


def limit(x):
    return x


class ToyNorm(nn.Module):
    pass
"""


def missing(text: str, file: str) -> tuple[str, ...]:
    """What a file lacks for a definition."""
    upstream = UpstreamModule(MODULE, Path("modeling_toy.py"), "transformers", "5.0")
    return missing_imports(
        textwrap.dedent(text),
        parse_source(Path("f.py"), textwrap.dedent(file)),
        parse_source(Path("m.py"), NEW),
        upstream,
    )


def added(text: str, *needs: str, early: tuple[str, ...] = ()) -> str:
    """A file with imports added."""
    return add_imports(cst.parse_module(textwrap.dedent(text).lstrip("\n")), needs, early).code


def removed(text: str, *names: str, elsewhere: tuple[str, ...] = ()) -> str:
    """A file without imports that are no longer needed."""
    module = cst.parse_module(textwrap.dedent(text).lstrip("\n"))
    return remove_unused_imports(module, names, elsewhere.__contains__).code


class TestMissing:
    """What a text needs of its file."""

    def test_names_that_upstream_imports_or_defines(self) -> None:
        text = """
        @can_return_tuple
        def forward(self, x: "ToyConfig | None" = None, mask: BlockMask = None):
            logger.info(limit(x))
            return F.relu(nn.functional.relu(x)) + len(x) + sum(y for y in x)
        """
        assert missing(text, "") == (
            "from torch.nn.attention import BlockMask",
            "from torch.nn import functional as F",
            f"from {MODULE.rpartition('.')[0]}.configuration_toy import ToyConfig",
            "from transformers.utils import can_return_tuple",
            f"from {MODULE} import limit",
            f"from {MODULE} import logger",
            "import torch.nn as nn",
        )

    def test_not_what_the_file_binds_or_nobody_knows(self) -> None:
        file = """
        from typing import TYPE_CHECKING
        from other import limit
        if TYPE_CHECKING:
            from other import ToyConfig
        logger = None
        """
        assert missing("def f(x: ToyConfig):\n    return limit(logger, x, unknown)", file) == ()

    def test_not_what_the_file_leaves_to_the_generated_module(self) -> None:
        file = "def f(x):\n    return limit(x)"
        assert missing("def f(x):\n    return limit(x) + limit(x)", file) == ()
        assert missing("@limit\ndef f(x):\n    return limit(x)", file) == (f"from {MODULE} import limit",)

    def test_not_names_of_the_text_itself(self) -> None:
        assert missing("class ToyNorm:\n    nn = 1\n    def f(self, F):\n        return ToyNorm(F)", "") == ()


class TestAdding:
    """Where an import goes."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("from a.b import c\n", "from a.b import c, d\n"),
            ("from a.b import e  # why\n", "from a.b import d, e  # why\n"),
            ("from a.b import (\n    c,\n    e,\n)\n", "from a.b import (\n    c,\n    d,\n    e,\n)\n"),
            (
                "from a.b import (\n    e,  # e\n    c  # c\n)\n",
                "from a.b import (\n    e,  # e\n    c,  # c\n    d,\n)\n",
            ),
            ("from a.b import (c,\n    e)\n", "from a.b import c, d, e\n"),
            ("from a.b import (\n    e, f,  # e\n)\n", "from a.b import (\n    d,\n    e, f,  # e\n)\n"),
            ("from a.b import Z, c\n", "from a.b import Z, c, d\n"),
            ("from a.b import \\\n    c\n", "from a.b import \\\n    c\nfrom a.b import d\n"),
            ("import a; from a.b import c\n", "import a; from a.b import c\nfrom a.b import d\n"),
            ("from a.b import *\n", "from a.b import *\nfrom a.b import d\n"),
            (
                "import os\nfrom a.a import x\nfrom a.c import y\n",
                "import os\nfrom a.a import x\nfrom a.b import d\nfrom a.c import y\n",
            ),
            ("import os\n\nx = 1\n", "import os\nfrom a.b import d\n\nx = 1\n"),
            ('"""Text."""\n\nx = 1\n', '"""Text."""\n\nfrom a.b import d\n\nx = 1\n'),
            ("x = 1\n", "from a.b import d\n\nx = 1\n"),
        ],
    )
    def test_in_the_layout_and_order_that_is_there(self, text: str, expected: str) -> None:
        assert added(text, "from a.b import d") == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (
                "import re\nfrom typing import Any\n\nimport a\n",
                "import os\nimport re\nfrom typing import Any\n\nimport a\n",
            ),
            (
                "import copy\nfrom typing import Any\n\nimport a\n",
                "import copy\nimport os\nfrom typing import Any\n\nimport a\n",
            ),
            ("import re\nimport copy\n\nimport a\n", "import re\nimport copy\nimport os\n\nimport a\n"),
            ('"""Text."""\n\nimport a\n', '"""Text."""\n\nimport os\n\nimport a\n'),
            ("from __future__ import x\n\nimport a\n", "from __future__ import x\n\nimport os\n\nimport a\n"),
            ("from __future__ import x\n", "from __future__ import x\nimport os\n"),
        ],
    )
    def test_the_standard_library_among_its_own(self, text: str, expected: str) -> None:
        assert added(text, "import os") == expected

    def test_a_line_that_would_be_too_long_is_broken(self) -> None:
        names = [f"name_number_{number}" for number in range(5)]
        line = f"from a.b import {', '.join(names)}\n"
        expected = "\n".join(["from a.b import (", *(f"    {name}," for name in sorted([*names, "other"])), ")\n"])
        assert added(line, "from a.b import other") == expected

    def test_several_names_and_modules(self) -> None:
        needs = ["from a.b import B", "from a.b import a as z", "import math", "import numpy as np"]
        expected = "import os\nimport math\nfrom a.b import B, a as z\nimport numpy as np\n"
        assert sorted(added("import os\n", *needs).splitlines()) == sorted(expected.splitlines())

    def test_models_that_are_imported_for_types_only(self) -> None:
        text = f"""
        from typing import TYPE_CHECKING

        from transformers.utils import logging

        if TYPE_CHECKING:
            from {MODULE} import ToyModel
        """
        typed = added(text, f"from {MODULE} import ToyNorm", "from transformers.utils import other")
        assert f"\nif TYPE_CHECKING:\n    from {MODULE} import ToyModel, ToyNorm\n" in typed
        assert "\nfrom transformers.utils import logging, other\n" in typed
        early = added(text, f"from {MODULE} import limit", early=("limit",))
        assert f"\nfrom {MODULE} import limit\nfrom transformers.utils import logging\n" in early


class TestRemoving:
    """Which imports go."""

    def test_names_that_occur_nowhere_else(self) -> None:
        text = """
        import os
        import re, math
        from a import x
        from b import (
            y,
            z,
        )
        from c import p, q

        TEXT = "re"
        """
        expected = """
        import os
        import re
        from b import (
            z,
        )
        from c import q

        TEXT = "re"
        """
        assert removed(text, "re", "math", "x", "y", "p") == textwrap.dedent(expected).lstrip("\n")

    @pytest.mark.parametrize(
        "text",
        [
            'from a import x\n__all__ = ["x"]\n',
            "from a import x  # noqa: F401\n",
            "from a import x as x\n",
            "from a import x\n# see x\n",
            "import os; from a import x\n",
            "try:\n    from a import x\nexcept ImportError:\n    pass\n",
            "if TYPE_CHECKING:\n    from a import x\n",
            "from a import *\n",
        ],
    )
    def test_others_stay(self, text: str) -> None:
        assert removed(text, "x") == text

    def test_comments_stay_and_one_of_two_empty_lines_goes(self) -> None:
        text = "import os\n\n# as agreed\nfrom a import x\n\nfrom b import z\nfrom c import y\n\nw = 1\n"
        assert removed(text, "x", "y") == "import os\n\n# as agreed\n\nfrom b import z\n\nw = 1\n"
        assert removed("import os\n\nimport re\n\nw = 1\n", "re") == "import os\n\nw = 1\n"

    def test_a_name_on_the_last_line_of_several(self) -> None:
        text = "from a import (\n    x,  # x\n    y,\n)\n"
        assert removed(text, "y") == "from a import (\n    x,  # x\n)\n"
        assert removed(text.replace("y,", "y"), "y") == "from a import (\n    x,  # x\n)\n"
        assert removed("from a import (x,\n    y)\n", "y") == "from a import x\n"

    def test_a_block_for_types_keeps_a_statement(self) -> None:
        text = "if TYPE_CHECKING:\n    from a import x\n    # of b\n    from b import y\n"
        assert removed(text, "y") == "if TYPE_CHECKING:\n    from a import x\n    # of b\n"
        assert removed(text, "x", "y") == text

    def test_what_was_unused_before_stays(self) -> None:
        assert removed("from a import x, y\n", "y") == "from a import x\n"

    @pytest.mark.parametrize(
        ("sibling", "stays"),
        [
            ("from proj.models.toy.toy_gpu_patch_gen_config import scale\n", True),
            ("from .toy_gpu_patch_gen_config import *\nscale\n", True),
            ("from proj.models.toy import toy_gpu_patch_gen_config as toy\ntoy.scale\n", True),
            ("from proj.models.toy.toy_gpu_patch_gen_config import config\nscale = 1\n", False),
        ],
    )
    def test_what_another_file_takes_from_it_stays(self, work: Workspace, sibling: str, stays: bool) -> None:
        upgrading = Upgrading(work)
        text = """
        from acme.models.toy.parts import scale

        @config.override_method("Norm.forward")
        def norm_forward(self, x):
            return scale(x)
        """
        path = work.config(text)
        work.write("proj/models/toy/sibling.py", sibling)
        upgrading.apply({"Norm.forward": "def norm_forward(self, x):\n    return limit(x)"}, CONFIG)
        assert ("import scale" in path.read_text()) is stays


def test_annotations_are_asked_for_later_than_decorators_and_defaults() -> None:
    """So that a name of the generated module alone in an annotation needs no import."""
    early, late = needed_names("@wrap\ndef norm(config: Config = START) -> Output:\n    return Inside\n")
    assert early == {"wrap", "START"}
    assert late == {"Config", "Output", "Inside"}
