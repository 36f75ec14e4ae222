"""All that can be told of an upstream module at once."""

from __future__ import annotations

from patchgen_core.authoring.new.classification import GENERIC_MODULE, find_classification
from patchgen_core.authoring.new.experts import balance_left, find_experts
from patchgen_core.authoring.new.losses import find_losses
from patchgen_core.authoring.new.mlps import find_mlps
from patchgen_core.authoring.new.model_types import ModelType, ModelTypes
from patchgen_core.authoring.new.module import UpstreamSource
from patchgen_core.authoring.new.norms import find_norms
from patchgen_core.authoring.new.parts import EXPERTS, Found, Left
from patchgen_core.authoring.new.plans import CONVERSION_MODULE, Plan, Stored, find_plan, stored_experts
from patchgen_core.authoring.new.rotary import find_rotary
from patchgen_core.authoring.new.towers import Towers, find_towers


def read_upstream(types: ModelTypes, model: ModelType) -> UpstreamSource:
    """The module of a model type, with those of its configuration classes."""
    source = types.source(model.module)
    configurations = sorted(source.path.parent.glob("configuration_*.py"))
    return UpstreamSource(model, source, tuple(types.sources.get(path) for path in configurations))


def look(types: ModelTypes, upstream: UpstreamSource, without: frozenset[str] = frozenset()) -> tuple[Found, Towers]:
    """The patches of a module, what stays as it is, and the parts that are made of the module's own classes.

    Args:
        types: transformers' tables.
        upstream: the module.
        without: targets to leave out.
    """
    found = Found()
    found.add(find_norms(upstream))
    found.add(find_mlps(upstream))
    found.add(find_rotary(upstream))
    found.add(find_experts(upstream))
    found.add(find_losses(upstream))
    found.left += balance_left(upstream)
    found.add(find_classification(upstream, types.source(GENERIC_MODULE)))
    unused = [n for p in found.patches if (n := p.target.split(".")[0]) not in upstream.in_use]
    found.left += [Left(name, "nothing in the module makes it or calls it", "unused") for name in unused]
    found.patches = [p for p in found.patches if p.target not in without and p.target.split(".")[0] not in unused]
    targets = {patch.target.split(".")[0] for patch in found.patches}
    towers, made = find_towers(types, upstream, targets)
    found.add(towers)
    rotates = any(slot.name == "slot_rotary_pos_emb" for patch in found.patches for slot in patch.slots)
    found.dropped = [(n, d) for n, d in found.dropped if n in targets or (d == "use_kernelized_func" and rotates)]
    found.share()
    return found, made


def look_beside(
    types: ModelTypes, upstream: UpstreamSource, found: Found, towers: Towers
) -> tuple[Plan | None, Stored | None]:
    """Where the patched experts stand, and how the hub stores them; what cannot be told goes to what is left."""
    experts = [p.target.split(".")[0] for p in found.patches if any(slot == EXPERTS for slot in p.slots)]
    if not experts:
        return None, None
    plan, stored = find_plan(upstream, experts, towers), stored_experts(upstream, types.source(CONVERSION_MODULE))
    if plan is None:
        reason = "the module's text does not tell the names of the experts' parameters in each of its heads"
        found.left.append(Left("'parallel_plan.py'", reason, "plan"))
    if not stored.layout:
        done = ", ".join(stored.operations)
        reason = f"transformers converts checkpoints by {done}, which no ready converter does: write one of your own"
        found.left.append(Left("'checkpoint_tensor_converter.py'", reason, "converter"))
    return plan, stored
