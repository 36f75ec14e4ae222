"""The rules, in the order of their codes."""

from __future__ import annotations

from patchgen_core.checks.contract.rule import Rule
from patchgen_core.checks.contract.rules import (
    allowance,
    auto_model,
    bypassed,
    call_site,
    dangling,
    dead_code,
    dispatch,
    docstring,
    dummy_forward,
    external_name,
    local_callable,
    loss,
    lost_member,
    no_effect,
    output_fields,
    returned,
    rotary,
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
    dispatch.RULE,
    docstring.RULE,
    no_effect.RULE,
    upstream_moved.RULE,
    local_callable.RULE,
    rotary.RULE,
    loss.RULE,
    dummy_forward.RULE,
    bypassed.RULE,
    auto_model.RULE,
    lost_member.RULE,
    returned.RULE,
    external_name.RULE,
)
