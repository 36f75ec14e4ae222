"""What parity finds beside differences, and what a config and its project say of that."""

from __future__ import annotations

import textwrap

import pytest

from patchgen_core.checks.contract.parity_rules import PARITY_RULES
from patchgen_core.checks.contract.rule import Example, Rule
from patchgen_core.checks.contract.run import selected_codes
from patchgen_core.checks.parity.findings import judge, unknown_heads, unknown_implementations
from patchgen_core.checks.parity.patched import patched_code
from patchgen_core.checks.result import CheckResult
from patchgen_core.errors import Problem
from tests.checks.parity_runs import LLAMA, PREAMBLE, WHOLE, compare, line_of, make
from tests.conftest import CONFIG, Workspace

pytestmark = pytest.mark.torch

EVERY_RULE = pytest.mark.parametrize("rule", PARITY_RULES, ids=lambda rule: rule.code)
CHUNKS = """
@config.override_method("LlamaMLP.forward")
def forward(self, x):
    if x.shape[1] > 4096:
        {then}
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""
RIGHT = "return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))"
OTHER = "return self.down_proj(self.up_proj(x))"


def judged(work: Workspace, text: str, preamble: str = PREAMBLE, **more: str) -> CheckResult:
    verdict = compare(work, text, preamble=preamble, **more)
    config = work.load().config
    codes = selected_codes(work.project, work.models / CONFIG, work.project.module_name(work.models / CONFIG))
    return judge(verdict, config.allowed, codes)


def found(verdict: CheckResult) -> list[Problem]:
    return [*verdict.errors, *verdict.warnings, *verdict.unused]


def play(work: Workspace, example: Example) -> CheckResult:
    assert example.module == LLAMA
    return judged(work, example.text, WHOLE)


@EVERY_RULE
@pytest.mark.mostly_slow(1)
def test_failing_example_of_a_rule_is_found(work: Workspace, rule: Rule) -> None:
    verdict = play(work, rule.failing)
    problems = [problem for problem in found(verdict) if problem.code == rule.code]
    assert problems
    assert all(problem.hint and problem.location and problem.location.line for problem in problems)
    is_error = rule.code in {problem.code for problem in verdict.errors}
    assert is_error == (rule.severity == "error")
    assert {problem.code for problem in found(verdict)} <= {rule.code, "PG303"}


@EVERY_RULE
@pytest.mark.slow
def test_passing_example_of_a_rule_is_not(work: Workspace, rule: Rule) -> None:
    verdict = play(work, rule.passing)
    assert {problem.code for problem in found(verdict)} <= {"PG303"} - {rule.code}


# --- lines that do not run -------------------------------------------------------------------------


def missed(verdict: CheckResult) -> list[str]:
    """The lines that no batch runs, as the generated module has them."""
    problems = [problem for problem in verdict.errors if problem.code == "PG302"]
    assert len(problems) == len(verdict.errors), verdict.errors
    texts = [problem.generated.text for problem in problems if problem.generated]
    return [line.partition("| ")[2].strip() for text in texts for line in text.splitlines() if "|" in line]


def test_lines_are_shown_with_their_numbers(work: Workspace) -> None:
    verdict = compare(work, CHUNKS.format(then=OTHER))
    (problem,) = verdict.errors
    assert problem.generated is not None
    number = problem.generated.location.line
    assert problem.title == (f"PG302 no toy batch runs line {number} that the patch of 'LlamaMLP.forward' adds")
    assert problem.generated.text == f"> {number:5} |             {OTHER}"
    assert problem.location is not None
    assert problem.location.line == line_of(work, "@config.override_method")
    assert problem.target == "LlamaMLP.forward"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "if x.dim() == 7:\n    x = x * 2\n    x = x / 2\nelif x.dim() == 8:\n    x = -x\n",
            ["x = x * 2", "x = x / 2", "x = -x"],
        ),
        ("for _ in range(x.dim() - 3):\n    x = x * 2\n", ["x = x * 2"]),
        ("try:\n    x = x * 1\nexcept ValueError:\n    x = x * 2\n", ["x = x * 2"]),
        ("with torch.no_grad():\n    if x.dim() == 7:\n        x = 2 * x\n", ["x = 2 * x"]),
        ("while x.dim() == 7:\n    x = x[0]\nelse:\n    x = 1 * x\n", ["x = x[0]"]),
        ("def half():\n    return x / 2\nx = x * 1\n", []),
        ("x = [y for y in [x, 1] if y is None][0] if x.dim() == 7 else x\n", []),
        ('if x.dim() == 7:\n    """Only words."""\n', []),
        ("if x.dim() == 7:\n    raise ValueError(x)\n", []),
        ('if x.dim() == 7:\n    said = "seven"\n    raise ValueError(said)\n', []),
        ("if x.dim() == 7:\n    y = None\n", []),
        ("if x.is_cuda:\n    x = 2 * x\n", []),
        ('if x.device.type == "npu":\n    return x * 2\n', []),
        ("is_there = torch.cuda.is_available()\nif is_there:\n    x = 2 * x\n", []),
        ("if torch.compiler.is_compiling():\n    x = 2 * x\n", []),
        ("try:\n    import math\nexcept ImportError:\n    x = x * 2\n", []),
        ('y = x.to("cpu")\nif y.dim() == 7:\n    x = 2 * y\n', ["x = 2 * y"]),
        ("count: int\nif x.dim() == 7:\n    count: int\n    # nothing\n    pass\n", []),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_which_lines_count(work: Workspace, text: str, lines: list[str]) -> None:
    body = textwrap.indent(text, "    ")
    config = f"""
@config.override_method("LlamaMLP.forward")
def forward(self, x):
{body}    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""
    assert missed(compare(work, config)) == lines


def test_lines_are_those_of_the_text_that_ran_and_not_of_the_file(work: Workspace) -> None:
    (problem,) = compare(work, CHUNKS.format(then=OTHER), on_disk="# another text").errors
    assert problem.code == "PG302"
    assert problem.generated is None


@pytest.mark.parametrize(
    "condition",
    ["torch.distributed.get_world_size() > 1", "torch.distributed.is_initialized() and x.dim() == 3"],
)
@pytest.mark.mostly_slow(1)
def test_lines_for_ranks_alone_are_a_warning(work: Workspace, condition: str) -> None:
    text = f"""
@config.override_method("LlamaMLP.forward")
def forward(self, x):
    if torch.distributed.is_initialized() and {condition}:
        x = x * 1
    {RIGHT}
"""
    verdict = compare(work, text)
    assert missed(verdict) == []
    (problem,) = verdict.warnings
    assert problem.code == "PG302"
    assert "x = x * 1" in problem.generated.text if problem.generated else False
    assert "Ranks of a group run them" in problem.hint


@pytest.mark.slow
def test_lines_for_a_value_that_ranks_alone_set_are_a_warning(work: Workspace) -> None:
    text = f"""
@config.override_method("LlamaMLP.forward")
def forward(self, x):
    of_ranks = of_shape = None
    if torch.distributed.is_initialized():
        of_ranks = x * 0
    if x.dim() == 7:
        of_shape = x * 2
    if of_ranks is not None:
        x = x + of_ranks
    if of_shape is not None:
        x = x + of_shape
    {RIGHT}
"""
    verdict = compare(work, text)
    assert missed(verdict) == ["of_shape = x * 2", "x = x + of_shape"]
    (problem,) = verdict.warnings
    assert problem.generated is not None
    assert "of_ranks = x * 0" in problem.generated.text
    assert "x = x + of_ranks" in problem.generated.text


def test_method_of_generation_that_no_batch_reaches_is_a_warning(work: Workspace) -> None:
    text = """
@config.override_method("LlamaForCausalLM.prepare_inputs_for_generation", add=True)
def prepare_inputs_for_generation(self, input_ids, **kwargs):
    return super().prepare_inputs_for_generation(input_ids, **kwargs)
"""
    verdict = compare(work, text)
    assert verdict.errors == ()


@pytest.mark.parametrize(
    ("condition", "is_error"), [("torch.distributed.is_initialized()", False), ("x.dim() == 7", True)]
)
@pytest.mark.slow
def test_method_that_only_ranks_call_is_a_warning(work: Workspace, condition: str, is_error: bool) -> None:
    text = f"""
@config.override_method("LlamaMLP.dummy_forward", add=True)
def dummy_forward(self):
    return self.down_proj.weight.sum() * 0

@config.override_method("LlamaMLP.forward")
def forward(self, x):
    if {condition} and torch.distributed.get_world_size() > 1:
        x = x + self.dummy_forward()
    {RIGHT}
"""
    text = text if not is_error else text.replace(" and torch.distributed.get_world_size() > 1", "")
    verdict = compare(work, text)
    assert {problem.code for problem in verdict.errors} == ({"PG301", "PG302"} if is_error else set())
    assert {problem.code for problem in verdict.warnings} == (set() if is_error else {"PG301", "PG302"})


@pytest.mark.slow
def test_ranks_that_a_helper_counts_are_those_of_a_group(work: Workspace) -> None:
    text = f"""
@config.add_helper
def has_others():
    return torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1

@config.override_method("LlamaMLP.dummy_forward", add=True)
def dummy_forward(self):
    return self.down_proj.weight.sum() * 0

@config.override_method("LlamaMLP.forward")
def forward(self, x):
    runs_dummy = x is not None and has_others()
    if runs_dummy:
        x = x + self.dummy_forward()
    {RIGHT}
"""
    verdict = compare(work, text)
    assert verdict.errors == ()
    assert {problem.code for problem in verdict.warnings} == {"PG301", "PG302"}


def with_slots(text: str) -> str:
    """A config whose patch begins with a text that may ask a slot."""
    return f"""
config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_post_import_block('''
slot = OpSlot("swiglu_mlp", "standard")
slots = {{"mlp": slot}}
''')

@config.override_method("LlamaMLP.forward")
def forward(self, x):
{textwrap.indent(text, "    ")}    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""


@pytest.mark.parametrize(
    "text",
    [
        "if slot.has_kernel:\n    return slot(x)\n",
        "if slot.use_eager_impl:\n    x = 1 * x\nelse:\n    x = slot(x)\n",
        f"if not slot.has_kernel:\n    {RIGHT}\nx = slot(x)\n",
        "is_bound = slot.has_kernel\nif is_bound:\n    return slot(x)\n",
        "if x.dim() == 7 and slot.has_kernel:\n    y = slot(x)\n    x = y\n",
        'if slots["mlp"].bound_kernel is not None:\n    x = x * 2\n',
    ],
)
@pytest.mark.slow
def test_what_a_slot_decides_is_left_to_other_implementations(work: Workspace, text: str) -> None:
    assert missed(compare(work, with_slots(text), "eager")) == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("if slot.has_kernel:\n    return slot(x)\nif x.dim() == 7:\n    x = x * 2\n", ["x = x * 2"]),
        ("if slot.has_kernel:\n    return slot(x)\nelif x.dim() == 7:\n    x = x * 2\n", ["x = x * 2"]),
        ("if slot.use_eager_impl:\n    if x.dim() == 7:\n        x = x * 2\nelse:\n    x = slot(x)\n", ["x = x * 2"]),
    ],
    ids=["behind it", "elif", "inside"],
)  # fmt: skip
@pytest.mark.mostly_slow(1)
def test_the_side_that_a_slot_chooses_here_is_looked_at(work: Workspace, text: str, lines: list[str]) -> None:
    assert missed(compare(work, with_slots(text), "eager")) == lines


def test_a_method_for_others_is_not_used_by_a_function_of_its_name(work: Workspace) -> None:
    text = """
@config.override_method("LlamaForCausalLM.get_parallel_plan", add=True)
def plan_of(self):
    from plans import get_parallel_plan
    return get_parallel_plan(type(self))

config.override_method("LlamaModel.get_parallel_plan", replacement=plan_of, add=True)
"""
    artifact = make(work, text)
    assert [(patch.users, patch.is_computed) for patch in patched_code(artifact, artifact.text)] == [((), False)] * 2


def test_lines_of_upstream_that_do_not_run_are_not_told(work: Workspace) -> None:
    config = """
@config.replace_function("repeat_kv")
def repeat_kv(hidden_states: torch.Tensor, n_rep: int) -> torch.Tensor:
    batch, num_key_value_heads, slen, head_dim = hidden_states.shape
    if n_rep == 1:
        return hidden_states
    if n_rep == 7:
        return hidden_states.repeat_interleave(7, dim=1)
    hidden_states = hidden_states[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen, head_dim)
    return hidden_states.reshape(batch, num_key_value_heads * n_rep, slen, head_dim)
"""
    assert missed(compare(work, config)) == ["return hidden_states.repeat_interleave(7, dim=1)"]


# --- what is wanted --------------------------------------------------------------------------------


def test_allowed_finding_is_a_note_with_the_reason(work: Workspace) -> None:
    allowing = 'config.allow("PG302", "never so long", "LlamaMLP")\n'
    verdict = judged(work, allowing + CHUNKS.format(then=OTHER))
    assert found(verdict) == []
    (note,) = [note for note in verdict.notes if note.startswith("allowed: ")]
    assert note.startswith("allowed: PG302 no toy batch runs line ")
    assert note.endswith(" (never so long)")


def test_allowance_is_for_its_target_alone(work: Workspace) -> None:
    allowing = 'config.allow("PG302", "never so long", "LlamaAttention")\n'
    verdict = judged(work, allowing + CHUNKS.format(then=OTHER))
    assert [problem.code for problem in verdict.errors] == ["PG302"]
    (idle,) = verdict.unused
    assert idle.title == "PG300 allow: PG302 finds nothing of 'LlamaAttention' here"
    assert idle.location is not None
    assert idle.location.line == line_of(work, "config.allow")


@pytest.mark.slow
def test_nothing_is_idle_where_the_models_part(work: Workspace) -> None:
    allowing = 'config.allow("PG301", "seldom used")\nconfig.allow("PG201", "of another check")\n'
    broken = CHUNKS.format(then=OTHER).replace("* self.up", "+ self.up")
    assert judged(work, allowing + broken).unused == ()
    assert [p.title for p in judged(work, allowing + CHUNKS.format(then=OTHER)).unused] == [
        "PG300 allow: PG301 finds nothing here"
    ]


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        ("", ["PG302", "PG303"]),
        ('ignore = ["PG3"]', []),
        ('ignore = ["PG302"]', ["PG303"]),
        ('select = ["PG2", "PG302"]', ["PG302"]),
        ('[tool.patchgen.per_config_ignore]\n"proj.models.toy.*" = ["PG303"]', ["PG302"]),
        ('[tool.patchgen.per_config_ignore]\n"proj/models/other/*" = ["PG303"]', ["PG302", "PG303"]),
    ],
)
@pytest.mark.mostly_slow(1)
def test_settings_choose(work: Workspace, settings: str, codes: list[str]) -> None:
    path = work.root / "pyproject.toml"
    path.write_text(f"{path.read_text()}{settings}\n")
    verdict = judged(work, CHUNKS.format(then=OTHER), WHOLE)
    assert sorted({problem.code for problem in found(verdict)}) == codes


@pytest.mark.slow
def test_heads_without_patches_are_allowed_by_their_base_model(work: Workspace) -> None:
    allowing = 'config.allow("PG303", "never trained", "LlamaModel")\n'
    verdict = judged(work, allowing + CHUNKS.format(then="raise ValueError"), WHOLE)
    assert found(verdict) == []
    (note,) = [note for note in verdict.notes if note.startswith("allowed: PG303")]
    assert "LlamaForSequenceClassification, LlamaForTokenClassification" in note


def test_tolerance_for_what_is_not_offered_is_told(work: Workspace) -> None:
    work.config(
        """
        config.tolerate(8, "bf16 loss", implementation="liger_kernels")
        config.tolerate(8, "known", implementation="liger_kernel")
        config.tolerate(8, "all of them")
        config.tolerate(8, "of one head", head="LlamaForCausalLMs")
        """,
        preamble=PREAMBLE,
    )
    tolerances = work.load().config.tolerances
    (head,) = unknown_heads(tolerances, ["LlamaForCausalLM"])
    assert head.title == "PG300 tolerate: the generated module has no class 'LlamaForCausalLMs'"
    assert head.hint == "Did you mean 'LlamaForCausalLM'?"
    (problem,) = unknown_implementations(tolerances, ("eager", "liger_kernel"))
    assert problem.title == "PG300 tolerate: there is no implementation 'liger_kernels' here"
    assert problem.hint == "Did you mean 'liger_kernel'? Checked here: eager, liger_kernel."
    assert problem.location is not None
    assert problem.location.line == line_of(work, 'config.tolerate(8, "bf16')
