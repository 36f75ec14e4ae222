"""A project whose checks depend on all that a kept result may depend on, and the states of its parts."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from patchgen_core.build.ruff_setup import find_ruff
from patchgen_core.project.pyproject import PYPROJECT
from tests.build.edited_project import States, set_variable, write_states
from tests.conftest import import_gate

MODULE = "acme.models.toy.modeling_toy"
UPSTREAM = """
from acme.kit import Module, scale


class Norm(Module):
    def forward(self, x):
        return scale(x)


class Head:
    def forward(self, x, y=1):
        return x + y


def rotate(x):
    return -x
"""
HEAD = f'from patchgen import PatchConfig\n\nconfig = PatchConfig("{MODULE}", "patched_modeling_NAME.py")\n'
TOY = (
    HEAD.replace("NAME", "toy")
    + """
from proj.helpers import double

config.add_import("proj.helpers", names=["double"])


@config.override_method("Norm.forward")
def norm_forward(self, x):
    return double(scale(x))
"""
)
HEIR = (
    HEAD.replace("NAME", "heir")
    + """
from proj.models.toy.toy_gpu_patch_gen_config import norm_forward

config.override_method("Norm.forward", replacement=norm_forward)
config.add_import("proj.helpers", names=["double"])
"""
)
FRIEND = (
    HEAD.replace("NAME", "friend")
    + """
from proj.models.lender import lender_gpu_patch_gen_config as lender

config.override_method("Norm.forward", replacement=lender.norm_forward)
config.tolerances.extend(lender.config.tolerances)
"""
)
LENDER = (
    HEAD.replace("NAME", "lender")
    + """
config.exclude_from_output("Head")
config.tolerate(2, "told")
config.add_import("proj.slots", names=["OpSlot"])
config.add_post_import_block('fused = OpSlot("norm", "standard")')


@config.override_method("Norm.describe")
def norm_describe(self):
    return self.added


def norm_forward(self, x):
    return scale(x) * 3
"""
)
OTHER = (
    HEAD.replace("NAME", "other")
    + """
@config.override_method("Norm.forward")
def norm_forward(self, x):
    return scale(x) * 2
"""
)
REGISTERED = """from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("NAME")
def register_NAME(_):
    return _load_NAME()


def _load_NAME():
    from .classes import VALUE

    return VALUE
"""
ASKING = """from patchgen_core.registry import MODELING_REGISTRY


def setup(models):
    return [MODELING_REGISTRY.get(key)(1) for key in MODELING_REGISTRY.keys()]
"""
ASKS = """from importlib.util import find_spec
from shutil import which


def times(x):
    return x * (3 if {} else 2)
"""
KERNEL = 'def register():\n    KernelSpec(name="plain", op_name="norm", variant="standard")\n'
MAY_OPEN = """def load():
    return open(__file__[:-7] + "sizes.txt").read()


def times(x):
    return x * 2 if {} else x * len(load())
"""
DEEP = "def times(x):\n    return x * 2\n"
TABLE = """[tool.patchgen]
search_root = "proj/models"
package_prefix = "proj.models"
diffs = true
setup = "proj.testing:setup"
{more}
[tool.patchgen.parity]
toy_root = "toys"
batches = ["proj.batches:batches"]
{parity}
"""


def make(folder: Path) -> Mapping[str, States]:
    """Make the project below a folder; the states of each of its parts."""
    work, site = folder / "work", folder / "site"
    models = work / "proj/models"
    generated = (models / name / "generated" for name in ("toy", "friend", "lender", "other"))
    for made in (*generated, site, work / "toys"):
        made.mkdir(parents=True)
    os.environ.update({"CI": "1", "PATCHGEN_KEEP_CHECKS": "1"})
    find_ruff()
    import_gate()
    sys.path[:] = [place for place in sys.path if not place.endswith("-packages")]  # whose files take long to look at
    return {
        **_settings(work / PYPROJECT),
        **_configs(models),
        **_modules(work),
        **_packages(models),
        **_installed(site),
        **_generated(models),
        **_beside(work, models),
        **_surroundings(folder),
    }


def make_asking(folder: Path) -> Mapping[str, States]:
    """The same, with code that may look at anything and mostly does not, and asks for programs and modules."""
    states = [
        ASKS.format("which('acme-tool')"),
        ASKS.format("find_spec('proj.lone')"),
        ASKS.format("find_spec('fast_kernels')"),
        MAY_OPEN.format("x"),
        MAY_OPEN.format("x > 3"),
        "import os\n\n\ndef times(x):\n    return x * (3 if os.path.exists(__file__[:-7] + 'sizes.txt') else 2)\n",
    ]
    return {**make(folder), "deep": write_states(folder / "work/proj/deep.py", *states)}


def _settings(path: Path) -> dict[str, States]:
    def text(more: str = "", parity: str = "") -> str:
        return TABLE.format(more=more, parity=parity)

    texts = [
        text(),
        text(parity='dtypes = ["float32"]'),
        text(parity="tolerance = { bfloat16 = 6.0 }"),
        text('ignore = ["PG214"]'),
        text('select = ["PG2"]'),
        text("[tool.patchgen.severity]\nALL = 'warning'"),
        text("[tool.patchgen.severity]\nPG201 = 'off'"),
        text().replace("proj.testing:setup", "proj.batches:batches"),
        text().replace("diffs = true", ""),
        text("unknown = 1"),
        text("[tool.ruff]\nline-length = 60"),
    ]
    return {"settings": write_states(path, *texts)}


def _configs(models: Path) -> dict[str, States]:
    toy = models / "toy"
    return {
        "toy": write_states(
            toy / "toy_gpu_patch_gen_config.py",
            TOY,
            TOY + "\n# a remark\n",
            TOY.replace("double(scale(x))", "double(scale(x)) + 1"),
            TOY.replace("def norm_forward(self, x)", "def norm_forward(self)"),
            TOY.replace("PatchConfig(", "PatchConfig(description='told', source_module="),
            TOY + "\nimport os\nconfig.description = os.environ.get('ACME_MODE', '')\n",
            TOY + "\nconfig.exclude_from_output('Head')\n",
            TOY + "\n)\n",
        ),
        "heir": write_states(
            toy / "heir_gpu_patch_gen_config.py",
            HEIR,
            HEIR + "\nfrom proj.lone import VALUE\nconfig.description = str(VALUE)\n",
            None,
        ),
        "friend": write_states(
            models / "friend/friend_gpu_patch_gen_config.py",
            FRIEND,
            FRIEND + "\n# a remark\n",
            FRIEND
            + "\nimport proj.models.toy.toy_gpu_patch_gen_config as toy\n\nconfig.allowed += toy.config.allowed\n",
            None,
        ),
        "lender": write_states(
            models / "lender/lender_gpu_patch_gen_config.py",
            LENDER,
            LENDER + "\n# a remark\n",
            LENDER.replace("\n\n\ndef", "\n\n\n# a remark above\n\n\ndef"),
            LENDER.replace("tolerate(2", "tolerate(3"),
            LENDER.replace("config.tolerate", "\nconfig.tolerate"),
            LENDER.replace("* 3", "* 4"),
        ),
        "other": write_states(
            models / "other/other_gpu_patch_gen_config.py",
            OTHER,
            OTHER.replace("* 2", "* 3"),
            OTHER.replace("(self, x)", "(self, x, y)"),
            OTHER.replace("* 2", "* rotate(2)"),
            OTHER + "\nfrom proj import deep\nconfig.description = str(deep.times(2))\n",
            OTHER.replace("patched_modeling_other", "patched_modeling_toy"),
            None,
        ),
    }


def _modules(work: Path) -> dict[str, States]:
    return {
        "helpers": write_states(
            work / "proj/helpers.py",
            "from proj import deep\n\n\ndef double(x):\n    return deep.times(x)\n",
            "def double(x):\n    return x + x\n",
            "def double(x):\n    from proj import lone\n\n    return x * lone.VALUE\n",
            "import importlib\n\n\ndef double(x):\n    return importlib.import_module('proj.lone').VALUE\n",
            "from fast_kernels import VALUE\n\n\ndef double(x):\n    return x * VALUE\n",
            "from .deep import times as double\n",
            "from proj.deep import *\n\ndouble = times\n",
            None,
        ),
        "deep": write_states(
            work / "proj/deep.py",
            DEEP,
            DEEP.replace("* 2", "* 3"),
            DEEP.replace("* 2", "* 5"),
            'import os\n\n\ndef times(x):\n    return x * len(os.environ.get("ACME_MODE", ""))\n',
            'import os\n\n\ndef times(x):\n    return x * len(os.environ.get("COLUMNS", ""))\n',
            "from pathlib import Path\n\ntimes = lambda x: Path(__file__).with_name('sizes.txt').read_text()\n",
            "def times(x):\n    return open(__file__[:-7] + 'sizes.txt').read()\n",
            "import lone\n\n\ndef times(x):\n    return x * lone.VALUE\n",
            "broken (\n",
        ),
        "deep as a package": write_states(work / "proj/deep/__init__.py", None, DEEP.replace("* 2", "* 7"), ""),
        "lone": write_states(work / "proj/lone.py", "VALUE = 1\n", "VALUE = 4\n", None),
        "lone above": write_states(work / "lone.py", None, "VALUE = 1\n", "VALUE = 6\n"),
        "package": write_states(work / "proj/__init__.py", "", None, "VALUE = 1\n", "from proj import deep\n"),
        "sizes": write_states(work / "proj/sizes.txt", "1", "22", None),
        "slots": write_states(
            work / "proj/slots.py",
            "class OpSlot:\n    def __init__(self, op_name, variant):\n        pass\n",
            "from proj.lone import VALUE as OpSlot\n",
            None,
        ),
        "kernels": write_states(
            work / "proj/models/kernels.py", KERNEL, KERNEL.replace("standard", "other"), "", None
        ),
        "a script": write_states(
            work / "train.py",
            "def prepare(model):\n    model.added = 1\n",
            "def prepare(model):\n    setattr(model, 'added', 1)\n",
            "def prepare(self):\n    self.added = 1\n",
            None,
        ),
        "set-up": write_states(
            work / "proj/testing.py",
            "def setup(models):\n    pass\n",
            "def setup(models):\n    return 1\n",
            "from proj import deep\n\n\ndef setup(models):\n    return deep.times(2)\n",
            "def helper():\n    return open('x')\n\n\ndef setup(models):\n    return 3\n",
            ASKING,
            "from proj.models.toy import register_toy as load\n\n\ndef setup(models):\n    return load(1)\n",
        ),
        "batches": write_states(
            work / "proj/batches.py",
            "def batches(model):\n    return []\n",
            "def batches(model):\n    return [1]\n",
            "import proj.lone\n\n\ndef batches(model):\n    return [proj.lone.VALUE]\n",
        ),
    }


def _packages(models: Path) -> dict[str, States]:
    parts: dict[str, States] = {
        "models": write_states(models / "__init__.py", "from proj.models import other, toy\n", "", None)
    }
    for name in ("toy", "other"):
        text = REGISTERED.replace("NAME", name)
        parts[f"package of {name}"] = write_states(
            models / name / "__init__.py",
            text,
            text.replace(f"return _load_{name}()", "from proj.lone import VALUE\n\n    return VALUE"),
            text + f"\n\nVALUE = _load_{name}()\n",
            text.replace("_load", "load"),
            text + f"\n\ndef __getattr__(name):\n    return _load_{name}()\n",
            text.replace(".classes", "proj.models.toy.classes"),
            text.replace("@MODELING_REGISTRY", "@__import__('functools').cache\n@MODELING_REGISTRY"),
            None,
        )
        classes = models / name / "classes.py"
        parts[f"classes of {name}"] = write_states(
            classes, "VALUE = 1\n", "VALUE = 2\n", "from proj.lone import VALUE\n", "VALUE = open('x')\n", None
        )
    return parts


def _installed(site: Path) -> dict[str, States]:
    upstream = site / f"{MODULE.replace('.', '/')}.py"
    return {
        "upstream": write_states(
            upstream,
            UPSTREAM,
            UPSTREAM.replace("x + y", "x - y"),
            UPSTREAM.replace("def forward(self, x):", "def forward(self, x, mask=None):"),
            UPSTREAM.replace("-x", "+x"),
            None,
        ),
        "kit": write_states(
            site / "acme/kit.py",
            *(f"class Module:\n    pass\n\n\ndef scale(x):\n    return {x}\n" for x in ("x", "-x")),
            None,
        ),
        "kit, its time set back": [
            lambda: None,
            partial(_rewrite_in_place, site / "acme/kit.py", "return", "return +"),
            partial(_rewrite_in_place, site / "acme/kit.py", "x", "y"),
        ],
        "site": write_states(site / "acme/__init__.py", "", "VALUE = 1\n"),
        "version": write_states(site / "acme-1.0.dist-info/METADATA", "Version: 1.0\n", "Version: 1.1\n", None),
        "fast_kernels": write_states(site / "fast_kernels.py", None, "VALUE = 2\n", "VALUE = 3\n"),
    }


def _rewrite_in_place(path: Path, old: str, new: str) -> None:
    if path.is_file():
        status = path.stat()
        path.write_text(path.read_text().replace(old, new))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _generated(models: Path) -> dict[str, States]:
    def edit(path: Path, old: str, new: str) -> None:
        if path.is_file():
            path.write_text(path.read_text().replace(old, new))

    toy = models / "toy/generated/patched_modeling_toy.py"
    other = models / "other/generated/patched_modeling_other.py"
    return {
        "module": [
            lambda: None,
            partial(edit, toy, "scale(x)", "scale(1)"),
            partial(toy.unlink, missing_ok=True),
            partial(edit, toy, "\n", "\r\n"),
        ],
        "other module": [lambda: None, partial(edit, other, "* 2", "* 9"), partial(other.unlink, missing_ok=True)],
        "diff": [lambda: None, partial(toy.with_suffix(".diff").unlink, missing_ok=True)],
        "orphan": write_states(
            toy.with_name("patched_left.py"),
            None,
            f"# {'=' * 78}\n#  AUTO-GENERATED FILE - DO NOT EDIT DIRECTLY\n",
        ),
    }


def _beside(work: Path, models: Path) -> dict[str, States]:
    return {
        "plan": write_states(models / "toy/parallel_plan.py", None, "PLAN = {}\n", "PLAN = {1: 2}\n"),
        "other plan": write_states(models / "other/parallel_plan.py", "PLAN = {}\n", None),
        "converter": write_states(models / "toy/checkpoint_tensor_converter.py", None, "X = 1\n", "open('x')\n"),
        "data": write_states(models / "toy/sizes.json", None, "{}", "[]"),
        "toy configuration": write_states(work / "toys/toy_toy/config.json", "{}", '{"a": 1}'),
        "more toys": write_states(work / "toys/more/config.json", None, "{}", "{ }"),
        "baseline": write_states(work / "patchgen-baseline.json", None, "{}", "3"),
        "a page": write_states(work / "README.md", None, "Read me.\n"),
    }


def _surroundings(folder: Path) -> dict[str, States]:
    def remove(*names: str) -> None:
        for name in names:
            shutil.rmtree(folder / name, ignore_errors=True)

    def cut() -> None:
        for number, file in enumerate(sorted((folder / "work/.patchgen_cache").rglob("*.json"))):
            if number % 3 == 0:
                os.truncate(file, file.stat().st_size // 2)

    def write_program(file: Path) -> None:
        file.parent.mkdir(exist_ok=True)
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)

    shared, path, tool = str(folder / "shared"), os.environ["PATH"], folder / "bin/acme-tool"
    return {
        "mode": [partial(set_variable, "ACME_MODE", value) for value in (None, "fast", "slow")],
        "columns": [partial(set_variable, "COLUMNS", value) for value in ("100", "9", None)],
        "path": [
            partial(set_variable, "PATH", value)
            for value in (f"{path}:{tool.parent}", f"/bin:/usr/bin:{tool.parent}", path)
        ],
        "program": [partial(tool.unlink, missing_ok=True), lambda: write_program(tool)],
        "shared place": [partial(set_variable, "PATCHGEN_SHARED_CACHE", value) for value in (shared, "")],
        "what is kept": [
            lambda: None,
            partial(remove, "work/.patchgen_cache"),
            partial(remove, "work/.patchgen_cache"),
            partial(remove, "work/.patchgen_cache/results"),
            partial(remove, "shared"),
            cut,
        ],
    }
