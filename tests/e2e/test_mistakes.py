"""The mistakes that people make in configs: the first lines that the gate prints say where, what and what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from patchgen_core.checks.checked_in.compare import fix
from tests.conftest import Workspace
from tests.plugin.conftest import run

pytestmark = pytest.mark.torch

PREAMBLE = """\
from patchgen import PatchConfig

config = PatchConfig("transformers.models.qwen3_moe.modeling_qwen3_moe", "patched_modeling_{name}.py")
config.exclude_from_output(
    "Qwen3MoeForSequenceClassification", "Qwen3MoeForTokenClassification", "Qwen3MoeForQuestionAnswering"
)
"""
MLP = '@config.override_method("Qwen3MoeMLP.forward")\n'
QUICK = '\n[tool.patchgen.parity]\nlevel = "quick"\ndtypes = ["float32"]\n'


@dataclass(frozen=True)
class Mistake:
    """What somebody wrote, and what is printed first.

    Attributes:
        text: the config below ``PREAMBLE``.
        line: the line of it that is to blame, counted from 1.
        cause: a part of the line that says what is wrong.
        advice: a part of the next line, which says what to do or shows the evidence.
    """

    text: str
    line: int
    cause: str
    advice: str


COLD = {
    "typo": Mistake(
        '@config.override_method("Qwen3MoeMLP.foward")\ndef forward(self, x):\n    return self.down_proj(x)\n',
        1,
        "upstream class 'Qwen3MoeMLP' has no method 'foward'",
        "Did you mean 'forward'?",
    ),
    "forgotten_import": Mistake(
        f"import math\n\n\n{MLP}def forward(self, x):\n    return self.down_proj(x) * math.pi\n",
        6,
        "nothing defines 'math'",
        "Import it with config.add_import",
    ),
    "dropped_field": Mistake(
        """\
config.add_import("transformers.modeling_outputs", names=["MoeModelOutputWithPast"])


@config.override_method("Qwen3MoeModel.forward")
def forward(
    self,
    input_ids=None,
    attention_mask=None,
    position_ids=None,
    past_key_values=None,
    inputs_embeds=None,
    use_cache=None,
    **kwargs,
):
    hidden_states = self.embed_tokens(input_ids)
    return MoeModelOutputWithPast(last_hidden_state=self.norm(hidden_states))
""",
        16,
        "constructs 'MoeModelOutputWithPast' without 'past_key_values'",
        "Pass what upstream passes, such as 'past_key_values=past_key_values'",
    ),
    "stale_signature": Mistake(
        """\
config.add_import("torch")


@config.override_method("Qwen3MoeRMSNorm.__init__")
def init(self, hidden_size):
    super().__init__()
    self.weight = torch.nn.Parameter(torch.ones(hidden_size))
    self.variance_epsilon = 1e-6
""",
        4,
        "calls 'Qwen3MoeRMSNorm' and passes 'eps', which is not a parameter: it takes (hidden_size)",
        "Change the call, or give 'Qwen3MoeRMSNorm' the parameters that its callers pass.",
    ),
    "syntax_error": Mistake(
        f"{MLP}def forward(self, x):\n    return self.down_proj(self.gate_proj(x)\n",
        3,
        "not valid Python: '(' was never closed",
        "return self.down_proj(self.gate_proj(x)",
    ),
    "misspelt_local": Mistake(
        f"{MLP}def forward(self, x):\n    gate = self.gate_proj(x)\n    return self.down_proj(gatte)\n",
        4,
        "nothing defines 'gatte'",
        "Did you mean 'gate'? If not, import it",
    ),
    "missing_self": Mistake(
        f"{MLP}def forward(self, x):\n    return self.down_proj(gate_proj(x))\n",
        3,
        "nothing defines 'gate_proj'",
        "Did you mean 'self.gate_proj'? If not, import it",
    ),
    "no_self_parameter": Mistake(
        f"{MLP}def forward(x):\n    return self.down_proj(self.gate_proj(x))\n",
        3,
        "nothing defines 'self'",
        "Give 'forward' the first parameter 'self'",
    ),
    "unknown_attribute": Mistake(
        f"{MLP}def forward(self, x):\n    return self.down_proj(self.gate_porj(x))\n",
        3,
        "'Qwen3MoeMLP.forward' uses 'self.gate_porj', but neither 'Qwen3MoeMLP' nor its bases have 'gate_porj'",
        "Did you mean 'self.gate_proj'?",
    ),
}
RUN = {
    "missing_package": Mistake(
        f"""\
config.add_import("fused_mlp", names=["fused_swiglu"])


{MLP}def forward(self, x):
    return self.down_proj(fused_swiglu(self.gate_proj(x), self.up_proj(x)))
""",
        0,
        "does not import: ModuleNotFoundError: No module named 'fused_mlp'",
        "Install it; if only some machines have it, add 'fused_mlp' to optional_packages in [tool.patchgen].",
    ),
    "swapped_arguments": Mistake(
        """\
config.replace_code(
    "Qwen3MoeAttention.forward",
    "apply_rotary_pos_emb(..., cos, sin)",
    "apply_rotary_pos_emb(query_states, key_states, sin, cos)",
)
""",
        1,
        "(Qwen3MoeAttention): look at the patch of 'Qwen3MoeAttention.forward'",
        "Batch 'rows', float32: ",
    ),
    "wrong_reduction": Mistake(
        """\
config.replace_code(
    "Qwen3MoeForCausalLM.forward",
    "self.loss_function(...)",
    "self.loss_function(logits, labels, self.vocab_size, **kwargs) * 18",
)
""",
        1,
        "(Qwen3MoeForCausalLM): look at the patch of 'Qwen3MoeForCausalLM.forward'",
        "Batch 'rows', float32: ",
    ),
    "wrong_expert_order": Mistake(
        """\
config.drop_decorators("Qwen3MoeExperts", "use_experts_implementation")


@config.edit_method("Qwen3MoeExperts.forward")
def forward(self, hidden_states, top_k_index, top_k_weights):
    top_k_index = self.num_experts - 1 - top_k_index
    ...
""",
        4,
        "(Qwen3MoeExperts): look at the patch of 'Qwen3MoeExperts.forward'",
        "Batch 'rows', float32: ",
    ),
}


def settle(work: Workspace, mistakes: Mapping[str, Mistake]) -> None:
    """A project with a config for each mistake, and what they make as far as they make something."""
    for name, mistake in mistakes.items():
        work.config(mistake.text, f"{name}_patch_gen_config.py", PREAMBLE.format(name=name))
    fix(work.check())


def first_lines(output: str) -> dict[str, list[str]]:
    """The first three lines about each config that is red, by its name."""
    lines = output.splitlines()
    found: dict[str, list[str]] = {}
    for number, line in enumerate(lines):
        verdict = re.fullmatch(r"(?:failed|error)\s+proj\.models\.(\w+)_patch_gen_config(?:  \S+)?", line)
        if verdict is not None:
            found.setdefault(verdict[1], lines[number : number + 3])
    return found


def compare(found: Mapping[str, list[str]], mistakes: Mapping[str, Mistake]) -> None:
    start = PREAMBLE.count("\n")
    assert found.keys() == mistakes.keys()
    for name, mistake in mistakes.items():
        _, told, advice = found[name]
        place, _, cause = told.partition(": error: ")
        line = start + mistake.line if mistake.line else 3
        assert place == f"proj/models/{name}_patch_gen_config.py:{line}", told
        assert mistake.cause in cause
        assert advice.startswith(f"  {mistake.advice}"), advice


def test_mistakes_that_no_model_need_run_for(work: Workspace) -> None:
    settle(work, COLD)
    done = work.patchgen("gate", "--checks", "drift,contract")
    assert done.returncode == 2
    compare(first_lines(done.stdout), COLD)


def test_pytest_prints_the_same_lines(work: Workspace, pytester: pytest.Pytester) -> None:
    settle(work, {name: COLD[name] for name in ("typo", "misspelt_local", "unknown_attribute")})
    result = run(pytester, work, "--patchgen", "--patchgen-checks=drift,contract")
    result.assert_outcomes(failed=3, passed=2, skipped=2)
    lines = work.patchgen("gate", "--checks", "drift,contract").stdout
    for _, told, advice in first_lines(lines).values():
        assert result.outlines[result.outlines.index(told) + 1] == advice


@pytest.mark.slow
def test_mistakes_that_models_show(work: Workspace) -> None:
    settings = work.root / "pyproject.toml"
    settings.write_text(settings.read_text(encoding="utf-8") + QUICK, encoding="utf-8")
    settle(work, RUN)
    done = work.patchgen("gate", "--checks", "drift,contract,import,parity")
    assert done.returncode == 1
    compare(first_lines(done.stdout), RUN)
    assert "As in import, above" in done.stdout
