"""Replacements for Qwen3.5's linear attention: its fast path, and a convolution that keeps packed sequences apart."""

from typing import TYPE_CHECKING

import torch
from patchgen import Edits

if TYPE_CHECKING:
    import functools
    import inspect

    from transformers.utils import logging

    from zoo.qwen3_5.generated.patched_modeling_qwen3_5_gpu import fast_linear_attention

FAST_LINEAR_ATTENTION = """
    # The fast path of linear attention, by upstream's names. A training framework that has builds of its own imports
    # them here. The convolution is fla's, because that of causal_conv1d does not take cu_seqlens.
    try:
        from fla.modules.causal_conv1d import causal_conv1d as fla_causal_conv1d
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
    except ImportError:
        fast_linear_attention = {}
    else:

        def channels_first_causal_conv1d(hidden_states, weight, bias=None, activation=None, cu_seqlens=None):
            output, _ = fla_causal_conv1d(
                hidden_states.transpose(1, 2), weight, bias, activation=activation, cu_seqlens=cu_seqlens
            )
            return output.transpose(1, 2)

        fast_linear_attention = {
            "causal_conv1d_fn": channels_first_causal_conv1d,
            "chunk_gated_delta_rule": chunk_gated_delta_rule,
            "fused_recurrent_gated_delta_rule": fused_recurrent_gated_delta_rule,
        }
    """


def one_sequence_after_the_other(function, args, kwargs, cu_seqlens, dim):
    """What ``function`` returns of sequences that are packed into one row, called with each of them alone.

    Arguments that have a batch are cut at ``cu_seqlens`` along ``dim``; weights have none.
    """
    lengths = cu_seqlens.diff().tolist()

    def parts(value):
        has_batch = isinstance(value, torch.Tensor) and value.dim() > 2
        return value.split(lengths, dim=dim) if has_batch else [value] * len(lengths)

    split_args, split_kwargs = [parts(value) for value in args], {name: parts(v) for name, v in kwargs.items()}
    results = [
        function(*(part[i] for part in split_args), **{name: part[i] for name, part in split_kwargs.items()})
        for i in range(len(lengths))
    ]
    if isinstance(results[0], torch.Tensor):
        return torch.cat(results, dim=dim)
    outputs, states = zip(*results)
    return torch.cat(outputs, dim=dim), None if states[0] is None else torch.cat(states)


def use_kernel_func_from_hub_with_fallback(func_name: str, package: str):
    """In the place of upstream's decorator: what it decorates runs by the fast path above, or else in torch.

    Either takes ``cu_seqlens``, which tells where sequences that are packed into one row begin and end.
    """

    def decorator(torch_function):
        function = fast_linear_attention.get(func_name, torch_function)
        known = inspect.signature(function).parameters

        @functools.wraps(torch_function)
        def wrapped(*args, cu_seqlens=None, **kwargs):
            kwargs = {name: value for name, value in kwargs.items() if name in known}
            if function is not torch_function:
                return function(*args, cu_seqlens=cu_seqlens, **kwargs)
            if not torch.compiler.is_compiling():
                logging.get_logger(__name__).warning_once(
                    f"`{func_name}` runs in torch, which is correct and slow: there is no flash-linear-attention."
                )
            if cu_seqlens is None:
                return torch_function(*args, **kwargs)
            return one_sequence_after_the_other(torch_function, args, kwargs, cu_seqlens, 1 if package == "fla" else 2)

        return wrapped

    return decorator


# ================================================================
# Patch: Qwen3_5GatedDeltaNet.forward
# 1. cu_seq_lens_q goes to the convolution too - upstream gives it to the gated delta rule alone, and the convolution
#    would mix the sequences that are packed into a row
# ================================================================
qwen3_5_gated_delta_net_forward = Edits()


@qwen3_5_gated_delta_net_forward.edit(at="batch_size, seq_len, _ = hidden_states.shape")
def qwen3_5_gated_delta_net_forward_1(kwargs, batch_size):
    ...
    cu_seqlens = kwargs.get("cu_seq_lens_q")
    if cu_seqlens is None and kwargs.get("seq_idx") is not None:
        raise ValueError("linear attention keeps packed sequences apart by cu_seq_lens_q: pass it beside seq_idx")
    if cu_seqlens is not None and batch_size != 1:
        raise ValueError(f"cu_seq_lens_q is for sequences that are packed into one row, and there are {batch_size}")


qwen3_5_gated_delta_net_forward.replace_code("causal_conv1d_fn(...)", "causal_conv1d_fn(..., cu_seqlens=cu_seqlens)")
