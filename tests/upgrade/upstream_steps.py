"""What upstream did to many models in the same way, and words for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

What = Literal["cosmetic", "changed", "signature changed", "decorators changed", "appears"]
"""What happens to a target in a step: a kind of :mod:`patchgen_core.upgrade.results`, or that it ``appears``: the
release before lacks it. No target of today's zoo goes on the way to today."""


@dataclass(frozen=True)
class Step:
    """Something that happens to a target.

    Attributes:
        release: the release that does it to the one before it.
        what: the verdict.
        why: what upstream did.
    """

    release: str
    what: What
    why: str


ADDED = "added"
"""The zoo adds it: no release has it."""

TENSOR_HINTS = Step("5.23.0", "cosmetic", "torch.FloatTensor becomes torch.Tensor in annotations")
CONFIG_HINT = Step("5.23.0", "cosmetic", "config: is annotated")
LABELS_TEXT = Step("5.18.0", "cosmetic", "the docstring no longer says what labels are")
GRID_TEXT = Step("5.15.1", "cosmetic", "the docstring no longer says what the grids are")
LOGITS = Step("5.21.1", "changed", "slice_logits_to_keep takes the place of slicing in line")
EXPERTS = Step("5.18.0", "changed", "the mask of experts has one class more, for tokens that no expert here is for")
KERNEL_FUNCTION = Step("5.15.1", "decorators changed", "use_kernel_func_from_hub becomes use_kernel_forward_from_hub")
ROPE_DELTAS = Step("5.10.4", "signature changed", "rope_deltas is no parameter any more, and deprecate_kwarg says so")
NO_DEPRECATION = Step("5.15.1", "decorators changed", "deprecate_kwarg is gone; the docstring no longer has the grids")
DOCUMENTED = Step("5.15.1", "decorators changed", "auto_docstring, and less text in the docstring")
ENCODER_OUTPUTS = Step("5.18.0", "signature changed", "mm_encoder_outputs: features that were computed before")
LOSS_KWARGS = Step("5.17.0", "changed", "loss_function takes **kwargs")
OUTPUTS = Step("5.23.0", "changed", "returns what the text model returns, without rope_deltas; torch.Tensor in hints")
PLAIN_OUTPUT = Step("5.23.0", "changed", "returns the plain output class, without rope_deltas; torch.Tensor in hints")
AUTO_MODELS = Step("5.11.0", "changed", "AutoModel.from_config makes the tower and the text model")

INHERITED = (Step("5.23.0", "cosmetic", "annotations of what it inherits from GenericForSequenceClassification"),)

ROTARY = (KERNEL_FUNCTION,)
CAUSAL_LM = (LOGITS, TENSOR_HINTS)
CAUSAL_LM_WITH_TEXT = (LABELS_TEXT, LOGITS, TENSOR_HINTS)
MULTIMODAL_ROTARY = (Step("5.17.0", "appears", "apply_multimodal_rotary_pos_emb, of another signature, goes for it"),)
MODEL_OF_QWEN2_VL = (ROPE_DELTAS, NO_DEPRECATION, ENCODER_OUTPUTS, OUTPUTS)
CONDITIONAL_OF_QWEN2_VL = (ROPE_DELTAS, NO_DEPRECATION, ENCODER_OUTPUTS, LOGITS, PLAIN_OUTPUT)
INIT_OF_QWEN3_VL = (AUTO_MODELS, CONFIG_HINT)
MODEL_OF_QWEN3_VL = (GRID_TEXT, ENCODER_OUTPUTS, OUTPUTS)
ROUTER_LOGITS = Step("5.18.0", "signature changed", "mm_encoder_outputs, and output_router_logits out of **kwargs")
CONDITIONAL_OF_QWEN3_VL = (DOCUMENTED, LOSS_KWARGS, ENCODER_OUTPUTS, LOGITS, PLAIN_OUTPUT)
CONDITIONAL_OF_QWEN3_VL_MOE = (DOCUMENTED, LOSS_KWARGS, ROUTER_LOGITS, LOGITS, PLAIN_OUTPUT)
NAIVE_EXPERTS = (Step("5.13.1", "appears", "the class was called NaiveMoe"), EXPERTS)
CAUSAL_LM_OF_DEEPSEEK = (
    Step("5.19.0", "changed", "returns router logits in the output class of experts' models"),
    LOGITS,
    TENSOR_HINTS,
)
GATED_NORM = (
    Step("5.15.1", "changed", "the activation is the config's, not always SiLU"),
    Step("5.17.0", "signature changed", "gate has no default any more"),
)
GATED_DELTA_NET = (
    Step("5.13.1", "decorators changed", "force_accelerate_hooks"),
    Step("5.14.1", "changed", "states in the cache are lists"),
    Step("5.15.1", "changed", "kernels are functions of the module; the cache keeps the state of the convolution"),
    Step("5.16.1", "changed", "has_previous_state is asked with state_idx"),
    Step("5.21.1", "changed", "the states come from get_conv_state and get_recurrent_state"),
    Step("5.23.0", "changed", "keys and queries are no longer repeated for the heads of the values"),
)

# --- towers and text models that ranks share --------------------------------------------------------

VISION_ATTENTION = (
    Step("5.10.4", "signature changed", "rotary_pos_emb is no parameter any more, and deprecate_kwarg says so"),
    Step("5.15.1", "signature changed", "max_seqlen; get_max_seqlen finds it out where it is not given"),
)
VISION_ATTENTION_OF_OMNI = (
    Step("5.10.4", "signature changed", "rotary_pos_emb becomes position_embeddings, and deprecate_kwarg says so"),
    Step("5.15.1", "signature changed", "max_seqlen; get_max_seqlen finds it out where it is not given"),
    Step("5.17.0", "changed", "position_embeddings are cosines and sines"),
    Step("5.23.0", "decorators changed", "deprecate_kwarg is gone"),
)
RENAMED_EMBEDDINGS = Step("5.10.4", "changed", "what attention is given is called position_embeddings")
LONGEST = Step("5.15.1", "changed", "the length of the longest sequence comes with their ends")
COS_AND_SIN = Step("5.17.0", "changed", "rotary_pos_emb gives cosines and sines")
WINDOWS = Step("5.17.0", "changed", "permute_input_for_window_attn; rotary_pos_emb gives cosines and sines")
TOWER = (LONGEST, COS_AND_SIN)
TOWER_OF_WINDOWS = (LONGEST, WINDOWS)
TOWER_OF_QWEN3_VL = (
    Step("5.15.1", "changed", "positions are interpolated as the config says; the longest sequence's length"),
    COS_AND_SIN,
)
ATTENTION_OF_QWEN2_VL = (
    Step("5.17.0", "signature changed", "no output_attentions, no use_cache; the rotary function knows its sections"),
)
TEXT_MODEL_OF_QWEN2_VL = (Step("5.13.1", "cosmetic", "a slip of the pen in a comment"), TENSOR_HINTS)
