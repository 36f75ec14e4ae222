"""Packages that only some machines have, ``optional_packages`` of ``[tool.patchgen]``, where models run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_OPTIONAL: ContextVar[frozenset[str]] = ContextVar("optional packages", default=frozenset())


@contextmanager
def optional_packages(names: Iterable[str]) -> Iterator[None]:
    """Have code in the context know which packages are optional."""
    before = _OPTIONAL.set(frozenset(names))
    try:
        yield
    finally:
        _OPTIONAL.reset(before)


def missing_package(error: BaseException | None) -> str:
    """The optional package that an error, or what it was raised from, says is not installed; empty for none."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError):
            package = (error.name or "").partition(".")[0]
            return package if package in _OPTIONAL.get() else ""
        error = error.__cause__ or (error.__context__ if isinstance(error, ImportError) else None)
    return ""


def raise_if_missing(error: BaseException) -> None:
    """Raise a ModuleNotFoundError where an error is about an optional package that is not installed."""
    if package := missing_package(error):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package) from error
