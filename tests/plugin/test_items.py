"""The items of a config: what each proves, how it fails, and how it is mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import PATCH, PREAMBLE, UPSTREAM_TEXT, Workspace, generated
from tests.plugin.conftest import CONFIG, run

DRIFT, IMPORT, CONTRACT = (f"{CONFIG}::{check}" for check in ("drift", "import", "contract"))
ORPHANS = "pyproject.toml::orphans"
MODULE = "proj/models/toy/generated/patched_modeling_toy_gpu"
SECOND = """
second = PatchConfig("acme.models.toy.modeling_toy", "patched_modeling_toy_two.py")
"""


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def section(result: pytest.RunResult) -> list[str]:
    """The lines of the section *patchgen* at the end."""
    start = next(n for n, line in enumerate(result.outlines) if line.strip("= ") == "patchgen")
    rest = result.outlines[start + 1 :]
    return rest[: next(n for n, line in enumerate(rest) if line.startswith("="))]


def add_to_table(work: Workspace, line: str) -> None:
    pyproject = work.root / "pyproject.toml"
    pyproject.write_text(f"{pyproject.read_text()}{line}\n")


# --- drift, and configs that say nothing -----------------------------------------------------------


def test_clean_project(gated: Workspace, pytester: pytest.Pytester) -> None:
    result = run(pytester, gated, "--patchgen", "-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines([f"{item} PASSED*" for item in (DRIFT, IMPORT, CONTRACT, ORPHANS)])
    assert section(result)[-2] == "1 config, 4 checks: 4 ok."


def test_drift_fails_with_its_cause_and_a_diff(gated: Workspace, pytester: pytest.Pytester) -> None:
    edit(generated(gated), "return x * 2", "return x * 3")
    result = run(pytester, gated, "--patchgen")
    result.assert_outcomes(failed=1, passed=3)
    result.stdout.fnmatch_lines(
        [
            "*_ toy_gpu_patch_gen_config::drift _*",
            "edited by hand: Norm.forward changed",
            f"--- {MODULE}.py (checked in)",
            f"+++ {MODULE}.py (generated now)",
            "-        return x * 3",
            "+        return x * 2",
            "proj.models.toy.toy_gpu_patch_gen_config  drifted: edited by hand  ok      ok",
            "1 config, 4 checks: 3 ok, 1 drifted.",
            "Run 'pytest --patchgen-fix' to rewrite what drifted.",
            f"FAILED {DRIFT} - edited by hand: Norm.forward changed",
        ],
        consecutive=False,
    )
    result.stdout.no_fnmatch_line("*def runtest*")


def test_config_that_does_not_load_is_one_failing_item(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.config("config.exclude_from_output('Nrom')\n")
    result = run(pytester, gated, "--patchgen", "-rs", "-v")
    result.assert_outcomes(failed=1, skipped=2, passed=1)
    result.stdout.fnmatch_lines(
        [
            f"{CONFIG}:5: error: exclude_from_output: upstream defines no 'Nrom'",
            "  Did you mean 'Norm'?",
            "1 config, 4 checks: 1 ok, 2 skipped, 1 error.",
            f"SKIPPED * {CONFIG}:1: there is nothing to import; the drift check says why",
            f"SKIPPED * {CONFIG}:1: there is nothing to check; the drift check says why",
        ]
    )
    assert not any("--patchgen-fix" in line for line in section(result))


@pytest.mark.parametrize("check", ["import", "contract"])
def test_config_that_does_not_load_fails_whatever_check_is_chosen(
    gated: Workspace, pytester: pytest.Pytester, check: str
) -> None:
    gated.config("config.exclude_from_output('Nrom')\n")
    result = run(pytester, gated, f"--patchgen-checks={check}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"{CONFIG}:5: error: exclude_from_output: upstream defines no 'Nrom'"])


BROKEN_FILES = {
    "no Python": (b"config = = 1\n", ":1: error: not valid Python: invalid syntax"),
    "raises": (f"{PREAMBLE}{{}}['a']\n".encode(), ":5: error: the config cannot be loaded: KeyError: 'a'"),
    "exits": (b"raise SystemExit(0)\n", ":1: error: the config cannot be loaded: SystemExit: 0"),
    "makes none": (b"x = 1\n", ": error: it makes no PatchConfig called 'config'"),
    "no text": (b"x = '\xff'\n", ": error: cannot be read: *"),
}


@pytest.mark.parametrize(("text", "said"), BROKEN_FILES.values(), ids=BROKEN_FILES)
@pytest.mark.mostly_slow(3)
def test_file_that_is_no_config_fails_with_its_error(
    gated: Workspace, pytester: pytest.Pytester, text: bytes, said: str
) -> None:
    (gated.root / CONFIG).write_bytes(text)
    result = run(pytester, gated, DRIFT)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"{CONFIG}{said}"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_one_broken_config_does_not_touch_the_others(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.config("config.nothing_like_it()\n", "other/other_gpu_patch_gen_config.py")
    result = run(pytester, gated, "--patchgen", "-v")
    result.assert_outcomes(failed=1, skipped=2, passed=4)
    result.stdout.fnmatch_lines([f"{DRIFT} PASSED*", f"{IMPORT} PASSED*", f"{CONTRACT} PASSED*"])


def test_several_configs_of_one_file_share_its_items(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.config(PATCH + SECOND)
    result = run(pytester, gated, "--patchgen", DRIFT)
    result.assert_outcomes(failed=1)
    label = "proj.models.toy.toy_gpu_patch_gen_config:second"
    result.stdout.fnmatch_lines([f"drifted  {label} *", "*patched_modeling_toy_two.py is missing"])
    result = run(pytester, gated, "--patchgen-fix", "-v")
    result.assert_outcomes(passed=4)
    assert "2 configs, 7 checks: 6 ok, 1 fixed." in section(result)


@pytest.mark.parametrize("arguments", [[], ["-n1"]], ids=["serially", "-n1"])
def test_two_configs_that_write_one_file_fail_both(
    gated: Workspace, pytester: pytest.Pytester, arguments: list[str]
) -> None:
    before = generated(gated).read_bytes()
    gated.config("", "toy/toy_npu_patch_gen_config.py")
    result = run(pytester, gated, "--patchgen-fix", "--patchgen-checks=drift", *arguments)
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines_random(
        [
            "*_ toy_gpu_patch_gen_config::drift _*",
            "*_ toy_npu_patch_gen_config::drift _*",
            f"{CONFIG}:4: error: 'patched_modeling_toy_gpu.py' is also written by *.toy_npu_patch_gen_config",
            "*/toy_npu_*:4: error: 'patched_modeling_toy_gpu.py' is also written by *.toy_gpu_patch_gen_config",
        ]
    )
    assert generated(gated).read_bytes() == before


def test_legacy_configs_are_collected_and_other_modules_beside_them_are_not(
    gated: Workspace, pytester: pytest.Pytester
) -> None:
    add_to_table(gated, 'legacy_patches_prefix = "proj.models.toy.patches"')
    gated.config(PATCH.replace("* 2", "* 4"), "toy/patches/gpu.py")
    (gated.root / CONFIG).unlink()
    gated.write("proj/models/toy/patches/helpers.py", "raise RuntimeError\n")
    config = "proj/models/toy/patches/gpu.py"
    for arguments in (["--patchgen"], ["--patchgen", config], ["--patchgen", "proj"]):
        result = run(pytester, gated, "--co", "-q", *arguments)
        listed = [line for line in result.outlines if "models" in line]
        assert listed == [f"{config}::drift", f"{config}::import", f"{config}::contract"]
    result = run(pytester, gated, "--patchgen-fix", "-v")
    result.stdout.fnmatch_lines([f"{config}::drift FIXED*", f"{config}::import PASSED*"])
    assert "x * 4" in generated(gated).read_text()


# --- marks -----------------------------------------------------------------------------------------


def test_marks_and_names_choose_items(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.write("tests/test_own.py", "def test_own(): pass\n")
    choices = {
        ("-m", "patchgen"): [DRIFT, IMPORT, CONTRACT, ORPHANS],
        ("-m", "patchgen_drift"): [DRIFT, ORPHANS],
        ("-m", "patchgen_import"): [IMPORT],
        ("-m", "patchgen_contract"): [CONTRACT],
        ("-m", "not patchgen"): ["tests/test_own.py::test_own"],
        ("-k", "toy_gpu and drift"): [DRIFT],
        ("-k", "orphans"): [ORPHANS],
    }
    for choice, expected in choices.items():
        result = run(pytester, gated, "--patchgen", "--strict-markers", "--co", "-q", *choice)
        assert [line for line in result.outlines if "::" in line] == expected, choice


def test_marks_are_registered_without_the_gate(gated: Workspace, pytester: pytest.Pytester) -> None:
    text = "import pytest\n\n@pytest.mark.patchgen\n@pytest.mark.patchgen_drift\ndef test_own(): pass\n"
    gated.write("tests/test_own.py", text)
    run(pytester, gated, "--strict-markers", "tests").assert_outcomes(passed=1)
    result = run(pytester, gated, "--markers")
    marks = ["@pytest.mark.patchgen: *", *(f"@pytest.mark.patchgen_{c}: *" for c in ("drift", "import", "contract"))]
    result.stdout.fnmatch_lines(marks)


# --- import ----------------------------------------------------------------------------------------


ALL = '__all__ = ["Head", "Norm"]\n'


def test_name_in_all_that_is_not_defined(gated: Workspace, pytester: pytest.Pytester) -> None:
    generated(gated).write_text(f"{generated(gated).read_text()}\n__all__ = ['Norm', 'Tail']\n")
    result = run(pytester, gated, IMPORT)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"{CONFIG}:4: error: __all__ of patched_modeling_toy_gpu.py names 'Tail', which it does not define"]
    )


def test_name_of_upstreams_all_that_is_not_exported(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.upstream(UPSTREAM_TEXT + ALL)
    run(pytester, gated, "--patchgen-fix").assert_outcomes(passed=4)
    edit(generated(gated), f"\n{ALL}", '\n__all__ = ["Norm"]\n')
    result = run(pytester, gated, IMPORT)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"{CONFIG}:4: error: upstream's __all__ has 'Head', but patched_modeling_toy_gpu.py's does not"]
    )


def test_name_that_upstream_exports_and_the_module_lost(gated: Workspace, pytester: pytest.Pytester) -> None:
    edit(generated(gated), "def rotate(x)", "def _rotate(x)")
    result = run(pytester, gated, IMPORT)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            f"{CONFIG}:4: error: upstream exports 'rotate', which patched_modeling_toy_gpu.py does not define",
            "  If that is on purpose: config.exclude_from_output('rotate'). The file has drifted: *",
        ]
    )


def test_name_that_is_excluded_on_purpose(gated: Workspace, pytester: pytest.Pytester) -> None:
    gated.config("config.exclude_from_output('rotate')\n")
    run(pytester, gated, "--patchgen-fix", CONFIG).assert_outcomes(passed=3)
    assert "rotate" not in generated(gated).read_text().rpartition("# ====")[2]
    run(pytester, gated, IMPORT).assert_outcomes(passed=1)


def test_module_that_does_not_import_shows_its_line_and_the_config(
    gated: Workspace, pytester: pytest.Pytester
) -> None:
    edit(generated(gated), "class Norm:", "import acme_kernels.fast\n\n\nclass Norm:")
    lines = generated(gated).read_text().splitlines()
    number = lines.index("import acme_kernels.fast") + 1
    result = run(pytester, gated, IMPORT)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            f"{CONFIG}:4: error: patched_modeling_toy_gpu.py, line {number} does not import: "
            "ModuleNotFoundError: No module named 'acme_kernels'",
            "  Install it; if only some machines have it, add 'acme_kernels' to optional_packages in *",
            f"  > *{number} | import acme_kernels.fast",
        ]
    )


def test_optional_package_that_is_missing_skips_the_import(gated: Workspace, pytester: pytest.Pytester) -> None:
    add_to_table(gated, 'optional_packages = ["acme_kernels"]')
    edit(generated(gated), "class Norm:", "import acme_kernels.fast\n\n\nclass Norm:")
    result = run(pytester, gated, IMPORT, "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"SKIPPED * {CONFIG}:1: optional package 'acme_kernels' is not installed"])
    package = gated.site / "acme_kernels"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "fast.py").touch()
    run(pytester, gated, IMPORT).assert_outcomes(passed=1)


def test_another_copy_of_the_package_is_no_import_of_this_one(gated: Workspace, pytester: pytest.Pytester) -> None:
    copy = gated.site / f"{MODULE}.py"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(generated(gated).read_bytes())
    for package in copy.relative_to(gated.site).parents[:-1]:
        (gated.site / package / "__init__.py").touch()
    result = run(pytester, gated, IMPORT)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"{CONFIG}:4: error: its name imports another file: '*/site/{MODULE}.py'"])


def test_import_happens_apart_from_the_session(gated: Workspace, pytester: pytest.Pytester) -> None:
    """A module that the session has imported cannot stand in for one that is missing."""
    gated.write("conftest.py", "import sys, types\nsys.modules['acme_kernels'] = types.ModuleType('acme_kernels')\n")
    edit(generated(gated), "class Norm:", "import acme_kernels\n\n\nclass Norm:")
    result = run(pytester, gated, IMPORT)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ModuleNotFoundError: No module named 'acme_kernels'"])


# --- fixing ----------------------------------------------------------------------------------------


def test_fix_rewrites_reports_and_passes(gated: Workspace, pytester: pytest.Pytester) -> None:
    clean = {path: path.read_bytes() for path in (generated(gated), generated(gated, ".diff"))}
    for path in clean:
        edit(path, "x * 2", "x * 3")
    result = run(pytester, gated, "--patchgen-fix", "-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["patchgen: *(fixing)", f"{DRIFT} FIXED*", f"{IMPORT} PASSED*"])
    said = section(result)
    assert [line for line in said if line.startswith("rewrote")] == [
        f"rewrote  {MODULE}.py",
        f"rewrote  {MODULE}.diff",
    ]
    assert "1 config, 4 checks: 3 ok, 1 fixed." in said
    assert {path: path.read_bytes() for path in clean} == clean
    result = run(pytester, gated, "--patchgen-fix", "-v")
    result.stdout.fnmatch_lines([f"{DRIFT} PASSED*"])
    assert not any(line.startswith("rewrote") for line in section(result))


def test_fix_makes_missing_files_and_imports_them_in_the_same_run(gated: Workspace, pytester: pytest.Pytester) -> None:
    generated(gated).unlink()
    generated(gated, ".diff").unlink()
    generated(gated).parent.rmdir()
    result = run(pytester, gated, "--patchgen")
    result.assert_outcomes(failed=1, skipped=1, passed=2)
    result.stdout.fnmatch_lines([f"*{MODULE}.py is missing", f"*{MODULE}.diff is missing"])
    result = run(pytester, gated, "--patchgen-fix", "-v")
    result.stdout.fnmatch_lines([f"{DRIFT} FIXED*", f"{IMPORT} PASSED*"])
    assert not gated.check().exit_code


def test_fix_imports_what_it_is_going_to_write(gated: Workspace, pytester: pytest.Pytester) -> None:
    edit(generated(gated), "class Norm:", "import acme_kernels\n\n\nclass Norm:")
    result = run(pytester, gated, "--patchgen-fix", "-v", IMPORT, DRIFT)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"{IMPORT} PASSED*", f"{DRIFT} FIXED*"])


def test_fix_leaves_a_config_with_errors_alone(gated: Workspace, pytester: pytest.Pytester) -> None:
    before = generated(gated).read_bytes()
    gated.config("config.exclude_from_output('Norm')\nconfig.override_method('Nrom.forward')\n")
    gated.config(PATCH, "other/other_gpu_patch_gen_config.py")
    result = run(pytester, gated, "--patchgen-fix", "-v")
    result.assert_outcomes(failed=1, skipped=2, passed=4)
    result.stdout.fnmatch_lines(["*/other_gpu_patch_gen_config.py::drift FIXED*", f"{DRIFT} FAILED*"])
    assert generated(gated).read_bytes() == before


def test_fix_of_a_path_mends_only_that(gated: Workspace, pytester: pytest.Pytester) -> None:
    edit(generated(gated), "x * 2", "x * 3")
    gated.config(PATCH, "other/other_gpu_patch_gen_config.py")
    run(pytester, gated, "--patchgen-fix", "proj/models/other").assert_outcomes(passed=3)
    result = run(pytester, gated, "--patchgen", "proj/models")
    result.assert_outcomes(failed=1, passed=6)
    assert "Run 'pytest --patchgen-fix proj/models' to rewrite what drifted." in section(result)
    result = run(pytester, gated, "--patchgen-checks=drift", "-k", "toy", "proj/models")
    command = "pytest --patchgen-fix --patchgen-checks=drift -k toy proj/models"
    assert f"Run '{command}' to rewrite what drifted." in section(result)


# --- orphans ---------------------------------------------------------------------------------------


def test_orphans_are_listed_and_removed(gated: Workspace, pytester: pytest.Pytester) -> None:
    orphans = [generated(gated, suffix).with_stem("patched_modeling_old") for suffix in (".py", ".diff")]
    for path in orphans:
        path.write_bytes(generated(gated, path.suffix).read_bytes())
    result = run(pytester, gated, "--patchgen-fix")
    result.assert_outcomes(failed=1, passed=3)
    result.stdout.fnmatch_lines(
        [
            "*_ pyproject::orphans _*",
            "orphan: proj/models/toy/generated/patched_modeling_old.diff: no config makes it now",
            "orphan: proj/models/toy/generated/patched_modeling_old.py: no config makes it now",
            "Run 'pytest --patchgen-prune' to remove orphans.",
        ]
    )
    result = run(pytester, gated, "--patchgen-prune", "-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines([f"{ORPHANS} FIXED*"])
    assert sorted(line for line in section(result) if line.startswith("removed")) == [
        "removed  proj/models/toy/generated/patched_modeling_old.diff",
        "removed  proj/models/toy/generated/patched_modeling_old.py",
    ]
    assert sorted(path.name for path in generated(gated).parent.glob("*.*")) == [
        "patched_modeling_toy_gpu.diff",
        "patched_modeling_toy_gpu.py",
    ]
