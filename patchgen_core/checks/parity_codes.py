"""The codes of the rules that are found when models run."""

UNUSED = "PG300"
"""The code of an allowance or a tolerance that nothing comes of."""
UNREACHED = "PG301"
"""The code of a patch that does not run."""
UNRUN = "PG302"
"""The code of lines of a patch that do not run."""
NOT_PATCHED = "PG303"
"""The code of a head that is made without the patches."""
UNINITIALIZED = "PG304"
"""The code of parameters that do not start as upstream's do."""
CODES = (UNUSED, UNREACHED, UNRUN, NOT_PATCHED, UNINITIALIZED)
