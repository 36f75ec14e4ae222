"""Arguments to try kernels with: what the kernel parity check calls every implementation of an op with.

An op of another package joins the check by :func:`register_cases`, beside an implementation named "eager".
"""

from __future__ import annotations

from collections.abc import Mapping

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.kernels.arguments import Case, Draw, Maker, strided

__all__ = ["Case", "Draw", "Maker", "find_cases", "register_cases", "strided"]

_REGISTERED: dict[tuple[str, str], Maker] = {}


def register_cases(op_name: str, variant: str, maker: Maker) -> None:
    """Say with which arguments the kernels of an op's variant are checked; ``maker`` is called once a dtype.

    Cases should be small, some of odd sizes, of one row, of tensors that are not contiguous (:func:`strided`).

    Raises:
        PatchgenError: there are cases for them already.
    """
    if (op_name, variant) in _REGISTERED or (op_name, variant) in _default_makers():
        raise PatchgenError(f"cases for {op_name}/{variant} are registered twice")
    _REGISTERED[op_name, variant] = maker


def find_cases(op_name: str, variant: str) -> Maker | None:
    """What makes the cases of an op's variant; None when nothing does."""
    return _REGISTERED.get((op_name, variant)) or _default_makers().get((op_name, variant))


def _default_makers() -> Mapping[tuple[str, str], Maker]:
    from patchgen_core.ops.kernels.default_cases import MAKERS

    return MAKERS
