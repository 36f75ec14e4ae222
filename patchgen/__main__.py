"""``python -m patchgen`` is ``patchgen``."""

from patchgen_core.cli.main import run

if __name__ == "__main__":
    run()
