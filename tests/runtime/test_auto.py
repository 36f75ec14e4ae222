"""transformers' auto classes give generated classes: from configs, checkpoints and processor files."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, Qwen3Config

from patchgen_core.auto import register_with_auto, unregister_from_auto
from tests.runtime.auto_project import GENERATED, SIZES, UPSTREAM, home_of


def fresh(project: Path, code: str, *arguments: str) -> str:
    """What a new process prints in which the project can be imported."""
    path = os.pathsep.join([str(project), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-W", "error::UserWarning:patchgen_core", "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# --- in a fresh process ----------------------------------------------------------------------------


@pytest.mark.slow
def test_from_config_and_from_pretrained_give_generated_classes(project: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    upstream = transformers.Qwen3ForCausalLM(Qwen3Config(**SIZES)).eval()
    upstream.save_pretrained(tmp_path)
    with torch.no_grad():
        torch.save(upstream(torch.arange(9)[None]).logits, tmp_path / "logits.pt")
    code = """
    import sys
    import acme
    from patchgen_core.auto import register_with_auto
    register_with_auto("qwen3")
    import torch
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForTokenClassification
    folder = sys.argv[1]
    for auto in (AutoModel, AutoModelForCausalLM, AutoModelForTokenClassification):
        print(type(auto.from_config(AutoConfig.from_pretrained(folder))))
    model = AutoModelForCausalLM.from_pretrained(folder)
    print(type(model))
    print(torch.equal(model(torch.arange(9)[None]).logits, torch.load(folder + "/logits.pt")))
    """
    classes = ("Qwen3Model", "Qwen3ForCausalLM", "Qwen3ForTokenClassification", "Qwen3ForCausalLM")
    expected = [*(f"<class '{GENERATED}.{name}'>" for name in classes), "True"]
    assert fresh(project, code, str(tmp_path)).splitlines() == expected


# --- models ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("acme")
def test_every_auto_class_with_a_place_for_a_generated_class_gives_it() -> None:
    done = register_with_auto("qwen3")
    assert {one.auto_class for one in done} == {
        "AutoModel",
        "AutoModelForCausalLM",
        "AutoModelForSequenceClassification",
        "AutoModelForTokenClassification",
    }
    for one in done:
        assert isinstance(one.new_class, type)
        assert (one.new_class.__module__, one.replaced) == (GENERATED, "")
        assert home_of(getattr(transformers, one.auto_class), Qwen3Config(**SIZES)) == GENERATED


@pytest.mark.usefixtures("acme")
def test_a_class_that_the_generated_module_leaves_out_stays_upstreams() -> None:
    register_with_auto("qwen3")
    assert home_of(transformers.AutoModelForQuestionAnswering, Qwen3Config(**SIZES)) == UPSTREAM


@pytest.mark.usefixtures("acme")
def test_other_model_types_stay_upstreams() -> None:
    register_with_auto()
    assert home_of(AutoModelForCausalLM, transformers.Qwen2Config(**SIZES)).startswith("transformers.")


@pytest.mark.usefixtures("acme")
def test_the_npu_module_is_given_where_it_is_asked_for() -> None:
    register_with_auto("qwen3", device_type="npu")
    assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == GENERATED.replace("gpu", "npu")


@pytest.mark.usefixtures("acme")
def test_a_model_that_sees_is_given_by_image_text_to_text() -> None:
    done = {one.auto_class: one.new_class for one in register_with_auto("qwen3_vl_moe")}
    assert {"AutoModel", "AutoModelForImageTextToText"} <= done.keys()
    config = AutoConfig.for_model("qwen3_vl_moe")
    mapping = transformers.AutoModelForImageTextToText._model_mapping
    given: Any = mapping[type(config)]
    assert given.__module__ == "acme.qwen3_vl_moe.generated.patched_modeling_qwen3_vl_moe_gpu"


@pytest.mark.usefixtures("acme")
def test_a_class_of_upstream_that_the_generated_module_imports_is_not_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    register_with_auto("qwen3")
    unregister_from_auto()
    upstream = transformers.Qwen3ForQuestionAnswering
    monkeypatch.setattr(sys.modules[GENERATED], "Qwen3ForQuestionAnswering", upstream, raising=False)
    assert upstream not in [one.new_class for one in register_with_auto("qwen3")]


# --- undoing, replacing ----------------------------------------------------------------------------


@pytest.mark.usefixtures("acme")
def test_undone_upstreams_classes_are_back() -> None:
    done = register_with_auto("qwen3")
    undone = unregister_from_auto()
    assert {(one.auto_class, one.new_class) for one in undone} == {(one.auto_class, one.new_class) for one in done}
    assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == UPSTREAM
    assert unregister_from_auto() == ()


@pytest.mark.usefixtures("acme")
def test_registering_twice_changes_nothing_and_says_nothing(recwarn: pytest.WarningsRecorder) -> None:
    assert register_with_auto("qwen3") == register_with_auto("qwen3")
    assert not [one for one in recwarn if "patchgen" in str(one.filename) or "gives" in str(one.message)]
    unregister_from_auto()
    assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == UPSTREAM


class Qwen3ForCausalLM(transformers.Qwen3ForCausalLM):
    pass


@pytest.mark.usefixtures("acme")
def test_replacing_what_somebody_registered_is_said_and_undone() -> None:
    AutoModelForCausalLM.register(Qwen3Config, Qwen3ForCausalLM, exist_ok=True)
    try:
        with pytest.warns(UserWarning, match=f"gives {GENERATED}.Qwen3ForCausalLM for") as caught:
            done = register_with_auto("qwen3")
        mine = f"{__name__}.Qwen3ForCausalLM"
        assert [one.replaced for one in done if one.replaced] == [mine]
        assert str(caught[0].message).endswith(f"instead of {mine}")
        assert caught[0].filename == __file__
        unregister_from_auto()
        assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == __name__
    finally:
        del AutoModelForCausalLM._model_mapping._extra_content[Qwen3Config]


@pytest.mark.usefixtures("acme")
def test_what_somebody_registers_later_stays_when_this_is_undone() -> None:
    register_with_auto("qwen3")
    AutoModelForCausalLM.register(Qwen3Config, Qwen3ForCausalLM, exist_ok=True)
    try:
        with pytest.warns(UserWarning, match=f"{__name__}.Qwen3ForCausalLM was registered for .* stays"):
            undone = unregister_from_auto()
        assert "AutoModelForCausalLM" not in {one.auto_class for one in undone}
        assert home_of(AutoModelForCausalLM, Qwen3Config(**SIZES)) == __name__
        assert home_of(AutoModel, Qwen3Config(**SIZES)) == UPSTREAM
    finally:
        del AutoModelForCausalLM._model_mapping._extra_content[Qwen3Config]
