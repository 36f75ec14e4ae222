"""Forwards :mod:`patchgen_core.build.normalize`."""

from patchgen_core.build.normalize import Normalized, RawText, normalize

__all__ = ["Normalized", "RawText", "normalize"]
