"""What the process that runs models is asked, and what it answers beside results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ModelRequest:
    """Something to do in the process that runs models.

    Attributes:
        function: ``package.module:function`` of what does it there, given the request.
        device: where models run: "auto", "cpu" or "cuda".
        kernel_modules: the project's modules that register kernels.
        subject: what it is about.
    """

    function: str
    device: str
    kernel_modules: tuple[str, ...]
    subject: Any = None


@dataclass(frozen=True)
class BesideRequest:
    """A file beside a config that is to be checked.

    Attributes:
        module, path: the generated module's dotted name and file.
        text: what to run instead of what stands in the file; None for that.
        upstream: upstream's dotted name.
        beside: the file's dotted name.
    """

    module: str
    path: str
    text: str | None
    upstream: str
    beside: str


@dataclass(frozen=True)
class Raised:
    """An exception that a check raised.

    Attributes:
        error: its type and message.
        trace: its traceback.
        lacks: the module that could not be found.
        notes: what else a reader should know, a line each.
    """

    error: str
    trace: str
    lacks: str = ""
    notes: tuple[str, ...] = ()
