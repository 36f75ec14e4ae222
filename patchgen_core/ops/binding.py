"""Binding kernels to the slots of a generated module, or of one model."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import PatchgenError, Problem, did_you_mean
from patchgen_core.ops.config import SUFFIX, OpsConfig, at_place, make_config
from patchgen_core.ops.kernel_slot import KernelSlot, choose_kernel, find_kernel, has_kernel_for
from patchgen_core.ops.kernel_spec import EAGER, Kernel
from patchgen_core.ops.registry import KERNEL_REGISTRY
from patchgen_core.ops.slot import describe_rebinding
from patchgen_core.ops.variants import (
    LOCK,
    Variant,
    find_variant,
    key_of,
    methods_held,
    origin,
    refuse_strays,
    slots_of,
)

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Binding:
    """A slot that was bound.

    Attributes:
        name: what the slot is called in the generated module.
        implementation: the kernel that runs, by the name under which it is registered.
        requested: what the configuration says, which may stand for another: "fused", an alias, a preset.
    """

    module: str
    name: str
    op_name: str
    variant: str
    implementation: str
    requested: str = ""

    def __str__(self) -> str:
        words = f"{self.module}.{self.name} ({self.op_name}/{self.variant}): {self.implementation}"
        if self.requested in ("", self.implementation):
            return words
        if self.implementation == EAGER:
            return f"{words}, for which there is no '{self.requested}'"
        return f"{words}, for '{self.requested}'"


@dataclass(frozen=True)
class _Chosen:
    """What is bound to a slot: a kernel, its name, and what the configuration says."""

    implementation: str
    kernel: Kernel | None
    requested: str


def bind_ops(target: ModuleType | nn.Module, ops_config: OpsConfig | Mapping[str, str] | str) -> tuple[Binding, ...]:
    """Bind every slot of a generated module, or those of one model; ops that a mapping leaves out are eager.

    A string is a preset: one implementation for all ops (see :class:`~patchgen_core.ops.OpsConfig`).

    A module's bindings hold for all its models, those that exist and those to come, but for models that were bound by
    themselves. A model's hold for that model alone (and for what is copied or unpickled from it), whatever its module
    or other models of the same classes are bound to, at no cost per call. Methods and functions of the module that
    are patched by hand must be patched before; parts that are added to the model later follow their module until the
    model is bound again.

    Raises:
        PatchgenError: there is no slot, or no part of the model reads one; an implementation is unknown or cannot
            run here; or the model uses its slots in a way that only its whole module can be bound. Nothing is
            bound then.
    """
    torch = sys.modules.get("torch")
    if isinstance(target, ModuleType):
        return _bind_module(target, ops_config)
    if torch is not None and isinstance(target, torch.nn.Module):
        return _bind_model(target, ops_config)
    raise PatchgenError(f"bind_ops takes a generated module or a model, not {target!r}")


def _bind_module(module: ModuleType, ops_config: OpsConfig | Mapping[str, str] | str) -> tuple[Binding, ...]:
    slots = slots_of(module)
    _refuse_none(slots, module.__name__)
    chosen = _choose({module.__name__: slots}, ops_config)
    before = {slot: slot.implementation for slot in slots.values()}
    for name, slot in slots.items():
        one = chosen[module.__name__, name]
        slot.set(one.implementation, one.kernel)
    changed = [(slot, was) for slot, was in before.items() if was not in (None, slot.implementation)]
    if changed:
        warnings.warn(describe_rebinding(changed), RuntimeWarning, stacklevel=3)
    return _bindings(module, slots, chosen)


def _bind_model(model: nn.Module, ops_config: OpsConfig | Mapping[str, str] | str) -> tuple[Binding, ...]:
    modules = _modules_of(model)
    slots = {module.__name__: slots_of(module) for module in modules}
    _refuse_none([name for own in slots.values() for name in own], type(model).__name__)
    chosen = _choose(slots, ops_config)
    keys = {
        home: tuple(sorted((name, chosen[home, name].implementation) for name in own)) for home, own in slots.items()
    }
    with LOCK:
        variants = [find_variant(module, keys[module.__name__]) for module in modules]
        rows = _new_classes(model, variants)
        changed = {cls.__name__ for _, cls, _ in rows if key_of(cls) is not None}
        methods = methods_held(model)
        for part, _, new in rows:
            object.__setattr__(part, "__class__", new)
        for part, attribute, method in methods:
            of = method.__self__
            vars(part)[attribute] = MethodType(getattr(type(of), method.__name__), of)
    if changed:
        warnings.warn(
            f"{type(model).__name__} was bound alone before; parts of these classes are bound again, also for "
            f"other models that share them: {', '.join(sorted(changed))}",
            RuntimeWarning,
            stacklevel=3,
        )
    return tuple(
        binding
        for variant in variants
        for binding in _bindings(variant.module, slots[variant.module.__name__], chosen)
    )


def _refuse_upstreams(model: nn.Module, variants: list[Variant]) -> None:
    """Refuse a model with parts of upstream's that read slots in the generated module: AutoModel made them."""
    for path, part in model.named_modules():
        name = type(part).__name__
        if not type(part).__module__.startswith("transformers."):
            continue
        for variant in variants:
            own = getattr(variant.module, name, None)
            if not isinstance(own, type) or own.__module__ != variant.module.__name__:
                continue
            if key_of(_class_for(own, variants)) is not None:
                raise PatchgenError(
                    f"'{path}' of {type(model).__name__} is upstream's {name}, which reads none of the slots of "
                    f"{variant.module.__name__}",
                    hint="AutoModel made it. Call patchgen_core.auto.register_with_auto() before the model is built.",
                )


def _new_classes(model: nn.Module, variants: list[Variant]) -> list[tuple[nn.Module, type, type]]:
    """Parts of the model whose class changes: the part, its class and the new one."""
    new = {cls: _class_for(cls, variants) for cls in dict.fromkeys(map(type, model.modules()))}
    rows = [(part, type(part), new[type(part)]) for part in model.modules() if new[type(part)] is not type(part)]
    reads = any(key_of(cls) is not None for cls in new.values())
    if rows or not reads:
        refuse_strays(model, variants)
    _refuse_upstreams(model, variants)
    if not reads:
        of = ", ".join(variant.module.__name__ for variant in variants)
        raise PatchgenError(f"{type(model).__name__} has no part that reads the slots of {of}")
    return rows


def _class_for(cls: type, variants: Iterable[Variant]) -> type:
    classes = [new for variant in variants if (new := variant.class_for(cls)) is not origin(cls)]
    if len(classes) > 1:
        raise PatchgenError(f"{cls.__qualname__} reads slots of two modules", None, "Bind these modules instead.")
    return classes[0] if classes else cls


def _modules_of(model: nn.Module) -> list[ModuleType]:
    """The modules with slots that classes of the model's parts are of."""
    names = dict.fromkeys(cls.__module__ for part in model.modules() for cls in type(part).__mro__)
    modules = [sys.modules[name] for name in names if name in sys.modules]
    return [module for module in modules if slots_of(module)]


def _refuse_none(slots: Iterable[Any], name: str) -> None:
    if not list(slots):
        raise PatchgenError(
            f"{name} has no op slot to bind", None, "Declare one in the patch config: OpSlot('rms_norm'), for example."
        )


def _choose(
    slots: Mapping[str, Mapping[str, KernelSlot]], ops_config: OpsConfig | Mapping[str, str] | str
) -> dict[tuple[str, str], _Chosen]:
    """What to bind to each slot, by its module and name; warns of what the configuration cannot bind."""
    rows = {(module, name): slot for module, own in slots.items() for name, slot in own.items()}
    ops = {slot.op_name for slot in rows.values()}
    config = make_config(ops_config, ops)
    chosen: dict[tuple[str, str], _Chosen] = {}
    problems: list[Problem] = []
    without: list[str] = []
    for key, slot in rows.items():
        choice = config.choose(slot.op_name)
        is_left = choice.by_preset and not has_kernel_for(slot, choice.implementation)
        if is_left:
            without.append(f"{'.'.join(key)} ({slot.op_name}/{slot.variant})")
        try:
            implementation = EAGER if is_left else choose_kernel(slot, choice.implementation)
            chosen[key] = _Chosen(implementation, find_kernel(slot, implementation), choice.implementation)
        except PatchgenError as error:
            problems += at_place(error, choice.place)
    if len(without) == len(rows):
        raise _no_such_preset(config, rows.values())
    if problems:
        raise PatchgenError.from_problems(list(dict.fromkeys(problems)))
    idle = [
        f"{name}={value!r}"
        for name, value in config.named().items()
        if name.removesuffix(SUFFIX) not in ops and value != EAGER
    ]
    if idle:
        warnings.warn(f"no slot of {', '.join(slots)} takes {', '.join(idle)}", RuntimeWarning, stacklevel=4)
    if without:
        message = f"the preset '{config.preset}' has no kernel for {', '.join(without)}: eager there"
        warnings.warn(message, RuntimeWarning, stacklevel=4)
    return chosen


def _no_such_preset(config: OpsConfig, slots: Iterable[KernelSlot]) -> PatchgenError:
    names = {spec.name for slot in slots for spec in KERNEL_REGISTRY.specs(slot.op_name, slot.variant)}
    hint = did_you_mean(config.preset, names) or f"There are: {', '.join(sorted({EAGER, *names}))}."
    return PatchgenError(f"no slot has a kernel for the preset '{config.preset}'", config.places.get("preset"), hint)


def _bindings(
    module: ModuleType, slots: Mapping[str, KernelSlot], chosen: Mapping[tuple[str, str], _Chosen]
) -> tuple[Binding, ...]:
    home = module.__name__
    rows = [(name, slot, chosen[home, name]) for name, slot in sorted(slots.items())]
    return tuple(
        Binding(home, name, slot.op_name, slot.variant, one.implementation, one.requested) for name, slot, one in rows
    )
