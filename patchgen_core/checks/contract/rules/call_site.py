"""PG202: calls inside the module fit what they call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from patchgen_core.checks.contract.imported_functions import ImportedFunctions
from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject, Weight
from patchgen_core.codegen.imports import imported_names
from patchgen_core.errors import Location
from patchgen_core.syntax.inference import Callee
from patchgen_core.syntax.nodes import Function, decorator_name, last_name, without_docstring
from patchgen_core.syntax.scopes import Call
from patchgen_core.syntax.signatures import is_static, misfit, signature_of

_PASSING_ON = frozenset(
    [
        *("auto_docstring", "no_grad", "inference_mode", "staticmethod", "classmethod", "dynamic_rope_update"),
        *("use_kernel_forward_from_hub", "use_kernel_func_from_hub", "use_kernel_func_from_hub_with_fallback"),
        *("abstractmethod", "lru_cache", "cache", "compile_compatible_method_lru_cache", "force_accelerate_hooks"),
        *("contextmanager", "ignore", "export", "script_if_tracing", "add_start_docstrings_to_model_forward"),
        *("add_start_docstrings", "replace_return_docstrings", "add_code_sample_docstrings", "override", "final"),
        *("select_hidden_states", "filter_output_hidden_states"),
    ]
)
"""Decorators that hand on the arguments as they are."""

_OF_OUTPUTS = r"return_dict|use_cache|is_causal|debug_io\w*|output_\w+|vision_\w+"
_TAKING_MORE = {
    "can_return_tuple": _OF_OUTPUTS,
    "capture_outputs": _OF_OUTPUTS,
    "merge_with_config_defaults": _OF_OUTPUTS,
    "check_model_inputs": _OF_OUTPUTS,
    "accepts_precomputed_kwargs": r"(image|video|audio)_\w+|cu_seq_lens_[qk]|max_length_[qk]",
    "filter_out_non_signature_kwargs": r"\w+",
}
"""Decorators of transformers that take some keywords for themselves or pass them on under other names."""

_UPSTREAM = """
class Attention:
    def forward(self, hidden_states, scale=1):
        return hidden_states * scale


class Layer:
    def __init__(self, config):
        self.attention = Attention()

    def forward(self, hidden_states):
        return self.attention(hidden_states, scale=2)
"""


class Keywords:
    """The keywords that decorators take for themselves; ``are_known`` if all hand on what else they get."""

    def __init__(self, function: Function | None) -> None:
        names = [decorator_name(d) for d in function.decorator_list] if function else []
        self.are_known = all(name in _PASSING_ON or name in _TAKING_MORE for name in names)
        self._patterns = [_TAKING_MORE[name] for name in names if name in _TAKING_MORE]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(re.fullmatch(pattern, name) for pattern in self._patterns)


def check(subject: Subject) -> Iterator[Finding]:
    """Compare every call whose callee is evident with the callee's signature."""
    imported = ImportedFunctions(subject)
    for call, evident in subject.callers.evident:
        callees = evident or tuple(filter(None, [imported.callee(call)]))
        misfits = [(callee, why) for callee in callees if (why := _misfit(call, callee))]
        fits_none = len(misfits) == len(callees)
        for callee, why in misfits:
            # Branches that belong together may call one attribute in two ways, each for its own class.
            if fits_none or _fitted_upstream(subject, call, callee):
                where = f"'{call.owner}'" if call.owner else "the module"
                message = f"{where} calls {callee.name} and {why}: it takes {callee.signature}"
                hint = f"Change the call, or give {callee.name} the parameters that its callers pass."
                is_own = bool(call.owner) and subject.is_own(call.owner, call.node)
                declared = None if is_own else _declared(subject, call, callee)
                if callee.module is not subject.generated and not is_own and declared is None:
                    continue  # upstream's code calls upstream's
                target = call.owner or callee.dotted
                is_unused = subject.callers.instances.is_unused(call.owner.partition(".")[0])
                weight: Weight | None = "warning" if is_unused else None
                is_upstream = not is_own and declared is None
                yield Finding(message, hint, call.node, target, declared, is_upstream, weight)


def _misfit(call: Call, callee: Callee) -> str:
    keywords = Keywords(callee.function)
    is_evident = keywords.are_known and not (callee.function and _is_abstract(callee.function))
    return misfit(call.node, callee.signature, keywords) if is_evident else ""


def _is_abstract(function: Function) -> bool:
    """Whether a function only raises, so that what is called is a subclass's."""
    last = function.body[-1]
    raised = last.exc.func if isinstance(last, ast.Raise) and isinstance(last.exc, ast.Call) else None
    raised = last.exc if isinstance(last, ast.Raise) and raised is None else raised
    return (
        len(without_docstring(function)) == 1 and isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
    )


def _fitted_upstream(subject: Subject, call: Call, callee: Callee) -> bool:
    """Whether the call fits what upstream has in the place of a patched callee."""
    upstream = subject.upstream.function(callee.dotted)
    if upstream is None or subject.patch_of(callee.dotted) is None:
        return False
    bound = "." in callee.dotted and not is_static(upstream)
    return not misfit(call.node, signature_of(upstream, bound), Keywords(callee.function))


def _declared(subject: Subject, call: Call, callee: Callee) -> Location | None:
    """The declaration that a callee comes from; None for upstream's."""
    name = callee.dotted.partition(".")[0]
    if callee.module is not subject.generated:
        external = (p.patch for p in subject.plan.patches if p.patch.replacement_name == name)
        return next((patch.location for patch in external), None) or _imported_at(subject, last_name(call.node.func))
    patch, helper = subject.patch_of(callee.dotted), subject.helpers.get(name)
    return patch.patch.location if patch else helper.helper.location if helper else None


def _imported_at(subject: Subject, name: str) -> Location | None:
    """The ``add_import`` or block of the config that brings a name."""
    imports = [spec.location for spec in subject.plan.imports if name in imported_names(spec)]
    blocks = [location for text, location in subject.plan.blocks if re.search(rf"\b{name}\b", text)]
    return next(iter((*imports, *blocks)), None)


RULE = Rule(
    code="PG202",
    name="call site",
    severity="error",
    reason=(
        "A patch is written against the rest of its module as it was that day. Then a sibling config's method gains a "
        "parameter, or upstream's does, or a fused class whose constructor takes less replaces a class. Calls that "
        "still pass the old arguments raise a TypeError - on the hardware that runs that branch, which may not be "
        "this one. The rule follows functions, classes, `self`, `super()` and attributes whose class is evident from "
        "`__init__`. It looks into external classes whose file is available here, into functions that the module "
        "imports from the project's own packages, and into those of upstream's other modules that your patches call."
    ),
    failing=Example(
        """
@config.override_method("Layer.forward")
def forward(self, hidden_states):
    return self.attention(hidden_states, scale=2, dropout=0.1)
""",
        _UPSTREAM,
    ),
    passing=Example(
        """
@config.override_method("Attention.forward")
def attention_forward(self, hidden_states, scale=1, dropout=0.0):
    return hidden_states * scale * (1 - dropout)

@config.override_method("Layer.forward")
def forward(self, hidden_states):
    return self.attention(hidden_states, scale=2, dropout=0.1)
""",
        _UPSTREAM,
    ),
    check=check,
)
