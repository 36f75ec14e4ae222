"""What is said of a config after many edits is what a fresh run says of its text."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="needs the extra lsp")

from patchgen_core.checks.result import CheckResult
from patchgen_core.errors import Problem
from patchgen_lsp.analysis.workbench import Workbench
from tests.conftest import CONFIG, Workspace, settle
from tests.lsp.editor import copy_zoo
from tests.lsp.random_typing import type_at_random

UPSTREAM = """
from torch import nn


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up_proj = nn.Linear(config.size, config.size)
        self.act = config.act

    def forward(self, x):
        return self.act(self.up_proj(x))


class Wide(MLP):
    def forward(self, x):
        return self.up_proj(x)


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.mlp = MLP(config)

    def forward(self, x):
        return self.mlp(x) + self.mlp.up_proj(x)
"""
FORWARD = """
@config.override_method("MLP.forward")
def mlp_forward(self, x{parameter}):
    return self.{attribute}(x)
"""
INIT = """
@config.override_method("MLP.__init__")
def mlp_init(self, config):
    nn.Module.__init__(self)
    {body}
"""
HELPER = """
@config.add_helper
def set_late(mlp):
    mlp.late = 1
"""


def forward(attribute: str, parameter: str = "") -> str:
    return FORWARD.format(attribute=attribute, parameter=parameter)


def init(body: str) -> str:
    return INIT.format(body=body)


EDITS = (
    (forward("up_proj"), ""),
    (forward("late"), "PG226"),
    (forward("late") + HELPER, ""),
    (forward("late") + HELPER.replace("mlp.late", "mlp.later"), "PG226"),
    (forward("late") + init("self.late = self.up_proj = self.act = config.act"), ""),
    (forward("late") + init("self.late = self.act = config.act"), "PG222"),
    (forward("late") + init("setattr(self, config.name, 1)"), ""),
    (forward("up_proj", ", scale"), "PG202"),
    (forward("up_proj", ", scale=1"), ""),
    (forward("late").replace("MLP.", "Wide."), "PG226"),
    (forward("up_proj", ", scale=1").replace("self.up_proj(x)", "self.up_proj( x )"), ""),
    (forward("late").replace("return ", "x  =  x\n    return "), "PG226"),
    (forward("up_proj") + "\n\ndef half(", "not valid Python"),
    (forward("up_proj"), ""),
)
"""Texts of a config, typed one after the other, and what one of their findings says; empty for none about members."""


def problems(results: tuple[CheckResult, ...]) -> list[Problem]:
    return [problem for result in results for problem in (*result.errors, *result.warnings)]


def test_findings_after_edits_are_those_of_a_fresh_run(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    settle(work, forward("up_proj"))
    path = work.models / CONFIG
    before = path.read_text().partition("@config.")[0]
    bench = Workbench(work.project)
    for text, about in EDITS:
        texts = {path: before + text.lstrip("\n")}
        bench.show(texts)
        fresh = Workbench(work.project)
        fresh.show(texts)
        now, anew = bench.analyse(path), fresh.analyse(path)
        assert (now.results, now.problems) == (anew.results, anew.problems)
        assert [made.text for made in now.artifacts] == [made.text for made in anew.artifacts]
        titles = [problem.title for problem in (*now.problems, *problems(now.results))]
        assert any(about in title for title in titles) if about else not _about_members(titles), (text, titles)


def test_what_was_made_before_keeps_its_own_lines(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    settle(work, forward("up_proj"))
    path = work.models / CONFIG
    bench = Workbench(work.project)
    [earlier] = bench.analyse(path).artifacts
    lines = {name: node.lineno for name, node in earlier.source.definitions}
    bench.show({path: path.read_text().replace("return self.up_proj(x)", "x = x\n\n    return self.up_proj(x)")})
    [later] = bench.analyse(path).artifacts
    moved = {name: node.lineno for name, node in later.source.definitions}
    assert moved["Layer.forward"] > lines["Layer.forward"]
    assert {name: node.lineno for name, node in earlier.source.definitions} == lines


def _about_members(titles: list[str]) -> bool:
    return any(code in title for title in titles for code in ("PG202", "PG222", "PG226"))


@pytest.mark.slow
def test_findings_while_typing_at_random_in_the_zoo_are_those_of_a_fresh_run(tmp_path: Path) -> None:
    counts = type_at_random(copy_zoo(tmp_path), 150, 8)
    assert {"config changed", "error", "PG203", "PG204", "PG226"} <= set(counts), counts
