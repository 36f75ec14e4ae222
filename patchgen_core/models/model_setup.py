"""What a project's set-up declares before its models are compared. Imports no torch.

A set-up is a function of the project, ``[tool.patchgen] setup = "acme.testing:setup"``. The process that runs models
calls it once, before it imports transformers or a module of the project's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.ops.kernel_spec import EAGER
from patchgen_core.ops.slot import OpSlot

PATCHED = "patched"
"""The implementation of a module without slots."""
THROUGH_SLOTS = "eager_through_slots"
"""The implementation that runs the lines for kernels with the eager function of each op, also where a slot has no
kernel that runs here."""

Placements = Mapping[str, Mapping[str, Any]]
"""Placements of parameters by pattern, by mesh dimension."""
PlanReader = tuple[type, Callable[[Any], Placements]]
"""A class of parallel plans, and what reads one."""
Bind = Callable[[ModuleType], AbstractContextManager[Iterable[str]]]
"""Binds an implementation in a generated module for as long as the context lasts, and yields the names of what it
bound."""
Inputs = Mapping[str, Any]
"""Keyword arguments of a model's ``forward``."""
InputMaker = Callable[[Any, Inputs], Inputs]
"""Makes of a model and its inputs what that model is given beside them."""


@dataclass(frozen=True)
class SlotClass:
    """A project's own class of slots.

    Its slots have an ``op_name``, a ``variant`` and ``bind(name)``, where ``bind("eager")`` lets upstream's lines run.

    Attributes:
        cls: the class.
        names: the implementations of an op and variant, "eager" left out.
    """

    cls: type
    names: Callable[[str, str], Iterable[str]]

    @property
    def home(self) -> str:
        """The ``package.module:Class`` that defines it."""
        return f"{self.cls.__module__}:{self.cls.__qualname__}"


class ModelSetup:
    """What a set-up is given, to say what the project's models need and have.

    Attributes:
        slot_classes, plan_readers, implementations: what was added.
    """

    def __init__(self) -> None:
        self.slot_classes: list[SlotClass] = []
        self.plan_readers: list[PlanReader] = []
        self.implementations: dict[str, Bind] = {}
        self._contexts: list[Callable[[], AbstractContextManager[Any]]] = []
        self._input_makers: list[InputMaker] = []

    def add_slots(self, slot_class: type, names: Callable[[str, str], Iterable[str]]) -> None:
        """Have parity bind the slots of a class of the project's own.

        Args:
            slot_class: its slots have ``op_name``, ``variant`` and ``bind(name)``; ``bind("eager")`` lets upstream's
                lines run. A kernel that ``bind`` refuses with an ImportError or a RuntimeError cannot run here. A call
                of the slot, or of what its ``bound_kernel`` gives, runs the kernel.
            names: the names of the implementations for an op and a variant.

        Raises:
            PatchgenError: it is no class with a method ``bind``, or ``names`` is no function.
        """
        if not isinstance(slot_class, type) or not callable(getattr(slot_class, "bind", None)):
            hint = "Its slots have op_name, variant and bind(name)."
            raise PatchgenError(f"add_slots takes a class with a method 'bind', not {slot_class!r}", hint=hint)
        if not callable(names):
            hint = "Such as KERNEL_REGISTRY.list_available, which takes an op and a variant."
            raise PatchgenError(f"add_slots takes a function that names implementations, not {names!r}", hint=hint)
        self.slot_classes.append(SlotClass(slot_class, names))

    def add_plans(self, plan_class: type, read: Callable[[Any], Placements]) -> None:
        """Have the check ``plan`` read parallel plans of a class of the project's own.

        Args:
            read: the placements of a plan by mesh dimension and pattern, as
                :class:`~patchgen_core.parallel_plan.ParallelPlan` takes them.
        """
        if not isinstance(plan_class, type) or not callable(read):
            raise PatchgenError(f"add_plans takes a class and a function that reads its plans, not {plan_class!r}")
        self.plan_readers.append((plan_class, read))

    def add_implementation(self, name: str, bind: Bind) -> None:
        """Have parity compare one more implementation, in every module in which ``bind`` binds something.

        Args:
            name: what its items are called: ``parity[name]``.
            bind: takes a generated module, and returns a context in which the implementation is bound there; the
                context yields the names of what it bound.

        Raises:
            PatchgenError: the name is taken.
        """
        if name in (EAGER, PATCHED, THROUGH_SLOTS, *self.implementations):
            raise PatchgenError(f"there is already an implementation '{name}'", hint="Give it another name.")
        self.implementations[name] = bind

    def run_inside(self, context: Callable[[], AbstractContextManager[Any]]) -> None:
        """Have the project's models, and not upstream's, built and run inside of a context, which is made anew each
        time: such as one that puts the project's loss functions where transformers looks for them."""
        self._contexts.append(context)

    def add_inputs(self, make: InputMaker) -> None:
        """Have the project's models, and not upstream's, given more inputs: what its collator makes of a batch.

        Args:
            make: takes a model and the inputs of a batch, with tensors on the CPU, and returns a mapping of what the
                model is given beside them, or instead of one of the same name; an empty one for a model that needs
                nothing.
        """
        self._input_makers.append(make)

    def inputs_for(self, model: Any, inputs: Inputs) -> dict[str, Any]:
        """What a model of the project's is given for the inputs of a batch."""
        whole = dict(inputs)
        for make in self._input_makers:
            whole.update(make(model, whole) or {})
        return whole

    @contextmanager
    def run_time(self) -> Iterator[None]:
        """The contexts of :meth:`run_inside`."""
        with ExitStack() as stack:
            for context in self._contexts:
                stack.enter_context(context())
            yield

    @property
    def all_slot_classes(self) -> tuple[type, ...]:
        """The classes of slots: this package's, and those that were added."""
        return (OpSlot, *(slot_class.cls for slot_class in self.slot_classes))

    def slot_class_of(self, slot: object) -> SlotClass | None:
        """The added class that a slot is of; None for anything else."""
        return next((slot_class for slot_class in self.slot_classes if isinstance(slot, slot_class.cls)), None)

    def names_for(self, homes: Collection[str], op_name: str, variant: str) -> set[str] | None:
        """The implementations of a slot whose class and bases have these homes; None when it is of no added class."""
        for slot_class in self.slot_classes:
            if slot_class.home in homes:
                return set(slot_class.names(op_name, variant)) - {EAGER}
        return None
