"""Whether the import name ``patchgen`` is this package's alone: the reference's distribution has the same one."""

from __future__ import annotations

import importlib.util
import os

from patchgen_core.errors import PatchgenError

_NAME = "patchgen"
_OWN = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), _NAME)
_HINT = "Run 'pip uninstall patchgen', and then 'pip install --force-reinstall --no-deps pytest-patchgen'."


def refuse_other_patchgen() -> None:
    """Raise a PatchgenError where ``import patchgen`` gives the code of another distribution, or a mixture of both."""
    imported = _imported_folder()
    if imported is None:
        return
    site = os.path.dirname(imported)
    if not _is_own(imported):
        owner = f"{_NAME} {_other_version(site)}".strip()
        message = f"'import {_NAME}' finds {owner} in '{site}', not pytest-patchgen: both have that import name"
        raise PatchgenError(message, None, _HINT)
    version = _other_version(site)
    if version and _is_in_record(site, version):
        message = f"{_NAME} {version} and pytest-patchgen are both installed in '{site}', over each other's files"
        raise PatchgenError(f"{message}: both have the import name '{_NAME}'", None, _HINT)


def _imported_folder() -> str | None:
    """The folder that ``patchgen`` is imported from; None where there is no such package."""
    try:
        spec = importlib.util.find_spec(_NAME)
    except (ImportError, ValueError):  # it has no spec
        return None
    origin = spec.origin if spec is not None else None
    return os.path.dirname(os.path.abspath(origin)) if origin else None


def _is_own(folder: str) -> bool:
    """Whether a folder is this package's; on nodes of a cluster, which get it in parts, its own text tells."""
    if os.path.isdir(_OWN):
        return os.path.realpath(folder) == os.path.realpath(_OWN)
    try:
        with open(os.path.join(folder, "__init__.py"), encoding="utf-8") as file:
            return any(line.rstrip() == "import patchgen_core" for line in file)
    except OSError:
        return False


def _other_version(site: str) -> str:
    """The version of the distribution ``patchgen`` whose metadata a folder holds; empty for none."""
    try:
        names = os.listdir(site)
    except OSError:
        return ""
    marks = [name for name in names if name.startswith(f"{_NAME}-") and name.endswith(".dist-info")]
    return marks[0].removeprefix(f"{_NAME}-").removesuffix(".dist-info") if marks else ""


def _is_in_record(site: str, version: str) -> bool:
    """Whether that distribution lists the package's own file; one that is installed editable does not."""
    try:
        with open(os.path.join(site, f"{_NAME}-{version}.dist-info", "RECORD"), encoding="utf-8") as file:
            return any(line.startswith(f"{_NAME}/__init__.py,") for line in file)
    except OSError:
        return False
