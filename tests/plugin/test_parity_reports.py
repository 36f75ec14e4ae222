"""Parity that fails: what a terminal, a log and the reports say of it; and what is found when it does not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from patchgen_core.drift import fix
from tests.conftest import CONFIG as PATH
from tests.conftest import Workspace
from tests.plugin.conftest import CONFIG, run
from tests.plugin.support import section

PREAMBLE = """
from patchgen import PatchConfig

config = PatchConfig("transformers.models.llama.modeling_llama", "patched_modeling_toy_gpu.py")
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
SETTINGS = '\n[tool.patchgen.parity]\ndtypes = ["float32"]\n'
ARGUMENTS = ("--patchgen-checks=parity", "-n0", "proj")


@pytest.fixture
def llama(work: Workspace) -> Workspace:
    """A project whose configs run in one dtype."""
    settings = work.root / "pyproject.toml"
    settings.write_text(settings.read_text(encoding="utf-8") + SETTINGS, encoding="utf-8")
    return work


def write(work: Workspace, text: str) -> None:
    work.config(text, preamble=PREAMBLE)
    fix(work.check())


def place(work: Workspace, text: str) -> str:
    """The file and line of a config's line that begins with a text."""
    lines = (work.models / PATH).read_text(encoding="utf-8").splitlines()
    return f"{CONFIG}:{next(n for n, line in enumerate(lines, 1) if line.startswith(text))}"


def test_failure_names_the_patch_and_shows_figures(pytester: pytest.Pytester, llama: Workspace) -> None:
    write(llama, BROKEN)
    result = run(pytester, llama, *ARGUMENTS, "--patchgen-report=out/gate.json")
    result.assert_outcomes(failed=1)
    said = section(result.stdout.str(), "FAILURES")
    where = place(llama, "@config.override_method")
    module = "'model.layers.0.mlp' (LlamaMLP)"
    message = f"LlamaForCausalLM parts from Hugging Face eager in {module}: look at the patch of 'LlamaMLP.forward'"
    assert said[1] == f"{where}: error: {message}"
    assert any(
        line.endswith("return self.down_proj(self.act_fn(self.gate_proj(x)) + self.up_proj(x))") for line in said
    )
    assert any(line.startswith("  The worst: ") for line in said)
    titles = [line for line in said if re.fullmatch(r"LlamaForCausalLM, batch '\w+', float32: \w+", line)]
    assert [title.rpartition(" ")[2] for title in titles] == ["tensors", "layers"]
    assert sum(line.endswith("differs") for line in said) < 20
    assert any("-v or --patchgen-report shows all" in line for line in said)

    folder = llama.root / "out"
    (record,) = json.loads((folder / "gate.json").read_text(encoding="utf-8"))["results"]
    assert record["item"].endswith("::parity[patched]")
    figures = {table["title"].rpartition(": ")[2]: table for table in record["tables"]}
    assert set(figures) == {"tensors", "layers", "layers, backward"}
    for table in record["tables"]:
        for row in table["rows"]:
            cells = dict(zip(table["columns"], row))
            assert float(cells["relative"]) >= 0
            assert (float(cells["relative"]) > float(cells["allowed"])) == (cells["verdict"] == "differs")
    assert any(name.endswith(": logits") for name in record["figures"])
    picture = folder / "gate-parity-proj.models.toy.toy_gpu_patch_gen_config-patched.png"
    assert record["picture"] == f"out/{picture.name}"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"picture: out/{picture.name}" in section(result.stdout.str(), "patchgen")


def test_verbose_failure_and_markdown_show_every_figure(pytester: pytest.Pytester, llama: Workspace) -> None:
    write(llama, BROKEN)
    result = run(pytester, llama, *ARGUMENTS, "-v", "--patchgen-report=gate.md", "--color=yes", COLUMNS="100")
    said = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(section(result.stdout.str(), "FAILURES")))
    assert "-v or --patchgen-report" not in said
    text = (llama.root / "gate.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(model\.layers[^`]*mlp[^`]*)`", text, flags=re.MULTILINE)
    assert len(set(rows)) >= 10
    assert all(row.rpartition(".")[2] in said for row in rows)
    assert "![errors by layer](<gate-parity-proj.models.toy.toy_gpu_patch_gen_config-patched.png>)" in text


def test_findings_are_told_once_for_all_implementations(pytester: pytest.Pytester, llama: Workspace) -> None:
    declared = """
config.allow("PG301", "never used", "LlamaMLP")
config.tolerate(6, "its own kernels", implementation="liger_kernels")
"""
    write(llama, declared + SLOTS)
    result = run(pytester, llama, *ARGUMENTS, "--patchgen-report=gate.json")
    result.assert_outcomes(passed=3)
    said = section(result.stdout.str(), "patchgen")
    idle = f"{place(llama, 'config.allow')}: warning: PG300 allow: PG301 finds nothing of 'LlamaMLP' here"
    unknown = (
        f"{place(llama, 'config.tolerate')}: warning: PG300 tolerate: there is no implementation 'liger_kernels' here"
    )
    assert [said.count(line) for line in (idle, unknown)] == [1, 1]
    assert "Run 'patchgen rule PG300' for what is behind the findings." in said

    result = run(pytester, llama, *ARGUMENTS, "-k", "eager", "-v")
    said = section(result.stdout.str(), "patchgen")
    assert idle not in said  # the other implementation may need it
    assert unknown in said


def test_no_allowance_is_idle_where_the_module_has_drifted(pytester: pytest.Pytester, llama: Workspace) -> None:
    rare = """
@config.override_method("LlamaMLP.forward")
def mlp_forward(self, x):
    if x.shape[1] > 1000:
        return self.down_proj(x)
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
"""
    write(llama, 'config.allow("PG302", "never so long", "LlamaMLP.forward")\n' + rare)
    config = llama.models / PATH
    config.write_text(config.read_text(encoding="utf-8").replace("> 1000", "> 2000"), encoding="utf-8")
    result = run(pytester, llama, *ARGUMENTS, "-v")
    result.assert_outcomes(passed=1)
    assert "PG300" not in result.stdout.str()

    fix(llama.check())
    said = "\n".join(section(run(pytester, llama, *ARGUMENTS, "-v").stdout.str(), "patchgen"))
    assert "allowed: PG302" in said
    assert "PG300" not in said


def test_idle_allowance_of_parity_is_no_unknown_rule(pytester: pytest.Pytester, llama: Workspace) -> None:
    write(llama, 'config.allow("PG301", "never used")\nconfig.allow("PG399", "no such rule")\n' + SLOTS)
    result = run(pytester, llama, "--patchgen-checks=contract", "-n0", "proj")
    result.assert_outcomes(failed=1)
    said = section(result.stdout.str(), "FAILURES")
    assert [line.partition("error: ")[2] for line in said if "error: " in line] == [
        "PG200 allow: there is no rule 'PG399'"
    ]


def test_missing_matplotlib_is_told(pytester: pytest.Pytester, llama: Workspace, tmp_path: Path) -> None:
    write(llama, BROKEN)
    hiding = tmp_path / "hiding" / "sitecustomize.py"
    hiding.parent.mkdir()
    hiding.write_text("import sys\nsys.modules['matplotlib'] = None\n")
    result = run(pytester, llama, *ARGUMENTS, "--patchgen-report=gate.json", PYTHONPATH=str(hiding.parent))
    said = section(result.stdout.str(), "patchgen")
    assert "No picture of the errors by layer: that takes matplotlib (pip install 'pytest-patchgen[plot]')." in said
    assert "report: gate.json" in said
    assert not list(llama.root.glob("*.png"))
