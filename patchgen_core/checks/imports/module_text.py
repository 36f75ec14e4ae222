"""Importing a module from a text, whatever stands on disk."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import os
import sys
from typing import Any


class _TextLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from a text instead of its file, leaving no bytecode behind."""

    text = ""

    def get_data(self, path: str) -> bytes:
        return self.text.encode("utf-8", "surrogateescape")

    def path_stats(self, path: str) -> Any:
        raise OSError("not on disk")


class TextFinder(importlib.abc.MetaPathFinder):
    """Finds one module, whose folder need not exist yet."""

    def __init__(self, module: str, path: str, text: str) -> None:
        self.module, self.path, self.text = module, path, text

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """The module, or its folder when that does not exist."""
        folder = os.path.dirname(self.path)
        if name == self.module:
            loader = _TextLoader(name, self.path)
            loader.text = self.text
            return importlib.util.spec_from_file_location(name, self.path, loader=loader)
        if name == self.module.rpartition(".")[0] and not os.path.isdir(folder):
            spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [folder]
            return spec
        return None


def give_text(module: str, path: str, text: str) -> None:
    """Have a module imported from a text, whatever stands on disk."""
    sys.meta_path.insert(0, TextFinder(module, path, text))
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)


def given_texts() -> list[tuple[str, str, str]]:
    """Module, path and text of each :func:`give_text`, for another process that imports the same."""
    finders = [finder for finder in sys.meta_path if isinstance(finder, TextFinder)]
    return [(finder.module, finder.path, finder.text) for finder in finders]
