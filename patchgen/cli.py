"""Forwards the ``patchgen`` command; ``python -m patchgen.cli`` runs it."""

from patchgen_core.cli.main import main, run

__all__ = ["main"]

if __name__ == "__main__":
    run()
