"""What the process that runs models is asked, and what it answers beside results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from patchgen_core.errors import Location
from patchgen_core.models.run_files import RunPlace


@dataclass(frozen=True)
class ModelRequest:
    """Something to do in the process that runs models.

    Attributes:
        function: ``package.module:function`` of what does it there, given the request.
        device: where models run: "auto", "cpu", "cuda" or "npu".
        kernel_modules: the project's modules that register kernels.
        setups: references of the functions that set up the project's models.
        optional_packages: packages that only some machines have.
        runs: where runs of upstream's models are kept; None for nowhere.
    """

    function: str
    device: str
    kernel_modules: tuple[str, ...]
    subject: Any = None
    setups: tuple[str, ...] = ()
    optional_packages: tuple[str, ...] = ()
    runs: RunPlace | None = None


@dataclass(frozen=True)
class BesideRequest:
    """A file beside a config, by its dotted name, that is to be checked against a generated module and upstream's.

    ``text`` is what to run instead of what stands in the module's file; None for that.
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
        error: its type and text.
        trace: the project's lines that were running, the one that raised it last.
        place: the last one that ran of the file of the project that was entered first; None where none ran.
        head: the model class that was being checked; empty for none.
        lacks: the module that could not be found.
    """

    error: str
    trace: str
    place: Location | None = None
    head: str = ""
    lacks: str = ""
    notes: tuple[str, ...] = ()
