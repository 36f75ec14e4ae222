"""The defects that can be brought into a config by machine, one at a time.

What breaks a contract yields whole configs, with the findings that the rule of that defect owes: Python itself tells
what a defect breaks, its compiler which names code loads, its own signatures which calls they refuse. What breaks a
computation yields changes of one function's text, of which the gate has to find each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tools.mutation.configs import Config
from tools.mutation.mutant import Edit, RuleMutant
from tools.mutation.operators import calls, statements, values
from tools.mutation.operators.callees import call_mutants
from tools.mutation.operators.imports import import_mutants
from tools.mutation.operators.names import addition_mutants, exclusion_mutants, shadowing_mutants
from tools.mutation.operators.outputs import (
    attribute_mutants,
    external_mutants,
    member_mutants,
    output_mutants,
    return_mutants,
    slot_mutants,
)
from tools.mutation.operators.signatures import signature_mutants
from tools.mutation.scope import Scope

BY_RULE: dict[str, Callable[[Config], Iterator[RuleMutant]]] = {
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
    "PG225": import_mutants,
    "PG226": attribute_mutants,
}
IN_CODE: tuple[Callable[[Scope], Iterator[Edit]], ...] = (
    values.flipped_signs,
    values.wrong_axes,
    values.dropped_parts,
    values.wrong_epsilons,
    values.shifted_indices,
    values.changed_constants,
    values.changed_dtypes,
    values.wrong_reductions,
    calls.omitted_masks,
    calls.swapped_arguments,
    calls.shifted_labels,
    calls.dropped_arguments,
    calls.wrong_names,
    statements.cut_gradients,
    statements.dropped_statements,
    statements.changed_assignments,
    statements.wrong_conditions,
)
