"""The rules, in the order of their codes."""

from __future__ import annotations

from patchgen_core.contracts.rule import Rule
from patchgen_core.contracts.rules import allowance, call_site, signature

ALLOWANCE = allowance.RULE
RULES: tuple[Rule, ...] = (
    ALLOWANCE,
    signature.RULE,
    call_site.RULE,
)
