"""A project that nobody here tuned for, as a repository: VeOmni, from its releases on the package registry.

Its configs are written for the reference's generator, and its generated files were made by that. The registry's wheel
has no ``pyproject.toml``, so the one written here has the settings that its checked-in files were made with.

    python -m tools.real_project 0.1.12 FOLDER

writes it there and prints the folder of its upstream, for PYTHONPATH.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from patchgen_core.upstream.releases import Release
from tools.releases import NEEDED, REAL, find_release

PYPROJECT = """[tool.patchgen]
search_root = "veomni/models/transformers"
package_prefix = "veomni.models.transformers"

[tool.ruff]
line-length = 119

[tool.ruff.lint]
select = ["C", "E", "F", "I", "W"]
ignore = ["C408", "C901", "E501", "E741", "W605"]

[tool.ruff.lint.isort]
lines-after-imports = 2
"""
FORWARDS = {"__init__.py": "from patchgen import *\n", "patch_spec.py": "from patchgen.patch_spec import *\n"}
"""What 0.1.11, which brings a generator of its own, has instead of it; 0.1.12 has such files itself."""


def find_upstream_release(version: str) -> Release:
    """The release of transformers that a release of the project is made for."""
    return find_release(REAL[version])


def find_needed() -> list[Path]:
    """The folders of what the project's own modules import beside upstream."""
    releases = (find_release(version, distribution) for distribution, version in NEEDED.items())
    return [release.folder for release in releases if release.origin != "installed"]


def make_real_project(version: str, folder: Path) -> Project:
    """Write a release of the project into a folder, its generated files as they are checked in there."""
    release = find_release(version, "veomni")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(release.folder / "veomni", folder / "veomni", ignore=ignored)
    if version == "0.1.11":
        for name, text in FORWARDS.items():
            (folder / "veomni/patchgen" / name).write_text(text)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    return replace(load_project(folder), upstream=(find_upstream_release(version).folder,))


if __name__ == "__main__":
    print(*make_real_project(sys.argv[1], Path(sys.argv[2])).upstream)
