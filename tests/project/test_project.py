"""``[tool.patchgen]``, and what it says about files, modules and folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.project.project import Project
from patchgen_core.project.table import load_project
from tests.project.tables import PARITY, SHARDED, TABLE, message, project


def error(root: Path, text: str) -> str:
    with pytest.raises(PatchgenError) as raised:
        project(root, text)
    return message(raised.value, root)


def test_every_key_is_read(tmp_path: Path) -> None:
    text = f"""{TABLE}
legacy_patches_prefix = "proj.models.old.patches"
ruff_extra_ignore = ["E501", "F401"]
ruff_isolated = true
real_imports = ["numpy"]
optional_packages = ["torch_npu"]
select = ["PG2"]
ignore = ["PG213", "PG214"]
per_config_ignore = {{ "proj.models.*_npu_*" = ["PG217"], "proj/models/old/*" = [] }}
kernels = ["proj.kernels", "other.kernels"]
"""
    assert project(tmp_path, text) == Project(
        search_root=tmp_path / "proj/models",
        package_prefix="proj.models",
        legacy_patches_prefix="proj.models.old.patches",
        ruff_extra_ignore=("E501", "F401"),
        ruff_isolated=True,
        real_imports=("numpy",),
        optional_packages=("torch_npu",),
        select=("PG2",),
        ignore=("PG213", "PG214"),
        per_config_ignore=(("proj.models.*_npu_*", ("PG217",)), ("proj/models/old/*", ())),
        kernels=("proj.kernels", "other.kernels"),
        root=tmp_path,
    )


def test_settings_of_sharded_models_are_read(tmp_path: Path) -> None:
    text = f"""{SHARDED}meshes = ["sp2", "ep2"]
leave_out = {{ "Qwen3_5*::*sp2" = "it needs the whole", "*ForSequenceClassification" = "on one device" }}
tolerance = 8
time_limit = 30
"""
    settings = project(tmp_path, text).sharded
    assert (settings.meshes, settings.tolerance, settings.time_limit) == (("sp2", "ep2"), 8.0, 30.0)
    assert settings.why_left_out("Qwen3_5ForCausalLM", "fsdp2xsp2") == "it needs the whole"
    assert settings.why_left_out("Qwen3_5ForCausalLM", "ep2") == ""
    assert settings.why_left_out("LlamaForSequenceClassification", "ep2") == "on one device"
    assert project(tmp_path).sharded.meshes is None


def test_only_two_keys_are_needed(tmp_path: Path) -> None:
    assert project(tmp_path) == Project(
        search_root=tmp_path / "proj/models",
        package_prefix="proj.models",
        legacy_patches_prefix=None,
        ruff_extra_ignore=(),
        ruff_isolated=False,
        real_imports=(),
        optional_packages=(),
        select=("ALL",),
        ignore=(),
        per_config_ignore=(),
        kernels=(),
        root=tmp_path,
    )


PATTERNS = {
    "inline": 'per_config_ignore = { "a.*" = ["PG201"], "b/*" = ["PG202", "PG21"] }',
    "dotted": 'per_config_ignore."a.*" = ["PG201"]\nper_config_ignore."b/*" = ["PG202", "PG21"]',
    "table": '[tool.patchgen.per_config_ignore]\n"a.*" = ["PG201"]\n"b/*" = ["PG202", "PG21"]',
    "table with spaces": '[ tool . patchgen . per_config_ignore ] # why\n"a.*" = ["PG201"]\n"b/*" = ["PG202", "PG21"]',
}


@pytest.mark.parametrize("text", PATTERNS.values(), ids=PATTERNS)
def test_patterns_may_be_spelled_in_each_way_that_toml_has(tmp_path: Path, text: str) -> None:
    found = project(tmp_path, f"{TABLE}\n{text}\n")
    assert found.per_config_ignore == (("a.*", ("PG201",)), ("b/*", ("PG202", "PG21")))
    assert found.key_location("per_config_ignore") == Location(str(tmp_path / "pyproject.toml"), 5)
    assert found.key_location("select").line == 0


def test_patterns_of_a_project_given_in_code(tmp_path: Path) -> None:
    found = Project(tmp_path, "a", per_config_ignore={"a.*": ["PG201"]}, select=["PG2"])  # type: ignore[arg-type]
    assert (found.per_config_ignore, found.select) == ((("a.*", ("PG201",)),), ("PG2",))
    assert hash(found) == hash(Project(tmp_path, "a", per_config_ignore=(("a.*", ("PG201",)),), select=("PG2",)))
    for wrong in ({"per_config_ignore": {"a.*": "PG201"}}, {"select": "PG2"}, {"ignore": "PG2"}, {"kernels": "a.b"}):
        with pytest.raises(PatchgenError, match="must be"):
            Project(tmp_path, "a", **wrong)  # type: ignore[arg-type]


def test_the_nearest_table_upwards_counts(tmp_path: Path) -> None:
    project(tmp_path)
    inner = tmp_path / "proj" / "models" / "toy"
    inner.mkdir(parents=True)
    (inner / "pyproject.toml").write_text("[tool.other]\n")
    assert load_project(inner).base == tmp_path
    (inner.parent / "pyproject.toml").write_text(TABLE)
    assert load_project(inner).base == inner.parent


def test_the_start_is_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path)
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    assert load_project().base == tmp_path


def test_without_a_table_the_error_shows_what_to_write(tmp_path: Path) -> None:
    assert error(tmp_path, "[tool.other]\n") == (
        "no pyproject.toml with a [tool.patchgen] table in '.' or above it\n"
        "  Run 'patchgen init' to add one, or write search_root = \"<folder of the configs>\" and package_prefix = "
        '"<its package>" yourself.'
    )


KNOWN = "search_root, package_prefix, legacy_patches_prefix, ruff_extra_ignore, ruff_isolated, diffs, real_imports"
KNOWN += ", optional_packages, select, ignore, per_config_ignore, severity, baseline, kernels, setup, cache_dir"
KNOWN += ", parity, sharded, shared_cache"
BAD = {
    "slip": (
        f"{TABLE}ruf_isolated = true\n",
        "pyproject.toml:4: [tool.patchgen] has no key 'ruf_isolated'\n  Did you mean 'ruff_isolated'?",
    ),
    "slip with a dash": (
        '[tool.patchgen]\nsearch-root = "a"\nsearch_root = "a"\npackage_prefix = "a"\n',
        "pyproject.toml:2: [tool.patchgen] has no key 'search-root'\n  Did you mean 'search_root'?",
    ),
    "unknown": (
        f"{TABLE}\ntimeout = 3\n",
        f"pyproject.toml:5: [tool.patchgen] has no key 'timeout'\n  Known keys: {KNOWN}.",
    ),
    "not a setting": (
        f'{TABLE}root = "a"\n',
        f"pyproject.toml:4: [tool.patchgen] has no key 'root'\n  Known keys: {KNOWN}.",
    ),
    "same key in another table": (
        f"[tool.other]\nruf_isolated = 1\n\n{TABLE}ruf_isolated = true\n",
        "pyproject.toml:7: [tool.patchgen] has no key 'ruf_isolated'\n  Did you mean 'ruff_isolated'?",
    ),
    "same key in a table of a like name": (
        f"[tool.patchgen-old]\nruf_isolated = 1\n\n{TABLE}ruf_isolated = true\n",
        "pyproject.toml:7: [tool.patchgen] has no key 'ruf_isolated'\n  Did you mean 'ruff_isolated'?",
    ),
    "text for codes": (
        f'{TABLE}select = "PG201"\n',
        "pyproject.toml:4: [tool.patchgen] select must be a list of strings, not 'PG201'",
    ),
    "codes without a pattern": (
        f'{TABLE}per_config_ignore = ["PG201"]\n',
        "pyproject.toml:4: [tool.patchgen] per_config_ignore must be a table of lists of strings, such as "
        '{ "acme.models.*" = ["PG214"] }, not [\'PG201\']',
    ),
    "text for codes of a pattern": (
        f'{TABLE}[tool.patchgen.per_config_ignore]\n"a.*" = "PG201"\n',
        "pyproject.toml:4: [tool.patchgen] per_config_ignore must be a table of lists of strings, such as "
        "{ \"acme.models.*\" = [\"PG214\"] }, not {'a.*': 'PG201'}",
    ),
    "number for text": (
        '[tool.patchgen]\nsearch_root = 3\npackage_prefix = "a"\n',
        "pyproject.toml:2: [tool.patchgen] search_root must be a non-empty string, not 3",
    ),
    "empty text": (
        '[tool.patchgen]\nsearch_root = "a"\npackage_prefix = ""\n',
        "pyproject.toml:3: [tool.patchgen] package_prefix must be a non-empty string, not ''",
    ),
    "text for a list": (
        f'{TABLE}ruff_extra_ignore = "E501"\n',
        "pyproject.toml:4: [tool.patchgen] ruff_extra_ignore must be a list of strings, not 'E501'",
    ),
    "list of numbers": (
        f"{TABLE}real_imports = [1]\n",
        "pyproject.toml:4: [tool.patchgen] real_imports must be a list of strings, not [1]",
    ),
    "text for a flag": (
        f'{TABLE}ruff_isolated = "yes"\n',
        "pyproject.toml:4: [tool.patchgen] ruff_isolated must be true or false, not 'yes'",
    ),
    "flag for text": (
        f"{TABLE}legacy_patches_prefix = false\n",
        "pyproject.toml:4: [tool.patchgen] legacy_patches_prefix must be a non-empty string, not False",
    ),
    "several at once": (
        "[tool.patchgen]\nsearch_roots = 1\npackage_prefix = 2\n",
        "pyproject.toml:2: [tool.patchgen] has no key 'search_roots'\n  Did you mean 'search_root'?\n"
        "pyproject.toml:3: [tool.patchgen] package_prefix must be a non-empty string, not 2\n"
        "pyproject.toml: [tool.patchgen] lacks 'search_root'",
    ),
    "empty table": (
        "[tool.patchgen]\n",
        "pyproject.toml: [tool.patchgen] lacks 'search_root'\npyproject.toml: [tool.patchgen] lacks 'package_prefix'",
    ),
    "not a table": ("[tool]\npatchgen = 3\n", "pyproject.toml: tool.patchgen is not a table"),
    "prefix with a slash": (
        '[tool.patchgen]\nsearch_root = "a/b"\npackage_prefix = "a/b"\n',
        "pyproject.toml:3: [tool.patchgen] package_prefix must be a dotted package name, not 'a/b'",
    ),
    "parity is no table": (
        f"{TABLE}parity = true\n",
        "pyproject.toml:4: [tool.patchgen] parity must be a table",
    ),
    "parity: slip": (
        f'{PARITY}toyroot = "a"\n',
        "pyproject.toml:6: [tool.patchgen.parity] has no key 'toyroot'\n  Did you mean 'toy_root'?",
    ),
    "parity: no folder": (
        f'{PARITY}toy_root = "no/such"\n',
        "pyproject.toml:6: [tool.patchgen.parity] toy_root must be the path of a folder, not 'no/such'\n"
        "  It is relative to the folder of pyproject.toml.",
    ),
    "parity: dtype": (
        f'{PARITY}dtypes = ["bflot16"]\n',
        "pyproject.toml:6: [tool.patchgen.parity] dtypes must be a list of some of float32, bfloat16, "
        "not ['bflot16']\n  Did you mean 'bfloat16'?",
    ),
    "parity: tolerance of no dtype": (
        f"{PARITY}tolerance = {{ liger_kernel-bfloat61 = 3 }}\n",
        "pyproject.toml:6: [tool.patchgen.parity] tolerance must be a table of multiples, such as { bfloat16 = 6.0 }, "
        "not {'liger_kernel-bfloat61': 3}\n"
        "  There is no dtype 'bfloat61': did you mean 'liger_kernel-bfloat16'?",
    ),
    "parity: tolerance of what is no number": (
        f"{PARITY}tolerance = {{ float32 = true }}\n",
        "pyproject.toml:6: [tool.patchgen.parity] tolerance must be a table of multiples, such as { bfloat16 = 6.0 }, "
        "not {'float32': True}",
    ),
    "parity: builder": (
        f'{PARITY}batches = ["acme.toys"]\n',
        "pyproject.toml:6: [tool.patchgen.parity] batches must be a list of functions, such as "
        "'acme.toys:picture_batches', not ['acme.toys']",
    ),
    "sharded is no table": (
        f"{TABLE}sharded = true\n",
        "pyproject.toml:4: [tool.patchgen] sharded must be a table",
    ),
    "sharded: slip": (
        f"{SHARDED}mesh = []\n",
        "pyproject.toml:6: [tool.patchgen.sharded] has no key 'mesh'\n  Did you mean 'meshes'?",
    ),
    "sharded: no such mesh": (
        f'{SHARDED}meshes = ["fsdp"]\n',
        "pyproject.toml:6: [tool.patchgen.sharded] meshes must be a list of some of fsdp2, sp2, ep2, fsdp2xsp2, "
        "ep2xsp2, not ['fsdp']\n  Did you mean 'fsdp2'?",
    ),
    "sharded: no reason": (
        f'{SHARDED}leave_out = {{ "*" = "" }}\n',
        "pyproject.toml:6: [tool.patchgen.sharded] leave_out must be a table of reasons, such as "
        "{ \"Qwen3_5*::*sp2\" = \"it needs the whole\" }, not {'*': ''}",
    ),
    "sharded: no number": (
        f"{SHARDED}time_limit = 0\n",
        "pyproject.toml:6: [tool.patchgen.sharded] time_limit must be a positive number, not 0",
    ),
}


@pytest.mark.parametrize(("text", "expected"), BAD.values(), ids=BAD)
def test_a_bad_table_names_key_and_line(tmp_path: Path, text: str, expected: str) -> None:
    assert error(tmp_path, text) == expected


@pytest.mark.parametrize("data", [b"[tool.patchgen]\nsearch_root =\n", b'[tool.patchgen]\nx = "\xff"\n'])
def test_bad_toml_is_an_error_of_the_file(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "pyproject.toml").write_bytes(data)
    with pytest.raises(PatchgenError) as raised:
        load_project(tmp_path)
    assert message(raised.value, tmp_path).startswith("pyproject.toml: not valid TOML: ")


def test_a_tool_that_is_no_table_has_no_patchgen(tmp_path: Path) -> None:
    assert error(tmp_path, "tool = 3\n").startswith("no pyproject.toml with a [tool.patchgen] table in '.'")
