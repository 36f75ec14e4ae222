"""Types at random in configs of the zoo, as tests/lsp/random_typing.py does, many times: what an editor's process says
after each edit must be what a fresh one says.

    python -m tools.random_typing EDITS SEED
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.lsp.editor import copy_zoo
from tests.lsp.random_typing import type_at_random


def main() -> int:
    """Type; what came of it."""
    edits, seed = map(int, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        counts = type_at_random(copy_zoo(Path(folder)), edits, seed)
    print(f"{edits} edits, seed {seed}: no difference")
    for kind, count in sorted(counts.items()):
        print(f"  {kind:<20}{count:>6}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
