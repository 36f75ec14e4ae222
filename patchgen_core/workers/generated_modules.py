"""How a process of a check imports generated modules: from their text, with no bytecode in between.

Python takes bytecode for that of a file by the second it was written in and its size. A module that is generated
twice within a second may have the same of both.
"""

from __future__ import annotations

import os
import sys
import types
from importlib.abc import Loader, PathEntryFinder
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, FileFinder, SourceFileLoader

from patchgen_core.project.project import OUTPUT_FOLDER
from patchgen_core.workers.watched_code import compile_watched, list_watched_lines


class _SourceLoader(SourceFileLoader):
    """Compiles a module from its text: bytecode is neither used nor left."""

    def get_code(self, fullname: str) -> types.CodeType:
        return compile_watched(self.get_data(self.path), self.path, list_watched_lines(self.path))


def import_generated_modules_from_text() -> None:
    """Have this process and its children compile what they import from folders of generated modules."""
    loaders: list[tuple[type[Loader], list[str]]] = [
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (_SourceLoader, SOURCE_SUFFIXES),
    ]
    make_finder = FileFinder.path_hook(*loaders)

    def find_in_output_folder(path: str) -> PathEntryFinder:
        if OUTPUT_FOLDER not in path.split(os.sep):
            raise ImportError(f"{path} is not a folder of generated modules")
        return make_finder(path)

    sys.path_hooks.insert(0, find_in_output_folder)
