"""Parity of a generated module with Hugging Face eager: what passes, what does not, and what is said of it."""

from __future__ import annotations

import ast
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from patchgen_core.checks.parity.comparison import check_parity
from patchgen_core.checks.parity.request import ParityRequest, PatchedCode
from patchgen_core.checks.result import CheckResult
from patchgen_core.config.declarations import Tolerance
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.models.implementations import list_implementations
from patchgen_core.models.model_heads import find_heads
from patchgen_core.models.references import References
from patchgen_core.models.toy_config import make_toy_config
from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec
from patchgen_core.registry import MODELING_REGISTRY

pytestmark = pytest.mark.torch

LLAMA = "transformers.models.llama.modeling_llama"
CONFIG = Location("/acme/llama_patch_gen_config.py", 1)
MLP = "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))"
ROTATED = "q_embed = (q * cos) + (rotate_half(q) * sin)"
REFERENCES = References()
Edit = tuple[str, str]


@dataclass(frozen=True)
class Port:
    """A module made of upstream's text with some of it changed, and what is asked of its parity."""

    module: types.ModuleType
    request: ParityRequest

    def check(self, **more: object) -> CheckResult:
        upstream = importlib.import_module(self.request.upstream)
        return check_parity(self.module, upstream, replace(self.request, **more), REFERENCES)


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Port]:
    """Makes a port; ``targets`` are the classes, methods and functions that count as patched."""

    def make(*edits: Edit, targets: tuple[str, ...] = (), upstream: str = LLAMA, **more: object) -> Port:
        text = Path(importlib.import_module(upstream).__file__ or "").read_text(encoding="utf-8")
        for old, new in edits:
            assert old in text, old
            text = text.replace(old, new, 1)
        package, _, name = upstream.rpartition(".")
        module = types.ModuleType(f"{package}.ported_{name}")
        file = tmp_path / f"ported_{name}.py"
        file.write_text(text, encoding="utf-8")
        module.__file__, module.__package__ = str(file), package
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(text, str(file), "exec", dont_inherit=True), vars(module))
        patches = tuple(spans(text, targets))
        asked = ParityRequest(
            module.__name__, str(file), upstream, more.pop("implementation", "eager"), CONFIG, patches, **more
        )
        return Port(module, asked)

    return make


def spans(text: str, targets: tuple[str, ...]) -> Iterator[PatchedCode]:
    """Where the targets stand in a text; their declarations are on lines 10, 20, ..."""
    found = {}
    for node in ast.parse(text).body:
        found[getattr(node, "name", "")] = node
        for inner in getattr(node, "body", ()):
            found[f"{getattr(node, 'name', '')}.{getattr(inner, 'name', '')}"] = inner
    for number, target in enumerate(targets, 1):
        node = found[target]
        lines = ((node.lineno - len(getattr(node, "decorator_list", ())), node.end_lineno),)
        yield PatchedCode(target, Location(CONFIG.file, 10 * number), lines)


def test_upstreams_own_code_agrees_bit_for_bit(port):
    verdict = port().check()
    assert verdict.errors == ()
    assert "LlamaForCausalLM, padded, bfloat16: loss" in verdict.figures
    assert set(verdict.figures.values()) == {0.0}


@pytest.mark.parametrize(
    ("target", "edit"),
    [
        pytest.param("LlamaMLP.forward", (MLP, MLP.replace(" * ", " + ")), id="operator"),
        pytest.param("apply_rotary_pos_emb", (ROTATED, ROTATED.replace("+", "-")), id="sign"),
        pytest.param("LlamaRMSNorm.forward", ("+ self.variance_epsilon", "+ 1e-6"), id="eps"),
        pytest.param("eager_attention_forward", ("* scaling\n", "* 1.0\n"), id="scale"),
        pytest.param(
            "eager_attention_forward", ("if attention_mask is not None", "if attention_mask is True"), id="mask"
        ),
        pytest.param("LlamaDecoderLayer.forward", ("residual + hidden_states", "hidden_states"), id="residual"),
        pytest.param("LlamaMLP.forward", (MLP, f"{MLP}.detach() + 0 * x"), id="detached"),
        pytest.param("LlamaRMSNorm.forward", (".to(torch.float32)", ""), id="only in bfloat16"),
        pytest.param(
            "LlamaForCausalLM.forward",
            ("vocab_size=self.config.vocab_size, **kwargs", "vocab_size=self.config.vocab_size"),
            id="arguments of the loss",
        ),
        pytest.param(
            "apply_rotary_pos_emb", ("cos = cos.unsqueeze", "cos = cos[:1].unsqueeze"), id="positions by row"
        ),
    ],
)
@pytest.mark.mostly_slow(1)
def test_a_defect_differs_and_is_told_at_its_patch(port, target, edit):
    made = port(edit, targets=("LlamaDecoderLayer.__init__", target, "LlamaModel.forward"))
    problems = made.check().errors
    assert problems
    assert problems[0].location == Location(CONFIG.file, 20), problems[0].message


def test_the_first_module_where_the_models_part_is_named(port):
    made = port((MLP, f"{MLP} * (1 + (self.gate_proj.weight.shape[0] < 0) + 1e-3)"), targets=("LlamaMLP.forward",))
    problem = made.check().errors[0]
    assert "LlamaForCausalLM" in problem.message
    assert "model.layers.0.mlp" in str(problem)


def test_figures_of_a_failure_come_along(port):
    tables = port((MLP, MLP.replace(" * ", " + "))).check().tables
    tensors = next(table for table in tables if "tensors" in table.title)
    assert {"loss", "logits", "gradient norm", "gradient of the input embeddings"} <= {row[0] for row in tensors.rows}
    assert any("model.layers.1.mlp.down_proj" in cell for table in tables for row in table.rows for cell in row)


@pytest.mark.slow
def test_upstreams_own_chance_is_no_difference_and_hides_no_larger_one(port):
    times = "(1.0 + 0.5 * (self.__dict__.update(calls=vars(self).get('calls', 0) + 1) or vars(self)['calls'] % 2))"
    changing = f"{MLP} * {times}"
    upstream = port((MLP, changing)).module.__name__
    verdict = port((changing, MLP), upstream=upstream).check(level="quick", dtypes=("float32",))
    assert verdict.errors == ()
    assert any(
        "'padded', float32: upstream's model gives a different result each time" in note for note in verdict.notes
    )
    wrong = port((changing, f"{MLP} * 100.0"), upstream=upstream, targets=("LlamaMLP.forward",))
    assert wrong.check(level="quick", dtypes=("float32",)).errors


@pytest.mark.slow
def test_other_bits_need_a_tolerance(port):
    reordered = (MLP, "down_proj = self.down_proj(3.0 * (self.act_fn(self.gate_proj(x)) * self.up_proj(x) / 3.0))")
    made = port(reordered, targets=("LlamaMLP.forward",))
    assert "bit for bit" in str(made.check().errors[0])
    tolerance = Tolerance(4, "other order", "eager", None, CONFIG)
    assert made.check(tolerances=(tolerance,)).errors == ()
    assert made.check(project_tolerances={"eager": 4.0}).errors == ()
    assert made.check(implementation="patched").errors == ()


@pytest.mark.slow
def test_a_tolerance_is_a_multiple_of_the_error_of_eager(port):
    made = port((MLP, f"{MLP} * (1 + 1e-5)"), targets=("LlamaMLP.forward",), implementation="patched")
    problem = made.check(dtypes=("float32",)).errors[0]
    assert "at most 4 x the error of eager" in str(problem)
    wide = (Tolerance(400, "scaled", None, "float32", CONFIG),)
    assert made.check(dtypes=("float32",), tolerances=wide).errors == ()


def test_a_patch_that_raises_is_told_at_its_declaration(port):
    made = port((MLP, "raise RuntimeError('no kernel')"), targets=("LlamaMLP.forward",))
    problem = made.check().errors[0]
    assert "the patched model raises RuntimeError: no kernel" in problem.message
    assert problem.location == Location(CONFIG.file, 10)
    assert "no kernel" in problem.excerpt


def test_a_patch_that_fails_when_the_model_is_built_is_told_at_its_declaration(port):
    edit = ("self.gate_proj = nn.Linear(", "self.gate_proj = nn.Liner(")
    problem = port(edit, targets=("LlamaMLP.__init__",)).check().errors[0]
    assert "AttributeError" in problem.message
    assert problem.location == Location(CONFIG.file, 10)


def test_parameters_of_other_names_are_an_error_that_names_them(port):
    made = port(("self.gate_proj = nn", "self.w1 = nn"), (MLP, MLP.replace("gate_proj", "w1")))
    with pytest.raises(PatchgenError) as caught:
        made.check()
    problem = caught.value.problems[0]
    assert "model.layers.0.mlp.gate_proj.weight" in problem.message
    assert "model.layers.0.mlp.w1.weight" in problem.message
    assert problem.location == CONFIG


def test_a_patch_that_nothing_calls_is_a_finding(port):
    made = port(targets=("LlamaForQuestionAnswering", "LlamaMLP.forward"))
    problems = made.check().errors
    assert [(problem.code, problem.location) for problem in problems] == [("PG301", Location(CONFIG.file, 10))]
    assert "LlamaForQuestionAnswering" in problems[0].message


def test_a_method_for_others_to_call_need_not_run(port):
    made = port(targets=("LlamaForQuestionAnswering",))
    patch = replace(made.request.patches[0], is_computed=False)
    assert made.check(patches=(patch,)).errors == ()


SLOT = (
    "@use_kernel_forward_from_hub",
    'from patchgen_core.ops import OpSlot\n\nslot = OpSlot("toy_gate", "plain")\n\n\n@use_kernel_forward_from_hub',
)
SLOTTED = (
    MLP,
    f"gate, up = self.gate_proj(x), self.up_proj(x)\n        if slot.has_kernel:\n"
    f"            return self.down_proj(slot(gate, up))\n        {MLP}",
)


@pytest.fixture
def kernel() -> Iterator[Callable[[object], None]]:
    """Registers kernels for the slot of the tests."""

    def register(function: object, name: str = "mine") -> None:
        KERNEL_REGISTRY.register(KernelSpec(name, "toy_gate", "plain", lambda: function), force=True)

    yield register
    for name in ("mine", "eager"):
        KERNEL_REGISTRY._specs.pop(("toy_gate", "plain", name), None)


def test_slots_are_bound_for_the_comparison_and_no_longer(port, kernel):
    seen = []

    def gate(x, y):
        seen.append(slot.implementation)
        return torch.nn.functional.silu(x) * y

    kernel(gate)
    made = port(SLOT, SLOTTED, targets=("LlamaMLP.forward",), implementation="mine")
    slot = made.module.slot
    assert made.check().errors == ()
    assert set(seen) == {"mine"}
    assert not slot.is_bound
    assert not slot.has_kernel


def test_a_kernel_that_is_off_differs(port, kernel):
    kernel(lambda x, y: torch.nn.functional.silu(x) * y * 1.0001)
    problems = port(SLOT, SLOTTED, targets=("LlamaMLP.forward",), implementation="mine").check().errors
    assert problems[0].location == Location(CONFIG.file, 10)


def test_a_slot_that_is_never_called_is_a_finding(port, kernel):
    kernel(lambda x, y: torch.nn.functional.silu(x) * y)
    problems = port(SLOT, implementation="mine").check().errors
    assert [problem.code for problem in problems] == ["PG301"]
    assert "'slot'" in problems[0].message


@pytest.mark.slow
def test_lines_for_kernels_run_with_the_eager_function_of_the_op(port, kernel):
    slots = [("toy_gate", "plain")]
    kernels = [("toy_gate", "plain", "eager"), ("toy_gate", "plain", "mine"), ("toy_gate", "other", "theirs")]
    assert list_implementations(slots, kernels) == ("eager", "eager_through_slots", "mine")
    assert list_implementations(slots, kernels[1:]) == ("eager", "mine")
    assert list_implementations([], kernels) == ("patched",)

    kernel(lambda x, y: torch.nn.functional.silu(x) * y, "eager")
    made = port(SLOT, SLOTTED, targets=("LlamaMLP.forward",), implementation="eager_through_slots")
    assert made.check().errors == ()
    swapped = (SLOTTED[0], SLOTTED[1].replace("slot(gate, up)", "slot(up, gate)"))
    made = port(SLOT, swapped, targets=("LlamaMLP.forward",), implementation="eager_through_slots")
    assert made.check().errors[0].location == Location(CONFIG.file, 10)
    assert made.check(implementation="eager").errors == ()


@pytest.mark.slow
def test_heads_that_take_upstreams_base_are_told_and_compared_with_the_patches(port):
    made = port((MLP, MLP.replace(" * ", " + ")), targets=("LlamaMLP.forward",))
    verdict = made.check()
    warned = [warning.message for warning in verdict.warnings]
    assert [warning.code for warning in verdict.warnings] == ["PG303"]
    assert "upstream's LlamaModel" in warned[0]
    assert "LlamaForSequenceClassification, LlamaForTokenClassification" in warned[0]
    assert any("The same in LlamaForSequenceClassification" in problem.hint for problem in verdict.errors)


@pytest.mark.slow
def test_heads_are_registered_by_the_module_that_their_folder_has_for_another_device(port, monkeypatch):
    from transformers import LlamaConfig

    other = type("LlamaModel", (), {"__module__": "proj.generated.patched_modeling_llama_gpu"})
    monkeypatch.setattr(MODELING_REGISTRY, "_entries", {})
    MODELING_REGISTRY.register("llama")(lambda architecture: other)
    made = port()
    made.module.LlamaModel.config_class = LlamaConfig
    assert [warning.code for warning in made.check().warnings] == ["PG303"]
    made.module.LlamaModel.__module__ = "proj.generated.patched_modeling_llama_npu"
    verdict = made.check()
    assert verdict.warnings == ()
    assert any("unless register_with_auto() was called" in note for note in verdict.notes)


def test_auto_models_give_what_they_gave_before(port):
    from transformers import AutoModel, LlamaConfig, LlamaModel

    port().check()
    assert type(AutoModel.from_config(make_toy_config(LlamaConfig))) is LlamaModel


def test_a_toy_config_of_the_patch_config_is_run(port):
    from transformers import LlamaConfig

    toy = make_toy_config(LlamaConfig, {"num_hidden_layers": 3}).to_dict()
    verdict = port((MLP, MLP.replace(" * ", " + "))).check(toy_config=toy)
    assert any("model.layers.2.mlp" in cell for table in verdict.tables for row in table.rows for cell in row)


def test_a_device_that_is_not_there_is_an_error(port):
    if torch.cuda.is_available():
        assert port().check(device="cuda").errors == ()
        return
    with pytest.raises(PatchgenError, match="'cuda'"):
        port().check(device="cuda")


def test_a_module_without_a_head_is_skipped(port):
    verdict = port(upstream="transformers.modeling_rope_utils").check()
    assert "shares no model class" in verdict.reason


def test_heads_are_what_training_uses():
    module = importlib.import_module("transformers.models.gpt2.modeling_gpt2")
    kinds = {head.name: head.kind for head in find_heads(module, module)}
    assert kinds["GPT2LMHeadModel"] == "causal_lm"
    assert kinds["GPT2ForSequenceClassification"] == "sequence_classification"
    assert kinds["GPT2Model"] == "base"
    assert "GPT2PreTrainedModel" not in kinds
