"""Batches that a project makes for its own models."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from patchgen_core.errors import PatchgenError
from patchgen_core.models.batches import Builder, ToyBatch, ToyModel
from patchgen_core.models.model_run import run_model
from patchgen_core.models.toy_batches import load_builder, make_batches
from tests.models.toys import NAMES, batches_of, toy_of


def given(*batches: ToyBatch) -> Builder:
    def acme_batches(toy: ToyModel) -> list[ToyBatch]:
        return list(batches)

    return acme_batches


IDS = torch.arange(60, 72)[None]


def test_embeddings_have_the_positions_of_a_first_batch() -> None:
    made = {batch.name: batch for batch in batches_of("qwen2_5_omni_thinker").batches}
    model = toy_of("qwen2_5_omni_thinker").model
    alone = run_model(model, made["embedded"])
    run_model(model, made["pictures"])
    assert torch.equal(run_model(model, made["embedded"]).loss, alone.loss)


def test_a_projects_batch_replaces_the_built_in_one_or_comes_after_all() -> None:
    own = given(ToyBatch("long", {"input_ids": IDS}), ToyBatch("rows", {"input_ids": IDS, "labels": IDS}))
    made = make_batches(toy_of("llama"), [own])
    assert [batch.name for batch in made.batches] == [*NAMES, "long"]
    assert torch.equal(made.batches[1].inputs["input_ids"], IDS)


def test_a_projects_batch_stands_in_for_one_that_no_built_in_form_gives() -> None:
    made = make_batches(toy_of("gpt_oss"), [given(ToyBatch("packed", {"input_ids": IDS}))])
    assert [batch.name for batch in made.batches] == NAMES
    assert made.refused == ()


def test_a_builder_may_have_nothing_for_a_model() -> None:
    assert [b.name for b in make_batches(toy_of("llama"), [given()]).batches] == NAMES


def fails(toy: ToyModel) -> list[ToyBatch]:
    raise KeyError("grid")


@pytest.mark.parametrize(
    ("builder", "parts"),
    [
        (given(ToyBatch("tall", {"imput_ids": IDS})), ["'tall'", "LlamaForCausalLM does not run", "input_ids"]),
        (given(ToyBatch("wild", {"input_ids": IDS + 10_000})), ["'wild'", "IndexError"]),
        (given({"input_ids": IDS}), ["gives dict instead of a ToyBatch"]),  # type: ignore[arg-type]
        (given(ToyBatch("a", {"input_ids": IDS}), ToyBatch("a", {"input_ids": IDS})), ["second toy batch 'a'"]),
        (fails, ["'fails'", "LlamaForCausalLM of llama", "KeyError: 'grid'"]),
    ],
)
def test_a_projects_batch_that_does_not_run_is_an_error(builder: Builder, parts: list[str]) -> None:
    with pytest.raises(PatchgenError) as caught:
        make_batches(toy_of("llama"), [builder])
    for part in (*parts, Path(__file__).name, builder.__qualname__):
        assert part in str(caught.value)


BUILDERS = """
import neighbour
from patchgen_core.models.batches import ToyBatch

LIMIT = 3

def packed_batches(toy):
    return [ToyBatch(neighbour.NAME, {})]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "conftest.py").write_text(BUILDERS)
    (tmp_path / "neighbour.py").write_text("NAME = 'from beside'\n")
    (tmp_path / "acme_toys").mkdir()
    (tmp_path / "acme_toys" / "__init__.py").write_text("")
    (tmp_path / "acme_toys" / "builders.py").write_text(BUILDERS)
    (tmp_path / "acme_toys" / "broken.py").write_text("import nowhere_to_be_found\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("acme_toys", "acme_toys.builders", "acme_toys.broken", "neighbour"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_builders_are_loaded_from_modules_and_files(project: Path) -> None:
    for place in ("acme_toys.builders", f"{project}/conftest.py"):
        builder = load_builder(f"{place}:packed_batches")
        assert [batch.name for batch in builder(toy_of("llama"))] == ["from beside"]


def test_a_file_of_builders_imports_what_lies_beside_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(project)])
    before = list(sys.path)
    assert load_builder(f"{project}/conftest.py:packed_batches")(toy_of("llama"))
    assert sys.path == before


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("acme_toys.builders", ["'acme_toys.builders' names no builder", "package.module:function"]),
        ("acme_toys.builders:", ["names no builder"]),
        ("acme_toys.builders:packed_batch", ["has no 'packed_batch'", "Did you mean 'packed_batches'?"]),
        ("acme_toys.builders:LIMIT", ["has a int instead of a function 'LIMIT'"]),
        ("acme_toys.builder:packed_batches", ["no module 'acme_toys.builder'", "'acme_toys.builders'?"]),
        ("acme_toy.builders:packed_batches", ["no module 'acme_toy'", "'acme_toys'?"]),
        ("acme_toys.broken:packed_batches", ["cannot be imported", "nowhere_to_be_found"]),
        ("{project}/conftests.py:packed_batches", ["there is no file", "'conftest.py'?"]),
        ("{project}/acme_toys/broken.py:packed_batches", ["cannot be imported", "nowhere_to_be_found"]),
    ],
)
def test_a_reference_that_leads_nowhere_is_an_error(project: Path, reference: str, parts: list[str]) -> None:
    with pytest.raises(PatchgenError) as caught:
        load_builder(reference.format(project=project))
    for part in parts:
        assert part in str(caught.value)
