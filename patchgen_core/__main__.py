"""``python -m patchgen_core`` is ``patchgen``."""

import sys

from patchgen_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
