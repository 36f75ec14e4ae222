"""A small project with something of everything that a result can depend on, and the states of its parts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tests.build.edited_texts import BASE, DSL, EXTERNAL, HEIR, LOOKS, MODULE, ODD, OPTIONAL, UPSTREAM

States = list[Callable[[], object]]

PASSING = ("passing", "optional_kit", "proj", "models", "theirs")
"""Packages that come and go."""


def make(folder: Path) -> Mapping[str, States]:
    """Make the project below a folder; the states of each of its parts."""
    work, site, front = (folder / name for name in ("work", "site", "front"))
    models = work / "proj/models"
    toy, generated = models / "toy", models / "toy/generated"
    for made in (toy, generated, site, front):
        made.mkdir(parents=True)
    return {
        **Settings(work / "pyproject.toml").states(),
        **_configs(models),
        **_siblings(work, models),
        **_upstreams(site, front),
        **_packages(work, site),
        **_own_packages(work),
        **_ruff_files(work, models),
        **_generated_files(models),
        "notes": write_states(work / "work_notes.txt", "some", "other", None),
        "environment": [partial(set_variable, "ODD", value) for value in (None, "some", "other")],
    }


def _configs(models: Path) -> dict[str, States]:
    toy = models / "toy"
    return {
        "base": write_states(
            toy / "toy_gpu_patch_gen_config.py",
            BASE,
            BASE.replace("first, second)", "second, first)"),
            BASE.replace('names=["mul"]', 'names=["mul", "add"]'),
            BASE + "\nother = PatchConfig(MODULE, 'patched_modeling_second.py')\n",
            BASE.replace("toy_gpu.py", "toy_npu.py"),
            BASE + "\nconfig.exclude_from_output('Tail')\n",
            BASE + "\n# a remark\n",
            BASE + "\n)\n",
            BASE.replace("toy_gpu.py", "inner/toy_gpu.py"),
            None,
        ),
        "heir": write_states(
            toy / "toy_npu_patch_gen_config.py",
            HEIR,
            HEIR.replace("toy_npu.py", "toy_gpu.py"),
            HEIR + "\nconfig.transformers_version = '1.0'\n",
            HEIR + "\nconfig.drop_import_names('torch')\n",
            HEIR.replace("from patchgen import", "from theirs.dsl import"),
            HEIR.replace("from patchgen import PatchConfig, create_patch_from_external", "from theirs.dsl import *"),
            None,
        ),
        "optional": write_states(
            models / "more/optional_gpu_patch_gen_config.py",
            OPTIONAL,
            OPTIONAL.replace("from proj import helpers", "import torch\nfrom proj import helpers"),
            OPTIONAL.replace("helpers.turn(x)", "extra.turn(x)"),
        ),
        "odd": write_states(
            models / "more/odd_gpu_patch_gen_config.py", *(ODD.format(looks=looks) for looks in LOOKS)
        ),
        "external": write_states(
            models / "patches/external_gpu_patch_gen_config.py",
            EXTERNAL,
            EXTERNAL.replace("* 2", "* 3"),
            EXTERNAL.replace("import dsl", "fromless"),
            EXTERNAL.replace('config = dsl.make("', 'config = PatchConfig(MODULE, "'),
        ),
    }


def _siblings(work: Path, models: Path) -> dict[str, States]:
    """What the configs import of the project."""
    toy = models / "toy"
    return {
        "dsl": write_states(
            models / "dsl.py",
            DSL,
            DSL.replace("SIZE = 1", "SIZE = 2"),
            DSL.replace("SIZE = 1", "from proj.models.toy.extra import VALUE as SIZE"),
            None,
        ),
        "dsl as a package": write_states(models / "dsl/__init__.py", None, DSL.replace("SIZE = 1", "SIZE = 3")),
        "extra": write_states(toy / "extra.py", None, "VALUE = 1\n", "VALUE = 2\n", "from torch import VALUE\n"),
        "extra as a package": write_states(toy / "extra/__init__.py", None, "VALUE = 4\n"),
        "init": write_states(toy / "__init__.py", "", None, "extra = 1\n", "from torch import *\n"),
        "init above": write_states(models / "__init__.py", None, "", "dsl = 1\n"),
        "helpers": write_states(work / "proj/helpers.py", None, "def turn(x): ...\n"),
    }


def _upstreams(site: Path, front: Path) -> dict[str, States]:
    return {
        "upstream": write_states(
            site / f"{MODULE.replace('.', '/')}.py",
            UPSTREAM,
            UPSTREAM.replace("-x", "+x"),
            UPSTREAM.replace("return x\n", "return x * 1\n"),
            UPSTREAM.replace("rotate", "turn"),
            UPSTREAM.replace("import math", "import math\n\nfrom .parts import part"),
            UPSTREAM + "\n\ndef broken(\n",
            None,
        ),
        "upstream as a package": write_states(
            site / f"{MODULE.replace('.', '/')}/__init__.py",
            None,
            UPSTREAM.replace("import math", "import math\n\nfrom .parts import part"),
        ),
        "upstream in front": write_states(
            front / f"{MODULE.replace('.', '/')}.py", None, UPSTREAM, UPSTREAM + "\nX = 1\n"
        ),
        "front": write_states(front / "acme/__init__.py", None, "", '__version__ = "0.5"\n'),
        "site": write_states(site / "acme/__init__.py", '__version__ = "0.9"\n', '__version__ = "0.8"\n'),
        "version": write_states(site / "acme-1.0.dist-info/METADATA", "Version: 1.0\n", "Version: 1.1\n", None),
    }


def _packages(work: Path, site: Path) -> dict[str, States]:
    """Installed packages that only some machines have."""
    return {
        "passing": write_states(site / "passing.py", None, "", "raise ImportError\n"),
        "passing in the project": write_states(work / "passing.py", None, ""),
        "optional_kit": write_states(site / "optional_kit/__init__.py", None, ""),
        "norms": write_states(site / "optional_kit/norms.py", None, "scale = 1\n"),
        "theirs": write_states(
            site / "theirs/dsl.py",
            "from patchgen import PatchConfig, create_patch_from_external\n",
            "import patchgen\n\ncreate_patch_from_external = 1\n\n"
            "def PatchConfig(*args):\n    return patchgen.PatchConfig(*args, description='theirs')\n",
            None,
        ),
        "theirs in the project": write_states(
            work / "theirs/dsl.py",
            None,
            "from patchgen import PatchConfig, create_patch_from_external\nSIZE = 1\n",
        ),
    }


def _own_packages(work: Path) -> dict[str, States]:
    """What makes import sorting take an imported module for the project's own."""
    return {
        "fastops": write_states(work / "fastops.py", None, ""),
        "fastops in src": write_states(work / "src/fastops/__init__.py", None, ""),
        "zeta without modules": write_states(work / "zeta/notes.txt", None, ""),
        "zeta": write_states(work / "zeta/one.py", None, ""),
        "torch_kit": write_states(work / "torch_kit/__init__.py", None, ""),
        "fused": write_states(work / "torch_kit/fused.pyi", None, ""),
        "libs": write_states(work / "libs/one/fastops/__init__.py", None, ""),
        "more libs": write_states(work / "libs/two/zeta.py", None, ""),
        "kernels": write_states(work / "proj/kernels/__init__.py", None, ""),
    }


def _ruff_files(work: Path, models: Path) -> dict[str, States]:
    shared = 'line-length = 90\n[lint]\nselect = ["I", "UP"]\n'
    return {
        "shared": write_states(
            work / "shared.toml",
            shared,
            shared.replace("90", "70"),
            f'src = ["libs/*"]\n{shared}',
            f'extend = "deeper.toml"\n{shared}',
            "broken =",
            None,
        ),
        "deeper": write_states(
            work / "deeper.toml", "", 'src = ["libs/two"]\n', "[format]\nquote-style = 'single'\n", None
        ),
        "ruff.toml": write_states(
            models / "ruff.toml",
            None,
            'extend = "../../shared.toml"\n',
            'extend = "$SHARED"\n',
            'extend = "../../pyproject.toml"\n[lint]\nselect = ["I"]\n',
            "line-length = 60\n",
        ),
        ".ruff.toml": write_states(
            models / "toy/.ruff.toml", None, "preview = true\n", "preview = true\nlint.select = ['I']"
        ),
        "inner pyproject": write_states(
            models / "more/pyproject.toml", None, "[tool.ruff]\nline-length = 50\n", "[tool]\n"
        ),
        "where shared is": [
            partial(set_variable, "SHARED", str(work / name)) for name in ("shared.toml", "deeper.toml")
        ],
    }


def _generated_files(models: Path) -> dict[str, States]:
    """What hands do to generated files."""
    toy = models / "toy/generated/patched_modeling_toy_gpu.py"
    npu = models / "toy/generated/patched_modeling_toy_npu.py"
    optional = models / "more/generated/patched_modeling_optional_gpu.py"

    def edited(path: Path, old: bytes, new: bytes) -> None:
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(old, new))

    def orphan() -> None:
        if toy.is_file():
            shutil.copy(toy, toy.with_name("patched_left_behind.py"))

    def linked() -> None:
        if toy.is_file():
            npu.unlink(missing_ok=True)
            npu.symlink_to(toy)

    def nothing() -> None:
        return

    return {
        "module": [
            nothing,
            partial(edited, toy, b"math.pi", b"math.e"),
            partial(edited, toy, b"\n", b"\r\n"),
            partial(toy.unlink, missing_ok=True),
            orphan,
        ],
        "diff": [
            nothing,
            partial(edited, toy.with_suffix(".diff"), b" ", b"  "),
            partial(toy.with_suffix(".diff").unlink, missing_ok=True),
            partial(optional.with_suffix(".diff").unlink, missing_ok=True),
        ],
        "another module": [nothing, linked, partial(npu.unlink, missing_ok=True), partial(edited, npu, b"#", b"##")],
    }


RUFF_PARTS = ("ruff", "length", "src", "by name", "isort")


class Settings:
    """The project's ``pyproject.toml``, of several parts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parts: dict[str, str] = {}

    def states(self) -> dict[str, States]:
        """Each part, one more line or none; what comes first is the usual one."""
        texts = {
            "project": ['[project]\nrequires-python = ">=3.10"', '[project]\nrequires-python = ">=3.13"'],
            "patchgen": [
                '[tool.patchgen]\nsearch_root = "proj/models"\npackage_prefix = "proj.models"',
                '[tool.patchgen]\nsearch_root = "proj/models"\npackage_prefix = "models"',
                '[tool.patchgen]\nsearch_root = "proj/models/toy"\npackage_prefix = "proj.models.toy"',
            ],
            "patches": ["", 'legacy_patches_prefix = "proj.models.patches"'],
            "extra": ["", 'ruff_extra_ignore = ["I001"]', 'ruff_extra_ignore = ["UP"]'],
            "isolated": ["", "ruff_isolated = true"],
            "real": ["", 'real_imports = ["passing"]'],
            "ruff": ['[tool.ruff]\nlint.select = ["I"]', '[tool.ruff]\nlint.select = ["I", "UP", "F"]', ""],
            "length": ["line-length = 119", "line-length = 79", 'extend = "shared.toml"', ""],
            "src": ["", 'src = ["libs/one"]', 'src = ["libs/*"]', 'src = ["proj"]', "src = 3"],
            "by name": ["", 'lint.per-file-ignores = { "*_npu*.py" = ["I"] }'],
            "isort": ["", 'lint.isort.known-first-party = ["fastops"]', "preview = true"],
        }
        return {
            f"settings, {part}": [partial(self._set, part, text) for text in options]
            for part, options in texts.items()
        }

    def _set(self, part: str, text: str) -> None:
        self.parts[part] = text
        if not self.parts.get("ruff"):
            kept = [text for name, text in self.parts.items() if name not in RUFF_PARTS]
        else:
            kept = list(self.parts.values())
        self.path.write_text("\n".join([*filter(None, kept), ""]), encoding="utf-8")


def write_states(path: Path, *texts: str | None) -> States:
    """States of a file by its texts; None for that there is none."""
    return [partial(_write, path, text) for text in texts]


def _write(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
        if path.parent.is_dir() and not any(path.parent.iterdir()):
            path.parent.rmdir()
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def set_variable(name: str, value: str | None) -> None:
    """Give an environment variable a value, or remove it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
