"""Which implementation each op gets."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from patchgen_core.errors import Location, PatchgenError, Problem, did_you_mean
from patchgen_core.ops.config_file import read_section
from patchgen_core.ops.kernel_spec import EAGER
from patchgen_core.ops.registry import KERNEL_REGISTRY

SUFFIX = "_implementation"

OTHER_NAMES = {
    "moe_implementation": "moe_experts_implementation",
    "load_balancing_loss_implementation": "moe_load_balancing_loss_implementation",
    "apply_rotary_pos_emb_implementation": "rotary_pos_emb_implementation",
}
"""Names that earlier configurations have for an op, where no op has them."""

_DEPRECATED = "moe_implementation"
_TRANSFORMERS = "attn_implementation"
_Config = TypeVar("_Config", bound="OpsConfig")


@dataclass(frozen=True)
class Choice:
    """What a configuration says for one op; ``by_preset`` when it names the op itself nowhere."""

    implementation: str
    by_preset: bool = False
    place: Location | None = None


@dataclass(frozen=True)
class OpsConfig:
    """The implementation of each op: the name of a registered kernel, "fused" for the best that can run, or an alias.

    "eager" stands for upstream's own lines. A plain mapping with these names does as well, and so does a string,
    which is a preset alone.

    Attributes:
        preset: the implementation of every op that is named nowhere: "liger", "npu", "fused", ... A slot for which
            it has no kernel stays eager with a warning that names it; a kernel that there is and that cannot run
            here is an error, and so is a preset that has a kernel for no slot at all.
        others: implementations of further ops, by the names that fields for them would have.
        places: where names stand in the user's files, for errors.
    """

    rms_norm_implementation: str | None = None
    rotary_pos_emb_implementation: str | None = None
    swiglu_mlp_implementation: str | None = None
    geglu_mlp_implementation: str | None = None
    layer_norm_implementation: str | None = None
    cross_entropy_loss_implementation: str | None = None
    moe_experts_implementation: str | None = None
    moe_load_balancing_loss_implementation: str | None = None
    preset: str = EAGER
    others: Mapping[str, str] = field(default_factory=dict, hash=False)
    places: Mapping[str, Location] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def from_mapping(cls: type[_Config], mapping: Mapping[str, Any], ops: Iterable[str] = ()) -> _Config:
        """A configuration from names and values, "preset" among them; ``ops`` may be named beside the registered ones.

        Names of earlier configurations are taken as well: see docs/runtime.md. "moe_implementation" is a
        DeprecationWarning.

        Raises:
            PatchgenError: a name that no op has, or two names of one op, or a value that is no name.
        """
        return _read(cls, mapping, {}, ops)

    @classmethod
    def from_file(cls: type[_Config], path: str | os.PathLike[str], section: str = "") -> _Config:
        """A configuration from a YAML file, as :meth:`from_mapping` reads it; errors name the file and the line.

        ``section`` is the dotted name of the part of the file that it is: "model.ops_implementation". Register the
        kernels of ops of your own before.

        Raises:
            PatchgenError: the file cannot be read, is no YAML or has no such section; PyYAML is not installed; and
                what :meth:`from_mapping` raises.
        """
        mapping, places = read_section(path, section)
        return _read(cls, mapping, places, ())

    def choose(self, op_name: str) -> Choice:
        """What the configuration says for an op."""
        name = f"{op_name}{SUFFIX}"
        value = self.named().get(name)
        if value is None:
            return Choice(self.preset, True, self.places.get("preset"))
        return Choice(value, False, self.places.get(name))

    def named(self) -> dict[str, str]:
        """The implementations of the ops that are named, by the names of their fields."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name.endswith(SUFFIX)}
        return {name: value for name, value in {**own, **self.others}.items() if value is not None}


def make_config(ops_config: OpsConfig | Mapping[str, str] | str, ops: Iterable[str]) -> OpsConfig:
    """A configuration of what ``bind_ops`` takes; a mapping may name ``ops`` beside the registered ones.

    An unknown name, and any other type, is a PatchgenError.
    """
    if isinstance(ops_config, str):
        return OpsConfig(preset=ops_config)
    if isinstance(ops_config, Mapping):
        return OpsConfig.from_mapping(ops_config, ops)
    if not isinstance(ops_config, OpsConfig):
        raise PatchgenError(
            f"an ops config is an OpsConfig, a mapping of its fields or the name of a preset, not {ops_config!r}"
        )
    unknown = [name for name in ops_config.others if name not in _known_names(type(ops_config), ops)]
    if unknown:
        raise _unknown_name(unknown[0], _known_names(type(ops_config), ops), ops_config.places)
    return ops_config


def _known_names(cls: type[OpsConfig], ops: Iterable[str]) -> set[str]:
    registered = {spec.op_name for spec in KERNEL_REGISTRY.specs()}
    own = {one.name for one in fields(cls) if one.name.endswith(SUFFIX)}
    return own | {f"{op}{SUFFIX}" for op in (*ops, *registered)}


def _read(
    cls: type[_Config], mapping: Mapping[str, Any], places: Mapping[str, Location], ops: Iterable[str]
) -> _Config:
    known_names = _known_names(cls, ops)
    values: dict[str, str] = {}
    implementations: dict[str, str] = {}
    problems: list[Problem] = []
    for name, value in mapping.items():
        try:
            own = name if name == "preset" else _own_name(name, known_names, places)
            if own in implementations:
                message = f"the ops config has {name!r} beside {implementations[own]!r}, which means the same"
                raise PatchgenError(message, places.get(name), "Leave one of them out.")
            values[own], implementations[own] = _read_value(name, value, places), name
        except PatchgenError as error:
            problems += error.problems
    if problems:
        raise PatchgenError.from_problems(problems)
    names = {one.name for one in fields(cls)}
    return cls(
        **{name: value for name, value in values.items() if name in names},
        others={name: value for name, value in values.items() if name not in names},
        places={own: places[name] for own, name in implementations.items() if name in places},
    )


def _own_name(name: str, names: set[str], places: Mapping[str, Location]) -> str:
    """The field's name for a name that is given, which may be one of earlier configurations."""
    if name in names:
        return name
    if name not in OTHER_NAMES:
        raise _unknown_name(name, names, places)
    return OTHER_NAMES[name]


def _read_value(name: str, value: object, places: Mapping[str, Location]) -> str:
    if not isinstance(value, str):
        hint = "YAML reads on, off, yes and no as true and false: quote the name." if value in (0, 1) else ""
        raise PatchgenError(f"{name} is the name of an implementation, not {value!r}", places.get(name), hint)
    if name != _DEPRECATED:
        return value
    own = value.removeprefix("fused_")  # "fused_triton" is "triton" among the kernels of the experts
    where = f"{places[name]}: " if name in places else ""
    message = f"{where}{name}={value!r} is {OTHER_NAMES[name]}={own!r} now"
    warnings.warn(message, DeprecationWarning, stacklevel=_stack_level())
    return own


def _stack_level() -> int:
    """How far up from whoever asks the first line outside of this package is."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(f"{__package__}."):
        level, frame = level + 1, frame.f_back
    return level


def _unknown_name(name: object, names: set[str], places: Mapping[str, Location]) -> PatchgenError:
    near = did_you_mean(f"{name}{SUFFIX}", names) if f"{name}{SUFFIX}" in names else did_you_mean(str(name), names)
    hint = near or f"There are: {', '.join(sorted(names))}."
    if name == _TRANSFORMERS:
        hint = (
            "Attention is chosen by transformers: give attn_implementation to from_pretrained or the model's config."
        )
    place = places.get(name) if isinstance(name, str) else None
    return PatchgenError(f"the ops config names {name!r}, which matches no op", place, hint)


def at_place(error: PatchgenError, place: Location | None) -> tuple[Problem, ...]:
    """An error's problems, at the line of the user's configuration where there is one."""
    return tuple(replace(problem, location=place or problem.location) for problem in error.problems)
