"""Correct configs, and the defects that can be brought into them by machine, one at a time.

Each function named here takes a correct config and yields it with one defect, together with the findings that the rule
of that defect owes. What a defect breaks is told by Python itself: its compiler says which names code loads, its own
signatures which calls they refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tools.defects.base import Base, Mutant
from tools.defects.calls import call_mutants
from tools.defects.names import addition_mutants, exclusion_mutants, shadowing_mutants
from tools.defects.signatures import signature_mutants
from tools.defects.values import (
    external_mutants,
    member_mutants,
    output_mutants,
    return_mutants,
    slot_mutants,
)

BY_RULE: dict[str, Callable[[Base], Iterator[Mutant]]] = {
    "PG201": signature_mutants,
    "PG202": call_mutants,
    "PG203": exclusion_mutants,
    "PG204": addition_mutants,
    "PG205": output_mutants,
    "PG206": slot_mutants,
    "PG207": shadowing_mutants,
    "PG222": member_mutants,
    "PG223": return_mutants,
    "PG224": external_mutants,
}
