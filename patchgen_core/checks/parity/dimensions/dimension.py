"""What a dimension of parity is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from patchgen_core.models.batches import Batches, ToyBatch, ToyModel
from patchgen_core.models.toy_batches import BatchRequests


@dataclass(frozen=True)
class Subject:
    """A head that is about to be compared.

    Attributes:
        batches: those of a training step that it is run on.
        names: every name that stands in the code of the patches, and in upstream's code that they take the place of.
        has_kernels: whether slots are bound to other code than upstream's.
        is_kernel_alone: whether another implementation, which has eager functions in place of kernels, runs all else.
        make: gives the batches that upstream's model runs of those that a built-in builder wants.
        targets: of its patches: of all where it is the main head, and of those in its own class elsewhere.
        is_main: whether it is the head that all that is in the module runs in, as far as one head does.
        is_thorough: whether more is wanted than what is likely to show something.
        read: the names in the code of its patches and of what these hold, among which the fields of the configuration
            are that the code reads.
        own_names: as ``names``, of its patches alone.
        read_in_head: as ``read``, of its class alone; empty where that names no labels.
        keeps_values: whether code of its patches keeps something from one run to the next.
        numbers: positive whole numbers in the code of its patches that upstream has not.
    """

    toy: ToyModel
    batches: tuple[ToyBatch, ...]
    names: frozenset[str]
    has_kernels: bool
    make: Callable[[BatchRequests], Batches]
    targets: frozenset[str]
    is_main: bool
    is_thorough: bool
    read: frozenset[str]
    own_names: frozenset[str]
    read_in_head: frozenset[str]
    keeps_values: bool
    numbers: frozenset[int]
    is_kernel_alone: bool = False


@dataclass(frozen=True)
class Dimension:
    """Something that training and serving vary, and a training step on a toy batch does not.

    Attributes:
        name: as documents call it.
        find_reason: why the patches may matter to it, which notes tell; empty where they cannot.
        make_batches: what a head is run on, each batch in a mode, on upstream's model first; where that refuses one, a
            note says so.
        is_for_interpreted: whether it is varied where patches call kernels themselves, which Triton interprets here.
    """

    name: str
    find_reason: Callable[[Subject], str]
    make_batches: Callable[[Subject], Iterable[ToyBatch]]
    is_for_interpreted: bool = True
