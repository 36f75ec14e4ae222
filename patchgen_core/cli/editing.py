"""A text in somebody's editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from patchgen_core.errors import PatchgenError

_DEFAULT = "vi"


def edit_text(text: str, name: str) -> str:
    """A text as an editor leaves it, in a file of some name: that of ``$VISUAL`` or ``$EDITOR``.

    Raises:
        PatchgenError: the editor cannot be started, or ends with an error.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or _DEFAULT
    with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
        path = Path(folder, name)
        path.write_text(f"{text}\n", encoding="utf-8")
        hint = "Name one in EDITOR."
        try:
            done = subprocess.run([*shlex.split(editor), str(path)], check=False)
            edited = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise PatchgenError(f"the editor '{editor}' cannot be used: {error}", hint=hint) from None
        if done.returncode:
            raise PatchgenError(f"the editor '{editor}' ended with exit code {done.returncode}: its text is not taken")
        return edited.rstrip("\n")
