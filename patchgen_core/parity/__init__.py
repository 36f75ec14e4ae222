"""Import names that documents and projects use, forwarded to :mod:`patchgen_core.models`."""
