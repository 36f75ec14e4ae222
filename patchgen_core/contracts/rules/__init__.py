"""The rules, in the order of their codes."""

from __future__ import annotations

from patchgen_core.contracts.rule import Rule
from patchgen_core.contracts.rules import (
    allowance,
    auto_model,
    bypassed,
    call_site,
    dangling,
    dead_code,
    docstring,
    lost_member,
    local_callable,
    loss,
    no_effect,
    output_fields,
    returned,
    shadowing,
    signature,
    slot,
    undefined,
    upstream_moved,
)

ALLOWANCE = allowance.RULE
RULES: tuple[Rule, ...] = (
    ALLOWANCE,
    signature.RULE,
    call_site.RULE,
    dangling.RULE,
    undefined.RULE,
    output_fields.RULE,
    slot.RULE,
    shadowing.RULE,
    dead_code.RULE,
    docstring.RULE,
    no_effect.RULE,
    upstream_moved.RULE,
    local_callable.RULE,
    loss.RULE,
    bypassed.RULE,
    auto_model.RULE,
    lost_member.RULE,
    returned.RULE,
)
