"""Kernels by op, variant and name, and which of them can run here."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
import threading
import types
from collections.abc import Callable

from patchgen_core.errors import Location, PatchgenError, did_you_mean
from patchgen_core.ops import kernels
from patchgen_core.ops.hardware import this_machine
from patchgen_core.ops.kernel_spec import ALIASES, EAGER, FUSED, Kernel, KernelSpec

ENTRY_POINTS = "patchgen.kernels"

_Key = tuple[str, str, str]


class KernelRegistry:
    """Kernels that can be bound to op slots.

    ``fill`` registers the kernels that are there from the start, when the registry is first asked or told something.
    ``entry_points`` is the group by which other packages register kernels, loaded when it is first asked: functions
    that take the registry, or modules that register at import.
    """

    def __init__(self, fill: Callable[[KernelRegistry], None] | None = None, entry_points: str = "") -> None:
        self._fill, self._entry_points = fill, entry_points
        self._pending: list[importlib.metadata.EntryPoint] = []
        self._specs: dict[_Key, KernelSpec] = {}
        self._places: dict[_Key, Location] = {}
        self._made: dict[_Key, Kernel] = {}
        self._lock = threading.RLock()

    def register(self, spec: KernelSpec, force: bool = False) -> KernelSpec:
        """Add a kernel; ``force`` replaces one of the same op, variant and name, but not in slots that are bound.

        Raises:
            PatchgenError: there is one of the same op, variant and name; names both places.
        """
        if not isinstance(spec, KernelSpec):
            raise PatchgenError(f"a KernelSpec is registered, not {spec!r}")
        with self._lock:
            self._fill_once()
            return self._add(spec, _caller(), force)

    def _add(self, spec: KernelSpec, place: Location, force: bool = False) -> KernelSpec:
        with self._lock:
            key = (spec.op_name, spec.variant, spec.name)
            if key in self._specs and not force:
                raise PatchgenError(
                    f"kernel '{spec.name}' for {_slot(*key[:2])} is registered twice: "
                    f"at {self._places[key]} and at {place}",
                    place,
                    "Give one of them another name, or pass force=True to replace the first.",
                )
            self._specs[key], self._places[key] = spec, place
            self._made.pop(key, None)
        return spec

    def specs(self, op_name: str | None = None, variant: str | None = None) -> tuple[KernelSpec, ...]:
        """The registered kernels, whether or not they can run here, ordered by op, variant and name."""
        self._load()
        return tuple(
            spec
            for (op, other, _), spec in sorted(self._specs.items())
            if op_name in (None, op) and variant in (None, other)
        )

    def device_types(self) -> dict[str, frozenset[str]]:
        """The kinds of device that the registered kernels of each name are made for, the CPU apart."""
        kinds: dict[str, set[str]] = {}
        for spec in self.specs():
            if spec.hardware is not None and spec.hardware.device_type != "cpu":
                kinds.setdefault(spec.name, set()).add(spec.hardware.device_type)
        return {name: frozenset(of_name) for name, of_name in kinds.items()}

    def choose(self, op_name: str, name: str, variant: str = "standard") -> str:
        """The kernel that a name of a configuration stands for, by the name under which it is registered.

        A registered name stands for itself, "fused" for the best kernel that can run here, "liger" for
        "liger_kernel". Any other name is returned as it is.

        Raises:
            PatchgenError: nothing that "fused" may stand for can run here; says what each of them needs.
        """
        specs = self.specs(op_name, variant)
        names = {spec.name for spec in specs}
        if name in names:
            return name
        if name == FUSED:
            return self._choose_fused(op_name, variant, specs)
        alias = ALIASES.get(name)
        return alias if alias in names else name

    def _choose_fused(self, op_name: str, variant: str, specs: tuple[KernelSpec, ...]) -> str:
        ranked = [spec for spec in specs if spec.fused_rank is not None]
        if not ranked:
            raise self._unknown(op_name, variant, FUSED)
        able = [spec for spec in ranked if not spec.why_not_here()]
        if not able:
            lacks = "; ".join(f"{spec.name} {spec.why_not_here()}" for spec in ranked)
            message = f"no fused kernel for {_slot(op_name, variant)} can run here: {lacks}"
            raise PatchgenError(message, None, f"This machine has: {this_machine()}. 'eager' always runs.")
        return max(able, key=lambda spec: (spec.fused_rank, spec.name)).name

    def resolve(self, op_name: str, name: str, variant: str = "standard") -> Kernel:
        """The kernel of that name, made when it is first asked for.

        Raises:
            PatchgenError: there is none, its package is not installed, or this machine lacks the hardware. The error
                lists what there is; there is no falling back to another.
        """
        self._load()
        key = (op_name, variant, name)
        if key not in self._specs:
            raise self._unknown(op_name, variant, name)
        spec = self._specs[key]
        reason = spec.why_not_here()
        if reason:
            raise PatchgenError(
                f"kernel '{name}' for {_slot(op_name, variant)} {reason}",
                self._places[key],
                f"This machine has: {this_machine()}. {self._choice(op_name, variant)}",
            )
        with self._lock:
            if key not in self._made:
                self._made[key] = self._make(spec)
            return self._made[key]

    def _make(self, spec: KernelSpec) -> Kernel:
        place = self._places[spec.op_name, spec.variant, spec.name]
        where = f"kernel '{spec.name}' for {_slot(spec.op_name, spec.variant)}"
        try:
            kernel = spec.factory()
        except ImportError as error:
            hint = self._choice(spec.op_name, spec.variant)
            raise PatchgenError(f"{where} cannot be imported: {error}", place, hint) from error
        if not callable(kernel):
            raise PatchgenError(f"the factory of {where} returned {kernel!r}, which cannot be called", place)
        return kernel

    def _unknown(self, op_name: str, variant: str, name: str) -> PatchgenError:
        ops = {spec.op_name for spec in self.specs()}
        if op_name not in ops:
            hint = did_you_mean(op_name, ops) or f"There are: {', '.join(sorted(ops))}."
            return PatchgenError(f"no kernel is registered for the op '{op_name}'", None, hint)
        variants = {spec.variant for spec in self.specs(op_name)}
        if variant not in variants:
            hint = did_you_mean(variant, variants) or f"There are: {', '.join(sorted(variants))}."
            return PatchgenError(f"op '{op_name}' has no variant '{variant}'", None, hint)
        names = [spec.name for spec in self.specs(op_name, variant)]
        longer = [other for other in names if name and other.startswith(name)]
        near: str = did_you_mean(name, longer or names)
        near = near or (f"Did you mean '{longer[0]}'?" if longer else "")
        hint = f"{near} {self._choice(op_name, variant)}".strip()
        return PatchgenError(f"there is no kernel '{name}' for {_slot(op_name, variant)}", None, hint)

    def _choice(self, op_name: str, variant: str) -> str:
        """What there is for a slot, and why some of it cannot run here."""
        rows = [EAGER]
        for spec in self.specs(op_name, variant):
            if spec.name != EAGER:
                reason = spec.why_not_here()
                rows.append(f"{spec.name} ({reason})" if reason else spec.name)
        return f"There are: {', '.join(rows)}."

    def _fill_once(self) -> None:
        fill, self._fill = self._fill, None
        try:
            if fill is not None:
                fill(self)
        except BaseException:  # whoever asks next is told as well
            self._fill = fill
            self._specs.clear()
            raise

    def _load(self) -> None:
        """Register what there is from the start, and what other packages bring."""
        with self._lock:
            self._fill_once()
            group, self._entry_points = self._entry_points, ""
            if group:
                registered = importlib.metadata.entry_points(group=group)
                self._pending = sorted(registered, key=lambda point: (point.name, point.value))
            points, self._pending = self._pending, []
            try:
                while points:
                    self._load_one(points[0])
                    del points[0]
            finally:
                self._pending = points  # one that failed tells whoever asks next as well

    def _load_one(self, point: importlib.metadata.EntryPoint) -> None:
        before = dict(self._specs), dict(self._places)
        try:
            loaded = point.load()
            if not isinstance(loaded, types.ModuleType):
                loaded(self)
        except Exception as error:
            self._specs, self._places = before
            package = point.dist.name if point.dist else "an installed package"
            raise PatchgenError(
                f"the kernels of {package} cannot be registered: {type(error).__name__}: {error}",
                None,
                f"Its entry point '{point.name}' of the group '{point.group}' is {point.value}.",
            ) from error


def _slot(op_name: str, variant: str) -> str:
    return f"{op_name}/{variant}"


def _caller() -> Location:
    """The line outside of this module that is registering."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return Location(os.path.abspath(frame.f_code.co_filename), frame.f_lineno)


def _register_defaults(registry: KernelRegistry) -> None:
    place = Location(os.path.abspath(kernels.__file__))
    for spec in kernels.DEFAULTS:
        registry._add(spec, place)


KERNEL_REGISTRY = KernelRegistry(_register_defaults, ENTRY_POINTS)
"""The registry that op slots are bound from."""
