"""Rules look at edited code: findings point at the edit's line, and the rest of the target is upstream's."""

from __future__ import annotations

from patchgen_core.checks.parity.patched import patched_code
from tests.conftest import PREAMBLE, Workspace
from tests.contract.support import examine, made

UPSTREAM = """
import torch
from torch import nn


def scale(x, factor):
    return x * factor


class Layer(nn.Module):
    def forward(self, x, mask=None):
        residual = x
        x = scale(x, 2, wrong=True)
        x = torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask, dropout_p=0.0, is_causal=False)
        if mask is None:
            x = x + residual
        return x
"""
FIRST = PREAMBLE.count("\n") + 1


def lines_of(work: Workspace, config: str, code: str) -> list[tuple[str, int]]:
    """The level of what a rule finds, and the line of the config, counted from the preamble's end."""
    work.upstream(UPSTREAM)
    work.config(config)
    result = examine(work, select=[code])
    problems = [("error", p) for p in result.errors] + [("warning", p) for p in result.warnings]
    return [(level, p.location.line - FIRST) for level, p in problems if p.location is not None]


def test_a_finding_points_at_the_line_of_the_edit(work: Workspace) -> None:
    config = """
        @config.edit_method("Layer.forward", at="residual = x")
        def before(x):
            first = 1
            x = scale(x)
            ...


        @config.edit_method("Layer.forward", at="if mask is None:")
        def after(x):
            ...
            x = scale(
                x, 1, third=2)
        """
    levels = lines_of(work, config, "PG202")
    assert [line for level, line in levels if level == "error"] == [4, 12]


def test_what_upstream_has_around_an_edit_is_upstreams(work: Workspace) -> None:
    """The misfit call stands in the same function, and no edit has to do with it."""
    config = """
        @config.edit_method("Layer.forward")
        def before(x):
            x = x + 1
            ...
        """
    assert [level for level, _ in lines_of(work, config, "PG202")] == ["warning"]


def test_an_edit_without_an_effect_is_found(work: Workspace) -> None:
    config = """
        @config.edit_method("Layer.forward")
        def nothing(x):
            ...
        """
    assert lines_of(work, config, "PG214") == [("warning", 1)]


def test_an_added_parameter_is_a_changed_signature(work: Workspace) -> None:
    config = 'config.add_parameter("Layer.forward", "y", before="x")\n'
    assert ("warning", 0) in lines_of(work, config, "PG201")


def test_edits_of_a_class_leave_its_methods_upstreams(work: Workspace) -> None:
    config = """
        @config.edit_class("Layer")
        class Marked:
            marked = True
        """
    assert [level for level, _ in lines_of(work, config, "PG202")] == ["warning"]


def test_only_the_lines_of_edits_count_as_patched(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    work.config(
        """
        @config.edit_method("Layer.forward", at="if mask is None:")
        def around(self, x):
            if self.training:
                ...
            else:
                x = x * 3


        config.replace_code("Layer.forward", "x + residual", "residual - x")
        """
    )
    artifact = made(work)
    first, second = patched_code(artifact, artifact.text)
    lines = artifact.text.split("\n")
    assert [lines[n - 1].strip() for n in first.fresh] == ["if self.training:", "x = x * 3"]
    assert [lines[n - 1].strip() for n in second.fresh] == ["x = residual - x"]
    assert [code.declared.line - FIRST for code in (first, second)] == [1, 9]
    assert first.lines == second.lines
