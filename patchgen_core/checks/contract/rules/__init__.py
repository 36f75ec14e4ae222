"""The rules, in the order of their codes: every module of this folder has one, which it calls ``RULE``."""

from __future__ import annotations

import importlib
import pkgutil

from patchgen_core.checks.contract.rule import Rule

_MODULES = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
RULES: tuple[Rule, ...] = tuple(sorted((module.RULE for module in _MODULES), key=lambda rule: rule.code))
ALLOWANCE = next(rule for rule in RULES if rule.code == "PG200")
"""The rule about allowances that nothing comes of."""
