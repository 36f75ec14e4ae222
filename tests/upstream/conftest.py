"""Projects that other folders make."""

from tests.build.conftest import family

__all__ = ["family"]
