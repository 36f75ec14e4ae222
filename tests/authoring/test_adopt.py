"""From a monkey patch to a patch config: the generated module does what the patch did, and nothing is dropped."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

from patchgen_core.authoring.adopt import AdoptResult, adopt
from tests.authoring.monkey_patches import UPSTREAM_TEXT, adopted, generated_module, make, only_finding, write
from tests.conftest import UPSTREAM, Workspace


def generated(work: Workspace, result: AdoptResult) -> types.ModuleType:
    return generated_module(make(work, result))


def test_classes_functions_and_methods(site: Workspace) -> None:
    result = adopted(
        site,
        """
        toy.Norm = kernels.FastNorm
        toy.rotate = kernels.fast_rotate
        toy.Head.forward = kernels.head_forward
        """,
    )
    assert result.path == site.models / "toy/toy_gpu_patch_gen_config.py"
    assert result.path.read_text() == result.text
    assert result.changes == (
        "rotate = kernels.fast_rotate",
        "Norm = kernels.FastNorm",
        "Head.forward = kernels.head_forward",
    )
    assert not result.findings
    module = generated(site, result)
    assert module.Norm().forward(1) == 100
    assert module.rotate(1) == 1001
    assert module.Head().forward(2.7, scale=2) == 5.0  # without upstream's decorator


@pytest.mark.slow
def test_the_config_is_tidy_and_says_where_it_comes_from(site: Workspace) -> None:
    result = adopted(site, "toy.rotate = kernels.fast_rotate", arguments={"on": True})
    assert (
        f"Written by 'patchgen adopt {UPSTREAM} --from patches:patch --kwargs on=True' with acme 1.0;" in result.text
    )
    assert "That is patch(on=True) of patches." in result.text
    assert "patchgen proj.models.toy.toy_gpu_patch_gen_config --diff" in result.text
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--isolated", "--line-length=119"], ["format", "--check"]):
        done = subprocess.run([*ruff, *command, str(result.path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_arguments_that_are_hard_to_quote(site: Workspace) -> None:
    hard = {"on": 'a"""b\\n\n'}
    result = adopted(site, "toy.rotate = kernels.fast_rotate", arguments=hard)
    assert generated(site, result).rotate(1) == 1001


def test_names_of_the_replacements_module(site: Workspace) -> None:
    module = generated(site, adopted(site, "toy.Head.forward = kernels.head_forward"))
    assert (module.helper(1), module.math.floor(1.5)) == (1.5, 1)
    assert module.logger.name == "made"  # upstream's own logger stays its own
    assert module.kernels_logger.name == "kernels"


@pytest.mark.slow
def test_a_name_with_another_meaning_in_upstream(site: Workspace) -> None:
    write(
        site,
        "kernels.py",
        """
        def rotate(x):
            return x + 7


        def forward(self, x, scale=1):
            return rotate(x) + getattr(x, "rotate", 0)
        """,
    )
    finding = only_finding(adopted(site, "toy.Norm.close = kernels.rotate; toy.Head.forward = kernels.forward"))
    assert "Head.forward = kernels.forward: kernels.forward uses 'rotate', which the generated module lacks" in finding


@pytest.mark.slow
def test_names_that_the_replacements_module_has_only_sometimes(site: Workspace) -> None:
    write(
        site,
        "kernels.py",
        """
        from typing import TYPE_CHECKING

        if TYPE_CHECKING:
            from nowhere import Tokens

        try:
            from nowhere import fast
        except ImportError:
            fast = None


        def forward(self, x: "Tokens", scale=1):
            return x * scale if fast is None else fast(x)
        """,
    )
    result = adopted(site, "toy.Head.forward = kernels.forward")
    assert generated(site, result).Head().forward(2, 3) == 6
    assert "if TYPE_CHECKING:\n    from nowhere import Tokens\n" in make(site, result).artifact.text


@pytest.mark.slow
def test_a_replacement_that_sets_a_global_of_its_module(site: Workspace) -> None:
    write(
        site,
        "kernels.py",
        "calls = 0\n\n\ndef forward(self, x, scale=1):\n    global calls\n    calls += 1\n    return x\n",
    )
    finding = only_finding(adopted(site, "toy.rotate = print; toy.Head.forward = kernels.forward"))
    assert "kernels.forward uses 'calls', which the generated module lacks, or has with another meaning" in finding


@pytest.mark.slow
def test_definitions_inside_the_patcher_are_copied(site: Workspace) -> None:
    result = adopted(
        site,
        """
        class Local(kernels.FastNorm):
            def forward(self, x):
                return super().forward(x) + kernels.helper(x)

        def opened(self, x):
            return kernels.helper(x)

        toy.Norm = Local
        toy.Head.opened = opened
        """,
    )
    assert not result.findings
    assert "super" not in result.text.partition("config = ")[0]
    module = generated(site, result)
    assert module.Norm().forward(1) == 101.5
    assert module.Head().opened(1) == 1.5


def test_imports_and_constants_of_upstream(site: Workspace) -> None:
    result = adopted(site, "toy.sqrt = kernels.helper; toy.LIMIT = 7; toy.Head.forward = toy.Head.forward.__wrapped__")
    assert "config.drop_import_names('sqrt')".replace("'", '"') in result.text
    assert 'config.exclude_from_output("LIMIT")' in result.text
    module = generated(site, result)
    assert module.Norm().forward(2) == 2.5
    assert module.LIMIT == 7


def test_what_a_config_cannot_declare_is_named(site: Workspace) -> None:
    methods = "".join(f"\n    def m{number}(self, x): ...\n" for number in range(6))
    functions = "".join(f"\n\ndef f{number}(x): ...\n" for number in range(7))
    site.upstream(f"{UPSTREAM_TEXT.lstrip()}{methods}{functions}")
    for init in site.site.rglob("__init__.py"):
        init.write_text("")
    cases = [
        (
            "toy.Head.m0 = lambda self, x: x",
            "Head.m0 = patches.patch.<locals>.<lambda>: cannot read the source of a lambda",
        ),
        (
            "toy.Head.m1 = toy.traced(kernels.head_forward)",
            "Head.m1 = kernels.head_forward: it is wrapped where it is installed",
        ),
        (
            "toy.Head.m2 = staticmethod(kernels.helper)",
            "Head.m2 = kernels.helper: it becomes a staticmethod where it is",
        ),
        ("toy.Head.m3 = kernels.FastNorm", "Head.m3 = kernels.FastNorm: only methods can be patched"),
        ("toy.Head.factor = 2", "Head.factor = 2: only methods can be patched"),
        ("del toy.Head.m4", "Head.m4: it is deleted"),
        ("del toy.f0", "f0: it is deleted"),
        ("toy.int = kernels.helper", "int = kernels.helper: upstream means the builtin by this name"),
        ("toy.f1 = lambda x: x", "f1 = patches.patch.<locals>.<lambda>: cannot read the source of a lambda"),
        ("toy.f2 = functools.partial(kernels.helper, x=1)", "f2 = an object of type partial: it cannot be imported"),
        (
            "y = 2\ndef f(x): return x * y\ntoy.f3 = f",
            "f3 = patches.patch.<locals>.f: 'patch.<locals>.f' uses 'y' of the",
        ),
        (
            "class F:\n    def m(self): return y\ntoy.Special = F",
            "Special = patches.patch.<locals>.F: it uses y of the",
        ),
        ("class G: ...\ntoy.f4 = G", "f4 = patches.patch.<locals>.G: it is no function"),
        (
            "kernels.helper.__globals__['fast_rotate'] = abs",
            "kernels.fast_rotate = builtins.abs: is not of modeling_toy",
        ),
    ]
    result = adopted(site, "\n".join([*(patch for patch, _ in cases), "toy.f5 = kernels.helper"]))
    assert result.changes == ("f5 = kernels.helper",)
    found = [finding.message for finding in result.findings]
    assert len(found) == len(cases)
    comments = " ".join(result.text.partition("# patch also does this, and this config does not:")[2].split("\n#   "))
    for _, message in cases:
        [finding] = [finding for finding in result.findings if finding.message.startswith(message)]
        assert finding.hint
        assert finding.message.split(" = ")[0] in comments


@pytest.mark.slow
def test_a_change_elsewhere_tells_how_to_leave_it_out_or_where_to_adopt_it(site: Workspace) -> None:
    site.upstream("def rotate(x):\n    return x\n", "acme.models.other.modeling_other")
    for init in site.site.rglob("__init__.py"):
        init.write_text("")
    head = "import textwrap, kernels\nfrom acme.models.toy import modeling_toy as toy\n"
    body = "def patch(dedent=True):\n    from acme.models.other import modeling_other as other\n"
    body += "    other.rotate = toy.rotate = kernels.fast_rotate\n"
    body += "    if dedent:\n        textwrap.dedent = kernels.helper\n"
    write(site, "patches.py", head + body)
    both = adopt(site.project, UPSTREAM, "patches:patch")
    assert [str(finding) for finding in both.findings] == [
        "acme.models.other.modeling_other.rotate = kernels.fast_rotate: is not of modeling_toy\n"
        "  Adopt that module as well: patchgen adopt acme.models.other.modeling_other --from patches:patch.",
        "textwrap.dedent = kernels.helper: is not of modeling_toy\n"
        "  It reaches every model of the process: patch the methods that use it instead. '--kwargs dedent=false' "
        "leaves it out.",
    ]
    less = adopt(site.project, UPSTREAM, "patches:patch", arguments={"dedent": False}, force=True)
    assert [finding.message.split(" ")[0] for finding in less.findings] == ["acme.models.other.modeling_other.rotate"]


@pytest.mark.slow
def test_what_has_no_effect_is_a_note(site: Workspace) -> None:
    result = adopted(
        site, "toy.RMSNorm = kernels.FastNorm; toy.Norm.forward = kernels.helper; toy.Norm = kernels.FastNorm"
    )
    assert result.changes == ("Norm = kernels.FastNorm",)
    assert "RMSNorm: the patcher sets it, but modeling_toy has no such name, so it has no effect" in result.notes
    assert "Norm.forward: the patcher also replaces 'Norm', so it has no effect" in result.notes


@pytest.mark.slow
def test_what_upstream_uses_while_it_is_imported_is_a_note(site: Workspace) -> None:
    result = adopted(site, "toy.Norm = kernels.FastNorm")
    [note] = result.notes
    assert note.startswith("Special uses Norm when the module is imported: there the generated module has the new one")


@pytest.mark.slow
def test_what_the_patcher_says_is_a_note(site: Workspace) -> None:
    result = adopted(
        site,
        """
        import logging, warnings
        print("a line on standard output")
        logging.getLogger("kernels").warning("no kernel for biases")
        warnings.warn("slow")
        toy.rotate = kernels.fast_rotate
        """,
    )
    said = ["no kernel for biases", "slow", "a line on standard output"]
    assert result.notes == tuple(f"the patcher says: {line}" for line in said)


@pytest.mark.slow
def test_marks_for_the_kernels_hub_are_dropped(site: Workspace) -> None:
    site.upstream(
        """
        def use_kernelized_func(function):
            return lambda cls: cls


        def use_experts_implementation(cls):
            return cls


        def rotate(x):
            return -x


        @use_kernelized_func(rotate)
        class Attention:
            def forward(self, x):
                return rotate(x)


        @use_experts_implementation
        class Experts:
            def forward(self, x):
                return x
        """
    )
    for init in site.site.rglob("__init__.py"):
        init.write_text("")
    write(site, "kernels.py", "def rotate(x):\n    return x\n\n\ndef forward(self, x):\n    return x * 2\n")
    result = adopted(site, "toy.rotate = kernels.rotate; toy.Experts.forward = kernels.forward")
    assert 'config.drop_decorators("Attention", "use_kernelized_func")' in result.text
    assert 'config.drop_decorators("Experts", "use_experts_implementation")' in result.text
    made = make(site, result)
    assert not made.verdict.errors
    assert not made.verdict.warnings


def test_what_the_contract_rules_find_is_allowed_with_a_reason(site: Workspace) -> None:
    write(site, "kernels.py", "def forward(self, scale=1, x=2):\n    return x * scale\n")
    result = adopted(site, "toy.Head.forward = kernels.forward")
    assert [note.split(" '")[0] for note in result.notes] == ["allowed: PG201"] * len(result.notes)
    assert result.notes
    assert 'config.allow(\n    "PG201",' in result.text
    generated(site, result)
