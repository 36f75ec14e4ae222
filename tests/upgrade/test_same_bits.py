"""Two versions of a project's generated modules are compared bit by bit."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.upgrade import older
from tools.same_bits import main

GENERATED = "zoo/llama/generated/patched_modeling_llama_gpu.py"
LOGITS = "logits = self.lm_head(hidden_states)"


def make_version(folder: Path) -> Path:
    """Llama of the zoo, with its generated file as it is checked in."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(older.ZOO / "llama", folder / "zoo/llama", ignore=ignored)
    (folder / "zoo/__init__.py").write_text("from zoo import llama\n")
    (folder / "pyproject.toml").write_text(older.PYPROJECT)
    return folder / GENERATED


@pytest.mark.slow
def test_a_head_that_differs_by_a_millionth_is_told_from_those_that_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_version(tmp_path / "ours")
    theirs = make_version(tmp_path / "theirs")
    text = theirs.read_text()
    assert LOGITS in text
    theirs.write_text(text.replace(LOGITS, f"{LOGITS} * (1 + 1e-6)"))
    assert main([str(tmp_path / "ours"), str(tmp_path / "theirs"), version("transformers"), "llama"]) == 0
    lines = capsys.readouterr().out.splitlines()
    texts = dict(line.removeprefix("patched_modeling_llama_gpu: ").split(" ", 1) for line in lines)
    causal, tokens = texts["LlamaForCausalLM"], texts["LlamaForTokenClassification"]
    assert "unlike are" in causal
    assert [5e-7 < float(each) < 2e-6 for each in re.findall(r"logits by (\S+) of the largest", causal)][:1] == [True]
    same, of, *_ = [word for word in tokens.split() if word.isdigit()]
    assert same == of != "0", tokens
    assert "unlike" not in tokens
