"""Kernels of this package that call ``torch_npu``: without it, plain torch stands in for its operators."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from patchgen_core.ops.kernel_spec import Kernel, KernelSpec
from patchgen_core.ops.kernels import DEFAULTS

_PACKAGE = "torch_npu"
_MODULE = "patchgen_core.ops.kernels.npu"


def list_stood_in() -> list[KernelSpec]:
    """The kernels that a stand-in is needed for here: all of them, or none where ``torch_npu`` is installed."""
    return [spec for spec in DEFAULTS if _PACKAGE in spec.packages and spec.missing_package()]


@contextmanager
def stood_in(spec: KernelSpec) -> Iterator[Kernel]:
    """A kernel whose operators are stood in for while the context lasts. Its module is imported for that alone."""
    from patchgen_core.models.modes_npu import standing_in  # imports torch

    with standing_in():
        try:
            yield spec.factory()
        finally:
            sys.modules.pop(_MODULE, None)
