"""The meshes that models are checked on. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

SP, EP = "sp", "ep"


@dataclass(frozen=True)
class Mesh:
    """How ranks share a model.

    Attributes:
        name: such as ``fsdp2`` or ``ep2xsp2``.
        dp, sp, ep: over how many ranks batches, sequences and experts are split. Parameters are split over all.
    """

    name: str
    dp: int
    sp: int = 1
    ep: int = 1

    @property
    def ranks(self) -> int:
        """How many processes there are; experts are split over the same ones."""
        return self.dp * self.sp

    @property
    def needs(self) -> frozenset[str]:
        """What a model must offer for it, beside its parameters: ``sp``, ``ep``."""
        return frozenset(kind for kind, size in ((SP, self.sp), (EP, self.ep)) if size > 1)


MESHES = (
    Mesh("fsdp2", 2),
    Mesh("sp2", 1, sp=2),
    Mesh("ep2", 2, ep=2),
    Mesh("fsdp2xsp2", 2, sp=2),
    Mesh("ep2xsp2", 2, sp=2, ep=2),
)
"""From the simplest to the one in which everything is split."""
NAMES = tuple(mesh.name for mesh in MESHES)


def find_mesh(name: str) -> Mesh:
    """The mesh of a name that is in :data:`NAMES`."""
    return MESHES[NAMES.index(name)]
