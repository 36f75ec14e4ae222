"""The generated modules of a config as they are checked in, read without loading the config, which may need torch."""

from __future__ import annotations

import re
from pathlib import Path

from patchgen_core.checks.session import Session
from patchgen_core.errors import PatchgenError
from patchgen_core.files import read_text

_PYTHON_FILE = re.compile(r"""["']([\w.\-]+\.py)["']""")


def read_generated_texts(session: Session, path: Path) -> list[tuple[str, str]]:
    """A dotted name and a text for each: those that the config's text names, or else all of its output folder."""
    try:
        project = session.project(path)
        folder = project.output_folder(path)
    except PatchgenError:  # there is no project: the drift check says so
        return []
    files = [folder / name for name in _PYTHON_FILE.findall(read_text(path) or "")]
    texts = [(file, read_text(file)) for file in files]
    if not any(text for _, text in texts):
        texts = [(file, read_text(file)) for file in sorted(folder.glob("*.py"))]
    return [(project.module_name(file), text) for file, text in texts if text]
