"""``[tool.patchgen]``, and what it says about files, modules and folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.project.project import Project, load_project

TABLE = '[tool.patchgen]\nsearch_root = "proj/models"\npackage_prefix = "proj.models"\n'


def project(root: Path, text: str = TABLE) -> Project:
    (root / "pyproject.toml").write_text(text, encoding="utf-8")
    return load_project(root)


def write(root: Path, *paths: str, text: str = "") -> list[Path]:
    files = [root / path for path in paths]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return files


def error(root: Path, text: str) -> str:
    with pytest.raises(PatchgenError) as raised:
        project(root, text)
    return message(raised.value, root)


def message(raised: PatchgenError, root: Path) -> str:
    return str(raised).replace(f"{root}/", "").replace(str(root), ".")


# --- reading pyproject.toml ------------------------------------------------------------------------


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
        '  Add one with search_root = "<folder of the configs>" and package_prefix = "<its package>".'
    )


KNOWN = "search_root, package_prefix, legacy_patches_prefix, ruff_extra_ignore, ruff_isolated, real_imports"
KNOWN += ", optional_packages, select, ignore, per_config_ignore, kernels, cache_dir, parity"
PARITY = f"{TABLE}\n[tool.patchgen.parity]\n"
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


# --- modules and paths -----------------------------------------------------------------------------

LAYOUTS = {
    "package at the root": ("proj/models", "proj.models", ["."]),
    "src layout": ("src/proj/models", "proj.models", ["src", "."]),
    "deep src layout": ("a/b/proj", "proj", ["a/b", "."]),
    "root is the package": (".", "proj.models", ["."]),
    "root by another name": ("code/here", "proj.models", ["."]),
    "tail partly the same": ("other/models", "proj.models", ["."]),
    "trailing slash": ("proj/models/", "proj.models", ["."]),
}


@pytest.mark.parametrize(("search_root", "prefix", "roots"), LAYOUTS.values(), ids=LAYOUTS)
def test_modules_below_the_search_root_go_by_the_prefix(
    tmp_path: Path, search_root: str, prefix: str, roots: list[str]
) -> None:
    found = Project(Path(search_root), prefix, root=tmp_path)
    config, init = write(found.search_root, "toy/a_patch_gen_config.py", "toy/__init__.py")
    assert found.import_roots == tuple((tmp_path / root).resolve() for root in roots)
    assert found.module_name(config) == f"{prefix}.toy.a_patch_gen_config"
    assert found.module_name(init) == f"{prefix}.toy"
    assert found.module_path(f"{prefix}.toy.a_patch_gen_config") == config
    assert found.module_path(f"{prefix}.toy") == init
    assert found.module_path(f"{prefix}.toy.b") is None


def test_modules_beside_the_search_root_go_by_the_import_root(tmp_path: Path) -> None:
    found = Project(Path("src/proj/models"), "proj.models", root=tmp_path)
    beside, outside = write(tmp_path, "src/proj/util.py", "tests/helper.py")
    assert [found.module_name(beside), found.module_name(outside)] == ["proj.util", "tests.helper"]
    assert [found.module_path("proj.util"), found.module_path("tests.helper")] == [beside, outside]
    assert found.module_name(tmp_path.parent / "far.py") == "far"


def test_a_prefix_is_not_a_prefix_of_words(tmp_path: Path) -> None:
    found = Project(Path("proj/models"), "proj.models", root=tmp_path)
    write(tmp_path, "proj/models/x/y.py")
    assert found.module_path("proj.modelsx.y") is None
    assert found.module_name(tmp_path / "proj/models_old/x.py") == "proj.models_old.x"


def test_a_search_root_may_be_absolute(tmp_path: Path) -> None:
    found = Project(tmp_path / "elsewhere", "zoo", root=tmp_path / "project")
    assert found.search_root == tmp_path / "elsewhere"
    assert found.module_name(tmp_path / "elsewhere" / "a.py") == "zoo.a"


# --- finding configs -------------------------------------------------------------------------------


def test_configs_come_in_path_order_from_every_depth_but_hidden_folders(tmp_path: Path) -> None:
    found = project(tmp_path)
    paths = write(
        tmp_path / "proj/models",
        "a/one_patch_gen_config.py",
        "a/two_patch_gen_config.py",
        "b/c/d/three_patch_gen_config.py",
        "top_patch_gen_config.py",
    )
    write(
        tmp_path / "proj/models",
        ".hidden/x_patch_gen_config.py",
        "a/.cache/x_patch_gen_config.py",
        "a/__pycache__/x_patch_gen_config.py",
        "a/patch_gen_config_x.py",
        "a/x_patch_gen_config.pyc",
        "a/x_patch_gen_config.txt",
    )
    write(tmp_path, "proj/outside_patch_gen_config.py")
    assert found.find_configs() == sorted(paths)


def test_links_are_followed_and_every_folder_counts_once(tmp_path: Path) -> None:
    found = project(tmp_path)
    (own,) = write(tmp_path / "proj/models", "b/own_patch_gen_config.py")
    write(tmp_path, "far/linked_patch_gen_config.py")
    models = tmp_path / "proj/models"
    (models / "a").symlink_to(tmp_path / "far")
    (models / "again").symlink_to(tmp_path / "far")
    (models / "b/up").symlink_to(models)
    (models / "b/itself").symlink_to("itself")
    (models / "b/nowhere").symlink_to("nothing")
    assert found.find_configs() == [models / "a/linked_patch_gen_config.py", own]


def test_another_project_inside_keeps_its_configs(tmp_path: Path) -> None:
    found = project(tmp_path)
    (own,) = write(tmp_path / "proj/models", "plain/own_patch_gen_config.py")
    write(tmp_path / "proj/models", "other/deep/x_patch_gen_config.py")
    (tmp_path / "proj/models/other/pyproject.toml").write_text(TABLE)
    (tmp_path / "proj/models/plain/pyproject.toml").write_text("[tool.other]\n")
    (tmp_path / "proj/models/pyproject.toml").write_text(TABLE)
    assert found.find_configs() == [own]


def test_a_search_root_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PatchgenError) as raised:
        project(tmp_path).find_configs()
    assert message(raised.value, tmp_path) == "pyproject.toml: search_root 'proj/models' is not a folder"


def test_output_goes_beside_the_config_and_beside_a_patches_folder(tmp_path: Path) -> None:
    found = project(tmp_path)
    models = tmp_path / "proj/models"
    assert found.output_folder(models / "toy/a_patch_gen_config.py") == models / "toy/generated"
    assert found.output_folder(models / "toy/patches/a.py") == models / "toy/generated"
    assert found.output_folder(models / "toy/patches/deep/a.py") == models / "toy/patches/deep/generated"


LEGACY = f'{TABLE}legacy_patches_prefix = "proj.models.old.patches"\n'
CONFIG = 'from patchgen import PatchConfig\nconfig = PatchConfig("a.b", "c.py")\n'


def test_legacy_configs_are_files_that_make_a_config(tmp_path: Path) -> None:
    found = project(tmp_path, LEGACY)
    folder = tmp_path / "proj/models/old/patches"
    made = write(folder, "gpu.py", "sub/npu.py", text=CONFIG)
    made += write(folder, "annotated.py", text=CONFIG.replace("config =", "config: PatchConfig ="))
    made += write(folder, "broken.py", text=f"{CONFIG}def f(:\n")
    write(folder, "_private.py", text=CONFIG)
    write(folder, "helpers.py", text="from patchgen import PatchConfig\n")
    write(folder, "plain.py", text="x = 1\n")
    write(folder.parent, "beside.py", text=CONFIG)
    assert found.find_configs() == sorted(made)


@pytest.mark.parametrize("prefix", ["proj.models.nowhere.patches", "elsewhere.patches"])
def test_a_legacy_prefix_without_a_folder_finds_nothing(tmp_path: Path, prefix: str) -> None:
    write(tmp_path, "proj/models/old/patches/gpu.py", text=CONFIG)
    assert project(tmp_path, f'{TABLE}legacy_patches_prefix = "{prefix}"\n').find_configs() == []


# --- what a user's word means ----------------------------------------------------------------------


def test_a_config_is_named_by_module_path_or_shorthand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = project(tmp_path, LEGACY)
    config, legacy = write(tmp_path, "proj/models/toy/a_patch_gen_config.py", "proj/models/old/patches/gpu.py")
    assert found.config_path("proj.models.toy.a_patch_gen_config") == config
    assert found.config_path(str(config)) == config
    assert found.config_path("patches.gpu") == legacy
    assert found.config_path("proj.models.old.patches.gpu") == legacy
    monkeypatch.chdir(tmp_path / "proj/models")
    assert found.config_path("toy/a_patch_gen_config.py") == config
    assert found.config_path("./toy/a_patch_gen_config.py") == config


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "proj.models.toy.a_patch_gen_confg",
            "there is no patch config 'proj.models.toy.a_patch_gen_confg' in this project\n"
            "  Did you mean 'proj.models.toy.a_patch_gen_config'?",
        ),
        (
            "patches.gpx",
            "there is no patch config 'proj.models.old.patches.gpx' in this project\n"
            "  Did you mean 'proj.models.old.patches.gpu'?",
        ),
        ("zebra", "there is no patch config 'zebra' in this project\n  Its configs are below 'proj/models'."),
        (
            "proj.models.toy",
            "there is no patch config 'proj.models.toy' in this project\n"
            "  Did you mean 'proj.models.toy.a_patch_gen_config'?",
        ),
        ("nowhere/a.py", "there is no config file 'nowhere/a.py'"),
        ("a.py", "there is no config file 'a.py'"),
        ("proj/models", "there is no config file 'proj/models'"),
    ],
)
def test_a_word_that_means_no_config_is_an_error(tmp_path: Path, name: str, expected: str) -> None:
    found = project(tmp_path, LEGACY)
    write(tmp_path, "proj/models/toy/a_patch_gen_config.py", "proj/models/toy/__init__.py")
    write(tmp_path, "proj/models/old/patches/gpu.py", text=CONFIG)
    with pytest.raises(PatchgenError) as raised:
        found.config_path(name)
    assert message(raised.value, tmp_path) == expected


def test_settings_of_parity(tmp_path: Path) -> None:
    (tmp_path / "toys").mkdir()
    tolerance = 'tolerance = { bfloat16 = 6, ours = 0.5, "my-kernel-float32" = 2 }'
    more = f'toy_root = "toys"\n{tolerance}\ndtypes = ["float32"]\nbatches = ["acme.toys:pictures"]\n'
    (tmp_path / "pyproject.toml").write_text(f"{PARITY}{more}", encoding="utf-8")
    (tmp_path / "deep").mkdir()
    found = load_project(tmp_path / "deep").parity
    assert found.toy_root == tmp_path / "toys"
    assert found.tolerance == (("bfloat16", 6.0), ("ours", 0.5), ("my-kernel-float32", 2.0))
    assert (found.dtypes, found.batches) == (("float32",), ("acme.toys:pictures",))
