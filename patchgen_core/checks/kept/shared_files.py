"""Small files in a place that machines share: a folder, or a URL of fsspec. What does not answer is asked no more."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from patchgen_core.build.entry_folder import MOST_BYTES, check_signed, sign
from patchgen_core.errors import PatchgenError
from patchgen_core.files import write_files

WRITE_LIMIT = 60.0
"""Seconds that writing may take, at the end of a run; more where reading may."""
_Answer = TypeVar("_Answer")


class SharedFiles:
    """Signed files by name.

    Attributes:
        failure: why the place cannot be used; empty while it can.
    """

    def __init__(self, place: str, root: Path, time_limit: float) -> None:
        self.place, self.time_limit = place, time_limit
        self._files: _Folder | _Url = _Url(place) if "://" in place else _Folder(root / os.path.expanduser(place))
        self.failure = ""

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """The bodies of the files that are there and whole."""
        names = list(names)
        files = self._ask(lambda: self._files.read(names), self.time_limit) if names else None
        bodies = {name: check_signed(data) for name, data in (files or {}).items() if len(data) <= MOST_BYTES}
        return {name: body for name, body in bodies.items() if body is not None}

    def write(self, bodies: Mapping[str, bytes]) -> None:
        """Write files, each as a whole."""
        if bodies:
            signed = {name: sign(body) for name, body in bodies.items()}
            self._ask(lambda: self._files.write(signed), max(WRITE_LIMIT, self.time_limit))

    def _ask(self, question: Callable[[], _Answer], limit: float) -> _Answer | None:
        """The answer; None when there is none in time, or there was none before. The thread ends with the process."""
        if self.failure:
            return None
        answers: list[_Answer] = []

        def ask() -> None:
            try:
                answers.append(question())
            except Exception as error:
                self.failure = f"{type(error).__name__}: {error}"

        thread = threading.Thread(target=ask, daemon=True, name="patchgen-shared-cache")
        thread.start()
        thread.join(limit)
        if thread.is_alive():
            self.failure = f"it did not answer in {limit:g} s"
        return answers[0] if answers and not self.failure else None


class _Folder:
    """Files in a folder, below folders of the first two letters of their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        bodies = {}
        for name in names:
            path = self.folder / name[:2] / name
            if path.is_file():
                try:
                    with open(path, "rb") as stream:
                        bodies[name] = stream.read(MOST_BYTES + 1)
                except FileNotFoundError:
                    continue
        return bodies

    def write(self, files: Mapping[str, bytes]) -> None:
        try:
            write_files((self.folder / name[:2] / name, data.decode()) for name, data in files.items())
        except PatchgenError as error:
            raise OSError(str(error)) from None


class _Url:
    """Files where fsspec finds them."""

    def __init__(self, url: str) -> None:
        self.url, self._system, self._root = url, None, ""

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        system = self._open()
        paths = {f"{self._root}/{name[:2]}/{name}": name for name in names}
        answers: dict[str, Any] = system.cat(list(paths), on_error="return")
        broken = [data for data in answers.values() if isinstance(data, Exception) and not _is_absent(data)]
        if broken:
            raise broken[0]
        return {paths[path]: data for path, data in answers.items() if path in paths and isinstance(data, bytes)}

    def write(self, files: Mapping[str, bytes]) -> None:
        system = self._open()
        for name in sorted({name[:2] for name in files}):
            system.makedirs(f"{self._root}/{name}", exist_ok=True)
        system.pipe({f"{self._root}/{name[:2]}/{name}": data for name, data in files.items()})

    def _open(self) -> Any:
        if self._system is None:
            try:
                from fsspec.core import url_to_fs
            except ImportError:
                raise ImportError("fsspec is not installed: pip install 'pytest-patchgen[shared]'") from None
            self._system, self._root = url_to_fs(self.url)
        return self._system


def _is_absent(error: Exception) -> bool:
    return isinstance(error, (FileNotFoundError, NotADirectoryError))
