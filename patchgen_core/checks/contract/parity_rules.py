"""The rules that no text tells of: what the item ``parity`` finds when it runs the models."""

from __future__ import annotations

from collections.abc import Iterable

from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.checks.parity_codes import NOT_PATCHED, UNINITIALIZED, UNREACHED, UNRUN, UNUSED

_LLAMA = "transformers.models.llama.modeling_llama"
_ATTENTION = """
@config.replace_function("repeat_kv")
def repeat_kv(hidden_states, n_rep):
    return hidden_states.repeat_interleave(n_rep, dim=1)

@config.replace_function("eager_attention_forward")
def eager_attention_forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    groups = module.num_key_value_groups
    key, value = REPEATED
    scores = query @ key.transpose(2, 3) * scaling
    scores = scores if attention_mask is None else scores + attention_mask
    weights = nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights
"""
_BY_HAND = "key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)"
_MLP = """
@config.override_method("LlamaMLP.forward")
def forward(self, x):
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""
_START = """
@config.override_method("LlamaPreTrainedModel._init_weights")
def _init_weights(self, module):
    INITIALIZED
"""
_CHUNKS = """
@config.override_method("LlamaMLP.forward")
def forward(self, x):
    if x.shape[1] > 4096:
        return torch.cat([self.forward(chunk) for chunk in x.split(4096, dim=1)], dim=1)
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""
_ALLOWED = f"""
config.allow("{UNRUN}", "longer than any toy sequence", "LlamaMLP.forward")
"""


def _found_by_running(subject: Subject) -> Iterable[Finding]:
    """Nothing: models have to run."""
    return ()


def _on_llama(text: str) -> Example:
    return Example(text, "", module=_LLAMA)


PARITY_RULES: tuple[Rule, ...] = (
    Rule(
        code=UNUSED,
        name="idle declaration",
        severity="warning",
        reason=(
            "A `config.allow` of a parity code that matches nothing hides the next finding of that kind. A "
            "`config.tolerate` for an implementation that the config does not offer, because it is misspelled or "
            "gone, tolerates nothing. One implementation may find what another does not. An allowance is therefore "
            "idle only when the items of all implementations ran, in one session or in merged reports, and none "
            "needed it."
        ),
        failing=_on_llama(_ALLOWED + _MLP),
        passing=_on_llama(_ALLOWED + _CHUNKS),
        check=_found_by_running,
    ),
    Rule(
        code=UNREACHED,
        name="unreached",
        severity="error",
        reason=(
            "Parity says nothing about code that did not run. If no toy batch reaches a patch in any head, the patch "
            "is dead, because another patch took its caller away, or it needs a batch or a toy config of its own: an "
            "image, a layer type, an option. The same goes for a slot that is bound to a kernel and never called."
        ),
        failing=_on_llama(_ATTENTION.replace("REPEATED", _BY_HAND)),
        passing=_on_llama(_ATTENTION.replace("REPEATED", "repeat_kv(key, groups), repeat_kv(value, groups)")),
        check=_found_by_running,
    ),
    Rule(
        code=UNRUN,
        name="lines that do not run",
        severity="error",
        reason=(
            "The function runs, but a branch that its patch adds does not, so nobody has seen what that branch "
            "computes. Only lines that upstream does not have count. Lines are exempt if they depend on whether a "
            "slot has a kernel, on the device or on being compiled, if they end in `raise`, or if they only name "
            "None. Lines that ranks of a group run are a warning: the check `sharded` runs them. Add a batch or a toy "
            "config that gets there, or allow it."
        ),
        failing=_on_llama(_CHUNKS),
        passing=_on_llama(_CHUNKS.replace("4096", "4")),
        check=_found_by_running,
    ),
    Rule(
        code=NOT_PATCHED,
        name="head without patches",
        severity="warning",
        reason=(
            "A generated class for sequence or token classification that makes its base model with "
            "`AutoModel.from_config` gets upstream's model, without a patch in it, and trains that. Register the "
            "generated classes with `register_with_auto()`, or leave such classes out of the output."
        ),
        failing=_on_llama(_MLP),
        passing=_on_llama(
            f"""
config.exclude_from_output("LlamaForSequenceClassification", "LlamaForTokenClassification")
{_MLP}"""
        ),
        check=_found_by_running,
    ),
    Rule(
        code=UNINITIALIZED,
        name="initial values",
        severity="error",
        reason=(
            "Parity gives every parameter a value, so it does not see the initial values of a model that is trained "
            "from scratch, or whose checkpoint lacks a tensor. This rule compares the initial values of every "
            "parameter with those that upstream's class makes: another spread, or another constant, is a finding. "
            "Besides a slip in `__init__` or `_init_weights` there is a trap. transformers treats classes outside its "
            "package as custom code and skips modules that have no parameters or buffers of their own. A branch of "
            "`_init_weights` that fills a block's children then never runs, and they keep other values. GPT-2, "
            "Qwen3-Next and about 80 other modules of transformers do this. Where that is the cause, parity proves "
            "it: it initializes the model again with an `_initialize_weights` that skips nothing, and prints the "
            "patch. `patchgen new` and `patchgen adopt` write it themselves."
        ),
        failing=_on_llama(_START.replace("INITIALIZED", "pass")),
        passing=_on_llama(_START.replace("INITIALIZED", "super()._init_weights(module)")),
        check=_found_by_running,
    ),
)
