"""The hook of pre-commit that compares generated files with their configs."""

from __future__ import annotations

import re
from pathlib import Path

from patchgen_core.authoring.init.additions import Addition
from patchgen_core.files import read_text

PART = "pre-commit"
NAME = ".pre-commit-config.yaml"
_HOOK = r"""- repo: local
  hooks:
    - id: patchgen-check
      name: patchgen check
      entry: patchgen check .
      language: system
      pass_filenames: false
      files: (_patch_gen_config\.py|/generated/.*|pyproject\.toml)$
"""
_KEY = re.compile(r"^([A-Za-z_][\w-]*):(.*)$", re.MULTILINE)


def add_hook(root: Path) -> Addition:
    """The hook in a repository's file, at the end of its ``repos``; the file is made where there is none."""
    path = root / NAME
    text = read_text(path)
    if text is None:
        return Addition(PART, path, _HOOK, f"repos:\n{_indent(_HOOK, 2)}")
    if "patchgen" in text:
        return Addition(PART, path, _HOOK, is_there=True, reason="it names patchgen")
    keys = list(_KEY.finditer(text))
    item = re.search(r"^( *)- ", text[keys[-1].end() :], re.MULTILINE) if keys else None
    if not item or keys[-1][1] != "repos" or keys[-1][2].partition("#")[0].strip():
        return Addition(PART, path, _HOOK, reason="'repos' is not a list at its end")
    newline = "\r\n" if "\r\n" in text else "\n"
    new = text.rstrip() + newline + _indent(_HOOK, len(item[1])).replace("\n", newline)
    return Addition(PART, path, _HOOK, new)


def _indent(text: str, width: int) -> str:
    return "".join(f"{' ' * width}{line}" for line in text.splitlines(keepends=True))
