"""Texts that are seldom read, in a tenth of their size."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, MutableMapping


class PackedTexts(MutableMapping[str, str]):
    """Compresses what it is given, and gives it back as it was."""

    def __init__(self) -> None:
        self._packed: dict[str, bytes] = {}

    def __getitem__(self, key: str) -> str:
        return zlib.decompress(self._packed[key]).decode("utf-8", "surrogatepass")

    def __setitem__(self, key: str, text: str) -> None:
        self._packed[key] = zlib.compress(text.encode("utf-8", "surrogatepass"))

    def __delitem__(self, key: str) -> None:
        del self._packed[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)
