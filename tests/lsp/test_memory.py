"""What an editor's process holds of files that nobody has looked at for long."""

from __future__ import annotations

import gc
import weakref

import pytest

pytest.importorskip("pygls", reason="needs the extra lsp")

from patchgen_lsp.analysis.open_texts import MOST_LINES
from patchgen_lsp.analysis.packed_texts import PackedTexts
from patchgen_lsp.analysis.workbench import MOST_ANALYSES, Workbench
from tests.conftest import PATCH, PREAMBLE, UPSTREAM, UPSTREAM_TEXT, Workspace


def test_upstreams_syntax_trees_go_once_other_configs_have_been_looked_at(work: Workspace) -> None:
    long = UPSTREAM_TEXT + "\n" * (MOST_LINES // (MOST_ANALYSES + 1))
    names = [UPSTREAM.replace("toy", f"toy{number}") for number in range(MOST_ANALYSES + 4)]
    upstreams = [work.upstream(long, module) for module in names]
    configs = [
        work.config(PATCH, f"{module.split('.')[-2]}/x_gpu_patch_gen_config.py", PREAMBLE.replace(UPSTREAM, module))
        for module in names
    ]
    bench = Workbench(work.project)
    bench.show({})
    assert bench.judge(configs[0]).results
    tree = weakref.ref(bench.sources.get(upstreams[0]))
    for config in configs[1:]:
        bench.show({})
        assert bench.judge(config).results
    bench.show({})
    gc.collect()
    assert tree() is None
    assert bench.sources.held(upstreams[-1]) is not None
    assert bench.judge(configs[0]).results


def test_packed_texts_come_back_as_they_were() -> None:
    texts = PackedTexts()
    texts["key"] = text = "x = 'ünfug \udcff'\r\n" * 200
    assert texts["key"] == text
    assert "other" not in texts
