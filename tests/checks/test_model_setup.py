"""A project with slots, a registry and plans of its own: what its set-up declares is compared, and nothing is green by
its name alone."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from patchgen_core.checks.gate import Gate
from patchgen_core.checks.registry import all_checks
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.errors import PatchgenError
from patchgen_core.project.table import load_project

pytestmark = pytest.mark.torch

SETTINGS = """
[tool.patchgen]
search_root = "acme/models"
package_prefix = "acme.models"
optional_packages = ["acme_fast"]
{setup}

[tool.patchgen.parity]
dtypes = ["float32"]
{parity}
"""
HEADS = ("LlamaForSequenceClassification", "LlamaForTokenClassification", "LlamaForQuestionAnswering")
CONFIG = f"""
from patchgen import PatchConfig, create_patch_from_external

config = PatchConfig("transformers.models.llama.modeling_llama", "patched_modeling_llama.py")
config.exclude_from_output{HEADS}
"""
SLOTS = """
config.add_import("acme.kernels", names=["OpSlot"])
config.add_post_import_block('mlp = OpSlot("swiglu_mlp", "standard")')

@config.override_method("LlamaMLP.forward")
def forward(self, x):
    if mlp.use_non_eager_impl:
        return mlp(self, x)
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""
KERNELS = """
REGISTRY = {("swiglu_mlp", "standard"): {}}


class OpSlot:
    def __init__(self, op_name, variant):
        self.op_name, self.variant, self.kernel = op_name, variant, None

    def bind(self, name):
        self.kernel = None if name == "eager" else REGISTRY[self.op_name, self.variant][name]()

    @property
    def use_non_eager_impl(self):
        return self.kernel is not None

    def __call__(self, *args):
        return self.kernel(*args)


def right():
    return lambda mlp, x: mlp.down_proj(mlp.up_proj(x) * mlp.act_fn(mlp.gate_proj(x)))


def wrong():
    return lambda mlp, x: mlp.down_proj(mlp.act_fn(mlp.gate_proj(x)) + mlp.up_proj(x))


def elsewhere():
    raise RuntimeError("needs another accelerator")


for make in (right, wrong, elsewhere):
    REGISTRY["swiglu_mlp", "standard"][make.__name__] = make
"""
SETUP = """
def setup(models):
    from acme.kernels import REGISTRY, OpSlot

    models.add_slots(OpSlot, lambda op_name, variant: REGISTRY[op_name, variant])
"""


class Acme:
    """The project, and a run of its gate."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.setup, self.parity = "", ""
        self.write("acme/kernels.py", KERNELS)

    def write(self, path: str, text: str) -> None:
        """Write a file of the project."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).lstrip(), encoding="utf-8")

    def config(self, text: str) -> None:
        """Write the config, and what it makes."""
        self.write("acme/models/llama/llama_patch_gen_config.py", CONFIG + text)
        self._settle()
        self.gate("drift", fix=True)

    def set_up(self, text: str) -> None:
        """Give the project a set-up."""
        self.write("acme/testing.py", text)
        self.setup = 'setup = "acme.testing:setup"'
        self._settle()

    def _settle(self) -> None:
        self.write("pyproject.toml", SETTINGS.format(setup=self.setup, parity=self.parity))

    def gate(self, *checks: str, fix: bool = False, items: str = "") -> dict[str, CheckResult]:
        """The results of checks by their items; of those that hold a text."""
        session = Session(load_project(self.root), Settings(fix=fix, device="cpu", caching=False))
        try:
            gate = Gate(session, [check for check in all_checks() if check.name in checks])
            configs = load_project(self.root).find_configs()
            chosen = [item for item in gate.items(configs) if items in item.name]
            gate.refuse_machine(chosen)
            return {result.name: result for result in gate.run(chosen)}
        finally:
            session.close()


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
config.allow("PG301", "only for generation, which parity does not try")


@config.override_method("LlamaForCausalLM.prepare_inputs_for_generation")
def prepare_inputs_for_generation(self, *args, **kwargs):
    return super().prepare_inputs_for_generation(*args, **kwargs)
""")
    (result,) = acme.gate("parity").values()
    assert (result.status, result.reason) == ("skipped", "nothing that is patched runs")
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
        ("def set_up(models):\n    pass\n", 0, "has no 'setup', which is to set up models. Did you mean 'set_up'?"),
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
