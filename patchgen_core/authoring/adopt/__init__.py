"""From a monkey patch to a patch config that does the same when code is generated."""

from patchgen_core.authoring.adopt.adopt_patcher import AdoptResult, adopt

__all__ = ["AdoptResult", "adopt"]
