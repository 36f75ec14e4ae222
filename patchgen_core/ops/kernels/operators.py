"""Python functions as operators of torch, which ``torch.compile`` takes as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_LIBRARY: Any = torch.library.Library("patchgen", "FRAGMENT")  # type: ignore[no-untyped-call]


def operator(fake: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function the operator ``torch.ops.patchgen.<its name>``.

    Compiled code calls it without looking inside, so that it may wait for the device and launch any kernel. It costs
    a call some 2 µs, a tenth of what :func:`torch.library.custom_op` does; in turn nothing checks that the function
    leaves its arguments as they are, that it returns none of them, and that it is not differentiated: call it from a
    :class:`torch.autograd.Function`. ``fake`` returns empty tensors of the results' shapes, dtypes and strides.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__.lstrip("_")
        _LIBRARY.define(name + torch.library.infer_schema(function, mutates_args=()))
        _LIBRARY.impl(name, function, "CompositeExplicitAutograd")
        torch.library.register_fake(f"patchgen::{name}", fake, lib=_LIBRARY)
        overload: Callable[..., Any] = getattr(torch.ops.patchgen, name).default
        return overload

    return register
