"""Every search for what can be patched in an upstream module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from patchgen_core.authoring.new.auto_parts import AutoParts, find_auto_parts
from patchgen_core.authoring.new.classification import GENERIC_MODULE, find_classification
from patchgen_core.authoring.new.experts import find_experts, find_other_balance
from patchgen_core.authoring.new.losses import find_losses
from patchgen_core.authoring.new.mlps import find_mlps
from patchgen_core.authoring.new.model_types import ModelType, ModelTypes
from patchgen_core.authoring.new.module import UpstreamSource
from patchgen_core.authoring.new.norms import find_norms
from patchgen_core.authoring.new.patches import EXPERTS, ModulePatches, NewPatch, Unpatched, share_texts
from patchgen_core.authoring.new.plans import (
    CONVERSION_MODULE,
    ExpertLayout,
    ExpertPlan,
    find_expert_layout,
    find_plan,
)
from patchgen_core.authoring.new.rotary import find_rotary
from patchgen_core.upstream.custom_code import (
    BASE_MODULE,
    DESCRIPTION,
    INITIALIZE,
    find_incomplete_starts,
    initialize_text,
)

_INITIALIZED = "modules without tensors of their own as well - transformers skips them in classes outside its package"


def read_upstream(types: ModelTypes, model: ModelType) -> UpstreamSource:
    """The module of a model type, with those of its configuration classes."""
    source = types.source(model.module)
    configurations = sorted(source.path.parent.glob("configuration_*.py"))
    return UpstreamSource(model, source, tuple(types.sources.get(path) for path in configurations))


def find_patches(
    types: ModelTypes, upstream: UpstreamSource, objections: Mapping[str, Unpatched]
) -> tuple[ModulePatches, AutoParts]:
    """The patches of a module, and the parts that are made of the module's own classes.

    What there are objections to, by target, is left.
    """
    searches = (find_norms, find_mlps, find_rotary, find_experts, find_losses, find_other_balance)
    findings = [finding for find in searches for finding in find(upstream)]
    findings += find_classification(upstream, types.source(GENERIC_MODULE))
    all_patches = [finding for finding in findings if isinstance(finding, NewPatch)]
    patches = [p for p in all_patches if p.target not in objections and p.owner in upstream.in_use]
    left = [finding for finding in findings if isinstance(finding, Unpatched)]
    for patch in all_patches:
        if patch.owner not in upstream.in_use:
            left.append(Unpatched(patch.owner, "nothing in the module makes it or calls it", "unused"))
    more, auto_parts = find_auto_parts(types, upstream, {patch.owner for patch in patches})
    patches += more
    patches += _find_initialization(types, upstream) if patches else []
    return ModulePatches([*share_texts(patches)], [*left, *objections.values()]), auto_parts


def _find_initialization(types: ModelTypes, upstream: UpstreamSource) -> Iterator[NewPatch]:
    """The patches without which a generated module starts with other values than upstream's."""
    for name in find_incomplete_starts(upstream.source, types.source(BASE_MODULE)):
        text = initialize_text(name)
        yield NewPatch(f"{name}.{INITIALIZE}", DESCRIPTION, (), (_INITIALIZED,), text)


def find_plan_and_layout(
    types: ModelTypes, upstream: UpstreamSource, result: ModulePatches, auto_parts: AutoParts
) -> tuple[ExpertPlan | None, ExpertLayout | None]:
    """Where the patched experts stand, and how the hub stores them; what cannot be told goes to what is left."""
    experts = [patch.owner for patch in result.patches if EXPERTS in patch.slots]
    if not experts:
        return None, None
    plan = find_plan(upstream, experts, auto_parts)
    layout = find_expert_layout(upstream, types.source(CONVERSION_MODULE))
    if plan is None:
        reason = "the module's source does not show the names of the experts' parameters in each of its heads"
        result.left.append(Unpatched("'parallel_plan.py'", reason, "plan"))
    if not layout.name:
        reason = (
            f"transformers converts checkpoints by {', '.join(layout.operations)}, which no built-in converter does"
        )
        own = f"{reason}: write one of your own"
        result.left.append(Unpatched("'checkpoint_tensor_converter.py'", own, "converter"))
    return plan, layout
