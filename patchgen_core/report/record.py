"""Forwards the result of a check, which is called a record where pytest's items are extended."""

from patchgen_core.checks.result import CheckResult as Record

__all__ = ["Record"]
