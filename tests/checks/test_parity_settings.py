"""What a project leaves out of parity, and what only some machines have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from patchgen_core.errors import PatchgenError
from tests.checks.acme_project import CONFIG, SETUP, SLOTS, Acme

pytestmark = [pytest.mark.torch, pytest.mark.slow]

LATE_IMPORT = """
@config.override_method("{target}.forward")
def forward(self, *args, **kwargs):
    import acme_fast

    return acme_fast.run(self, *args, **kwargs)
"""
SEQUENCE = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.llama.modeling_llama", "patched_modeling_llama.py")
config.exclude_from_output("LlamaForTokenClassification", "LlamaForQuestionAnswering")


@config.override_method("LlamaForSequenceClassification.forward")
def forward(self, *args, **kwargs):
    raise NotImplementedError


@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""
CLASSIFIER = """
config.add_post_import_block('score = OpSlot("swiglu_mlp", "standard")')


@config.override_method("LlamaForSequenceClassification.forward")
def forward(self, *args, **kwargs):
    return score(super().forward(*args, **kwargs))
"""
OTHER_ORDER = """

@config.override_method("LlamaMLP.forward")
def forward(self, x):
    return self.down_proj(self.act_fn(self.gate_proj(x)) * (self.up_proj(x) * 3) / 3)


"""
OTHER_LOSS = """

@config.override_method("LlamaForCausalLM.loss_function")
def loss_function(self, *args, num_items_in_batch=None, **kwargs):
    return super().loss_function(*args, **kwargs)
"""


@pytest.fixture
def acme(tmp_path: Path) -> Acme:
    return Acme(tmp_path)


def test_a_head_is_left_out_with_a_reason(acme: Acme) -> None:
    acme.config(SEQUENCE, preamble="")
    (result,) = acme.gate("parity").values()
    assert result.status == "failed"

    leave_out = 'leave_out = { "*ForSequenceClassification" = "nobody trains it" }'
    acme.settle(parity=f'level = "quick"\n{leave_out}')
    (result,) = acme.gate("parity").values()
    assert (result.status, result.errors) == ("clean", ())
    assert [note for note in result.notes if " passes " not in note] == [
        "LlamaForSequenceClassification is skipped: nobody trains it"
    ]

    acme.settle(parity='leave_out = { "Llama*" = "not on a CPU" }')
    (result,) = acme.gate("parity").values()
    assert (result.status, result.reason) == ("skipped", "not on a CPU")


def test_a_head_that_is_nowhere_cannot_be_left_out(acme: Acme) -> None:
    acme.config("")
    acme.settle(parity='leave_out = { LlamaForCausalLMs = "nobody trains it" }')
    with pytest.raises(PatchgenError, match="no generated module has a class 'LlamaForCausalLMs'") as refused:
        acme.gate("parity")
    assert refused.value.problems[0].hint == "Did you mean 'LlamaForCausalLM'?"
    assert refused.value.problems[0].location.line == 9  # type: ignore[union-attr]


def test_a_batch_is_left_out_with_a_reason(acme: Acme) -> None:
    acme.config(OTHER_LOSS)
    acme.settle(parity='leave_out = { "*::trainer" = "our trainer counts for itself" }')
    (result,) = acme.gate("parity").values()
    assert (result.status, result.errors) == ("clean", ())
    assert "LlamaForCausalLM, batch 'trainer' is left out: our trainer counts for itself" in result.notes
    assert not any(", trainer, " in name for name in result.figures)

    acme.settle(parity='leave_out = { "*::*" = "nothing here" }')
    (result,) = acme.gate("parity").values()
    assert (result.status, result.reason) == ("skipped", "nothing here")


def test_a_slot_of_a_head_that_is_left_out_need_not_be_called(acme: Acme) -> None:
    acme.set_up(SETUP)
    acme.config(SLOTS + CLASSIFIER, preamble=CONFIG.replace("'LlamaForSequenceClassification', ", ""))
    leave_out = 'leave_out = { "*ForSequenceClassification" = "nobody trains it" }'
    acme.settle(parity=f'level = "quick"\n{leave_out}')
    (result,) = acme.gate("parity", items="right").values()
    assert (result.status, result.errors) == ("clean", ())


def test_another_order_of_computing_is_told_with_the_setting_that_lets_it_pass(acme: Acme) -> None:
    slot = """
config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_post_import_block('slot = OpSlot("toy", "toy")')
"""
    acme.config(f"{slot}{OTHER_ORDER}")
    (result,) = acme.gate("parity").values()
    hints = "\n".join(error.hint for error in result.errors)
    assert "x the error of eager, as another order of computing may cause" in hints
    (key,) = re.findall(r'tolerance = ({ "LlamaForCausalLM::eager" = \d+ })', hints)
    (call,) = re.findall(r"config\.tolerate\(\d+, '<why>', implementation='eager', head='LlamaForCausalLM'\)", hints)

    acme.settle(parity=f"tolerance = {key}")
    (result,) = acme.gate("parity").values()
    assert [error.message.partition(" ")[0] for error in result.errors] == ["LlamaModel"]
    acme.settle(parity=" ")
    acme.config(f"{slot}{OTHER_ORDER}{call}\n{call.replace('LlamaForCausalLM', 'LlamaModel')}\n")
    (result,) = acme.gate("parity").values()
    assert (result.status, result.errors) == ("clean", ())


def test_what_no_rounding_makes_has_no_such_setting(acme: Acme) -> None:
    acme.config(OTHER_LOSS)
    (result,) = acme.gate("parity").values()
    assert "tolerate" not in result.errors[0].hint


@pytest.mark.parametrize("target", ["LlamaMLP", "LlamaForCausalLM"])
def test_an_optional_package_that_a_function_imports_may_be_missing(acme: Acme, target: str) -> None:
    acme.config(LATE_IMPORT.format(target=target))
    (result,) = acme.gate("parity").values()
    assert (result.status, result.reason) == ("skipped", "optional package 'acme_fast' is not installed")
    assert not result.errors


def test_another_package_may_not(acme: Acme) -> None:
    acme.config(LATE_IMPORT.format(target="LlamaMLP").replace("acme_fast", "acme_other"))
    (result,) = acme.gate("parity").values()
    assert "the patched model raises ModuleNotFoundError: No module named 'acme_other'" in str(result.errors[0])


def test_an_external_class_has_a_kernels_tolerance_and_the_rest_of_the_module_has_not(acme: Acme) -> None:
    acme.write(
        "acme/norms.py",
        """
        import torch


        class FusedNorm(torch.nn.Module):
            def __init__(self, hidden_size, eps=1e-6):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(hidden_size))
                self.variance_epsilon = eps

            def forward(self, x):
                return x * (self.weight / (x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon).sqrt())
        """,
    )
    slot = """
config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_post_import_block('slot = OpSlot("toy", "toy")')
"""
    external = 'create_patch_from_external("LlamaRMSNorm", "acme.norms", "FusedNorm")'
    acme.config(f"{slot}\nconfig.patches.append({external})")
    (result,) = acme.gate("parity").values()
    assert (result.name, result.status) == ("parity[eager]", "clean"), result.errors
    assert any(value > 0 for value in result.figures.values()), "its bits are others"

    replaced = """
config.add_import("acme.norms", names=["FusedNorm"])
FusedNorm = object


@config.replace_class("LlamaRMSNorm")
class LlamaRMSNorm(FusedNorm):
    pass
"""
    acme.config(slot + replaced)
    (result,) = acme.gate("parity").values()
    assert "allowed bit for bit" in result.errors[0].hint
