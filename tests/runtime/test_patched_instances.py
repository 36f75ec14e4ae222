"""Monkey patches of models that exist already, and beside Liger's own."""

from __future__ import annotations

import copy
import gc
import io
import json
import os
import pickle
import subprocess
import sys
import textwrap
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from patchgen_core.errors import PatchgenError
from patchgen_core.monkey_patch import MonkeyPatcher
from tests.runtime.patchers import contents, patch_all


class Config:
    model_type = "toy"

    def __init__(self) -> None:
        self.hidden_size = 4


class Toy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.config = Config()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x)) * self.scale


class Doubled(Toy):
    pass


# --- instances -------------------------------------------------------------------------------------


def change_instance(model: Toy) -> None:
    first = model.first
    first.forward = types.MethodType(lambda self, x: x * 2, first)
    first.eps = 1e-5  # type: ignore[assignment]
    del model.first
    model.third = nn.Linear(4, 4)
    model.first = first
    model.second = nn.Identity()  # type: ignore[assignment]
    model.scale = torch.full((1,), 3.0)
    model.config.hidden_size = 8
    model.__class__ = Doubled


def test_apply_to_an_instance_and_revert(patcher: MonkeyPatcher) -> None:
    model = Toy()
    x = torch.randn(2, 4)
    expected, keys, attributes = model(x), list(model.state_dict()), set(vars(model.first))
    patcher.register("toy", "mine")(lambda model=None: change_instance(model))

    applied = patcher.apply_monkey_patch_to_instance(model, "mine")
    assert torch.equal(model(x), x * 6)
    assert set(applied.changed) == {
        *("model.second", "model.third", "model.scale", "model.__class__"),
        *("model.first.forward", "model.first.eps", "model.config.hidden_size"),
    }
    assert patcher.apply_monkey_patch_to_instance(model, "mine").repeated

    patcher.revert(model, "mine")
    assert torch.equal(model(x), expected)
    assert (list(model.state_dict()), [name for name, _ in model.named_children()]) == (keys, ["first", "second"])
    assert (type(model), model.config.hidden_size, set(vars(model.first))) == (Toy, 4, attributes)
    with pytest.raises(PatchgenError, match="the 'mine' patch is not applied to this 'toy'"):
        patcher.revert(model, "mine")


@pytest.mark.slow
def test_another_instance_is_left_alone(patcher: MonkeyPatcher) -> None:
    model, other = Toy(), Toy()
    patcher.register("toy", "mine")(lambda model=None: change_instance(model))
    patcher.apply_monkey_patch_to_instance(model, "mine")
    assert type(other) is Toy
    with pytest.raises(PatchgenError, match="is not applied"):
        patcher.revert(other, "mine")


@pytest.mark.slow
def test_modules_stay_patched_until_the_last_instance_is_reverted(
    patcher: MonkeyPatcher, upstream: Callable[[], types.ModuleType], caplog: pytest.LogCaptureFixture
) -> None:
    module = upstream()
    before = contents(module)

    @patcher.register("toy", "mine")
    def patch(model: Toy | None = None) -> None:
        patch_all(module)

    models = [Toy(), Toy()]
    for model in models:
        patcher.apply_monkey_patch_to_instance(model, "mine")
    patcher.apply_monkey_patch("toy", "mine")
    for user in ("toy", models[0]):
        patcher.revert(user, "mine")
        assert module.Norm().forward(2) == 21
        assert "for which this stays: toy_upstream." in caplog.text
        caplog.clear()
    patcher.revert(models[1], "mine")
    assert contents(module) == before


@pytest.mark.slow
def test_models_to_come_keep_their_patch_when_an_instance_is_reverted(
    patcher: MonkeyPatcher, upstream: Callable[[], types.ModuleType]
) -> None:
    module = upstream()
    before = contents(module)
    patcher.register("toy", "mine")(lambda model=None: patch_all(module))
    model = Toy()
    patcher.apply_monkey_patch_to_instance(model, "mine")
    patcher.apply_monkey_patch("toy", "mine")
    patcher.revert(model, "mine")
    assert module.Norm().forward(2) == 21
    patcher.revert("toy", "mine")
    assert contents(module) == before


@pytest.mark.slow
def test_model_types_may_share_a_patcher(patcher: MonkeyPatcher, upstream: Callable[[], types.ModuleType]) -> None:
    module = upstream()
    original = module.rotate

    def wrap(factor: int = 2) -> None:
        inner = module.rotate
        module.rotate = lambda x: inner(x) * factor  # type: ignore[attr-defined]

    for name in ("toy", "toy_text"):
        patcher.register(name, "mine")(wrap)
    patcher.apply_monkey_patch("toy", "mine")
    assert patcher.apply_monkey_patch("toy_text", "mine").repeated
    patcher.apply_monkey_patch("toy_text", "mine", factor=3)
    assert module.rotate(1) == -3
    patcher.revert("toy", "mine")
    assert module.rotate is original


def test_what_a_package_does_to_itself_is_left_to_it(patcher: MonkeyPatcher, tmp_path: Path) -> None:
    """Compiling makes torch patch its optimizers, once; putting that back would break the next compilation."""
    used = torch.optim.SGD._init_group  # type: ignore[attr-defined]
    wrapped = types.FunctionType(used.__code__, used.__globals__, closure=used.__closure__)

    @patcher.register("toy", "mine")
    def patch() -> None:
        torch.optim.SGD._init_group = wrapped  # type: ignore[attr-defined]
        torch.optim.SGD.step = print  # type: ignore[assignment, method-assign]

    step = torch.optim.SGD.step
    try:
        assert patcher.apply_monkey_patch("toy", "mine").changed == ("torch.optim.sgd.SGD.step",)
        patcher.revert("toy", "mine")
        assert torch.optim.SGD._init_group is wrapped  # type: ignore[attr-defined]
        assert torch.optim.SGD.step is step
    finally:
        torch.optim.SGD._init_group = used  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_patched_instance_can_be_copied_pickled_and_collected(patcher: MonkeyPatcher) -> None:
    patcher.register("toy", "mine")(lambda model=None: setattr(model, "second", nn.Identity()))
    model = Toy()
    patcher.apply_monkey_patch_to_instance(model, "mine")
    x = torch.randn(2, 4)
    buffer = io.BytesIO()
    pickle.dump(model, buffer)
    for other in (copy.deepcopy(model), pickle.loads(buffer.getvalue())):
        assert torch.equal(other(x), model(x))
        with pytest.raises(PatchgenError, match="is not applied"):
            patcher.revert(other, "mine")
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_before_and_after_construction_are_not_mixed_up(patcher: MonkeyPatcher) -> None:
    patcher.register("toy", "before")(lambda rope=True: None)
    patcher.register("toy", "after")(lambda model: None)
    with pytest.raises(PatchgenError, match=r"takes no model\n  Use apply_monkey_patch before"):
        patcher.apply_monkey_patch_to_instance(Toy(), "before")
    with pytest.raises(PatchgenError, match="use apply_monkey_patch_to_instance"):
        patcher.apply_monkey_patch("toy", "after")
    with pytest.raises(PatchgenError, match="an object of type str is not a model"):
        patcher.apply_monkey_patch_to_instance("toy", "after")  # type: ignore[arg-type]
    with pytest.raises(PatchgenError, match="the Linear has no config with a model_type"):
        patcher.apply_monkey_patch_to_instance(nn.Linear(1, 1), "after")


def test_bad_names_are_refused(patcher: MonkeyPatcher) -> None:
    with pytest.raises(PatchgenError, match="is not the name of a model type"):
        patcher.register(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(PatchgenError, match="cannot be called"):
        patcher.register("toy", "mine")("patch")  # type: ignore[type-var]


# --- with Liger ------------------------------------------------------------------------------------


def child(code: str) -> Any:
    """What a program prints as JSON, in a process of its own."""
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_it_is_light() -> None:
    heavy = child(
        """
        import json, sys
        import patchgen_core.monkey_patch
        heavy = ("torch", "transformers", "liger_kernel", "libcst", "ruff")
        print(json.dumps([name for name in heavy if name in sys.modules]))
        """
    )
    assert heavy == []


@pytest.mark.slow
def test_liger_is_there_without_registering_and_a_registered_one_wins() -> None:
    found = child(
        """
        import json
        from patchgen_core.errors import PatchgenError
        from patchgen_core.monkey_patch import MONKEY_PATCHER

        def error(*names):
            try:
                MONKEY_PATCHER.apply_monkey_patch(*names)
            except PatchgenError as problem:
                return str(problem)

        found = {"liger": MONKEY_PATCHER.find("llama").__name__, "slip": error("lama")}
        MONKEY_PATCHER.register("llama", "rmpad")(lambda: None)
        MONKEY_PATCHER.register("llama")(lambda: None)
        found |= {"type": error("llama", "rmpd"), "own": MONKEY_PATCHER.find("llama").__name__}
        found["new"] = error("llama", "ulysses")

        from transformers.cache_utils import DYNAMIC_LAYER_TYPE_MAPPING as TABLE  # its own import fills that
        found["table before"] = "heavily_compressed_attention" in TABLE
        changed = MONKEY_PATCHER.apply_monkey_patch("deepseek_v4").changed
        found["changed"] = [name.rpartition("modeling_deepseek_v4.")[2] for name in changed]
        MONKEY_PATCHER.revert("deepseek_v4")
        found["table after"] = "heavily_compressed_attention" in TABLE
        print(json.dumps(found))
        """
    )
    assert (found["liger"], found["own"]) == ("apply_liger_kernel_to_llama", "<lambda>")
    assert "there is no 'liger' patch for the model type 'lama'\n  Did you mean 'llama'?" in found["slip"]
    assert "qwen3_moe" in found["slip"]
    assert "Did you mean 'rmpad'? For 'llama' there is: liger, rmpad." in found["type"]
    assert "For 'llama' there is: liger, rmpad. A patcher exists once the module" in found["new"]
    assert set(found["changed"]) == {"DeepseekV4RMSNorm", "DeepseekV4ForCausalLM.forward"}
    assert (found["table before"], found["table after"]) == (False, True)


@pytest.mark.slow
def test_liger_patches_and_reverts_llama() -> None:
    found = child(
        """
        import json, warnings
        from patchgen_core.models.interpreter import switch_on
        switch_on()
        import torch
        from transformers import LlamaConfig
        from transformers.models.llama import modeling_llama
        from patchgen_core.monkey_patch import MONKEY_PATCHER

        def held():
            members = {name: vars(value) for name, value in vars(modeling_llama).items() if isinstance(value, type)}
            plain = {name: value for name, value in vars(modeling_llama).items() if not name.startswith("__")}
            return plain | {f"{cls}.{name}": v for cls, values in members.items() for name, v in values.items()}

        def build():
            torch.manual_seed(0)
            sizes = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4)
            return modeling_llama.LlamaForCausalLM(LlamaConfig(vocab_size=37, num_key_value_heads=2, **sizes)).train()

        def loss(model):
            tokens = torch.arange(14).reshape(2, 7)
            return model(input_ids=tokens, labels=tokens).loss.item()

        eager, kept, before = loss(build()), build(), held()
        applied = MONKEY_PATCHER.apply_monkey_patch("llama", rope=True, use_rmpad=True)
        patched = build()
        found = {"changed": applied.changed, "ignored": applied.ignored, "new": type(patched.model.norm).__name__}
        found["repeated"] = MONKEY_PATCHER.apply_monkey_patch("llama", rope=True).repeated
        found["off"] = abs(loss(patched) - eager)
        MONKEY_PATCHER.revert("llama")
        found["reverted"] = held() == before

        instance = MONKEY_PATCHER.apply_monkey_patch_to_instance(kept)
        found["instance"] = [name for name in instance.changed if ".norm." in name]
        found["instance off"] = abs(loss(kept) - eager)
        MONKEY_PATCHER.revert(kept)
        found["instance reverted"] = held() == before and loss(kept) == eager
        print(json.dumps(found))
        """
    )
    module = "transformers.models.llama.modeling_llama"
    names = ("LlamaRMSNorm", "apply_rotary_pos_emb", "LlamaMLP", "LlamaForCausalLM.forward")
    assert set(found["changed"]) == {f"{module}.{name}" for name in names}
    assert (found["ignored"], found["new"], found["repeated"]) == (["use_rmpad"], "LigerRMSNorm", True)
    assert "model.model.norm.forward" in found["instance"]
    assert max(found["off"], found["instance off"]) < 1e-5
    assert found["reverted"]
    assert found["instance reverted"]
