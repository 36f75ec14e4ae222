"""Projects with tables of settings."""

from __future__ import annotations

from pathlib import Path

from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project

TABLE = '[tool.patchgen]\nsearch_root = "proj/models"\npackage_prefix = "proj.models"\n'


def project(root: Path, text: str = TABLE) -> Project:
    (root / "pyproject.toml").write_text(text, encoding="utf-8")
    return load_project(root)


def message(raised: PatchgenError, root: Path) -> str:
    return str(raised).replace(f"{root}/", "").replace(str(root), ".")


PARITY = f"{TABLE}\n[tool.patchgen.parity]\n"
SHARDED = f"{TABLE}\n[tool.patchgen.sharded]\n"
