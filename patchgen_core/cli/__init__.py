"""The ``patchgen`` command, one file a subcommand."""
