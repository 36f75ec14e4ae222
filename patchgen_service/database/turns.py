"""Taking turns: a lock that is given to those who wait for it in the order in which they came."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """A lock for threads; Python's own is taken again by whoever gave it back before others have woken up."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Event] = deque()

    @property
    def queue_length(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @contextmanager
    def take(self, seconds: float) -> Iterator[bool]:
        """Wait for one's turn, and have it until the end; whether it came in time."""
        has_turn = self._wait(seconds)
        try:
            yield has_turn
        finally:
            if has_turn:
                self._give_on()

    def _wait(self, seconds: float) -> bool:
        turn = threading.Event()
        with self._mutex:
            if not self._is_taken:
                self._is_taken = True
                return True
            self._waiting.append(turn)
        if turn.wait(seconds):
            return True
        with self._mutex:
            if turn.is_set():
                return True
            self._waiting.remove(turn)
            return False

    def _give_on(self) -> None:
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False
