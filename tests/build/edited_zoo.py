"""The zoo, copied with the upstream files that it patches, and the states of some of its parts."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from patchgen_core.project.table import load_project
from patchgen_core.upstream.module import find_upstream
from tests.build.edited_project import States, write_states

ROOT = Path(__file__).parents[2]
_SOURCE = re.compile(r"^#  Source: (\S+)$\n#  Based on: transformers==(\S+)$", re.MULTILINE)


def make(folder: Path) -> Mapping[str, States]:
    """Make the copy below a folder; the states of its parts."""
    work, site = folder / "work", folder / "site"
    zoo = work / "examples/zoo"
    shutil.copytree(ROOT / "examples/zoo", zoo, ignore=shutil.ignore_patterns("__pycache__"))
    version = ""
    for path in load_project(ROOT).search_root.glob("*/generated/*.py"):
        found = _SOURCE.search(path.read_text(encoding="utf-8"))
        assert found is not None
        module, version = found.groups()
        copy = site.joinpath(*module.split(".")).with_suffix(".py")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(find_upstream(module).path, copy)
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return {
        "settings": write_states(
            work / "pyproject.toml",
            settings,
            settings.replace("line-length = 119", "line-length = 100"),
            settings.replace('"I", ', ""),
            settings.replace('package_prefix = "zoo"', 'package_prefix = "zoo"\nruff_isolated = true'),
        ),
        "upstream's package": write_states(site / "transformers/__init__.py", "", "raise ImportError\n"),
        "version": write_states(
            site / f"transformers-{version}.dist-info/METADATA",
            f"Name: transformers\nVersion: {version}\n",
            "Name: transformers\nVersion: 99.0\n",
        ),
        "upstream": _edits(site / "transformers/models/qwen3/modeling_qwen3.py", "return", "return  0 or"),
        "another upstream": _edits(site / "transformers/models/llama/modeling_llama.py", "class ", "# more\nclass "),
        "base": _edits(zoo / "llama/llama_gpu_patch_gen_config.py", "def llama_mlp_forward(self", "{}, *more"),
        "config": _edits(zoo / "qwen3/qwen3_gpu_patch_gen_config.py", 'description="', 'description="Now '),
        "init": _edits(zoo / "llama/__init__.py", '"""', '"""Now ', "config = 1\n{}"),
        "first-party": write_states(work / "torch/__init__.py", None, ""),
        "module": _edits(zoo / "mixtral/generated/patched_modeling_mixtral_gpu.py", "\n", "\r\n"),
        "diff": _edits(zoo / "gemma3/generated/patched_modeling_gemma3_gpu.diff", "+", "++"),
        "orphan": write_states(
            zoo / "gemma3/generated/patched_left.py",
            None,
            f"# {'=' * 78}\n#  AUTO-GENERATED FILE - DO NOT EDIT DIRECTLY\n",
        ),
    }


def _edits(path: Path, old: str, *new: str) -> States:
    """States of a file: as it is, and with something replaced; ``{}`` stands for what was there."""
    text = path.read_text(encoding="utf-8")
    texts = (text, *(text.replace(old, replacement.replace("{}", old)) for replacement in new))
    return [partial(path.write_bytes, state.encode()) for state in texts]
