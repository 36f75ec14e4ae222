"""Python objects on the pipes between a process and its workers: each is a pickle behind its length."""

from __future__ import annotations

import pickle
import sys
from io import BytesIO
from typing import IO, Any

_LENGTH_BYTES = 8


def write_frame(stream: IO[bytes], value: object) -> None:
    """Send a value."""
    data = pickle.dumps(value)
    stream.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The pickle of the next value; None when the stream ends before or in the midst of it."""
    head = stream.read(_LENGTH_BYTES)
    if len(head) < _LENGTH_BYTES:
        return None
    length = int.from_bytes(head, "big")
    data = stream.read(length)
    return data if len(data) == length else None


class _ImportedOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module not in sys.modules:
            raise pickle.UnpicklingError(f"'{module}', whose '{name}' it has, is not imported here")
        return super().find_class(module, name)


def load_answer(data: bytes) -> Any:
    """The value of a pickle that imports nothing: an answer does not bring torch into the process that asked.

    A pickle.UnpicklingError when it has an object of a module that is not imported here.
    """
    return _ImportedOnly(BytesIO(data)).load()
