"""What may stand in the arguments of a slot, and in those of ``tolerate``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lsprotocol import types

from patchgen_core.checks.contract.kernels import Kernels
from patchgen_core.project.parity_settings import DTYPES
from patchgen_lsp.analysis.slots import SLOT
from patchgen_lsp.analysis.upstream_view import UpstreamView

TOLERATE = "tolerate"
_VALUE = types.CompletionItemKind.EnumMember
_ARGUMENTS = ("op_name", "variant")


def complete_slot(
    kernels: Kernels, call: str, argument: int, keyword: str, before: Sequence[str]
) -> Iterator[types.CompletionItem]:
    """The ops for the first argument of a slot, and for the second the variants of the op that stands before it."""
    wanted = keyword or (_ARGUMENTS[argument] if argument < len(_ARGUMENTS) else "")
    if call != SLOT:
        return
    if wanted == "op_name":
        for op in sorted(kernels.ops):
            yield types.CompletionItem(op, kind=_VALUE, detail=f"variants: {', '.join(kernels.variants(op))}")
    elif wanted == "variant" and before:
        for variant in kernels.variants(before[0]):
            detail = f"implementations: {', '.join(kernels.names(before[0], variant))}"
            yield types.CompletionItem(variant, kind=_VALUE, detail=detail)


def complete_tolerance(kernels: Kernels, upstream: UpstreamView, keyword: str) -> Iterator[types.CompletionItem]:
    """The implementations, dtypes or heads that a tolerance may be limited to."""
    if keyword == "implementation":
        for name in sorted({name for _, _, name in kernels.implementations}):
            ops = sorted({op for op, _, each in kernels.implementations if each == name})
            yield types.CompletionItem(name, kind=_VALUE, detail=f"of {', '.join(ops)}")
    elif keyword == "dtype":
        yield from (types.CompletionItem(dtype, kind=_VALUE) for dtype in DTYPES)
    elif keyword == "head":
        for name, node in upstream.targets:
            if isinstance(node, ast.ClassDef) and "For" in name:
                yield types.CompletionItem(name, kind=types.CompletionItemKind.Class)
