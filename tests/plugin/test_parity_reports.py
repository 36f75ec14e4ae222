"""Parity that fails: what a terminal, a log and the reports say of it; and what is found when it does not."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from patchgen_core.checks.checked_in.compare import fix
from tests.conftest import Workspace
from tests.plugin.conftest import environment, run
from tests.plugin.support import section

pytestmark = [pytest.mark.torch, pytest.mark.slow]

PREAMBLE = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.llama.modeling_llama", "patched_modeling_{name}.py")
config.exclude_from_output("LlamaForQuestionAnswering", "LlamaForSequenceClassification")
config.exclude_from_output("LlamaForTokenClassification")
"""
BROKEN = """
@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    return self.down_proj(self.act_fn(self.gate_proj(x)) + self.up_proj(x))
"""
SLOTS = """
config.add_import("patchgen_core.ops", names=["OpSlot"])
config.add_post_import_block('slot = OpSlot("swiglu_mlp", "standard")')

@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    if slot.has_kernel:
        return self.down_proj(slot(self.gate_proj(x), self.up_proj(x)))
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""
DECLARED = """
config.allow("PG301", "never used", "LlamaMLP")
config.tolerate(6, "its own kernels", implementation="liger_kernels")
"""
RARE = """
config.allow("PG302", "never so long", "LlamaMLP.forward")

@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    if x.shape[1] > 5000:
        return self.down_proj(x)
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""
CONFIGS = {"broken": BROKEN, "slots": DECLARED + SLOTS, "rare": RARE}
SETTINGS = '\n[tool.patchgen.parity]\ndtypes = ["float32"]\n'
ARGUMENTS = ("--patchgen-checks=parity", "-n0", "proj")


class Runs:
    """A project with one config that is broken, one with slots and one that has drifted, and two runs over all.

    Between the runs, what has drifted is mended. A process that runs models takes seconds to start.
    """

    def __init__(self, work: Workspace) -> None:
        self.work = work
        for name, text in CONFIGS.items():
            write(work, text, name)
        config = work.models / path_of("rare")
        config.write_text(config.read_text(encoding="utf-8").replace("> 5000", "> 6000"), encoding="utf-8")
        self.first = session(work, "--patchgen-report=out/gate.json")
        assert fix(work.check()).exit_code == 0
        chosen = "broken or rare or eager"
        colours = session(work, "-v", "--color=yes", "-k", chosen, "--patchgen-report=gate.md", COLUMNS="100")
        self.second = re.sub(r"\x1b\[[\d;]*m", "", colours)

    def place(self, name: str, text: str) -> str:
        """The file and line of a config's line that begins with a text."""
        lines = (self.work.models / path_of(name)).read_text(encoding="utf-8").splitlines()
        return f"proj/models/{path_of(name)}:{next(n for n, line in enumerate(lines, 1) if line.startswith(text))}"


def path_of(name: str) -> str:
    return f"{name}/{name}_patch_gen_config.py"


def write(work: Workspace, text: str, name: str) -> None:
    work.config(text, path_of(name), PREAMBLE.format(name=name))
    fix(work.check())


def session(work: Workspace, *arguments: str, **more: str) -> str:
    """What a run of parity in a process of its own prints."""
    without = ("-p", "no:randomly", "-p", "no:anyio")
    command = [sys.executable, "-m", "pytest", f"--rootdir={work.root}", *without, *ARGUMENTS, *arguments]
    env = environment(work, **more)
    return subprocess.run(command, cwd=work.root, env=env, capture_output=True, text=True).stdout


def make_project(work: Workspace) -> Workspace:
    """Have its configs run in one dtype."""
    settings = work.root / "pyproject.toml"
    settings.write_text(settings.read_text(encoding="utf-8") + SETTINGS, encoding="utf-8")
    return work


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(make_project(Workspace(tmp_path_factory.mktemp("runs"))))


@pytest.fixture
def llama(work: Workspace) -> Workspace:
    """A project whose configs run in one dtype."""
    return make_project(work)


def test_outcomes(runs: Runs) -> None:
    assert "1 failed, 4 passed" in runs.first.splitlines()[-1]
    assert "1 failed, 3 passed" in runs.second.splitlines()[-1]


def test_failure_names_the_patch_and_shows_figures(runs: Runs) -> None:
    said = section(runs.first, "FAILURES")
    where = runs.place("broken", "@config.override_method")
    module = "'model.layers.0.mlp' (LlamaMLP)"
    message = f"LlamaForCausalLM differs from Hugging Face eager in {module}: look at the patch of 'LlamaMLP.forward'"
    assert said[1] == f"{where}: error: {message}"
    assert any(
        line.endswith("return self.down_proj(self.act_fn(self.gate_proj(x)) + self.up_proj(x))") for line in said
    )
    assert any(line.startswith("  The worst: ") for line in said)
    titles = [line for line in said if re.fullmatch(r"LlamaForCausalLM, batch '\w+', float32: \w+", line)]
    assert [title.rpartition(" ")[2] for title in titles] == ["tensors", "layers"]
    assert sum(line.endswith("differs") for line in said) < 20
    assert any("-v or --patchgen-report shows all" in line for line in said)

    folder = runs.work.root / "out"
    results = json.loads((folder / "gate.json").read_text(encoding="utf-8"))["results"]
    (record,) = (result for result in results if result["path"].startswith("proj/models/broken/"))
    assert record["item"].endswith("::parity[patched]")
    figures = {table["title"].rpartition(": ")[2]: table for table in record["tables"]}
    assert set(figures) == {"tensors", "layers", "layers, backward"}
    for table in record["tables"]:
        for row in table["rows"]:
            cells = dict(zip(table["columns"], row))
            assert float(cells["relative"]) >= 0
            assert (float(cells["relative"]) > float(cells["allowed"])) == (cells["verdict"] == "differs")
    assert any(name.endswith(": logits") for name in record["figures"])
    picture = folder / "gate-parity-proj.models.broken.broken_patch_gen_config-patched.svg"
    assert record["picture"] == f"out/{picture.name}"
    assert "they differ from model.layers.0.mlp" in picture.read_text(encoding="utf-8")
    assert f"picture: out/{picture.name}" in section(runs.first, "patchgen")


def test_verbose_failure_and_markdown_show_every_figure(runs: Runs) -> None:
    said = "\n".join(section(runs.second, "FAILURES"))
    assert "-v or --patchgen-report" not in said
    text = (runs.work.root / "gate.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(model\.layers[^`]*mlp[^`]*)`", text, flags=re.MULTILINE)
    assert len(set(rows)) >= 10
    assert all(row.rpartition(".")[2] in said for row in rows)
    assert "![errors by layer](<gate-parity-proj.models.broken.broken_patch_gen_config-patched.svg>)" in text


def test_findings_are_told_once_for_all_implementations(runs: Runs) -> None:
    said = section(runs.first, "patchgen")
    idle = f"{runs.place('slots', 'config.allow')}: warning: PG300 allow: PG301 finds nothing of 'LlamaMLP' here"
    place = runs.place("slots", "config.tolerate")
    unknown = f"{place}: warning: PG300 tolerate: there is no implementation 'liger_kernels' here"
    assert [said.count(line) for line in (idle, unknown)] == [1, 1]
    assert "Run 'patchgen rule PG300' for an explanation of the findings." in said

    assert "slots_patch_gen_config.py::parity[liger_kernel]" not in runs.second
    said = section(runs.second, "patchgen")
    assert idle not in said  # the other implementation may need it
    assert unknown in said


def test_no_allowance_is_idle_where_the_module_has_drifted(runs: Runs) -> None:
    for output in (runs.first, runs.second):
        assert not [line for line in output.splitlines() if "rare" in line and "PG300" in line]
    assert "allowed: PG302" not in runs.first
    assert any("allowed: PG302" in line for line in section(runs.second, "patchgen"))


def test_idle_allowance_of_parity_is_no_unknown_rule(pytester: pytest.Pytester, llama: Workspace) -> None:
    write(llama, 'config.allow("PG301", "never used")\nconfig.allow("PG399", "no such rule")\n' + SLOTS, "slots")
    result = run(pytester, llama, "--patchgen-checks=contract", "-n0", "proj")
    result.assert_outcomes(failed=1)
    said = section(result.stdout.str(), "FAILURES")
    assert [line.partition("error: ")[2] for line in said if "error: " in line] == [
        "PG200 allow: there is no rule 'PG399'"
    ]
