from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard

from patchgen_core.checkpoint import (
    PerExpertConverter,
    create_checkpoint_tensor_converter,
    load_state_dict_streaming,
    to_hub_layout,
)
from patchgen_core.checkpoint.streaming import _Reader
from patchgen_core.errors import PatchgenError
from patchgen_core.models.toy_config import make_toy_config
from patchgen_core.parallel_plan import ParallelPlan
from patchgen_core.runtime.parallel import (
    init_parallel_state,
    load_training_state,
    materialize,
    parallelize,
    save_training_state,
    training_state,
)

LAYOUTS = {
    "Qwen3MoeForCausalLM": "per_expert",
    "Qwen3VLMoeForConditionalGeneration": "transposed",
    "Qwen3_5MoeForCausalLM": "direct",
}


def make_model(name: str, dtype: torch.dtype = torch.float32) -> Any:
    """A toy of a class of transformers, with other values in each tensor."""
    import transformers

    cls = getattr(transformers, name)
    model = cls(make_toy_config(cls.config_class)).to(dtype)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def make_plan(model: nn.Module) -> ParallelPlan | None:
    names = [name for name, p in model.named_parameters() if ".experts." in name and p.dim() == 3]
    return ParallelPlan({"ep": dict.fromkeys(names, Shard(0))}) if names else None


def make_sharded(model: Any, **sizes: int) -> Any:
    """The same model over all ranks, without values."""
    with torch.device("meta"):
        empty = type(model)(copy.deepcopy(model.config)).to(model.dtype)
    parallelize(empty, init_parallel_state(**sizes), make_plan(model))
    materialize(empty)
    return empty


def bytes_of(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().flatten().view(torch.uint8)


def assert_same(model: nn.Module, reference: nn.Module) -> None:
    for (name, one), other in zip(model.state_dict().items(), reference.state_dict().values(), strict=True):
        whole = one.full_tensor() if isinstance(one, DTensor) else one
        assert torch.equal(bytes_of(whole), bytes_of(other)), name
    for (name, one), other in zip(model.named_buffers(), reference.buffers(), strict=True):
        assert torch.equal(one, other), name


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def load_and_save(name: str, hub: Path, out: Path, dtype: torch.dtype, sizes: dict[str, int]) -> int:
    """The bytes that this rank read."""
    reference = make_model(name, dtype)
    model = make_sharded(reference, **sizes)
    read = []
    with pytest.MonkeyPatch.context() as patch:
        own = _Reader.read_own

        def read_own(*args: Any) -> Any:
            region = own(*args)
            read.append(0 if region is None else region[1].nbytes)
            return region

        patch.setattr(_Reader, "read_own", read_own)
        patch.setattr(_Reader, "read", lambda *args: pytest.fail("a tensor is read whole"))
        load_state_dict_streaming(model, hub, create_checkpoint_tensor_converter(model))
    assert_same(model, reference)
    to_hub_layout(model, out, max_shard_size="100KB")
    assert files_of(out) == files_of(hub)
    with pytest.raises(PatchgenError, match="the folder is not empty"):
        to_hub_layout(model, out)
    return sum(read)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.mostly_slow(1)
def test_each_rank_loads_its_own_parts_and_what_is_saved_is_the_same(ranks, tmp_path, name):
    model = make_model(name)
    to_hub_layout(model, tmp_path / "hub", max_shard_size="100KB")
    whole = sum(path.stat().st_size for path in (tmp_path / "hub").glob("*.safetensors"))
    read = ranks(4, load_and_save, name, tmp_path / "hub", tmp_path / "out", torch.float32, {"ep_size": 2})
    assert max(read) < whole / 4 * 1.2
    assert sum(read) <= whole


def load_unevenly(name: str, hub: Path, out: Path, sizes: dict[str, int]) -> None:
    reference = make_model(name, torch.bfloat16)
    model = make_sharded(reference, **sizes)
    load_state_dict_streaming(model, hub, create_checkpoint_tensor_converter(model))
    assert_same(model, reference)
    to_hub_layout(model, out)
    assert files_of(out) == files_of(hub)


@pytest.mark.parametrize("name", ["Qwen3MoeForCausalLM", "GemmaForCausalLM"])
def test_parameters_that_do_not_divide_by_the_ranks_or_are_tied_are_loaded_and_saved(ranks, tmp_path, name):
    to_hub_layout(make_model(name, torch.bfloat16), tmp_path / "hub")
    ranks(3, load_unevenly, name, tmp_path / "hub", tmp_path / "out", {"ep_size": 1})


class Doubling(PerExpertConverter):
    """One that looks at values, and cannot say where they go."""

    def convert(self, name: str, tensor: Tensor) -> Any:
        return super().convert(name, tensor * 2)


def load_doubled(hub: Path) -> None:
    reference = make_model("Qwen3MoeForCausalLM")
    model = make_sharded(reference, ep_size=2)
    with torch.no_grad():
        for name, parameter in reference.named_parameters():
            if ".experts." in name:
                parameter.mul_(2)
    load_state_dict_streaming(model, hub, Doubling(reference.config.num_experts))
    assert_same(model, reference)


def test_a_converter_that_cannot_tell_where_values_go_sees_them_all(ranks, tmp_path):
    to_hub_layout(make_model("Qwen3MoeForCausalLM"), tmp_path / "hub")
    ranks(2, load_doubled, tmp_path / "hub")


def fail_to_save(folder: Path) -> None:
    model = make_sharded(make_model("LlamaForCausalLM"))
    with pytest.MonkeyPatch.context() as patch:
        calls: list[object] = []

        def save_file(*args: object, **kwargs: object) -> None:
            calls.append(args)
            if len(calls) == 2:
                raise OSError(28, "No space left on device")

        patch.setattr("safetensors.torch.save_file", save_file)
        with pytest.raises(PatchgenError, match="cannot be written: No space left on device"):
            to_hub_layout(model, folder / "out", max_shard_size="20KB")
    torch.distributed.barrier()
    assert list(folder.iterdir()) == []
    assert len(calls) == (2 if torch.distributed.get_rank() == 0 else 0)


def test_a_save_that_fails_on_the_first_rank_fails_on_all_and_leaves_nothing(ranks, tmp_path):
    ranks(2, fail_to_save, tmp_path)


# --- training state ----------------------------------------------------------------------------------


def train(model: Any, optimizer: torch.optim.Optimizer, steps: int) -> None:
    ids = torch.arange(1, 9)[None]
    for _ in range(steps):
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def start(name: str) -> tuple[Any, torch.optim.Optimizer]:
    model = make_model(name)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.1)
    plan = make_plan(model)
    parallelize(model, init_parallel_state(ep_size=2 if plan else 1), plan)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def whole(model: nn.Module) -> dict[str, Any]:
    return {name: p.full_tensor().detach().numpy() for name, p in model.named_parameters() if isinstance(p, DTensor)}


def save_steps(folder: Path, name: str) -> dict[str, Any]:
    model, optimizer = start(name)
    assert load_training_state(folder, model, optimizer) == (0, {})
    for step in (1, 2, 3):
        train(model, optimizer, 1)
        save_training_state(folder, step, model, optimizer, {"seen": step * 8})
    assert sorted(path.name for path in folder.iterdir()) == ["step-2", "step-3"]
    with pytest.raises(PatchgenError, match="saved before"):
        save_training_state(folder, 3, model, optimizer)
    train(model, optimizer, 1)
    return whole(model)


def resume(folder: Path, name: str) -> dict[str, Any]:
    model, optimizer = start(name)
    assert load_training_state(folder, model, optimizer) == (3, {"seen": 24})
    train(model, optimizer, 1)
    return whole(model)


@pytest.mark.parametrize("name", ["Qwen3MoeForCausalLM", "LlamaForCausalLM"])
@pytest.mark.slow
def test_training_goes_on_from_the_newest_complete_step(ranks, tmp_path, name):
    expected = ranks(2, save_steps, tmp_path, name)
    (tmp_path / ".step-4.partial").mkdir()
    again = ranks(2, resume, tmp_path, name)
    other = ranks(4, resume, tmp_path, name)
    for key, value in expected[0].items():
        assert again[0][key].tobytes() == value.tobytes(), key
        torch.testing.assert_close(torch.tensor(other[0][key]), torch.tensor(value))


def interrupted(folder: Path) -> None:
    model, optimizer = start("LlamaForCausalLM")
    save_training_state(folder, 1, model, optimizer)
    kept = files_of(folder / "step-1")

    def save(state: object, checkpoint_id: Path) -> None:
        checkpoint_id.mkdir(parents=True, exist_ok=True)
        (checkpoint_id / "__0_0.distcp").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_state, "save", save)
        with pytest.raises(KeyboardInterrupt):
            save_training_state(folder, 2, model, optimizer)
    assert files_of(folder / "step-1") == kept
    assert load_training_state(folder, model, optimizer) == (1, {})
    save_training_state(folder, 2, model, optimizer)
    assert sorted(path.name for path in folder.iterdir()) == ["step-1", "step-2"]


def test_an_interrupted_save_leaves_the_steps_before_it_whole(ranks, tmp_path):
    ranks(2, interrupted, tmp_path)
