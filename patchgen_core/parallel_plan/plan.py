"""Which parameters are split over which devices: patterns of their names, and a placement for each.

::

    ParallelPlan(extra_parallel_plan={"ep": {
        "model.layers.*.mlp.experts.gate_up_proj": Shard(0),
        "model.layers.*.mlp.experts.down_proj": Shard(0),
    }})

A pattern is a parameter's whole dotted name, in which ``*`` stands for one or more characters of one segment, never
for a dot; nothing else is special. ``Shard`` and ``Replicate`` are those of :mod:`torch.distributed.tensor`. The
dimensions (``ep``, ``tp``) are dimensions of the device mesh that the plan is applied to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import PatchgenError, Problem, closest, did_you_mean

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor.placement_types import Placement

DEFAULT_SIZE = 2
"""The size a dimension is checked with when none is declared."""

_SEGMENT = re.compile(r"[\w*-]+")
_DIGITS = re.compile(r"(?<![^.])\d+(?![^.])")


@dataclass(frozen=True)
class _Match:
    """A parameter that a pattern of a dimension matches. ``split`` is the tensor dimension that it shards, if any."""

    dimension: str
    pattern: str
    placement: Placement
    name: str
    shape: tuple[int, ...]

    @property
    def split(self) -> int | None:
        dim = getattr(self.placement, "dim", None)
        return dim + len(self.shape) if dim is not None and dim < 0 else dim

    @property
    def exists(self) -> bool:
        return self.split is None or 0 <= self.split < len(self.shape)


@dataclass(frozen=True)
class ParallelPlan:
    """Placements of parameters, by mesh dimension and name pattern. Immutable, hashable and picklable.

    Attributes:
        extra_parallel_plan: for each mesh dimension, placements (``Shard`` or ``Replicate``) by pattern.

    Raises:
        PatchgenError: the plan is empty, a pattern is no dotted name with ``*``, or a placement is something else.
    """

    extra_parallel_plan: Mapping[str, Mapping[str, Placement]]

    def __post_init__(self) -> None:
        problems = list(_malformed(self.extra_parallel_plan))
        if problems:
            raise PatchgenError.from_problems(problems)
        plan = {dim: MappingProxyType(dict(patterns)) for dim, patterns in self.extra_parallel_plan.items()}
        object.__setattr__(self, "extra_parallel_plan", MappingProxyType(plan))

    def __hash__(self) -> int:
        return hash(frozenset((dim, frozenset(rules.items())) for dim, rules in self.extra_parallel_plan.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ({dim: dict(patterns) for dim, patterns in self.extra_parallel_plan.items()},)

    def __repr__(self) -> str:
        return f"ParallelPlan({ {dim: dict(patterns) for dim, patterns in self.extra_parallel_plan.items()} })"

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The mesh dimensions, in the order in which they were given."""
        return tuple(self.extra_parallel_plan)

    def match(self, names: Iterable[str]) -> dict[str, dict[str, Placement]]:
        """The placements of those of ``names`` that a pattern matches, by dimension and name.

        A pattern that matches none is no error here; it is one of :meth:`check`.

        Raises:
            PatchgenError: two patterns of a dimension give one name different placements.
        """
        matches = list(self._matches(dict.fromkeys(names, ())))
        problems = list(_contradictions(matches, {}))
        if problems:
            raise PatchgenError.from_problems(problems)
        placements: dict[str, dict[str, Placement]] = {dim: {} for dim in self.dimensions}
        for match in matches:
            placements[match.dimension][match.name] = match.placement
        return placements

    def check(self, model: nn.Module, sizes: Mapping[str, int] | None = None) -> tuple[Problem, ...]:
        """What is wrong with this plan for a model. The model may be on the meta device; nothing is computed.

        Every pattern matches a parameter; no parameter gets two placements in one dimension; a dimension that is
        sharded exists and divides by the sizes that shard it; every expert parameter has a placement, and the experts
        of one module are split in all of these or in none. Expert parameters are, below a module that is called
        ``experts`` or whose class name ends in ``Experts``, the three-dimensional ones and the biases whose first
        dimension is as long as theirs. ``Replicate()`` says of one that it stays whole. Of a model that is applied to
        a mesh the global shapes count. ``sizes`` are those of :meth:`resolve_sizes`.

        Raises:
            PatchgenError: :meth:`resolve_sizes` refuses the sizes.
        """
        sizes_by_name = self.resolve_sizes(sizes)
        shapes = {name: tuple(p.shape) for name, p in model.named_parameters(remove_duplicate=False)}
        matches = list(self._matches(shapes))
        problems = [
            *self._idle_patterns(matches, shapes),
            *_contradictions(matches, _identities(model)),
            *_impossible_splits(matches, sizes_by_name),
            *_forgotten_experts(model, matches),
            *_half_split_experts(model, matches),
        ]
        return tuple(dict.fromkeys(problems))

    def resolve_sizes(self, sizes: Mapping[str, int] | None) -> dict[str, int]:
        """The number of ranks of each dimension: as declared, or :data:`DEFAULT_SIZE` each when nothing is.

        Raises:
            PatchgenError: a size is no positive number, is missing, or is of a dimension that the plan lacks.
        """
        if sizes is None:
            return dict.fromkeys(self.dimensions, DEFAULT_SIZE)
        for dim, size in sizes.items():
            if dim not in self.extra_parallel_plan:
                dimensions = ", ".join(map(repr, self.dimensions))
                message = f"a size is given for the dimension '{dim}', which the plan lacks: it has {dimensions}"
                raise PatchgenError(message, hint=did_you_mean(str(dim), self.dimensions))
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise PatchgenError(f"the size of the dimension '{dim}' is a number of ranks, not {size!r}")
        missing = [dim for dim in self.dimensions if dim not in sizes]
        if missing:
            raise PatchgenError(f"no size is given for the plan's dimension '{missing[0]}'")
        return {dim: sizes[dim] for dim in self.dimensions}

    def apply(self, model: nn.Module, mesh: DeviceMesh) -> None:
        """Replace every parameter that the plan matches by a ``DTensor`` parameter; the others stay as they are.

        A collective operation: every rank of the mesh calls it with the same model, whose values are those of the
        first rank of each mesh dimension; they move to the mesh's device. Parameters on the meta device stay there,
        to be filled after ``to_empty``. The ``DTensor`` s lie on the plan's dimensions of the mesh only, which leaves
        the mesh's other dimensions to data parallelism (FSDP 2 takes such parameters). A kernel that works on its own
        rank's experts takes ``parameter.to_local()``. Parameters that are tied stay tied. The model changes only if
        nothing is wrong.

        Raises:
            PatchgenError: the mesh lacks a dimension, :meth:`check` finds a problem with the mesh's sizes, or a
                parameter is distributed already.
        """
        from torch import nn
        from torch.distributed.tensor import DTensor, Replicate, distribute_tensor

        own = self._own_mesh(mesh)
        names = own.mesh_dim_names or ()
        sizes = {dim: own.size(index) for index, dim in enumerate(names)}
        problems = self.check(model, sizes)
        if problems:
            raise PatchgenError.from_problems(problems)
        targets = self._targets(model)
        for name in targets:
            if isinstance(model.get_parameter(name), DTensor):
                raise PatchgenError(f"the parameter '{name}' is a DTensor already: a plan is applied once")
        replaced: dict[int, nn.Parameter] = {}
        for name, placements in targets.items():
            old = model.get_parameter(name)
            if id(old) not in replaced:
                tensor = distribute_tensor(old, own, [placements.get(dim, Replicate()) for dim in names])
                replaced[id(old)] = nn.Parameter(tensor, requires_grad=old.requires_grad)
                replaced[id(old)].__dict__.update(old.__dict__)
        _replace(model, replaced)

    def gather(self, model: nn.Module) -> dict[str, Tensor]:
        """Every parameter in full, by name, detached; the model stays as it is.

        A collective operation: every rank calls it, and every rank gets all. What is not distributed comes as it is,
        sharing its memory with the model.

        Raises:
            PatchgenError: a parameter that the plan matches is not distributed, so what is there may be a part.
        """
        from torch.distributed.tensor import DTensor

        parameters = dict(model.named_parameters(remove_duplicate=False))
        plain = [name for name in self._targets(model) if not isinstance(parameters[name], DTensor)]
        if plain:
            raise PatchgenError(
                f"the parameter '{plain[0]}' is in the plan but is no DTensor{_and_more(len(plain) - 1)}",
                hint="Was the plan applied to this model?",
            )
        full: dict[int, Tensor] = {}
        for parameter in parameters.values():
            if id(parameter) not in full:
                whole = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
                full[id(parameter)] = whole.detach()
        return {name: full[id(parameter)] for name, parameter in parameters.items()}

    def _matches(self, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[_Match]:
        for dim, patterns in self.extra_parallel_plan.items():
            for pattern, placement in patterns.items():
                expression = _expression(pattern)
                for name, shape in shapes.items():
                    if expression.fullmatch(name):
                        yield _Match(dim, pattern, placement, name, shape)

    def _targets(self, model: nn.Module) -> dict[str, dict[str, Placement]]:
        """For each parameter that is to be replaced, its placement by dimension, tied names included."""
        identities = _identities(model)
        by_tensor: dict[int, dict[str, Placement]] = {}
        for dim, placements in self.match(identities).items():
            for name, placement in placements.items():
                by_tensor.setdefault(identities[name], {})[dim] = placement
        return {name: by_tensor[tensor] for name, tensor in identities.items() if tensor in by_tensor}

    def _idle_patterns(self, matches: list[_Match], names: Iterable[str]) -> Iterator[Problem]:
        used = {(match.dimension, match.pattern) for match in matches}
        folded = {_folded(name) for name in names}
        declared = ((dim, pattern) for dim, patterns in self.extra_parallel_plan.items() for pattern in patterns)
        for dim, pattern in (rule for rule in declared if rule not in used):
            near = closest(_folded(pattern), folded)
            hint = f"Did you mean '{near}'?" if near else "The names are those of model.named_parameters()."
            yield Problem(f"the pattern '{pattern}' of '{dim}' matches no parameter", hint=hint)

    def _own_mesh(self, mesh: DeviceMesh) -> DeviceMesh:
        """The part of a mesh that the plan is about, in the mesh's order."""
        names = mesh.mesh_dim_names or ()
        for dim in self.dimensions:
            if dim not in names:
                has = f"it has {', '.join(map(repr, names))}" if names else "its dimensions have no names"
                hint = did_you_mean(dim, names) or "Name them: init_device_mesh(..., mesh_dim_names=...)."
                raise PatchgenError(f"the device mesh lacks the plan's dimension '{dim}': {has}", hint=hint)
        return mesh[tuple(dim for dim in names if dim in self.extra_parallel_plan)]


def _malformed(plan: object) -> Iterator[Problem]:
    if not isinstance(plan, Mapping) or not plan:
        yield Problem(f"extra_parallel_plan is a mapping such as {{'ep': {{pattern: Shard(0)}}}}, not {plan!r}")
        return
    for dim, patterns in plan.items():
        if not isinstance(dim, str) or not dim.isidentifier():
            yield Problem(f"extra_parallel_plan: {dim!r} is not a name of a mesh dimension, such as 'ep'")
        if not isinstance(patterns, Mapping) or not patterns:
            yield Problem(f"extra_parallel_plan: {dim!r} needs a mapping of patterns to placements, not {patterns!r}")
            continue
        for pattern, placement in patterns.items():
            yield from _malformed_pattern(pattern)
            yield from _malformed_placement(pattern, placement)


def _malformed_pattern(pattern: object) -> Iterator[Problem]:
    segments = pattern.split(".") if isinstance(pattern, str) else []
    if not segments or not all(_SEGMENT.fullmatch(part) and "**" not in part for part in segments):
        hint = "A pattern is a parameter's whole dotted name, with '*' for one or more characters of one segment."
        yield Problem(f"{pattern!r} is not a pattern of parameter names", hint=hint)


def _malformed_placement(pattern: object, placement: object) -> Iterator[Problem]:
    from torch.distributed.tensor import Replicate, Shard

    if type(placement) not in (Shard, Replicate):
        hint = "Import them from torch.distributed.tensor."
        yield Problem(f"the placement of {pattern!r} is Shard(dim) or Replicate(), not {placement!r}", hint=hint)


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile("[^.]+".join(map(re.escape, pattern.split("*"))))


def _identities(model: nn.Module) -> dict[str, int]:
    """The names of all parameters; those that are tied have the same number."""
    return {name: id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False)}


def _folded(name: str) -> str:
    """A name with ``*`` for its numbers: what all layers have in common."""
    return _DIGITS.sub("*", name)


def _contradictions(matches: Iterable[_Match], tied: Mapping[str, int]) -> Iterator[Problem]:
    """Parameters with two placements in a dimension; names with the same number in ``tied`` are one parameter."""
    first: dict[tuple[str, int | str], _Match] = {}
    for match in matches:
        other = first.setdefault((match.dimension, tied.get(match.name, match.name)), match)
        if other.placement != match.placement:
            alias = f" and '{other.name}', which are tied" if other.name != match.name else ""
            both = f"{_describe_match(other)} and {_describe_match(match)}"
            yield Problem(f"'{match.dimension}' has two placements for '{_folded(match.name)}'{alias}: {both}")


def _describe_match(match: _Match) -> str:
    return f"{match.placement!r} by the pattern '{match.pattern}'"


def _impossible_splits(matches: Iterable[_Match], sizes: Mapping[str, int]) -> Iterator[Problem]:
    parts: dict[tuple[str, int], dict[str, _Match]] = {}
    for match in matches:
        if not match.exists:
            yield Problem(
                f"the pattern '{match.pattern}' of '{match.dimension}' shards dimension {match.placement.dim}"  # type: ignore[attr-defined]
                f" of '{_folded(match.name)}', which has {len(match.shape)} dimensions: shape {match.shape}"
            )
        elif match.split is not None:
            parts.setdefault((match.name, match.split), {})[match.dimension] = match
    for (name, split), by_dimension in parts.items():
        ranks = prod(sizes[dim] for dim in by_dimension)
        match = next(iter(by_dimension.values()))
        if match.shape[split] % ranks:
            of = " and ".join(f"the pattern '{m.pattern}' of '{dim}'" for dim, m in by_dimension.items())
            yield Problem(
                f"dimension {split} of '{_folded(name)}' has length {match.shape[split]}, which does not divide by "
                f"the {ranks} ranks over which {of} shards it: shape {match.shape}"
            )


def _experts(model: nn.Module) -> Iterator[tuple[str, dict[str, nn.Parameter]]]:
    """Each outermost module of experts by its name, with its expert parameters by theirs."""
    seen: set[str] = set()
    for root, module in model.named_modules():
        named = root.rpartition(".")[2] == "experts" or type(module).__name__.endswith("Experts")
        if not named or any(root.startswith(f"{outer}.") for outer in seen):
            continue
        parameters = dict(module.named_parameters(prefix=root))
        counts = {p.shape[:1] for p in parameters.values() if p.ndim == 3}
        if counts:
            seen.add(root)
            biases = {name for name, p in parameters.items() if name.endswith("bias") and p.shape[:1] in counts}
            yield root, {name: p for name, p in parameters.items() if p.ndim == 3 or name in biases}


def _forgotten_experts(model: nn.Module, matches: Iterable[_Match]) -> Iterator[Problem]:
    placed: dict[str, set[str]] = {}
    for match in matches:
        placed.setdefault(match.dimension, set()).add(match.name)
    experts = {name: tuple(p.shape) for _, parameters in _experts(model) for name, p in parameters.items()}
    dimensions = [dim for dim, names in placed.items() if names & experts.keys()]
    for dim in dimensions or [""]:
        by_fold: dict[str, list[str]] = {}
        for name in experts.keys() - placed.get(dim, set()):
            by_fold.setdefault(_folded(name), []).append(name)
        for fold, names in sorted(by_fold.items()):
            whole = sum(_folded(name) == fold for name in experts) == len(names)
            label = f"'{fold}'" if whole else f"'{min(names)}'{_and_more(len(names) - 1)}"
            where = f" in '{dim}'" if dim else ""
            yield Problem(
                f"the expert parameter {label} has no placement{where}: shape {experts[names[0]]}",
                hint="Shard its experts, or say Replicate() if every rank is to hold all of it.",
            )


def _half_split_experts(model: nn.Module, matches: Iterable[_Match]) -> Iterator[Problem]:
    """A dimension that splits the experts in one parameter of a module and not in another."""
    placed: dict[str, list[_Match]] = {}
    for match in matches:
        placed.setdefault(match.name, []).append(match)
    for root, parameters in _experts(model):
        split: dict[str, _Match] = {}
        whole: dict[str, _Match] = {}
        for match in (m for name in parameters for m in placed.get(name, ()) if m.exists):
            (split if match.split == 0 else whole)[match.dimension] = match
        for dim in split.keys() & whole.keys():
            yield Problem(
                f"'{dim}' splits the experts of '{_folded(root)}' in '{_folded(split[dim].name)}' and not in "
                f"'{_folded(whole[dim].name)}': {_describe_match(whole[dim])}",
                hint="A rank needs the same experts in all of them.",
            )


def _replace(model: nn.Module, new: Mapping[int, nn.Parameter]) -> None:
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if id(parameter) in new:
                module.register_parameter(name, new[id(parameter)])


def _and_more(count: int) -> str:
    return f" (and {count} more)" if count else ""
