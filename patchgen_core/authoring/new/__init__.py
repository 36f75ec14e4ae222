"""A first patch config for a model type, written from what stands in upstream's source."""

from patchgen_core.authoring.new.create import NewResult, create_new

__all__ = ["NewResult", "create_new"]
