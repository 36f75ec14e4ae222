"""Numbers that are the same on every machine."""

from __future__ import annotations

import torch


def random_floats(*shape: int, seed: int = 0) -> torch.Tensor:
    """Numbers between -2 and 2, float32, which bfloat16 holds exactly."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-128, 129, shape, generator=generator).float() / 64


def reseed(device: torch.device | str) -> None:
    """Have what is drawn from now on, for a model on a device, be the same every time."""
    if torch.device(device).type == "cpu":
        torch.default_generator.manual_seed(0)  # a tenth of torch's own, which notes where it was called for each GPU
    else:
        torch.manual_seed(0)
