"""Binding kernels to the slots of a generated module, or of one model."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.ops.config import SUFFIX, OpsConfig, implementations
from patchgen_core.ops.kernel_slot import KernelSlot, find_kernel
from patchgen_core.ops.kernel_spec import EAGER, Kernel
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
    """A slot that was bound; `name` is what it is called in the generated module."""

    module: str
    name: str
    op_name: str
    variant: str
    implementation: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name} ({self.op_name}/{self.variant}): {self.implementation}"


def bind_ops(target: ModuleType | nn.Module, ops_config: OpsConfig | Mapping[str, str]) -> tuple[Binding, ...]:
    """Bind every slot of a generated module, or those of one model; ops that a mapping leaves out are eager.

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


def _bind_module(module: ModuleType, ops_config: OpsConfig | Mapping[str, str]) -> tuple[Binding, ...]:
    slots = slots_of(module)
    _refuse_none(slots, module.__name__)
    chosen = _choose({module.__name__: slots}, ops_config)
    before = {slot: slot.implementation for slot in slots.values()}
    for name, slot in slots.items():
        slot.set(*chosen[module.__name__, name])
    changed = [(slot, was) for slot, was in before.items() if was not in (None, slot.implementation)]
    if changed:
        warnings.warn(describe_rebinding(changed), RuntimeWarning, stacklevel=3)
    return _bindings(module, slots, {name: chosen[module.__name__, name][0] for name in slots})


def _bind_model(model: nn.Module, ops_config: OpsConfig | Mapping[str, str]) -> tuple[Binding, ...]:
    modules = _modules_of(model)
    slots = {module.__name__: slots_of(module) for module in modules}
    _refuse_none([name for own in slots.values() for name in own], type(model).__name__)
    chosen = _choose(slots, ops_config)
    keys = {
        module.__name__: tuple(sorted((name, chosen[module.__name__, name][0]) for name in slots[module.__name__]))
        for module in modules
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
            f"{type(model).__name__} was bound by itself before; parts of these classes are bound anew, also for "
            f"other models that share them: {', '.join(sorted(changed))}",
            RuntimeWarning,
            stacklevel=3,
        )
    return tuple(
        binding
        for variant in variants
        for binding in _bindings(variant.module, slots[variant.module.__name__], dict(variant.key))
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
    slots: Mapping[str, Mapping[str, KernelSlot]], ops_config: OpsConfig | Mapping[str, str]
) -> dict[tuple[str, str], tuple[str, Kernel | None]]:
    """Name and kernel for each slot; warns of implementations that no slot takes."""
    rows = [(module, name, slot) for module, own in slots.items() for name, slot in own.items()]
    given = implementations(ops_config, {slot.op_name for _, _, slot in rows})
    chosen: dict[tuple[str, str], tuple[str, Kernel | None]] = {}
    problems: list[Problem] = []
    for module, name, slot in rows:
        implementation = given.get(slot.op_name, EAGER)
        try:
            chosen[module, name] = implementation, find_kernel(slot, implementation)
        except PatchgenError as error:
            problems += error.problems
    if problems:
        raise PatchgenError.from_problems(list(dict.fromkeys(problems)))
    ops = {slot.op_name for _, _, slot in rows}
    idle = [f"{op}{SUFFIX}={value!r}" for op, value in given.items() if op not in ops and value != EAGER]
    if idle:
        warnings.warn(f"no slot of {', '.join(slots)} takes {', '.join(idle)}", RuntimeWarning, stacklevel=4)
    return chosen


def _bindings(module: ModuleType, slots: Mapping[str, KernelSlot], chosen: Mapping[str, str]) -> tuple[Binding, ...]:
    rows = sorted(slots.items())
    return tuple(Binding(module.__name__, name, slot.op_name, slot.variant, chosen[name]) for name, slot in rows)
