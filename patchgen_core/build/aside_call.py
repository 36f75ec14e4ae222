"""A call that another thread makes."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class AsideCall(Thread, Generic[T]):
    """Makes a call at once, beside whoever asks for it."""

    def __init__(self, call: Callable[[], T]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self._results: list[T] = []
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Make the call."""
        try:
            self._results.append(self._call())
        except BaseException as error:
            self._error = error

    def result(self) -> T:
        """What it returned, once it is done, or raises what it raised."""
        self.join()
        if self._error is not None:
            raise self._error
        return self._results[0]
