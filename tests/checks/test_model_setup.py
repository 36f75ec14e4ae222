"""A project with slots, a registry and plans of its own: what its set-up declares is compared, and nothing is green by
its name alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen_core.checks.kernel.check import uses_kernels
from patchgen_core.errors import PatchgenError
from patchgen_core.project.table import load_project
from tests.checks.acme_project import SETUP, SLOTS, Acme

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture
def acme(tmp_path: Path) -> Acme:
    return Acme(tmp_path)


def test_slots_of_another_class_are_not_offered_for_their_name(acme: Acme) -> None:
    acme.config(SLOTS)
    results = acme.gate("parity")
    assert list(results) == ["parity[patched]"]
    (result,) = results.values()
    assert result.status == "clean"
    assert result.notes[-1].startswith("slots of acme.kernels:OpSlot are left as they are")


def test_kernels_of_this_package_concern_projects_with_its_slots(acme: Acme) -> None:
    acme.config(SLOTS)
    assert not uses_kernels(load_project(acme.root))
    acme.config(SLOTS.replace("acme.kernels", "patchgen_core.ops"))
    assert uses_kernels(load_project(acme.root))


def test_a_set_up_offers_the_kernels_of_the_projects_own_slots(acme: Acme) -> None:
    acme.config(SLOTS)
    acme.set_up(SETUP)
    results = acme.gate("parity")
    assert {name: result.status for name, result in results.items()} == {
        "parity[eager]": "clean",
        "parity[elsewhere]": "skipped",
        "parity[right]": "clean",
        "parity[wrong]": "failed",
    }
    assert results["parity[elsewhere]"].reason == "elsewhere cannot be bound to 'mlp' here: needs another accelerator"
    assert "LlamaMLP.forward" in str(results["parity[wrong]"].errors[0])


def test_what_runs_nothing_that_is_patched_is_not_green(acme: Acme) -> None:
    acme.config("""
@config.override_method("LlamaForCausalLM.count_operations", add=True)
def count_operations(self, tokens):
    return 6 * tokens * self.num_parameters()
""")
    (result,) = acme.gate("parity").values()
    assert (result.status, result.reason) == ("skipped", "no patched code runs")
    assert not result.is_bad


def test_a_kernel_that_no_batch_calls_is_not_green(acme: Acme) -> None:
    uncalled = SLOTS.replace("if mlp.use_non_eager_impl:", "if mlp.use_non_eager_impl and x is None:")
    acme.set_up(SETUP)
    acme.config(uncalled)
    (result,) = acme.gate("parity", items="right").values()
    assert [problem.code for problem in result.errors] == ["PG301"]

    acme.config(f"{uncalled}\nconfig.allow('PG301', 'to be mended')\n")
    (result,) = acme.gate("parity", items="right").values()
    assert (result.status, result.reason) == ("skipped", "no slot that is bound to right is called")


def test_an_implementation_of_the_projects_own_is_bound_and_unbound_by_it(acme: Acme) -> None:
    acme.set_up("""
import contextlib


def setup(models):
    @contextlib.contextmanager
    def fused(module):
        from acme import kernels

        for name, slot in vars(module).items():
            if isinstance(slot, kernels.OpSlot):
                slot.bind("wrong")
                yield [name]
                slot.bind("eager")

    @contextlib.contextmanager
    def none(module):
        yield []

    models.add_implementation("fused", fused)
    models.add_implementation("none", none)
""")
    acme.config(SLOTS)
    results = acme.gate("parity")
    assert {name: result.status for name, result in results.items()} == {
        "parity[patched]": "clean",
        "parity[fused]": "failed",
        "parity[none]": "skipped",
    }
    assert results["parity[none]"].reason.endswith("is bound to none")


def test_upstreams_model_runs_outside_of_the_projects_run_time(acme: Acme) -> None:
    """The project's loss gives a pair: upstream's model would not know what to do with it."""
    acme.set_up("""
import contextlib


def setup(models):
    @contextlib.contextmanager
    def losses():
        from transformers.loss.loss_utils import LOSS_MAPPING

        upstream = LOSS_MAPPING["ForCausalLM"]
        LOSS_MAPPING["ForCausalLM"] = lambda *args, **kwargs: (upstream(*args, **kwargs), "more")
        yield
        LOSS_MAPPING["ForCausalLM"] = upstream

    models.run_inside(losses)
""")
    acme.config("""
@config.override_method("LlamaForCausalLM.loss_function")
def loss_function(self, *args, **kwargs):
    loss, more = super().loss_function(*args, **kwargs)
    return loss
""")
    (result,) = acme.gate("parity").values()
    assert result.status == "clean", result.errors


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("def setup(models):\n    models.add_slots(int, print)\n", 2, "add_slots takes a class with a method 'bind'"),
        ("def setup(models):\n    state = {}\n    state['ep']\n", 3, "raises KeyError: 'ep'"),
        ("import acme_parallel\n", 1, "cannot be imported: ModuleNotFoundError: No module named 'acme_parallel'"),
        ("def set_up(models):\n    pass\n", 0, "has no 'setup', which must set up models. Did you mean 'set_up'?"),
    ],
)
def test_a_set_up_that_fails_is_told_once_with_its_line(acme: Acme, text: str, line: int, message: str) -> None:
    acme.config(SLOTS)
    acme.set_up(text)
    with pytest.raises(PatchgenError) as refused:
        acme.gate("parity")
    (problem,) = refused.value.problems
    assert message in f"{problem.message}. {problem.hint}"
    assert problem.location is not None
    file = "acme/testing.py" if line else "pyproject.toml"
    assert problem.location.file == str(acme.root / file)
    assert problem.location.line == (line or 5)


PLAN = """
from torch.distributed.tensor import Shard

import acme_cluster  # only the cluster has it


class Plan:
    def __init__(self, rules):
        self.rules = rules


def get_parallel_plan():
    return Plan({"model.layers.*.mlp.down_proj.weight": Shard(0)})
"""
BRINGING = """
config.add_import("acme_cluster")
config.add_post_import_block("CLUSTER = acme_cluster.__name__")
"""
CLUSTER = """
import sys
from types import ModuleType


def setup(models):
    sys.modules["acme_cluster"] = ModuleType("acme_cluster")
    {more}
"""
READING = """from acme.models.llama.parallel_plan import Plan
    models.add_plans(Plan, lambda plan: {"tp": plan.rules})"""


def test_a_plan_of_the_projects_own_class_is_read_as_its_set_up_says(acme: Acme) -> None:
    """The ranks that the plan is applied on need the set-up as well: the generated module imports what it brings."""
    acme.config(BRINGING)
    acme.write("acme/models/llama/parallel_plan.py", PLAN)
    acme.set_up(CLUSTER.format(more=""))
    (result,) = acme.gate("plan").values()
    assert "not a ParallelPlan" in result.errors[0].message
    assert "add_plans" in result.errors[0].hint

    acme.set_up(CLUSTER.format(more=READING))
    (result,) = acme.gate("plan").values()
    assert (result.status, result.errors) == ("clean", ())
    assert result.figures["LlamaForCausalLM: distributed"] == 2


def test_what_a_projects_code_raises_is_told_with_its_line_and_the_head(acme: Acme) -> None:
    acme.config(SLOTS)
    acme.write("acme/models/llama/parallel_plan.py", "def get_parallel_plan():\n    return {}['ep']\n")
    (result,) = acme.gate("plan").values()
    (problem,) = result.errors
    assert problem.message == "checking LlamaForCausalLM of patched_modeling_llama.py raises KeyError: 'ep'"
    assert str(problem.location).endswith("acme/models/llama/parallel_plan.py:2")
    assert "parallel_plan.py:2, in get_parallel_plan: return {}['ep']" in problem.excerpt


def test_what_a_projects_helper_raises_is_told_with_its_line(acme: Acme) -> None:
    acme.write("acme/state.py", "import acme_cluster\n")
    acme.config("""
config.add_import("acme.state", names=["acme_cluster"])
config.add_post_import_block("RANKS = acme_cluster.ranks()")
""")
    (result,) = acme.gate("parity").values()
    (problem,) = result.errors
    assert problem.message.endswith("raises ModuleNotFoundError: No module named 'acme_cluster'")
    assert str(problem.location).partition(":")[0].endswith("generated/patched_modeling_llama.py")
    assert problem.hint.startswith("Install it")
    assert "acme/state.py:1, in <module>: import acme_cluster" in problem.excerpt
    assert "importlib" not in problem.excerpt


GROUP = """
def setup(models):
    import torch

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
"""
IN_A_GROUP = """
config.add_import("torch.distributed", alias="dist")


@config.override_method("LlamaMLP.forward")
def forward(self, x):
    dist.all_reduce(x.detach().clone())
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


@config.override_method("LlamaForCausalLM.get_parallel_plan")
def get_parallel_plan(self):
    from acme.models.llama.parallel_plan import get_parallel_plan

    return get_parallel_plan()
"""
OWN_PLAN = """
from torch.distributed.tensor import Shard

from patchgen_core.parallel_plan import ParallelPlan


def get_parallel_plan():
    return ParallelPlan({"tp": {"model.layers.*.mlp.up_proj.weight": Shard(0)}})
"""


def test_a_set_up_may_begin_a_process_group(acme: Acme) -> None:
    acme.config(IN_A_GROUP)
    acme.write("acme/models/llama/parallel_plan.py", OWN_PLAN)
    (result,) = acme.gate("parity").values()
    assert "Default process group has not been initialized" in str(result.errors[0])
    assert "A set-up can start a group of one process" in result.errors[0].hint
    acme.set_up(GROUP)
    results = acme.gate("parity", "plan")
    assert {name: result.status for name, result in results.items()} == {"parity[patched]": "clean", "plan": "clean"}


COLLATED = """

@config.override_method("LlamaForCausalLM.loss_function")
def loss_function(self, *args, lengths, **kwargs):
    return super().loss_function(*args, **kwargs)
"""


def test_a_set_up_adds_what_the_projects_collator_does(acme: Acme) -> None:
    acme.config(COLLATED)
    acme.set_up("def setup(models):\n    models.add_inputs(lambda model, inputs: {'lengths': inputs['nowhere']})\n")
    (result,) = acme.gate("parity").values()
    assert "a function of add_inputs fails for LlamaForCausalLM, batch 'padded': KeyError: 'nowhere'" in str(
        result.errors
    )
    assert str(result.errors[0].location).endswith("acme/testing.py:2")
    acme.set_up("def setup(models):\n    models.add_inputs(lambda model, inputs: {'lengths': 1})\n")
    (result,) = acme.gate("parity").values()
    assert result.status == "clean", result.errors
