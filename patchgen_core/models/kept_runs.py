"""What upstream's models computed of batches, kept between runs.

It depends on upstream's code, the configuration, the parameters, the batch and the way it is run, not on patches. All
of that goes into the name that a run is kept by; what cannot be described there is not kept. In a file are tensors as
safetensors has them, with the same strides, so that sums over them have the same bits, and JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from patchgen_core.errors import PatchgenError
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.model_heads import Head
from patchgen_core.models.model_run import Run
from patchgen_core.models.routing import Choices
from patchgen_core.models.run_files import RunFiles, RunPlace
from patchgen_core.models.upstream_state import PACKAGE, describe_upstream
from patchgen_core.models.value_hashes import NotDescribedError, hash_values
from patchgen_core.workers.phases import phase

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_FORMAT = 1
_ABOUT = "about"


@dataclass(frozen=True)
class KeptRun:
    """A run, and the state that it leaves its model in (:class:`~patchgen_core.models.model_history.History`)."""

    run: Run
    state: str


class KeptRuns:
    """The kept runs that one request may use: those of the state that upstream's code was in when it began.

    Attributes:
        obstacles: why some runs are not kept, in words.
    """

    def __init__(self, place: RunPlace, upstream: ModuleType) -> None:
        self.place, self.upstream = place, upstream
        self.files = RunFiles(Path(place.cache_folder))
        with phase("looking for kept runs"):
            self.state = describe_upstream(upstream)
        self._new: dict[str, KeptRun] = {}
        self.obstacles: dict[str, None] = {}

    def describe(self, head: Head, config: PreTrainedConfig, state: Mapping[str, Tensor], device: str) -> str:
        """What stands for a model of upstream's with its parameters; empty where its runs are not kept."""
        names = (head.upstream.__module__, type(config).__module__)
        if device != "cpu":
            return self._refuse(f"models run on {device}")
        foreign = next((name for name in names if not name.startswith(f"{PACKAGE}.")), "")
        if foreign:
            return self._refuse(f"'{foreign}' is not transformers' own")
        about = (*names, head.upstream.__qualname__, type(config).__qualname__, config.to_json_string(use_diff=False))
        return hash_values((_FORMAT, self.state, about, dict(state)))

    def name(self, model: str, state: str, batch: ToyBatch, dtype: torch.dtype, like: Run | None) -> str:
        """The name of a run of a model that :meth:`describe` describes, in a state that earlier runs left it in; empty
        where it is not kept."""
        choices = (like.choices.eps, like.choices.indices) if like is not None and like.choices is not None else None
        try:
            values = (model, state, dict(batch.inputs), batch.mode, batch.as_rank, dtype, choices)
            return f"{self.place.context}-{hash_values(values)}" if model else ""
        except NotDescribedError as error:
            return self._refuse(f"batch '{batch.name}' is run with '{error}', of which the code is not known")

    def _refuse(self, reason: str) -> str:
        self.obstacles[reason] = None
        return ""

    def find(self, name: str) -> KeptRun | None:
        """The run that is kept by a name."""
        with phase("looking for kept runs"):
            body = self.files.read(name) if name else None
            return _unpack(name, body) if body is not None else None

    def add(self, name: str, run: KeptRun) -> None:
        """Keep a run by a name, once the request is done."""
        if name:
            self._new[name] = run

    def write(self) -> None:
        """Write what was added, unless something of upstream's code is another one now. Nothing comes of a failure
        but that a run is made again."""
        with phase("keeping runs"), suppress(PatchgenError):
            if self._new and describe_upstream(self.upstream) != self.state:
                self._refuse("something has changed upstream's functions or classes meanwhile")
            elif self._new:
                packed = ((name, _pack(name, run)) for name, run in self._new.items())
                if all(self.files.write(name, body) for name, body in packed if body):
                    self.files.bound()
                else:
                    self._refuse(self.files.failure)
        self._new.clear()


# --- runs as bytes ---------------------------------------------------------------------------------


def _pack(name: str, kept: KeptRun) -> bytes | None:
    """A run as bytes; None where a tensor lies in memory in a way that would not come back."""
    from safetensors.torch import save

    run = kept.run
    tensors: dict[str, Tensor] = {}
    orders: dict[str, list[int]] = {}
    choices = run.choices.indices if run.choices is not None else ()
    values = {f"value {number}": value for number, value in enumerate(run.values.values()) if value is not None}
    parts = values | {f"choice {number}": value for number, value in enumerate(choices)} | {"loss": run.loss}
    for key, value in parts.items():
        order = _order_in_memory(value)
        tensors[key] = value.permute(order).contiguous()
        orders[key] = order
        if _restore(tensors[key], order).stride() != value.stride():
            return None
    about = {
        "name": name,
        "state": kept.state,
        "values": [[key, value is not None] for key, value in run.values.items()],
        "orders": orders,
        "eps": run.choices.eps if run.choices is not None else None,
        "choices": len(choices),
        "left_out": sorted(run.left_out),
        "has_media": run.has_media,
        "calls": run.calls,
        "without_gradient": sorted(run.without_gradient),
        "kinds": run.kinds,
    }
    try:
        return save(tensors, {_ABOUT: json.dumps(about)})
    except (RuntimeError, ValueError):  # of tensors that share memory
        return None


def _order_in_memory(value: Tensor) -> list[int]:
    strides = value.stride()
    return sorted(range(value.dim()), key=lambda dim: (-strides[dim], dim))


def _restore(value: Tensor, order: list[int]) -> Tensor:
    return value.permute(sorted(range(len(order)), key=order.__getitem__))


def _unpack(name: str, body: bytes) -> KeptRun | None:
    """A run of bytes; None where they are not those of the run that is kept by a name."""
    from safetensors.torch import load

    try:
        about = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])["__metadata__"][_ABOUT]
        about = json.loads(about)
        tensors = load(body)
        if about["name"] != name:
            return None
        parts = {key: _restore(tensor, about["orders"][key]) for key, tensor in tensors.items()}
        eps, count = about["eps"], about["choices"]
        run = Run(
            values={
                key: parts[f"value {i}"] if is_there else None for i, (key, is_there) in enumerate(about["values"])
            },
            kinds=about["kinds"],
            loss=parts["loss"],
            left_out=frozenset(about["left_out"]),
            choices=None if eps is None else Choices(eps, tuple(parts[f"choice {i}"] for i in range(count))),
            has_media=about["has_media"],
            calls=about["calls"],
            without_gradient=frozenset(about["without_gradient"]),
        )
        return KeptRun(run, about["state"])
    except Exception:  # whatever is wrong with it, the run is made again
        return None
