"""Wheels of an upstream package, and where pip finds them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from patchgen_core.errors import PatchgenError
from patchgen_core.upstream.module import find_upstream
from patchgen_core.upstream.releases import Release, Releases
from tests.conftest import UPSTREAM

FILES = {
    "acme/__init__.py": "from .cli import main\nfrom .models import *\n",
    "acme/core.py": "class Base: ...\n",
    "acme/lonely.py": "",
    "acme/cli/__init__.py": "",
    "acme/cli/main.py": "",
    "acme/kernels/__init__.py": "from .fast import run\n",
    "acme/kernels/fast.py": "from ..maths.norms import norm\n",
    "acme/kernels/slow.py": "",
    "acme/maths/__init__.py": "",
    "acme/maths/norms.py": "",
    "acme/models/__init__.py": "from .zebra import *\n",
    "acme/models/base/__init__.py": "",
    "acme/models/base/modeling_base.py": "from ...core import Base\n",
    "acme/models/base/tokenizer.model": "no code",
    "acme/models/toy/__init__.py": "",
    "acme/models/toy/modeling_toy.py": (
        "from acme.models.base import modeling_base\n\n\ndef run():\n    from ... import (\n        kernels,\n    )\n"
    ),
    "acme/models/toy/modular_toy.py": "from ..zebra.modeling_zebra import Zebra\n",
    "acme/models/zebra/__init__.py": "",
    "acme/models/zebra/modeling_zebra.py": "",
}
ZEBRA = "acme.models.zebra.modeling_zebra"


def make_wheel(folder: Path, version: str, files: Mapping[str, str] = FILES, name: str = "acme") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, text in files.items():
            archive.writestr(file, text)
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: >=3.99\n"
        archive.writestr(f"{info}/METADATA", head)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def files(release: Release) -> set[str]:
    found = release.folder.rglob("*")
    return {path.relative_to(release.folder).as_posix() for path in found if path.is_file()}


def upstream_file(release: Release, module: str = UPSTREAM) -> Path:
    return find_upstream(module, (release.folder,)).path


def error(releases: Releases, version: str) -> str:
    with pytest.raises(PatchgenError) as raised:
        releases.find(version)
    return str(raised.value)
