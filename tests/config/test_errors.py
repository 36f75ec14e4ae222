"""Bad input, and what the user reads: the file and line, the wrong name, the nearest right one, what to do."""

from __future__ import annotations

import re
import textwrap

import pytest

from tests.config.bad_configs import FILE, HEAD, MODULE, UPSTREAM, assert_told, expected
from tests.conftest import Workspace

# What is wrong, and all that the user reads (see assert_told).
TABLE = {
    "description that is no text": (
        '@config.replace_function("rotate", description=3)\ndef f(x): ...',
        "@3 description must be a string, not 3",
    ),
    "no list of patches": ("config.patches = None", "@2 config.patches must be a list, not None"),
    "several at once": (
        '@config.replace_class("Nrom")\nclass A: ...\nconfig.exclude_from_output("us")\n'
        "@config.add_helper\ndef rotate(x): ...",
        f"@3 upstream {MODULE} has no class 'Nrom'\n  Did you mean 'Norm'?\n"
        "@5 exclude_from_output: upstream defines no 'us'\n  Did you mean 'use'?\n"
        "@6 PG207 helper 'rotate' has the name of an upstream definition\n"
        "  Rename it, or replace upstream's with replace_class or replace_function.",
    ),
}


@pytest.mark.parametrize(("config", "message"), TABLE.values(), ids=TABLE)
def test_bad_declarations(work: Workspace, config: str, message: str) -> None:
    assert_told(work, config, message)


@pytest.fixture(autouse=True)
def _upstream(work: Workspace) -> None:
    work.upstream(UPSTREAM)


WHOLE = {
    "other version": (
        f'"{MODULE}", "a.py", transformers_version="2.0"',
        "@2 this config is for acme 2.0, but 1.0 is there\n"
        "  Install that version, or adapt the config and its transformers_version.",
    ),
    "unknown module": (
        '"acme.models.toy.modeling_toi", "a.py"',
        "@2 upstream has no module 'acme.models.toy.modeling_toi'\n  Did you mean 'acme.models.toy.modeling_toy'?",
    ),
    "unknown package": ('"acem.models.toy", "a.py"', "@2 upstream package 'acem' is not installed"),
    "relative module": ('".models.toy", "a.py"', "@2 '.models.toy' is not a module name\n  Name it absolutely."),
    "path for a module": (
        '"acme/models/toy.py", "a.py"',
        "@2 'acme/models/toy.py' is not a module name\n"
        "  Write its dotted name, such as 'transformers.models.qwen3.modeling_qwen3'.",
    ),
    "empty module": ('"", "a.py"', "@2 source_module must be a non-empty string, not ''"),
    "module that is no text": ('None, "a.py"', "@2 source_module must be a non-empty string, not None"),
    "empty target file": (f'"{MODULE}", ""', "@2 target_file must be a non-empty string, not ''"),
    **{
        f"target file {name}": (
            f'"{MODULE}", {name!r}',
            f"@2 target_file '{name}' is not a .py file inside the output folder\n"
            "  Give a plain file name, such as 'patched_modeling_qwen3_gpu.py'.",
        )
        for name in ("../a.py", "b/../../a.py", "/abs/a.py", "..\\a.py", "C:\\a.py", "C:a.py", "a", "a.txt", ".py")
    },
}


ASSIGNED = {
    "unknown module": ('source_module = "acme.models.toy.modeling_toi"', WHOLE["unknown module"][1]),
    "module that is no text": ("source_module = None", WHOLE["module that is no text"][1]),
    "target file elsewhere": ('target_file = "../a.py"', WHOLE["target file ../a.py"][1]),
    "target file that is no text": ("target_file = 3", "@2 target_file must be a non-empty string, not 3"),
    "description that is no text": ("description = None", "@2 description must be a string, not None"),
}


@pytest.mark.parametrize(("assignment", "message"), ASSIGNED.values(), ids=ASSIGNED)
def test_what_is_assigned_to_the_config_of_another_file(work: Workspace, assignment: str, message: str) -> None:
    work.config("")
    heir = FILE.replace("gpu", "npu")
    work.config(f"config.{assignment}\n", heir, "from proj.models.toy.toy_gpu_patch_gen_config import config\n")
    assert work.errors(heir) == expected(message).replace(FILE, heir)


@pytest.mark.parametrize(("arguments", "message"), WHOLE.values(), ids=WHOLE)
def test_bad_configs(work: Workspace, arguments: str, message: str) -> None:
    work.config("", preamble=f"from patchgen import PatchConfig\nconfig = PatchConfig({arguments})\n")
    assert work.errors() == expected(message)


@pytest.mark.parametrize(
    "value",
    [
        'config.replace_function("rotate", Call())',
        'config.replace_function("rotate", functools.partial(max, 1))',
        "config.add_helper(object())",
        "config.patches.append(Call)",
        "config.patches.append(Call())",
        "config.helpers.append(object())",
    ],
)
def test_messages_are_the_same_in_every_run(work: Workspace, value: str) -> None:
    work.config(f"import functools\nclass Call:\n    def __call__(self): ...\n{value}\n")
    assert not re.search(r"0x[0-9a-f]{6,}", work.errors())


def test_two_configs_that_write_one_file_name_each_other(work: Workspace) -> None:
    text = textwrap.dedent(
        f"""
        gpu = PatchConfig("{MODULE}", "toy.py")
        """
    )
    work.config(text, preamble=HEAD)
    outcomes = {result.outcome.label: result.outcome for result in work.check().results}
    name = "proj.models.toy.toy_gpu_patch_gen_config"
    hint = "Give one of them another target_file."
    assert [(p.message, p.location.line, p.hint) for p in outcomes[name].problems if p.location] == [
        (f"'toy.py' is also written by {name}:gpu", 2, hint)
    ]
    assert [(p.message, p.location.line, p.hint) for p in outcomes[f"{name}:gpu"].problems if p.location] == [
        (f"'toy.py' is also written by {name}", 4, hint)
    ]


def test_configs_of_two_folders_may_share_a_file_name(work: Workspace) -> None:
    work.config("", "one/a_patch_gen_config.py", preamble=HEAD)
    work.config("", "two/a_patch_gen_config.py", preamble=HEAD)
    assert [result.status for result in work.check().results] == ["drifted", "drifted"]


def test_upstream_that_is_no_python_is_an_error_of_its_own_file(work: Workspace) -> None:
    path = work.upstream("x = 1\ndef f(:\n")
    work.config("", preamble=HEAD)
    assert work.errors() == f"{path}:2: not valid Python: invalid syntax\n  def f(:"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("f(x=1, x=2)", "keyword argument repeated: x\n  f(x=1, x=2)"),
        ("return 3", "'return' outside function\n  return 3"),
        ("x = '\0'", "source code string cannot contain null bytes\n  x = '\0'"),
    ],
    ids=["argument given twice", "statement at the wrong place", "null byte"],
)
def test_what_python_refuses_is_told_with_its_line(work: Workspace, code: str, message: str) -> None:
    work.config(f"{code}\n", preamble=HEAD)
    assert work.errors() == expected(f"@3 not valid Python: {message}")


def test_the_command_prints_what_the_library_says(work: Workspace) -> None:
    work.config('@config.replace_class("Nrom")\nclass A: ...\n', preamble=HEAD)
    done = work.patchgen("proj.models.toy.toy_gpu_patch_gen_config", "--no-color")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"upstream {MODULE} has no class 'Nrom'" in done.stderr
    assert "Did you mean 'Norm'?" in done.stderr
    assert "Traceback" not in done.stderr
