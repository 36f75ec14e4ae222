"""Converters of one's own for the experts of a model, right and wrong."""

from __future__ import annotations

import re
from typing import Any

import torch

from patchgen_core.checkpoint import ConvertedCheckpointTensor


class Collecting:
    """A converter of one's own: keeps every expert's tensors until all are there."""

    name = re.compile(r"(.+\.experts)\.(\d+)\.(gate_proj|up_proj|down_proj)\.weight")

    def __init__(self, model: Any) -> None:
        self.count = model.config.get_text_config().num_experts
        self.kept: dict[tuple[str, str], dict[str, torch.Tensor]] = {}

    def can_handle(self, name: str) -> bool:
        return self.name.fullmatch(name) is not None

    def convert(self, name: str, tensor: torch.Tensor) -> ConvertedCheckpointTensor | None:
        match = self.name.fullmatch(name)
        assert match is not None
        target = "down_proj" if match[3] == "down_proj" else "gate_up_proj"
        kept = self.kept.setdefault((match[1], target), {})
        kept[f"{match[2]}.{match[3]}"] = tensor
        if len(kept) < self.count * (1 if target == "down_proj" else 2):
            return None
        del self.kept[match[1], target]
        return ConvertedCheckpointTensor(f"{match[1]}.{target}", self.fuse(target, kept))

    def fuse(self, target: str, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        experts = self.order(list(dict.fromkeys(key.partition(".")[0] for key in kept)))
        if target == "down_proj":
            return torch.stack([kept[f"{expert}.down_proj"] for expert in experts])
        return torch.stack([self.pair(kept[f"{e}.gate_proj"], kept[f"{e}.up_proj"]) for e in experts])

    def order(self, experts: list[str]) -> list[str]:
        return sorted(experts, key=int)

    def pair(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return torch.cat((gate, up))

    def finalize(self) -> list[ConvertedCheckpointTensor]:
        if self.kept:
            raise RuntimeError(f"incomplete: {sorted(self.kept)}")
        return []


class SwappedHalves(Collecting):
    def pair(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return torch.cat((up, gate))


class Interleaved(Collecting):
    def pair(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return torch.stack((gate, up), dim=1).flatten(0, 1)


class SortedAsText(Collecting):
    def order(self, experts: list[str]) -> list[str]:
        return sorted(experts)


class AsTheyCome(Collecting):
    def order(self, experts: list[str]) -> list[str]:
        return experts


class SwappedAndSortedAsText(SwappedHalves, SortedAsText):
    pass


class Forgetful(Collecting):
    def finalize(self) -> list[ConvertedCheckpointTensor]:
        return []


class ForgetfulOfDown(Collecting):
    def finalize(self) -> list[ConvertedCheckpointTensor]:
        if incomplete := [key for key in self.kept if key[1] != "down_proj"]:
            raise RuntimeError(f"incomplete: {incomplete}")
        return []


class Vague(Collecting):
    def finalize(self) -> list[ConvertedCheckpointTensor]:
        if self.kept:
            raise RuntimeError("something is missing")
        return []


class HandsOverTheRest(Collecting):
    def finalize(self) -> list[ConvertedCheckpointTensor]:
        return [
            ConvertedCheckpointTensor(f"{module}.{target}", next(iter(kept.values())))
            for (module, target), kept in self.kept.items()
        ]


class Rounding(Collecting):
    def fuse(self, target: str, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        return super().fuse(target, kept).bfloat16()


class RoundingBack(Collecting):
    def fuse(self, target: str, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        return super().fuse(target, kept).bfloat16().float()


class WrongName(Collecting):
    def convert(self, name: str, tensor: torch.Tensor) -> ConvertedCheckpointTensor | None:
        converted = super().convert(name, tensor)
        return ConvertedCheckpointTensor(f"{converted.name}.weight", converted.tensor) if converted else None


class Deaf(Collecting):
    def can_handle(self, name: str) -> bool:
        return super().can_handle(name) and ".down_proj." not in name


class Crashing(Collecting):
    def fuse(self, target: str, kept: dict[str, torch.Tensor]) -> torch.Tensor:
        raise KeyError("gate")
