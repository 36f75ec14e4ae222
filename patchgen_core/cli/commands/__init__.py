"""The subcommands of ``patchgen``: a module for each, found by its name."""
