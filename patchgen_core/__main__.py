"""``python -m patchgen_core`` is ``patchgen``."""

from patchgen_core.cli import run

if __name__ == "__main__":
    run()
