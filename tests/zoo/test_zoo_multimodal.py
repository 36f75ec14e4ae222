"""The zoo's models that see or hear: what trainers call on them gives what upstream's models compute themselves.

Every generated module that has one of the functions is tested, whichever there are.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from patchgen_core.config.loading import Loader
from patchgen_core.models.batches import ToyBatch, ToyModel
from patchgen_core.models.environment import use_loopback
from patchgen_core.models.model_heads import find_heads
from patchgen_core.models.toy_batches import make_batches
from patchgen_core.models.toy_config import load_toy_config
from patchgen_core.models.toy_models import build_model, load_state, random_state
from patchgen_core.project.table import load_project
from patchgen_core.syntax.source import SourceCache

ROOT = Path(__file__).parents[2]
MEDIA = ("pixel_values", "pixel_values_videos", "input_features")
DUMMY, POSITIONS, METADATA = "dummy_forward", "get_position_id_func", "get_metadata_collate_func"
COMPLETE = ("qwen2_vl", "qwen3_vl", "qwen3_vl_moe")
"""Folders that are known to have all three."""


def defined(path: Path) -> frozenset[str]:
    """The names of a module's methods."""
    classes = (node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.ClassDef))
    return frozenset(part.name for node in classes for part in node.body if isinstance(part, ast.FunctionDef))


DEFINED = {path: defined(path) for path in sorted(ROOT.glob("examples/zoo/*/generated/patched_modeling_*.py"))}


def having(function: str) -> pytest.MarkDecorator:
    """Run a test for every generated module that has a function."""
    names = [path.stem.removeprefix("patched_modeling_") for path, names in DEFINED.items() if function in names]
    return pytest.mark.parametrize("zoo", names, indirect=True)


@dataclass(frozen=True)
class Zoo:
    """A generated module's model as its trainers take it, and upstream's with the same parameters.

    Attributes:
        generated: the module.
        upstream: upstream's model in float32, in training mode.
        model_class: the generated class of the same name.
    """

    generated: ModuleType
    upstream: Any
    model_class: type

    def build(self, dtype: torch.dtype = torch.float32) -> Any:
        """The generated model."""
        model = build_model(self.model_class, self.upstream.config, dtype)
        load_state(model, self.upstream.state_dict())
        return model

    @cached_property
    def model(self) -> Any:
        """The generated model in float32."""
        return self.build()

    @cached_property
    def batches(self) -> dict[str, ToyBatch]:
        """Those with media by name, and one of text alone, called "rank"."""
        made = make_batches(ToyModel(self.upstream, "conditional_generation")).batches
        return {batch.name: batch for batch in made if batch.name == "rank" or set(MEDIA) & set(batch.inputs)}

    @cached_property
    def media(self) -> dict[str, ToyBatch]:
        return {name: batch for name, batch in self.batches.items() if name != "rank"}

    @cached_property
    def towers(self) -> frozenset[str]:
        """The parameters that pictures, videos or sounds reach in upstream's model, and text alone does not."""
        model = self.upstream
        reached = {name: set(gradients(model, loss_of(model, batch))) for name, batch in self.batches.items()}
        return frozenset().union(*(reached[name] for name in self.media)) - reached["rank"]


def loss_of(model: Any, batch: ToyBatch) -> torch.Tensor:
    return model(**batch.to(next(model.parameters()).dtype, "cpu")).loss


def gradients(model: nn.Module, value: torch.Tensor) -> dict[str, torch.Tensor]:
    """Of the parameters that have one."""
    model.zero_grad(set_to_none=True)
    value.backward()
    return {name: part.grad for name, part in model.named_parameters() if part.grad is not None}


def owners(model: nn.Module) -> dict[str, Any]:
    """The parts of a model that have a dummy forward, by path."""
    return {path: part for path, part in model.named_modules() if hasattr(part, DUMMY)}


@contextmanager
def process_group() -> Iterator[None]:
    """Be the only rank of a group."""
    use_loopback()
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


pytestmark = pytest.mark.usefixtures("zoo_on_path")


@pytest.fixture(scope="module")
def zoos(zoo_on_path: None) -> dict[str, Zoo]:
    """Those that were built so far, with the modules that can be imported now."""
    return {}


@pytest.fixture
def zoo(request: pytest.FixtureRequest, zoos: dict[str, Zoo]) -> Zoo:
    name = request.param
    if name not in zoos:
        zoos[name] = make(name)
    return zoos[name]


def make(name: str) -> Zoo:
    path = next(path for path in DEFINED if path.stem == f"patched_modeling_{name}")
    folder = path.parents[1]
    config = Loader(load_project(ROOT), SourceCache()).load(folder / f"{name}_patch_gen_config.py")[0].config
    generated = importlib.import_module(f"zoo.{folder.name}.generated.{path.stem}")
    heads = find_heads(generated, importlib.import_module(config.source_module))
    heads = [head for head in heads if head.kind == "conditional_generation" and "forward" in vars(head.upstream)]
    head = next((head for head in heads if POSITIONS in vars(head.generated)), heads[0])
    config_class: Any = head.upstream.config_class
    toy = load_toy_config(config_class, config.toy_config, None, config_class.model_type)
    upstream = build_model(head.upstream, toy, torch.float32)
    random_state(upstream)
    return Zoo(generated, upstream, head.generated)


class WithoutWeights(pickle.Pickler):
    """Refuses tensors and modules."""

    def persistent_id(self, value: object) -> None:
        assert not isinstance(value, (torch.Tensor, nn.Module)), f"it holds {value!r}"


def sent(value: object) -> Any:
    """What a worker process gets."""
    file = io.BytesIO()
    WithoutWeights(file).dump(value)
    return pickle.loads(file.getvalue())


def test_models_with_all_three_are_found() -> None:
    found = {path.parents[1].name for path, names in DEFINED.items() if {DUMMY, POSITIONS, METADATA} <= names}
    assert found >= set(COMPLETE)


# --- positions -------------------------------------------------------------------------------------


@contextmanager
def watched(model: nn.Module) -> Iterator[tuple[list[dict[str, Any]], list[torch.Tensor]]]:
    """What ``get_rope_index`` is asked, and the positions that the text model is given."""
    asked: list[dict[str, Any]] = []
    given: list[torch.Tensor] = []

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            asked.append(dict(inspect.signature(function).bind(*args, **kwargs).arguments))
            asked[-1].update(asked[-1].pop("kwargs", {}))
            return function(*args, **kwargs)

        return noted

    text = next(part for path, part in model.named_modules() if path.rpartition(".")[2] == "language_model")
    hook = text.register_forward_pre_hook(lambda _, __, kw: given.append(kw["position_ids"]), with_kwargs=True)
    with pytest.MonkeyPatch.context() as patch:
        for part in model.modules():
            if hasattr(part, "get_rope_index"):
                patch.setattr(part, "get_rope_index", noting(part.get_rope_index))
        yield asked, given
    hook.remove()


@having(POSITIONS)
@pytest.mark.mostly_slow(2)
def test_positions_are_those_that_upstreams_model_computes(zoo: Zoo) -> None:
    positions = sent(zoo.model.get_position_id_func())
    assert zoo.media
    axes_differ = False
    for name, batch in zoo.media.items():
        with watched(zoo.upstream) as (asked, given), torch.no_grad():
            zoo.upstream(**batch.to(torch.float32, "cpu"))
        made = positions(**asked[0])
        assert torch.equal(made["position_ids"], given[0]), name
        assert torch.equal(made["rope_deltas"], rope_deltas(zoo.upstream)), name
        axes_differ |= len(given[0][:, 0].unique(dim=0)) > 1
    assert axes_differ


def rope_deltas(model: nn.Module) -> torch.Tensor:
    found = (getattr(part, "rope_deltas", None) for part in model.modules())
    return next(value for value in found if value is not None)


@having(POSITIONS)
@pytest.mark.mostly_slow(3)
def test_positions_of_text_alone_count_up_on_all_axes(zoo: Zoo) -> None:
    ids = zoo.batches["rank"].inputs["input_ids"]
    rope_index = next(part.get_rope_index for part in zoo.upstream.modules() if hasattr(part, "get_rope_index"))
    takes_kinds = "mm_token_type_ids" in inspect.signature(rope_index).parameters
    more = {"mm_token_type_ids": torch.zeros_like(ids)} if takes_kinds else {}
    made = zoo.model.get_position_id_func()(input_ids=ids, **more)
    assert torch.equal(made["position_ids"], torch.arange(ids.shape[1]).expand(3, *ids.shape))


# --- metadata --------------------------------------------------------------------------------------


def metadata_of(zoo: Zoo, batch: ToyBatch) -> dict[str, Any]:
    make_metadata = sent(zoo.model.get_metadata_collate_func())
    takes = inspect.signature(make_metadata).parameters
    return make_metadata(**{name: value for name, value in batch.inputs.items() if name in takes})


def outputs_of(model: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.no_grad():
        output = model(**inputs)
    return output.loss, output.logits


@having(METADATA)
@pytest.mark.mostly_slow(3)
def test_forward_with_metadata_gives_the_same_bits(zoo: Zoo) -> None:
    assert zoo.media
    for name, batch in zoo.media.items():
        inputs, metadata = batch.to(torch.float32, "cpu"), metadata_of(zoo, batch)
        assert metadata, name
        assert {value.device.type for value in metadata.values() if isinstance(value, torch.Tensor)} == {"cpu"}
        loss, logits = outputs_of(zoo.model, inputs)
        with_metadata = outputs_of(zoo.model, {**inputs, **metadata})
        assert torch.equal(loss, with_metadata[0]), name
        assert torch.equal(logits, with_metadata[1]), name


@contextmanager
def made_inside(module: ModuleType) -> Iterator[list[Any]]:
    """What a module's forward asks for of functions, also its own, that take it ready-made in ``kwargs``."""
    made: list[Any] = []

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            value = function(*args, **kwargs)
            made.extend(value if isinstance(value, tuple) else [value])
            return value

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for name, value in list(vars(module).items()):
            if inspect.isfunction(value) and value.__module__.startswith(("transformers.", module.__name__)):
                taken = inspect.signature(value).parameters.get("kwargs")
                if taken is not None and taken.kind is not inspect.Parameter.VAR_KEYWORD:
                    patch.setattr(module, name, noting(value))
        yield made


@having(METADATA)
@pytest.mark.mostly_slow(3)
def test_forward_makes_nothing_that_metadata_is_about(zoo: Zoo) -> None:
    for name, batch in zoo.media.items():
        inputs, metadata = batch.to(torch.float32, "cpu"), metadata_of(zoo, batch)
        with made_inside(zoo.generated) as made:
            outputs_of(zoo.model, {**inputs, **metadata})
        assert made, name
        ready = [id(value) for value in metadata.values()]
        assert [value for value in made if id(value) not in ready] == [], name


@having(METADATA)
@pytest.mark.mostly_slow(3)
def test_forward_uses_all_metadata(zoo: Zoo) -> None:
    """A keyword argument that nothing takes would change nothing either: zeros in place of each must show.

    What only other metadata follows from shows when it is left out: forward makes something itself then.
    """
    for name, batch in zoo.media.items():
        inputs, metadata = batch.to(torch.float32, "cpu"), metadata_of(zoo, batch)
        right = outputs_of(zoo.model, {**inputs, **metadata})[1]
        for key, value in metadata.items():
            if isinstance(value, torch.Tensor):
                if same(zoo.model, {**inputs, **metadata, key: torch.zeros_like(value)}, right):
                    rest = {other: given for other, given in metadata.items() if other != key}
                    with made_inside(zoo.generated) as made:
                        outputs_of(zoo.model, {**inputs, **rest})
                    assert {id(one) for one in made} - {id(given) for given in rest.values()}, (name, key)
            else:  # only flash attention reads how long the longest sequence is
                ends = metadata[f"{key.replace('max_', 'cu_')}s"]
                assert value == int(ends.diff().max()), (name, key)


def same(model: Any, inputs: dict[str, Any], right: torch.Tensor) -> bool:
    try:
        return torch.equal(outputs_of(model, inputs)[1], right)
    except (RuntimeError, IndexError, ValueError):
        return False


# --- ranks without media ---------------------------------------------------------------------------


@having(DUMMY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.mostly_slow(4)
def test_dummy_forward_is_a_zero_of_every_parameter_of_the_tower(zoo: Zoo, dtype: torch.dtype) -> None:
    model = zoo.build(dtype)
    assert zoo.towers
    seen = set()
    for path, owner in owners(model).items():
        value = owner.dummy_forward()
        assert value.shape == ()
        assert value.dtype == dtype
        assert value.item() == 0
        found = gradients(model, value)
        own = {name for name in zoo.towers if name.startswith(f"{path}.")}
        assert own - set(found) == set()
        assert [name for name, gradient in found.items() if gradient.any()] == []
        seen |= set(found)
    assert zoo.towers - seen == set()


@having(DUMMY)
@pytest.mark.mostly_slow(4)
def test_text_alone_reaches_the_towers_in_a_process_group_only(zoo: Zoo) -> None:
    for is_rank in (False, True):
        with process_group() if is_rank else nullcontext():
            found = gradients(zoo.model, loss_of(zoo.model, zoo.batches["rank"]))
        in_towers = zoo.towers & set(found)
        assert in_towers == (zoo.towers if is_rank else set())
        assert [name for name in in_towers if found[name].any()] == []


@having(DUMMY)
@pytest.mark.mostly_slow(3)
def test_a_model_that_is_not_trained_waits_for_no_rank(zoo: Zoo) -> None:
    zoo.model.eval()
    try:
        with process_group():
            found = gradients(zoo.model, loss_of(zoo.model, zoo.batches["rank"]))
    finally:
        zoo.model.train()
    assert zoo.towers & set(found) == set()


@having(DUMMY)
def test_ranks_run_a_tower_equally_often(zoo: Zoo) -> None:
    """Ranks with text alone, with pictures, with both: each run of a sharded tower is one that all ranks wait for."""
    with process_group():
        runs = {name: runs_of_towers(zoo, batch) for name, batch in zoo.batches.items()}
    assert min(runs["rank"].values()) > 0
    assert [name for name, counts in runs.items() if counts != runs["rank"]] == []


def runs_of_towers(zoo: Zoo, batch: ToyBatch) -> dict[str, int]:
    """How often each part of the towers runs that has parameters of its own."""
    runs = dict.fromkeys((name.rpartition(".")[0] for name in zoo.towers), 0)

    def count(path: str) -> Callable[..., None]:
        def counted(*_: Any) -> None:
            runs[path] += 1

        return counted

    hooks = [zoo.model.get_submodule(path).register_forward_hook(count(path)) for path in runs]
    loss_of(zoo.model, batch)
    for hook in hooks:
        hook.remove()
    return runs
