"""Limits on how often something may be tried."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

_MOST_KEYS = 10_000
_MINUTE = 60.0


@dataclass
class RateLimit:
    """At most ``count`` tries in ``seconds`` by the same key, such as an address; the oldest keys are forgotten."""

    count: int
    seconds: float
    _tries: OrderedDict[str, list[float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, key: str, at: float) -> bool:
        """Count a try at a monotonic time; whether it may be."""
        with self._lock:
            tries = [time for time in self._tries.pop(key, []) if at - time < self.seconds]
            is_allowed = len(tries) < self.count
            self._tries[key] = [*tries, at] if is_allowed else tries
            while len(self._tries) > _MOST_KEYS:
                self._tries.popitem(last=False)
            return is_allowed

    def is_used_up(self, key: str, at: float) -> bool:
        """Whether another try would be refused; counts nothing."""
        with self._lock:
            return sum(at - time < self.seconds for time in self._tries.get(key, ())) >= self.count

    def forget(self, key: str) -> None:
        """Let a key try anew, as after it succeeded."""
        with self._lock:
            self._tries.pop(key, None)


@dataclass
class Allowance:
    """So many calls a minute by the same key, and all of them at once after a minute's rest; 0 is any number.

    Of each key, only the time is kept at which its whole allowance is there again; the oldest keys are forgotten.
    Not for several threads: the one asks that all requests come in by.
    """

    per_minute: int
    _whole_again: OrderedDict[str, float] = field(default_factory=OrderedDict)

    def wait(self, key: str, at: float) -> float:
        """Seconds from a monotonic time until a key may call, 0 where it may at once; counts nothing."""
        if not self.per_minute:
            return 0.0
        missing = max(0.0, self._whole_again.get(key, at) - at)
        return max(0.0, round(missing + _MINUTE / self.per_minute - _MINUTE, 6))

    def take(self, key: str, at: float) -> None:
        """Count a call."""
        if self.per_minute:
            self._whole_again[key] = max(at, self._whole_again.pop(key, at)) + _MINUTE / self.per_minute
            if len(self._whole_again) > _MOST_KEYS:
                self._whole_again.popitem(last=False)


@dataclass(frozen=True)
class Limits:
    """The limits of a running service.

    Attributes:
        by_address, by_name: tries to sign in.
        wrong_signatures: webhooks of one address to one repository: a forge whose secret is wrong sends few, who
            guesses sends many.
    """

    by_address: RateLimit = field(default_factory=lambda: RateLimit(20, 60))
    by_name: RateLimit = field(default_factory=lambda: RateLimit(8, 60))
    wrong_signatures: RateLimit = field(default_factory=lambda: RateLimit(60, 60))
