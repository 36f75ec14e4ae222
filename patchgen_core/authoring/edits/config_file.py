"""A config's file as libcst reads it: every byte of it is in its tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from patchgen_core.errors import Location, PatchgenError

Changes = Mapping[cst.CSTNode, Callable[[Any], cst.CSTNode | cst.FlattenSentinel[Any]]]
"""What nodes of a file's tree become, one or several; given to each is the node with the changes below it."""


@dataclass(frozen=True)
class EditedFile:
    """A file and its tree, which knows encoding, byte order mark and newlines."""

    path: Path
    module: cst.Module

    @property
    def text(self) -> str:
        """The file with ``\\n`` newlines and one at its end, as it is parsed."""
        text = re.sub("\r\n?", "\n", self.module.code)
        return text if text.endswith("\n") or not text else f"{text}\n"

    @property
    def encoded(self) -> str:
        """The file as :func:`patchgen_core.files.write_files` takes it.

        Raises:
            PatchgenError: the file's encoding lacks a character.
        """
        try:
            return self.module.bytes.decode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            lacking = error.object[error.start : error.end]
            message = f"its encoding, {self.module.encoding}, lacks {lacking!r}"
            raise PatchgenError(message, Location(str(self.path))) from None

    @cached_property
    def positions(self) -> Mapping[cst.CSTNode, CodeRange]:
        """Where each node stands; definitions start at their ``def`` or ``class``, below their decorators."""
        return MetadataWrapper(self.module, unsafe_skip_copy=True).resolve(PositionProvider)

    def changed(self, changes: Changes) -> EditedFile:
        """The file with changes of some of its nodes."""
        if not changes:
            return self
        module = self.module.visit(_Change(changes))
        assert isinstance(module, cst.Module)
        return replace(self, module=module)


class _Change(cst.CSTTransformer):
    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self.changes = changes

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        change = self.changes.get(original_node)
        return updated_node if change is None else change(updated_node)


@dataclass(frozen=True)
class InTurn:
    """What a node becomes by one change after the other."""

    changes: tuple[Callable[[Any], Any], ...]

    def __call__(self, updated: Any) -> Any:
        """The node with all of them."""
        for change in self.changes:
            updated = change(updated)
        return updated


class ConfigFiles:
    """The files that are edited, each read once."""

    def __init__(self) -> None:
        self._files: dict[Path, EditedFile] = {}

    def put(self, path: Path, text: str) -> None:
        """Take a text for a file that is not written yet."""
        self._files[path] = EditedFile(path, cst.parse_module(text))

    def replace(self, file: EditedFile) -> None:
        """Take what an edit made of a file for the file."""
        self._files[file.path] = file

    def get(self, path: Path) -> EditedFile:
        """A file as it was when it was first asked for.

        Raises:
            PatchgenError: it cannot be read, decoded or parsed.
        """
        try:
            if path not in self._files:
                self._files[path] = EditedFile(path, cst.parse_module(path.read_bytes()))
        except (OSError, SyntaxError, ValueError, LookupError, cst.ParserSyntaxError) as error:
            raise PatchgenError(f"cannot be read: {error}", Location(str(path))) from None
        return self._files[path]
