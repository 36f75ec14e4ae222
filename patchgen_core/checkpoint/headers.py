"""The files of a checkpoint and what their headers say, without reading a tensor."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import Location, PatchgenError, Problem

if TYPE_CHECKING:
    import torch

INDEX_NAME = "model.safetensors.index.json"
SINGLE_NAME = "model.safetensors"
CheckpointFiles = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_MAX_HEADER = 100_000_000  # the format's own limit, in bytes


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a safetensors file; ``dtype`` is spelled as in the format: ``BF16``, ``F32``, ``I64``..."""

    name: str
    file: Path
    shape: tuple[int, ...]
    dtype: str


def read_headers(files: CheckpointFiles) -> tuple[StoredTensor, ...]:
    """Every tensor of a checkpoint, in the natural order of names (layer 2 before layer 10).

    Raises:
        PatchgenError: a file is missing, is no whole safetensors file, or belies the index; or two shards have a
            key of the same name.
    """
    shards, index = find_shards(files)
    tensors: dict[str, StoredTensor] = {}
    problems = []
    for shard in shards:
        for tensor in _read_header(shard):
            other = tensors.setdefault(tensor.name, tensor)
            if other is not tensor:
                problems.append(
                    Problem(
                        f"'{tensor.name}' is in two shards, {other.file.name} and {shard.name}",
                        Location(str(shard)),
                        "Remove the shards of an earlier save, or name the files of one checkpoint.",
                    )
                )
    if problems:
        raise PatchgenError.from_problems(problems[:5])
    if index is not None:
        _compare_with_index(index, tensors)
    return tuple(sorted(tensors.values(), key=lambda tensor: natural_key(tensor.name)))


def read_tensors(files: CheckpointFiles) -> dict[str, torch.Tensor]:
    """Every tensor of a checkpoint, all at once, with the errors of :func:`read_headers`."""
    from safetensors.torch import load_file

    tensors: dict[str, torch.Tensor] = {}
    for shard in dict.fromkeys(one.file for one in read_headers(files)):
        tensors.update(load_file(shard))
    return tensors


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key in which the parts of a dotted name that are numbers compare as numbers."""
    parts = name.split(".")
    return tuple((0, int(part), "") if re.fullmatch(r"[0-9]+", part) else (1, 0, part) for part in parts)


def find_shards(files: CheckpointFiles) -> tuple[tuple[Path, ...], Path | None]:
    """The safetensors files of a checkpoint, and its index if it was found by one. None is a PatchgenError."""
    if not isinstance(files, (str, os.PathLike)):
        shards = tuple(dict.fromkeys(Path(file) for file in files))
        if not shards:
            raise PatchgenError("no checkpoint files were given", hint="Name a folder or safetensors files.")
        return shards, None
    path = Path(files)
    if path.is_dir():
        return _in_folder(path)
    if path.name.endswith(".index.json"):
        return _of_index(path), path
    return (path,), None


def config_beside(files: CheckpointFiles) -> Path | None:
    """The ``config.json`` beside the files of a checkpoint, if there is one."""
    shards, index = find_shards(files)
    path = (index or shards[0]).parent / "config.json"
    return path if path.is_file() else None


def _in_folder(folder: Path) -> tuple[tuple[Path, ...], Path | None]:
    index, single = folder / INDEX_NAME, folder / SINGLE_NAME
    if index.is_file() and single.is_file():
        raise PatchgenError(
            f"the folder has both {INDEX_NAME} and {SINGLE_NAME}",
            Location(str(folder)),
            "They are two checkpoints, and Hugging Face loads the latter: remove one, or name the file to load.",
        )
    if index.is_file():
        return _of_index(index), index
    if single.is_file():
        return (single,), None
    shards = tuple(sorted(folder.glob("*.safetensors")))
    if len(shards) == 1:
        return shards, None
    content = f"{len(shards)} safetensors files and no index" if shards else "no safetensors file"
    hint = "Name the files themselves." if shards else "Only safetensors checkpoints can be loaded."
    raise PatchgenError(
        f"the folder has neither {INDEX_NAME} nor {SINGLE_NAME}: {content}", Location(str(folder)), hint
    )


def _of_index(index: Path) -> tuple[Path, ...]:
    names = dict.fromkeys(_weight_map(index).values())
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise PatchgenError(
            f"the index names {len(missing)} of {len(names)} shards that are not there: {', '.join(missing[:3])}",
            Location(str(index)),
            "Finish the download, or save the checkpoint again.",
        )
    return tuple(index.parent / name for name in names)


def _weight_map(index: Path) -> Mapping[str, str]:
    content = read_json(index)
    weight_map = content.get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(value, str) for value in weight_map.values()):
        raise PatchgenError("is not an index: it has no 'weight_map' from keys to files", Location(str(index)))
    if not weight_map:
        raise PatchgenError("is an index of nothing: its 'weight_map' is empty", Location(str(index)))
    return weight_map


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; PatchgenError when there is no such file, or something else is in it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PatchgenError(f"cannot be read: {error.strerror}", Location(str(path))) from None
    except ValueError as error:
        raise PatchgenError(f"is not JSON: {error}", Location(str(path))) from None
    if not isinstance(content, dict):
        raise PatchgenError("holds no JSON object", Location(str(path)))
    return content


def _compare_with_index(index: Path, tensors: Mapping[str, StoredTensor]) -> None:
    weight_map = _weight_map(index)
    lacking = [
        name for name, file in weight_map.items() if name not in tensors or tensors[name].file != index.parent / file
    ]
    extra = [name for name in tensors if name not in weight_map]
    wrong = [("are not in the shard that the index names", lacking), ("of the shards are not in the index", extra)]
    problems = [
        Problem(f"{len(names)} keys {what}, first '{names[0]}'", Location(str(index)))
        for what, names in wrong
        if names
    ]
    if problems:
        raise PatchgenError.from_problems(problems)


def _read_header(file: Path) -> list[StoredTensor]:
    """The tensors of one file; the format is 8 bytes of header length, the header as JSON, the data."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if size < 8 or length > min(_MAX_HEADER, size - 8):
                raise _damaged(file, "its header is longer than the file")
            header = json.loads(stream.read(length))
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        tensors = [
            StoredTensor(name, file, tuple(map(int, entry["shape"])), str(entry["dtype"]))
            for name, entry in entries.items()
        ]
        end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    except OSError as error:
        raise PatchgenError(f"cannot be read: {error.strerror}", Location(str(file))) from None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        raise _damaged(file, "its header does not follow the format") from None
    if 8 + length + end != size:
        raise _damaged(file, f"it is {size} bytes long, and its header describes {8 + length + end}")
    return tensors


def _damaged(file: Path, reason: str) -> PatchgenError:
    return PatchgenError(
        f"is not a complete safetensors file: {reason}", Location(str(file)), "Finish the download, or save it again."
    )
