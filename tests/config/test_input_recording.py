"""What a config may look at while it is loaded without its result becoming uncacheable."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.build.cache import Cache
from patchgen_core.build.selection import Selection
from patchgen_core.checks.checked_in.checking import check
from patchgen_core.config.loading import Loader
from tests.conftest import PATCH, UPSTREAM_TEXT, Workspace


def reason_not_to_keep(work: Workspace, code: str) -> str:
    """Why the result of a config with some more code is not kept; empty when it is."""
    work.upstream(UPSTREAM_TEXT)
    work.config(f"{code}\n{PATCH}")
    kept = Cache(work.project)
    (result,) = check(Selection(work.project), cache=kept).results
    assert result.status != "error", result.outcome.problems
    assert kept.info().results == (0 if result.outcome.uncacheable else 1)
    return result.outcome.uncacheable


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os\nos.environ.get('A')", "it uses os.environ while it is loaded"),
        ("import os as system\nsystem.getenv('A')", "it uses os.getenv while it is loaded"),
        ("from os import environ", "it uses os.environ while it is loaded"),
        ("import os\nos.path.exists('a')", "it uses posixpath.exists while it is loaded"),
        ("import os.path\nos.path.exists('a')", "it uses posixpath.exists while it is loaded"),
        ("import os.path as paths\npaths.exists('a')", "it uses posixpath.exists while it is loaded"),
        ("from os.path import exists", "it uses posixpath.exists while it is loaded"),
        ("from os import path\npath.exists('a')", "it uses posixpath.exists while it is loaded"),
        ("from os import *", "it uses os.__all__ while it is loaded"),
        ("from stat import *\nS_ISDIR(0)", "it lists stat while it is loaded"),
        ("import os\nvars(os)['environ']", "it lists os while it is loaded"),
        ("import sys\ndir(sys)", "it lists sys while it is loaded"),
        ("import os\nos.environ['A'] = 'b'", "it uses os.environ while it is loaded"),
        ("import sys\nsys.made_up = 1", "it sets sys.made_up"),
        ("import sys\nsys.platform", "it uses sys.platform while it is loaded"),
        ("import sys\nsys.modules.get('torch')", "it uses sys.modules while it is loaded"),
        ("__import__('os').environ", "it uses os.environ while it is loaded"),
        ("import importlib\nimportlib.import_module('os')", "it uses importlib.import_module while it is loaded"),
        (
            "import importlib.util\nimportlib.util.find_spec('a')",
            "it uses importlib.util.find_spec while it is loaded",
        ),
        ("import time\ntime.time()", "it uses time.time while it is loaded"),
        ("import random\nrandom.random()", "it uses random.random while it is loaded"),
        ("import datetime\ndatetime.date.today()", "it uses datetime.date while it is loaded"),
        ("import platform\nplatform.node()", "it uses platform.node while it is loaded"),
        ("import subprocess\nsubprocess.run(['true'])", "it uses subprocess.run while it is loaded"),
        ("from pathlib import Path", "it uses pathlib.Path while it is loaded"),
        ("import threading\nthreading.active_count()", "it uses threading.active_count while it is loaded"),
        ("import warnings\nwarnings.filters", "it uses warnings.filters while it is loaded"),
        ("open(__file__).close()", "it calls open while it is loaded"),
        ("import builtins\nbuiltins.open", "it uses builtins.open while it is loaded"),
        ("import io\nio.open", "it uses io.open while it is loaded"),
        ("print('a')", "it calls print while it is loaded"),
        ("eval('__import__')('os').environ", "it uses os.environ while it is loaded"),
        ("exec('import os; os.environ', {})", "it uses os.environ while it is loaded"),
        ("class Looks:\n    import os\n    there = os.environ", "it uses os.environ while it is loaded"),
        ("def default(a=__import__('os').environ): ...", "it uses os.environ while it is loaded"),
        ("import functools, os\nfunctools.partial(os.getenv, 'A')()", "it uses os.getenv while it is loaded"),
        ("try:\n    import pytest\nexcept ImportError: ...", "it imports pytest for real"),
        ("try:\n    import pytest.none\nexcept ImportError: ...", "it tries to import pytest.none"),
        ("import third\nif third.__version__ > '2': ...", "it is imported for real"),
        (
            "from patchgen_core.upstream.module import find_upstream",
            "it uses patchgen_core.upstream.module.find_upstream while it is loaded",
        ),
        ("import patchgen_core\npatchgen_core.load_project", "it uses patchgen_core.load_project while it is loaded"),
        ("from patchgen import list_patch_configs", "it uses patchgen.list_patch_configs while it is loaded"),
    ],
)
def test_what_may_differ_elsewhere_is_uncacheable(work: Workspace, code: str, reason: str) -> None:
    if "third" in code:
        (work.site / "third.py").write_text("__version__ = '3'\n")
    assert reason_not_to_keep(work, code) == reason


@pytest.mark.parametrize(
    "code",
    [
        "",
        "import os, sys, time, random, subprocess",
        "import os.path\nimport importlib.util",
        "import os\ndef later():\n    return os.environ, open('a'), print('b')",
        "from collections.abc import Callable\nfrom dataclasses import dataclass, field",
        "import dataclasses, functools, math, re, typing\n@dataclasses.dataclass\nclass A:\n    a: int = 0",
        "import logging\nlogger = logging.getLogger(__name__)",
        "from math import *\nTURN = pi",
        "import sys\nif sys.version_info >= (3, 8): ...",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import os\n    from torch import Tensor",
        "try:\n    import surely_not_installed\nexcept ImportError: ...",
        "try:\n    from proj.models import missing\nexcept ImportError: ...",
        "import torch\nimport triton.language as tl\nN = tl.constexpr(8)",
        "from patchgen import PatchConfig, create_patch_from_external\nimport patchgen\npatchgen.PatchConfig",
        "import patchgen_core.config.spec\npatchgen_core.config.spec.create_patch_from_external('Norm', 'a', 'B')",
        "from patchgen_core.ops import OpSlot",
        "name = __name__, __file__",
    ],
)
def test_what_is_the_same_everywhere_is_not(work: Workspace, code: str) -> None:
    assert reason_not_to_keep(work, code) == ""


def test_modules_listed_as_a_whole_are_those_of_the_library(work: Workspace) -> None:
    code = (
        "import time\nfrom stat import *\nconfig.description = f\"{S_IFDIR} {'sleep' in dir(time)} {len(vars(time))}\""
    )
    reason_not_to_keep(work, code)
    import stat
    import time

    assert work.load().config.description == f"{stat.S_IFDIR} True {len(vars(time))}"
    assert work.load().mode == "stubbed"


@pytest.mark.parametrize(
    ("look", "reason"),
    [
        ("import os\nNAME = os.environ.get('NAME', '')", "it uses os.environ while it is loaded"),
        ("NAME = open(__file__).readline()", "it calls open while it is loaded"),
    ],
)
def test_sibling_that_looks_makes_its_heir_uncacheable(work: Workspace, look: str, reason: str) -> None:
    work.write("proj/models/names.py", look)
    assert reason_not_to_keep(work, "from proj.models.names import NAME\nconfig.description = NAME") == reason


def test_packages_without_init_that_were_imported_before_are_no_hindrance(
    work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.upstream(UPSTREAM_TEXT)
    work.config(PATCH)
    monkeypatch.syspath_prepend(str(work.root))
    importlib.import_module("proj.models.toy")
    try:
        assert work.load(full=True).mode == "imported"
        assert "proj.models.toy" in sys.modules
    finally:
        for name in ("proj", "proj.models", "proj.models.toy"):
            sys.modules.pop(name, None)


def test_modules_that_come_while_a_config_is_loaded_make_it_uncacheable(
    work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A config is loaded again when stubs cannot stand for a module: by then it may see something else."""
    work.write("proj/values.py", "VALUE = 1\n")
    find = Loader._needed_modules

    def meanwhile(*arguments: Any) -> dict[str, Path]:
        work.write("proj/models/late.py", "")
        return find(*arguments)

    monkeypatch.setattr(Loader, "_needed_modules", meanwhile)
    code = "try:\n    from proj.models import late\nexcept ImportError:\n    late = None\nfrom proj.values import *"
    assert reason_not_to_keep(work, code) == "files come or go while it is loaded"
