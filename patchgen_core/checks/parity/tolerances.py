"""How far a patched model may be off: a multiple of what Hugging Face eager itself is off, in the same dtype.

What eager is off is measured against a run of the same model in float64, tensor by tensor. A multiple of 0 asks for
the same bits as eager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from patchgen_core.config.declarations import Tolerance
from patchgen_core.ops.kernel_spec import EAGER
from patchgen_core.project.parity_settings import HEAD_MARK

MULTIPLE = 4.0
"""The default for everything but eager: kernels that are right were measured at 0.9 to 1.6."""
PROJECT_KEY = "[tool.patchgen.parity] tolerance"


@dataclass(frozen=True)
class Limit:
    """What one implementation is allowed in one dtype: a ``multiple`` of the error of eager, 0 for the same bits.

    ``source`` tells who says so; it is empty for the default.
    """

    multiple: float
    source: str = ""

    def __str__(self) -> str:
        limit = f"at most {self.multiple:g} x the error of eager" if self.multiple else "bit for bit"
        return f"{limit} ({self.source})" if self.source else limit


def find_limit(
    implementation: str,
    dtype: str,
    declared: Sequence[Tolerance] = (),
    project: Mapping[str, float] | None = None,
    has_kernels: bool = False,
    head: str = "",
) -> Limit:
    """What an implementation of a head is allowed in a dtype, "float32" or "bfloat16".

    The config's own word comes first (the last one that fits), then the project's: its keys are
    ``<implementation>-<dtype>``, ``<implementation>``, or ``<dtype>`` for all implementations but eager, and for eager
    too where kernels run in any case (``has_kernels``). One that begins with ``<pattern of heads>::`` comes before
    those for all heads.
    """
    for tolerance in reversed(declared):
        if tolerance.covers(implementation, dtype, head):
            return Limit(tolerance.multiple, tolerance.reason)
    is_exact = implementation == EAGER and not has_kernels
    keys = [f"{implementation}-{dtype}", implementation] + ([dtype] if not is_exact else [])
    settings = project or {}
    prefixes = [setting.rpartition(HEAD_MARK)[0] for setting in settings if HEAD_MARK in setting]
    own = [f"{prefix}{HEAD_MARK}{key}" for prefix in prefixes if fnmatchcase(head, prefix) for key in keys]
    for key in (*own, *keys):
        if key in settings:
            return Limit(settings[key], f"{PROJECT_KEY} '{key}'")
    return Limit(0.0 if is_exact else MULTIPLE)
