"""What is written to standard error while somebody else writes there."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def hold_stderr_back() -> Iterator[Callable[[], str]]:
    """Have ``sys.stderr`` write into a file; yields what gives all that it has written.

    It stands for one that has a descriptor, as whoever asks for that expects.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogatepass") as stream:

        def read() -> str:
            stream.seek(0)
            return stream.read()

        with contextlib.redirect_stderr(stream):
            yield read
