"""A project with slots and a registry of its own, and runs of its gate."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from patchgen_core.checks.gate import Gate
from patchgen_core.checks.registry import all_checks
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.session import Session
from patchgen_core.checks.settings import Settings
from patchgen_core.project.table import load_project

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

    def config(self, text: str, preamble: str = CONFIG) -> None:
        """Write the config, and what it makes."""
        self.write("acme/models/llama/llama_patch_gen_config.py", preamble + text)
        self.settle()
        (result,) = self.gate("drift", fix=True).values()
        assert not result.is_bad, result.errors

    def set_up(self, text: str) -> None:
        """Give the project a set-up."""
        self.write("acme/testing.py", text)
        self.setup = 'setup = "acme.testing:setup"'
        self.settle()

    def settle(self, parity: str = "") -> None:
        """Write the settings, with a line for parity."""
        self.parity = parity or self.parity
        self.write("pyproject.toml", SETTINGS.format(setup=self.setup, parity=self.parity))

    def gate(self, *checks: str, fix: bool = False, items: str = "", level: str = "") -> dict[str, CheckResult]:
        """The results of checks by their items; of those that hold a text."""
        session = Session(load_project(self.root), Settings(fix=fix, device="cpu", caching=False, level=level))
        try:
            gate = Gate(session, [check for check in all_checks() if check.name in checks])
            configs = load_project(self.root).find_configs()
            chosen = [item for item in gate.items(configs) if items in item.name]
            gate.refuse_machine(chosen)
            return {result.name: result for result in gate.run(chosen)}
        finally:
            session.close()
