"""Every search for what can be patched in an upstream module."""

from __future__ import annotations

from patchgen_core.authoring.new.auto_parts import AutoParts, find_auto_parts
from patchgen_core.authoring.new.classification import GENERIC_MODULE, find_classification
from patchgen_core.authoring.new.experts import balance_left, find_experts
from patchgen_core.authoring.new.losses import find_losses
from patchgen_core.authoring.new.mlps import find_mlps
from patchgen_core.authoring.new.model_types import ModelType, ModelTypes
from patchgen_core.authoring.new.module import UpstreamSource
from patchgen_core.authoring.new.norms import find_norms
from patchgen_core.authoring.new.patches import EXPERTS, ModulePatches, Unpatched
from patchgen_core.authoring.new.plans import CONVERSION_MODULE, ExpertPlan, Stored, find_plan, stored_experts
from patchgen_core.authoring.new.rotary import find_rotary


def read_upstream(types: ModelTypes, model: ModelType) -> UpstreamSource:
    """The module of a model type, with those of its configuration classes."""
    source = types.source(model.module)
    configurations = sorted(source.path.parent.glob("configuration_*.py"))
    return UpstreamSource(model, source, tuple(types.sources.get(path) for path in configurations))


def find_patches(
    types: ModelTypes, upstream: UpstreamSource, without: frozenset[str] = frozenset()
) -> tuple[ModulePatches, AutoParts]:
    """The patches of a module but those of some targets, and the parts that are made of the module's own classes."""
    result = ModulePatches()
    for find in (find_norms, find_mlps, find_rotary, find_experts, find_losses):
        result.add(find(upstream))
    result.left += balance_left(upstream)
    result.add(find_classification(upstream, types.source(GENERIC_MODULE)))
    unused = [n for p in result.patches if (n := p.target.split(".")[0]) not in upstream.in_use]
    result.left += [Unpatched(name, "nothing in the module makes it or calls it", "unused") for name in unused]
    result.patches = [p for p in result.patches if p.target not in without and p.target.split(".")[0] not in unused]
    targets = {patch.target.split(".")[0] for patch in result.patches}
    more, auto_parts = find_auto_parts(types, upstream, targets)
    result.add(more)
    rotates = any(slot.name == "slot_rotary_pos_emb" for patch in result.patches for slot in patch.slots)
    result.dropped = [(n, d) for n, d in result.dropped if n in targets or (d == "use_kernelized_func" and rotates)]
    result.share()
    return result, auto_parts


def find_plan_and_layout(
    types: ModelTypes, upstream: UpstreamSource, result: ModulePatches, auto_parts: AutoParts
) -> tuple[ExpertPlan | None, Stored | None]:
    """Where the patched experts stand, and how the hub stores them; what cannot be told goes to what is left."""
    experts = [p.target.split(".")[0] for p in result.patches if any(slot == EXPERTS for slot in p.slots)]
    if not experts:
        return None, None
    plan, stored = find_plan(upstream, experts, auto_parts), stored_experts(upstream, types.source(CONVERSION_MODULE))
    if plan is None:
        reason = "the module's text does not tell the names of the experts' parameters in each of its heads"
        result.left.append(Unpatched("'parallel_plan.py'", reason, "plan"))
    if not stored.layout:
        operations = ", ".join(stored.operations)
        reason = (
            f"transformers converts checkpoints by {operations}, which no ready converter does: write one of your own"
        )
        result.left.append(Unpatched("'checkpoint_tensor_converter.py'", reason, "converter"))
    return plan, stored
