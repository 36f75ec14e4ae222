"""Runs of upstream's models that are kept: the same results, without running them again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers.activations import ACT2FN
from transformers.models.llama import modeling_llama

from patchgen_core.checks.result import CheckResult
from patchgen_core.models import run_files
from patchgen_core.models.batches import ToyBatch
from patchgen_core.models.kept_runs import KeptRun, KeptRuns
from patchgen_core.models.model_run import Run
from patchgen_core.models.modes import Mode
from patchgen_core.models.references import References
from patchgen_core.models.routing import Choices
from patchgen_core.models.run_files import RunFiles, RunPlace
from patchgen_core.project.parity_settings import QUICK
from patchgen_core.workers.phases import take
from tests.checks.parity_runs import NORM, PREAMBLE, WHOLE, compare
from tests.conftest import Workspace

pytestmark = pytest.mark.torch

WRONG = NORM.replace("self.weight * hidden_states", "self.weight * 1.01 * hidden_states")
CLASSIFYING = (
    f'{WHOLE}\nconfig.exclude_from_output("LlamaForCausalLM", "LlamaForTokenClassification",'
    '"LlamaForQuestionAnswering")\n'
)


@pytest.fixture
def place(tmp_path: Path) -> RunPlace:
    return RunPlace(str(tmp_path / "cache"), "0" * 24)


def run(work: Workspace, place: RunPlace | None, text: str, preamble: str = PREAMBLE) -> tuple[CheckResult, bool]:
    """What the check says in a process that has run nothing yet, and whether it ran a model of upstream's."""
    references = References()
    references.kept = KeptRuns(place, modeling_llama) if place is not None else None
    take()
    result = compare(work, text, preamble=preamble, references=references, level=QUICK, dtypes=("float32", "bfloat16"))
    ran = any("references" in name for name in take())
    if references.kept is not None:
        references.kept.write()
    return replace(result, seconds=0.0), ran


def files_of(place: RunPlace) -> list[Path]:
    return sorted(RunFiles(Path(place.cache_folder)).files.paths())


@pytest.mark.parametrize("preamble", [PREAMBLE, CLASSIFYING], ids=["causal", "classifying"])
@pytest.mark.mostly_slow(1)
def test_kept_runs_give_the_same_result_and_upstream_runs_no_more(
    work: Workspace, place: RunPlace, preamble: str
) -> None:
    fresh, _ = run(work, None, NORM, preamble)
    first, ran_first = run(work, place, NORM, preamble)
    files = files_of(place)
    again, ran_again = run(work, place, NORM, preamble)
    assert fresh.status == "clean"
    assert repr(first) == repr(again) == repr(fresh)
    assert (ran_first, ran_again) == (True, False)
    assert files_of(place) == files
    for file in files[::2]:  # models go on from where the other runs would have left them
        file.unlink()
    mixed, ran_some = run(work, place, NORM, preamble)
    assert repr(mixed) == repr(fresh)
    assert ran_some
    assert files_of(place) == files


@pytest.mark.slow
def test_a_wrong_patch_is_told_with_the_same_figures(work: Workspace, place: RunPlace) -> None:
    fresh, _ = run(work, None, WRONG)
    run(work, place, NORM)
    kept, _ = run(work, place, WRONG)
    assert fresh.status == "failed"
    assert fresh.tables
    assert repr(kept) == repr(fresh)


@contextmanager
def rotating_otherwise() -> Iterator[None]:
    before = modeling_llama.rotate_half
    modeling_llama.rotate_half = lambda x: x
    try:
        yield
    finally:
        modeling_llama.rotate_half = before


@contextmanager
def another_method() -> Iterator[None]:
    before = modeling_llama.LlamaMLP.forward
    modeling_llama.LlamaMLP.forward = lambda self, x: x
    try:
        yield
    finally:
        modeling_llama.LlamaMLP.forward = before


@contextmanager
def another_activation() -> Iterator[None]:
    before = dict.__getitem__(ACT2FN, "silu")
    dict.__setitem__(ACT2FN, "silu", torch.nn.GELU)
    try:
        yield
    finally:
        dict.__setitem__(ACT2FN, "silu", before)


@contextmanager
def another_softmax() -> Iterator[None]:
    before = torch.nn.functional.softmax
    torch.nn.functional.softmax = lambda *args, **options: before(*args, **options)
    try:
        yield
    finally:
        torch.nn.functional.softmax = before


@contextmanager
def another_variable() -> Iterator[None]:
    os.environ["ACME_FAST"] = "1"
    try:
        yield
    finally:
        del os.environ["ACME_FAST"]


@pytest.mark.parametrize(
    "change", [rotating_otherwise, another_method, another_activation, another_softmax, another_variable]
)
@pytest.mark.mostly_slow(2)
def test_what_changes_upstream_in_the_process_has_its_models_run_and_nothing_kept(
    place: RunPlace, change: object
) -> None:
    before = KeptRuns(place, modeling_llama)
    before.add(f"{place.context}-{'1' * 40}", KeptRun(Run(), ""))
    with change():  # type: ignore[operator]
        assert KeptRuns(place, modeling_llama).state != before.state
        before.write()
    assert files_of(place) == []
    assert list(before.obstacles) == ["something has changed upstream's functions or classes meanwhile"]
    assert KeptRuns(place, modeling_llama).state == before.state


def test_a_way_of_running_that_is_the_projects_own_is_not_kept(place: RunPlace) -> None:
    kept, batch = KeptRuns(place, modeling_llama), ToyBatch("rows", {"input_ids": torch.zeros(1, 2, dtype=torch.long)})
    name = kept.name("model", "", batch, torch.float32, None)
    own = replace(batch, mode=Mode("own", call=lambda model, inputs: model(**inputs)))
    longer = replace(batch, inputs={"input_ids": torch.zeros(1, 3, dtype=torch.long)})
    assert not kept.obstacles
    assert kept.name("model", "", own, torch.float32, None) == ""
    (reason,) = kept.obstacles
    assert reason.startswith("batch 'rows' is run with 'test_a_way_of_running_that_is_the_projects_own_is_not_kept")
    names = {
        name,
        kept.name("model", "", longer, torch.float32, None),
        kept.name("model", "", batch, torch.bfloat16, None),
        kept.name("model", "left", batch, torch.float32, None),
        kept.name("other", "", batch, torch.float32, None),
        kept.name("model", "", replace(batch, as_rank=True), torch.float32, None),
        kept.name("model", "", batch, torch.float32, Run(choices=Choices(0.1, (torch.zeros(2),)))),
    }
    assert len(names) == 7
    assert all(name.startswith(place.context) for name in names)


def make_run() -> Run:
    value = torch.arange(24.0).reshape(2, 3, 4)
    return Run(
        values={"loss": torch.tensor(1.5), "turned": value.transpose(0, 2), "half": value.bfloat16(), "none": None},
        loss=torch.tensor(1.5),
        choices=Choices(1e-3, (torch.tensor([[1, 0]]),)),
        left_out=frozenset(("logits",)),
        calls={"model": 2},
        without_gradient=frozenset(("a", "b")),
        kinds={"": "Model"},
        has_media=True,
    )


def test_a_run_comes_back_with_the_same_bits_and_strides(place: RunPlace) -> None:
    kept, name, run = KeptRuns(place, modeling_llama), f"{place.context}-{'1' * 40}", make_run()
    kept.add(name, KeptRun(run, "left"))
    kept.write()
    found = KeptRuns(place, modeling_llama).find(name)
    assert found is not None
    assert found.state == "left"
    assert list(found.run.values) == list(run.values)
    for key, value in run.values.items():
        other = found.run.values[key]
        if value is None:
            assert other is None
        else:
            assert other is not None
            assert (other.dtype, other.stride()) == (value.dtype, value.stride())
            assert torch.equal(other, value)
    assert found.run.choices is not None
    assert run.choices is not None
    assert found.run.choices.are_those_of(run.choices)
    plain = ("left_out", "calls", "without_gradient", "kinds", "has_media")
    assert all(getattr(found.run, key) == getattr(run, key) for key in plain)


def test_what_was_cut_off_changed_or_renamed_counts_as_not_there(place: RunPlace) -> None:
    kept, name, other = KeptRuns(place, modeling_llama), f"{place.context}-{'1' * 40}", f"{place.context}-{'2' * 40}"
    kept.add(name, KeptRun(make_run(), ""))
    kept.write()
    (file,) = files_of(place)
    data = file.read_bytes()
    file.with_name(f"{other}.run").write_bytes(data)
    assert kept.find(other) is None
    for spoilt in (b"", data[:20], data[:-1], data[:-1] + b"x", data.replace(b"loss", b"lost"), b"0" * 64 + data[64:]):
        file.write_bytes(spoilt)
        assert kept.find(name) is None
    file.write_bytes(data)
    assert kept.find(name) is not None
    file.unlink()
    os.mkfifo(file)
    assert kept.find(name) is None


def test_no_more_is_kept_than_a_limit(place: RunPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    files = RunFiles(Path(place.cache_folder))
    names = [f"{place.context}-{number:040x}" for number in range(8)]
    for number, name in enumerate(names):
        assert files.write(name, bytes(1000))
        os.utime(files.folder / f"{name}.run", (number, number))
    monkeypatch.setattr(run_files, "MOST_BYTES", 6000)
    files.bound()
    assert [file.stem for file in files_of(place)] == names[-4:]
    run_files.forget_runs([place])
    assert files_of(place) == []


def test_a_folder_that_cannot_be_written_to_is_no_error(place: RunPlace, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    kept = KeptRuns(place, modeling_llama)
    kept.add(f"{place.context}-{'1' * 40}", KeptRun(make_run(), ""))
    kept.write()
    assert kept.files.failure
    assert kept.find(f"{place.context}-{'1' * 40}") is None
