"""From a monkey patch to a patch config: the generated module does what the patch did, and nothing is dropped."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchgen_core.api.codegen import CodegenResult, generate_and_write
from patchgen_core.authoring.adopt import AdoptResult, adopt
from patchgen_core.build.selection import Selection
from patchgen_core.cli.commands.adopt import adopted_data, build_parser, parse_arguments, print_adopted
from patchgen_core.errors import PatchgenError
from tests.conftest import UPSTREAM, Workspace

UPSTREAM_TEXT = """
import functools
import logging
from math import sqrt

LIMIT = 3
logger = logging.getLogger(__name__)


def traced(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        return ("traced", function(*args, **kwargs))

    return run


def rotate(x):
    return -x


class Norm:
    def forward(self, x):
        return sqrt(x)


class Special(Norm):
    pass


class Head:
    factor = 1

    @traced
    def forward(self, x, scale=1):
        return Norm().forward(rotate(x)) * LIMIT

    def close(self, x):
        return int(x)
"""
KERNELS = """
import logging
import math

logger = logging.getLogger(__name__)


class FastNorm:
    def forward(self, x):
        return x * 100


def fast_rotate(x):
    return x + 1000


def helper(x):
    return x + 0.5


def head_forward(self, x, scale=1):
    logger.debug("fast")
    return helper(math.floor(x)) * scale
"""


@pytest.fixture
def site(work: Workspace) -> Iterator[Workspace]:
    """A project with an upstream and a package of kernels that can be imported."""
    work.upstream(UPSTREAM_TEXT)
    for init in work.site.rglob("__init__.py"):
        init.write_text("")
    write(work, "kernels.py", KERNELS)
    yield work
    for name in list(sys.modules):
        if name.partition(".")[0] in ("acme", "kernels", "patches"):
            del sys.modules[name]


def write(work: Workspace, name: str, text: str) -> None:
    (work.site / name).write_text(textwrap.dedent(text))


def adopted(work: Workspace, patch: str, **options: Any) -> AdoptResult:
    """Adopt a patcher with this body."""
    body = textwrap.indent(textwrap.dedent(patch), "    ")
    head = (
        "import functools\nimport kernels\nfrom acme.models.toy import modeling_toy as toy\n\n\ndef patch(on=True):\n"
    )
    write(work, "patches.py", head + body)
    return adopt(work.project, UPSTREAM, "patches:patch", **options)


def generated(work: Workspace, result: AdoptResult) -> types.ModuleType:
    """The module that an adopted config makes, which keeps the contracts."""
    made = make(work, result)
    assert not made.verdict.errors, "\n".join(map(str, made.verdict.errors))
    spec = importlib.util.spec_from_file_location("made", made.artifact.path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(work: Workspace, result: AdoptResult) -> CodegenResult:
    [made] = generate_and_write(Selection(work.project, [result.path]))
    return made


def only_finding(result: AdoptResult) -> str:
    [finding] = result.findings
    assert finding.message.split(" = ")[0] in result.text.replace("\n#   ", " ")
    return str(finding)


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


def test_arguments_that_are_hard_to_quote(site: Workspace) -> None:
    hard = {"on": 'a"""b\\n\n'}
    result = adopted(site, "toy.rotate = kernels.fast_rotate", arguments=hard)
    assert generated(site, result).rotate(1) == 1001


def test_names_of_the_replacements_module(site: Workspace) -> None:
    module = generated(site, adopted(site, "toy.Head.forward = kernels.head_forward"))
    assert (module.helper(1), module.math.floor(1.5)) == (1.5, 1)
    assert module.logger.name == "made"  # upstream's own logger stays its own
    assert module.kernels_logger.name == "kernels"


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
    assert (
        "Head.forward = kernels.forward: kernels.forward uses 'rotate', which the generated module has not" in finding
    )


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


def test_a_replacement_that_sets_a_global_of_its_module(site: Workspace) -> None:
    write(
        site,
        "kernels.py",
        "calls = 0\n\n\ndef forward(self, x, scale=1):\n    global calls\n    calls += 1\n    return x\n",
    )
    finding = only_finding(adopted(site, "toy.rotate = print; toy.Head.forward = kernels.forward"))
    assert "kernels.forward uses 'calls', which the generated module has not, or has with another meaning" in finding


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
            "Head.m1 = kernels.head_forward: it is wrapped where it is put",
        ),
        (
            "toy.Head.m2 = staticmethod(kernels.helper)",
            "Head.m2 = kernels.helper: it is made a staticmethod where it is",
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
    comments = " ".join(result.text.partition("# What patch does beside and this config does not:")[2].split("\n#   "))
    for _, message in cases:
        [finding] = [finding for finding in result.findings if finding.message.startswith(message)]
        assert finding.hint
        assert finding.message.split(" = ")[0] in comments


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


def test_what_has_no_effect_is_a_note(site: Workspace) -> None:
    result = adopted(
        site, "toy.RMSNorm = kernels.FastNorm; toy.Norm.forward = kernels.helper; toy.Norm = kernels.FastNorm"
    )
    assert result.changes == ("Norm = kernels.FastNorm",)
    assert "RMSNorm: the patcher sets it, but modeling_toy has no such name: without effect" in result.notes
    assert "Norm.forward: the patcher replaces 'Norm' as well: without effect" in result.notes


def test_what_upstream_uses_while_it_is_imported_is_a_note(site: Workspace) -> None:
    result = adopted(site, "toy.Norm = kernels.FastNorm")
    [note] = result.notes
    assert note.startswith("Special uses Norm when the module is imported: there the generated module has the new one")


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patcher": "patches:pach"}, "'patches' has no 'pach'\n  Did you mean 'patch'?"),
        ({"patcher": "pitches:patch"}, "the patcher's module, 'pitches', cannot be imported: ModuleNotFoundError"),
        ({"arguments": {"off": 1}}, "cannot be called: got an unexpected keyword argument 'off'\n"),
        ({"arguments": {"on": object()}}, "the patcher's arguments cannot be passed on"),
        (
            {"model": "acme.models.toy.modeling_tyo"},
            "'acme.models.toy.modeling_tyo'\n  Did you mean 'acme.models.toy.modeling_toy'?",
        ),
        ({"output": Path("toy.py")}, "'toy.py' is no name of a config\n  It must end in '_patch_gen_config.py'."),
    ],
)
def test_wrong_usage(site: Workspace, options: dict[str, Any], message: str) -> None:
    write(site, "patches.py", "def patch(on=True): ...\n")
    with pytest.raises(PatchgenError) as caught:
        adopt(site.project, **{"model": UPSTREAM, "patcher": "patches:patch", **options})
    assert message in str(caught.value)
    assert not list(site.models.iterdir())


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (
            "raise ValueError('no kernel')",
            "the patcher patches:patch failed on 'acme.models.toy.modeling_toy': ValueError",
        ),
        ("pass", "patches:patch changes nothing of 'acme.models.toy.modeling_toy' that a config could declare"),
        ("toy.Head.factor = 2", "Head.factor = 2: only methods can be patched"),
        ("import os; os._exit(3)", "running the patcher gave nothing: its process has ended with exit code 3"),
        ("import json; json.dumps = None; toy.Head.factor = 2", "json.dumps = None: is not of modeling_toy"),
    ],
)
def test_nothing_is_written_when_nothing_can_be(site: Workspace, patch: str, message: str) -> None:
    with pytest.raises(PatchgenError) as caught:
        adopted(site, patch)
    assert message in str(caught.value)
    assert not list(site.models.iterdir())


def test_a_config_that_is_there_stays(site: Workspace) -> None:
    path = adopted(site, "toy.rotate = kernels.fast_rotate").path
    path.write_text("mine")
    with pytest.raises(PatchgenError, match=r"there is a config already\n  Name another file, or pass --force"):
        adopted(site, "toy.rotate = kernels.fast_rotate")
    assert path.read_text() == "mine"
    other = site.models / "other_npu_patch_gen_config.py"
    result = adopted(site, "toy.rotate = kernels.fast_rotate", output=other)
    assert result.path == other
    assert 'target_file="patched_modeling_other_npu.py"' in result.text
    assert adopted(site, "toy.rotate = kernels.fast_rotate", force=True).path == path
    assert path.read_text() != "mine"


@pytest.mark.torch
def test_a_project_module_may_register_the_patcher(site: Workspace) -> None:
    site.write(
        "proj/patchers.py",
        """
        import kernels
        from acme.models.toy import modeling_toy
        from patchgen_core.monkey_patch import MONKEY_PATCHER


        @MONKEY_PATCHER.register("toy", "mine")
        def patch(rope=True):
            modeling_toy.rotate = kernels.fast_rotate
        """,
    )
    with pytest.raises(PatchgenError, match="there is no 'mine' patch for the model type 'toy'"):
        adopt(site.project, UPSTREAM, "mine")
    result = adopt(site.project, UPSTREAM, "mine", imports=["proj.patchers"])
    assert (result.changes, result.patcher) == (("rotate = kernels.fast_rotate",), "proj.patchers:patch")
    assert f"patchgen adopt {UPSTREAM} --from mine --import proj.patchers" in result.text.replace("\n", " ")


# --- the command line ------------------------------------------------------------------------------


def test_arguments_of_the_command_line() -> None:
    options = build_parser("patchgen adopt").parse_args(["llama", "--kwargs", "rope=false", "--from", "x:y"])
    assert (options.adopted_model, options.patcher, options.kwargs) == ("llama", "x:y", ["rope=false"])
    words = ["rope=false", "eps=1e-5", "mode=llama", "layers=[1, 2]", "model=None"]
    given = {"rope": False, "eps": 1e-5, "mode": "llama", "layers": [1, 2], "model": None}
    assert parse_arguments(words) == given
    for word in ("rope", "=1", "a.b=1"):
        with pytest.raises(PatchgenError, match=r"is not of the form name=value"):
            parse_arguments([word])
    with pytest.raises(PatchgenError, match=r"'rope' is given twice"):
        parse_arguments(["rope=1", "rope=2"])


def test_what_is_printed(site: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    result = adopted(site, "toy.rotate = kernels.fast_rotate; toy.Head.factor = 2; toy.Gone = kernels.FastNorm")
    print_adopted(Console(no_color=True, highlight=False, markup=False), result, "patchgen toy")
    printed = capsys.readouterr().out
    assert printed.endswith(
        "         rotate = kernels.fast_rotate\n"
        "         Gone: the patcher sets it, but modeling_toy has no such name: without effect\n"
        "warning: Head.factor = 2: only methods can be patched\n"
        "  Set it in modify_init, or replace the class.\n"
        "1 patch of patches:patch; 1 of its changes is not there.\n"
        "Run 'patchgen toy' to generate it.\n"
    )
    data = json.loads(json.dumps(adopted_data(result)))
    assert (data["exit_code"], data["changes"]) == (1, ["rotate = kernels.fast_rotate"])
    assert data["findings"][0]["message"] == "Head.factor = 2: only methods can be patched"


# --- Liger's own -----------------------------------------------------------------------------------

COMPARE = """
import importlib, json, sys
from patchgen_core.models.interpreter import switch_on
switch_on()
import torch
from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN
from patchgen_core.models.toy_config import toy_config_for

name, head = sys.argv[1:]
upstream = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
made = importlib.import_module(f"proj.models.{name}.generated.patched_modeling_{name}_gpu")


def run(module, state):
    torch.manual_seed(0)
    config = toy_config_for(name)
    config._attn_implementation = "eager"
    model = getattr(module, head)(config).train()
    model.load_state_dict(state or model.state_dict())
    tokens = torch.arange(14).reshape(2, 7) + 5
    output = model(input_ids=tokens, labels=tokens)
    output.loss.backward()
    return model, output, {name: parameter.grad for name, parameter in model.named_parameters()}


model, eager, eager_grads = run(upstream, None)
_, ours, our_grads = run(made, model.state_dict())
MODEL_TYPE_TO_APPLY_LIGER_FN[name]()
_, theirs, their_grads = run(upstream, model.state_dict())
print(json.dumps({
    "no logits": ours.logits is None and theirs.logits is None and eager.logits is not None,
    "loss": torch.equal(ours.loss, theirs.loss),
    "gradients": all(torch.equal(our_grads[key], their_grads[key]) for key in their_grads),
    "loss off": abs(ours.loss - eager.loss).item(),
    "gradients off": max((our_grads[key] - eager_grads[key]).abs().max().item() for key in eager_grads),
}))
"""


@pytest.mark.torch
def test_liger_for_gemma2(work: Workspace) -> None:
    """Generated, the module computes bit for bit what Liger's monkey patch computes."""
    result = adopt(work.project, "gemma2")
    assert not result.findings
    targets = {"Gemma2RMSNorm", "Gemma2MLP", "apply_rotary_pos_emb", "Gemma2ForCausalLM.forward"}
    assert {change.split(" = ")[0] for change in result.changes} == targets
    assert not make(work, result).verdict.errors
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(work.root)])}
    command = [sys.executable, "-c", COMPARE, "gemma2", "Gemma2ForCausalLM"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["no logits"]
    assert found["loss"]
    assert found["gradients"]
    assert max(found["loss off"], found["gradients off"]) < 1e-5


@pytest.mark.torch
def test_what_liger_changes_for_the_whole_process_is_a_finding(work: Workspace) -> None:
    result = adopt(work.project, "granite")
    finding = only_finding(result)
    assert "torch.nn.functional.cross_entropy = liger_kernel.transformers.functional.liger_cross_entropy" in finding
    assert "'--kwargs cross_entropy=false' leaves it out." in finding


@pytest.mark.torch
def test_model_types_that_transformers_or_liger_lack(work: Workspace) -> None:
    with pytest.raises(
        PatchgenError, match=r"has no model type 'lama' with a modeling module\n  Did you mean 'llama'"
    ):
        adopt(work.project, "lama")
    with pytest.raises(PatchgenError, match=r"there is no 'liger' patch for the model type 'opt'"):
        adopt(work.project, "opt")
