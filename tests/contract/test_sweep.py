"""A fixed sample of the sweep over transformers, and what the sweep itself can see. `make sweep` runs all of it."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from patchgen_core.syntax.module import Module
from patchgen_core.syntax.source import read_source
from patchgen_core.upstream.module import find_upstream
from tests.syntax.compiled import loaded
from tools import sweep_findings
from tools.sweep import (
    Absolute,
    Result,
    choose_targets,
    config_text,
    contracts,
    difference,
    fates,
    load,
    main,
    project_of,
    report,
    sweep,
)
from tools.sweep_findings import SweepFinding

pytestmark = pytest.mark.torch

SAMPLE = {
    "auto.modeling_auto": "a class under TYPE_CHECKING, tables of names",
    "bark.modeling_bark": "relative imports in an if",
    "encoder_decoder.modeling_encoder_decoder": "relative imports inside functions",
    "deformable_detr.modeling_deformable_detr": "a method decorated by a call",
    "granitemoehybrid.modeling_granitemoehybrid": "a class with a keyword: TypedDict, total=False",
    "llama.modeling_llama": "classes on one line",
    "mra.modeling_mra": "a relative import in a function, below a global statement",
    "qwen2_audio.modeling_qwen2_audio": "properties with setters",
    "qwen3_omni_moe.modeling_qwen3_omni_moe": "the longest file",
    "rag.modeling_rag": "relative imports in branches of methods, static and class methods",
    "timm_wrapper.modeling_timm_wrapper": "an optional dependency imported in an if",
    "xlstm.modeling_xlstm": "most of its classes in an if, one name in both branches",
}


@pytest.mark.parametrize("module", SAMPLE)
@pytest.mark.mostly_slow(1)
def test_generating_gives_back_upstreams_tree(module: str, tmp_path: Path) -> None:
    result = sweep(f"transformers.models.{module}", tmp_path, every_method=True)
    assert result.unpatched == ""
    assert result.failures == []
    assert result.imported == []
    assert sum(result.classes.values())


@pytest.mark.parametrize("module", SAMPLE)
@pytest.mark.mostly_slow(1)
def test_rules_find_nothing_in_upstreams_own_code(module: str, tmp_path: Path) -> None:
    found = contracts(f"transformers.models.{module}", tmp_path)
    assert [str(entry) for entry in sweep_findings.unexpected(found)] == []
    assert {entry.mode for entry in found} == {"own"}


@pytest.mark.parametrize("module", SAMPLE)
@pytest.mark.mostly_slow(4)
def test_names_mean_what_python_takes_them_for(module: str) -> None:
    source = read_source(find_upstream(f"transformers.models.{module}").path)
    uses = Module(source).uses.items()
    evaluated = {name for name, entries in uses if any(entry.moment != "annotation" for entry in entries)}
    assert evaluated - {"__name__"} == loaded(source.text)


def test_a_patch_that_changes_something_is_seen() -> None:
    expected = ast.parse("def f(x):\n    if x:\n        return [1, 2]\n")
    assert difference(expected, ast.parse("def f(x):\n    if x:  # more\n        return [1,\n2]\n")) == ""
    found = difference(expected, ast.parse("def f(x):\n    if x:\n        return [1, 3]\n"))
    assert found == "upstream's line 3: expected 2, got 3"
    found = difference(expected, ast.parse("def f(x):\n    if x:\n        return [1]\n"))
    assert found == "upstream's line 3: expected 2, got None"


def test_relative_imports_start_from_the_modules_package() -> None:
    tree = Absolute("acme.models.toy").visit(ast.parse("def f():\n    from ... import a\n    from .b import c\n"))
    assert ast.unparse(tree) == "def f():\n    from acme import a\n    from acme.models.toy.b import c"


UPSTREAM = '''
if FAST:
    class Norm(Base): ...
else:
    class Norm:
        @property
        def size(self): return 1
        def forward(self, x): return x

class Out(dict):
    x: int

class Model:
    def forward(self, x):
        from .other import (
            y,
        )
        return """
    kept
""" + y
'''


def test_every_class_gets_a_patch_with_its_own_text() -> None:
    tree = ast.parse(UPSTREAM)
    assert [(cls.lineno, fate) for cls, fate in fates(tree)] == [
        (3, "left alone"),
        (5, "overridden"),
        (10, "replaced"),
        (13, "overridden"),
    ]
    assert [target.name for target in choose_targets(tree)] == ["Norm.size", "Out", "Model.forward"]
    every = ["Norm.size", "Norm.forward", "Out", "Model.forward"]
    assert [target.name for target in choose_targets(tree, every_method=True)] == every
    text = config_text("acme.toy.modeling_toy", UPSTREAM, tree, choose_targets(tree))
    assert text.endswith(
        '''
config = PatchConfig("acme.toy.modeling_toy", "patched_modeling_toy.py")

@config.override_method("Norm.size")
def norm_size_0(self): return 1

@config.replace_class("Out")
class Out(dict):
    x: int

@config.override_method("Model.forward")
def model_forward_2(self, x):
    from acme.toy.other import y


    return """
    kept
""" + y
'''
    )


def test_report_says_how_many_of_how_many() -> None:
    good = Result("a.modeling_a", 10, Counter({("overridden", False): 2, ("replaced", True): 1}), Counter(plain=2))
    bad = Result("b.modeling_b", 5, Counter({("overridden", False): 1}), Counter(setter=1))
    bad.unpatched, bad.failures = "upstream's line 1: expected 1, got 2", ["B.f: not valid Python"]
    bad.imported = ["b.modeling_b, config 'own': it iterates over b.C"]
    assert report([good, bad], 3.2, 2).split(":", 1)[1] == (
        """ 2 modeling files, 15 lines; 3 s with 2 processes
(a) no patch: 1 of 2 files give back upstream's tree
(b) own text: 3 of 4 patches give back upstream's tree
                                                             module  in if
    classes with a method overridden                              3      0
    classes without a method, replaced as a whole                 0      1
    classes without a method, in a branch: left alone             0      0
    classes                                                       3      1
    methods: 2 plain, 1 setter
imported for real: b.modeling_b, config 'own': it iterates over b.C
(a) b.modeling_b: upstream's line 1: expected 1, got 2
(b) b.modeling_b: B.f: not valid Python"""
    )


DEBERTA = sweep_findings.UPSTREAM_DEFECTS[0]
FINDINGS = [
    SweepFinding("none", DEBERTA.code, f"a.{DEBERTA.module}", 7, f"upstream's own: 'x' {DEBERTA.part}: it takes (y)"),
    SweepFinding("own", DEBERTA.code, f"a.{DEBERTA.module}", 9, f"'x' {DEBERTA.part}: it takes (y)"),
    SweepFinding("own", "PG214", "a.modeling_a", 3, "'A.f' is upstream's own"),
    SweepFinding("own", "PG214", "a.modeling_a", 5, "'A.g' is upstream's own"),
]
WRONG = [
    SweepFinding("none", "PG214", "a.modeling_a", 3, "an import that nothing uses"),
    SweepFinding("own", DEBERTA.code, f"a.{DEBERTA.module}", 11, "'x' calls 'y'"),
    SweepFinding("own", DEBERTA.code, "a.modeling_a", 11, DEBERTA.part),
    SweepFinding("own", sweep_findings.CRASH, "a.modeling_a", 0, "IndexError"),
]


def test_findings_are_told_from_what_is_known() -> None:
    assert sweep_findings.unexpected(FINDINGS) == []
    assert sweep_findings.unexpected([*WRONG, *FINDINGS]) == WRONG


def test_findings_are_listed_by_rule() -> None:
    rows = sweep_findings.report([*WRONG, *FINDINGS], 2).split("\n")
    assert rows == [
        "(c) contracts: 4 findings to look into in 2 files, without a patch and with own text",
        "    PG202",
        "        modeling_deberta:11 (own) 'x' calls 'y'",
        f"        modeling_a:11 (own) {DEBERTA.part}",
        "    PG214",
        "        modeling_a:3 (none) an import that nothing uses",
        "    crash",
        "        modeling_a:0 (own) IndexError",
        f"    PG202 defect of transformers: modeling_deberta:7 (none), modeling_deberta:9 (own): {DEBERTA.part}: "
        f"{DEBERTA.why}",
        f"    PG214 2 times: {sweep_findings.LITERAL['PG214']}",
    ]


def test_a_rule_that_raises_is_a_finding(tmp_path: Path) -> None:
    config = tmp_path / "toy_patch_gen_config.py"
    config.write_text('from patchgen import PatchConfig\nconfig = PatchConfig("transformers.nothing", "a.py")\n')
    loaded, sources = load(config, tmp_path)
    found = sweep_findings.examine("none", project_of(tmp_path), loaded, sources)
    assert [(entry.code, entry.module) for entry in found] == [(sweep_findings.CRASH, "transformers.nothing")]
    assert "upstream has no module 'transformers.nothing'" in found[0].message


@pytest.mark.slow
def test_command_fails_for_findings_that_are_not_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--files", "modeling_deberta", "--jobs", "1"]
    assert main(arguments) == 0
    assert f"PG202 defect of transformers: {DEBERTA.module}:" in capsys.readouterr().out
    monkeypatch.setattr(sweep_findings, "UPSTREAM_DEFECTS", ())
    assert main(arguments) == 1
    assert "(c) contracts: 2 findings to look into in 1 files" in capsys.readouterr().out


def test_command_says_when_nothing_matches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--files", "modeling_nothing"])
    assert ended.value.code == 2
    assert "no modeling file matches 'modeling_nothing'" in capsys.readouterr().err
