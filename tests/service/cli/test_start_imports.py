"""A service that starts keeps nothing in memory that it does not need."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import patchgen_service.cli.serving, patchgen_service.cli.background
print(*sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[1:])))
"""
NEEDLESS = ("_pytest", "alembic", "authlib", "fastapi", "pydantic", "libcst", "torch", "transformers")


def test_what_only_some_calls_need_is_not_imported() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *NEEDLESS, "sqlalchemy"], capture_output=True, text=True)
    assert done.stdout.split() == ["sqlalchemy"], done.stderr
