"""Calls and attributes of the DSL that there are not: the line, and the nearest that there is."""

from __future__ import annotations

import re

import pytest

from patchgen_core.errors import PatchgenError
from tests.config.bad_configs import HEAD, UPSTREAM, assert_told, expected
from tests.conftest import Workspace

TABLE = {
    "argument": (
        '@config.override_method(\n    "Norm.forward",\n    descriptions="x",\n)\ndef f(self, x): ...',
        "@5 override_method: there is no argument 'descriptions'\n  Did you mean 'description'?",
    ),
    "argument that is near to none": (
        'config.delete_code("Norm.forward", "x", everywhere=True)',
        "@3 delete_code: there is no argument 'everywhere'\n  It takes target, code, count, name_map, description.",
    ),
    "argument of a new config": (
        'other = PatchConfig("acme", "a.py", descripton="")',
        "@3 PatchConfig: there is no argument 'descripton'\n  Did you mean 'description'?",
    ),
    "argument of a function": (
        'create_patch_from_external("rotate", "acme", "rotate", name="")',
        "@3 create_patch_from_external: there is no argument 'name'\n"
        "  It takes target, replacement_module, replacement_name, description.",
    ),
    "argument of shared edits": (
        "from patchgen import Edits\nEdits().replace_code('x', 'y', counts=2)",
        "@4 replace_code: there is no argument 'counts'\n  Did you mean 'count'?",
    ),
    "too few": ("config.add_import()", "@3 add_import() missing 1 required positional argument: 'module'"),
    "too many": (
        'config.exclude_from_output("use")\nconfig.allow("PG201", "x", "use", 1)',
        "@4 allow() takes from 3 to 4 positional arguments but 5 were given",
    ),
    "call": (
        'config.overide_method("Norm.forward")',
        "@3 PatchConfig has no 'overide_method'\n  Did you mean 'override_method'?",
    ),
    "call that is near to none": ("config.xyz()", "@3 PatchConfig has no 'xyz'"),
    "call of shared edits": (
        "from patchgen import Edits\nEdits().delet_code('x')",
        "@4 Edits has no 'delet_code'\n  Did you mean 'delete_code'?",
    ),
    "assignment": ('config.excludes = ["use"]', "@3 PatchConfig has no 'excludes'\n  Did you mean 'exclude'?"),
    "assignment of a plain value": (
        'config.transformer_version = "5.2.0"',
        "@3 PatchConfig has no 'transformer_version'\n  Did you mean 'transformers_version'?",
    ),
}


@pytest.fixture(autouse=True)
def _upstream(work: Workspace) -> None:
    work.upstream(UPSTREAM)


@pytest.mark.parametrize(("config", "message"), TABLE.values(), ids=TABLE)
def test_what_the_dsl_has_not_is_named_with_what_it_has(work: Workspace, config: str, message: str) -> None:
    assert_told(work, config, message)


@pytest.mark.parametrize("name", ["argument", "call", "assignment"])
def test_so_it_is_where_everything_is_imported(work: Workspace, name: str) -> None:
    config, message = TABLE[name]
    work.config(config + "\n", preamble=HEAD)
    with pytest.raises(PatchgenError, match=re.escape(message.split(" ", 1)[1].split("\n")[0])):
        work.load(full=True)


def test_a_config_may_keep_notes_of_its_own(work: Workspace) -> None:
    work.config('config.reviewer = "ann"\nconfig._seen = True\n', preamble=HEAD)
    assert work.load().config.reviewer == "ann"


def test_a_class_of_ones_own_has_its_own_arguments_and_attributes(work: Workspace) -> None:
    own = "from patchgen import PatchConfig\nclass Own(PatchConfig):\n    def __init__(self, team):\n"
    own += '        super().__init__("acme.models.toy.modeling_toy", "toy.py")\n        self.targets = team\n'
    work.config("", preamble=f'{own}config = Own("a")\n')
    assert vars(work.load().config)["targets"] == "a"
    work.config("", preamble=f'{own}config = Own(tea="a")\n')
    assert ": the config cannot be loaded: TypeError: Own.__init__() got an unexpected" in work.errors()


@pytest.mark.parametrize("maker", ["Own", "PatchConfig"])
def test_the_calls_that_a_class_of_ones_own_inherits_are_the_dsls(work: Workspace, maker: str) -> None:
    text = "from patchgen import PatchConfig\nclass Own(PatchConfig): ...\n"
    text += f'config = {maker}("acme.models.toy.modeling_toy", "toy.py")\nconfig.add_import("a", nams=["b"])\n'
    work.config("", preamble=text)
    assert work.errors() == expected("@4 add_import: there is no argument 'nams'\n  Did you mean 'names'?")
    work.config("", preamble=text.replace('"toy.py")', '"toy.py", descripton="")'))
    assert work.errors() == expected(
        "@3 PatchConfig: there is no argument 'descripton'\n  Did you mean 'description'?"
    )


def test_a_function_of_a_name_of_the_dsl_is_another_one(work: Workspace) -> None:
    """Its errors are no misuse: with real imports it may be called as it is."""
    work.config("def add_import(): ...\nadd_import(1)\n", preamble=HEAD)
    assert ": the config cannot be loaded: TypeError: add_import() takes 0 positional" in work.errors()
