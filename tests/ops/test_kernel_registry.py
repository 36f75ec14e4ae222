"""Registering and resolving kernels: what is refused, what is listed, and what other packages bring."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from patchgen_core.errors import PatchgenError
from patchgen_core.ops import KERNEL_REGISTRY, HardwareRequirement, KernelRegistry, KernelSpec
from tests.ops.modules import refused

HERE = os.path.relpath(__file__)
ROOT = Path(__file__).parents[2]


def spec(name="fast", op="rms_norm", variant="standard", factory=lambda: print, **rest):
    return KernelSpec(name, op, variant, factory, **rest)


def line():
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


@pytest.fixture
def registry():
    """One with two ops, two variants and three names."""
    made = KernelRegistry()
    for one in (
        spec("eager"),
        spec("fast"),
        spec("fast", variant="one_plus_weight"),
        spec("npu", hardware=HardwareRequirement("npu")),
        spec("fast", op="swiglu_mlp"),
    ):
        made.register(one)
    return made


def test_a_registered_kernel_is_resolved():
    registry = KernelRegistry()

    def kernel():
        pass

    given = spec(factory=lambda: kernel)
    assert registry.register(given) is given
    assert registry.resolve("rms_norm", "fast", "standard") is kernel
    assert registry.resolve("rms_norm", "fast") is kernel


def test_a_duplicate_names_both_places():
    registry = KernelRegistry()
    registry.register(spec())
    first = line() - 1
    with pytest.raises(PatchgenError) as caught:
        registry.register(spec())
    second = line() - 1
    assert str(caught.value) == (
        f"{HERE}:{second}: kernel 'fast' for rms_norm/standard is registered twice: "
        f"at {HERE}:{first} and at {HERE}:{second}\n"
        "  Give one of them another name, or pass force=True to replace the first."
    )


def test_a_duplicate_of_a_default_names_where_the_defaults_are():
    text = refused(lambda: KERNEL_REGISTRY.register(spec("eager")))
    assert "registered twice: at patchgen_core/ops/kernels/__init__.py and at" in text
    assert HERE in text


def test_a_duplicate_leaves_the_first():
    registry = KernelRegistry()
    registry.register(spec(factory=lambda: print))
    refused(registry.register, spec(factory=lambda: repr))
    assert registry.resolve("rms_norm", "fast") is print


def test_force_replaces_even_what_was_made():
    registry = KernelRegistry()
    registry.register(spec(factory=lambda: print))
    registry.resolve("rms_norm", "fast")
    registry.register(spec(factory=lambda: repr), force=True)
    assert registry.resolve("rms_norm", "fast") is repr
    assert f"{HERE}:{line() - 2}" in refused(registry.register, spec())


def test_the_same_name_serves_other_ops_and_variants(registry):
    assert [one.label for one in registry.specs()] == [
        "rms_norm-one_plus_weight-fast",
        "rms_norm-standard-eager",
        "rms_norm-standard-fast",
        "rms_norm-standard-npu",
        "swiglu_mlp-standard-fast",
    ]
    assert [one.name for one in registry.specs("rms_norm", "standard")] == ["eager", "fast", "npu"]
    assert registry.specs("nothing") == ()


def available(registry, *slot):
    """The names of the kernels that can run on this machine."""
    return tuple(dict.fromkeys(one.name for one in registry.specs(*slot) if not one.why_not_here()))


def test_what_is_available_is_what_can_run_here(registry):
    assert available(registry) == ("fast", "eager")
    assert available(registry, "rms_norm", "standard") == ("eager", "fast")
    assert available(registry, "swiglu_mlp") == ("fast",)


@pytest.mark.parametrize(
    ("asked", "said", "hint"),
    [
        (("rms_nrom", "fast"), "no kernel is registered for the op 'rms_nrom'", "Did you mean 'rms_norm'?"),
        (("zzz", "fast"), "no kernel is registered for the op 'zzz'", "There are: rms_norm, swiglu_mlp."),
        (
            ("rms_norm", "fast", "one_plus_weigth"),
            "op 'rms_norm' has no variant 'one_plus_weigth'",
            "Did you mean 'one_plus_weight'?",
        ),
        (("rms_norm", "fast", "zzz"), "has no variant 'zzz'", "There are: one_plus_weight, standard."),
        (
            ("rms_norm", "fsat"),
            "there is no kernel 'fsat' for rms_norm/standard",
            "Did you mean 'fast'? There are: eager, fast, npu (needs an NPU).",
        ),
        (("rms_norm", "zzz"), "there is no kernel 'zzz' for rms_norm/standard", "There are: eager, fast, npu (needs"),
    ],
)
def test_what_is_unknown_is_refused_with_the_nearest(registry, asked, said, hint):
    text = refused(registry.resolve, *asked)
    assert said in text
    assert hint in text


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ({"packages": ("torch", "absent_here")}, "needs package 'absent_here'"),
        ({"packages": ("torch>=99.1",)}, "needs torch 99.1 or newer (this is "),
        ({"hardware": HardwareRequirement("npu")}, "needs an NPU"),
        ({"hardware": HardwareRequirement("mps")}, "needs an Apple GPU"),
        ({"hardware": HardwareRequirement("cuda", (99, 0))}, "needs a CUDA device of compute capability 99.0"),
    ],
)
def test_what_cannot_run_here_is_refused_with_what_can(registry, rest, reason):
    made = []
    registry.register(spec("special", factory=lambda: made.append(1), **rest))
    text = refused(registry.resolve, "rms_norm", "special")
    assert f"kernel 'special' for rms_norm/standard {reason}" in text
    assert "This machine has: cpu" in text
    assert "There are: eager, fast, npu (needs an NPU), special (needs " in text
    assert made == []
    assert "special" not in available(registry)


def test_what_is_there_is_not_refused(registry):
    registry.register(
        spec("special", packages=("torch>=2.0", "torch >= 2.0", "patchgen_core"), hardware=HardwareRequirement("cpu")),
    )
    assert registry.resolve("rms_norm", "special") is print
    assert "special" in available(registry)


def test_a_device_whose_package_cannot_be_imported_is_not_there(registry, tmp_path, monkeypatch):
    (tmp_path / "torch_npu.py").write_text("raise ImportError('libascend.so: cannot open shared object file')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.register(spec("special", hardware=HardwareRequirement("npu"), packages=("torch_npu",)))
    assert available(registry) == ("fast", "eager")
    assert "special' for rms_norm/standard needs an NPU" in refused(registry.resolve, "rms_norm", "special")


def test_a_kernel_for_triton_runs_where_triton_is_interpreted(registry, monkeypatch):
    needed = HardwareRequirement("cuda", (99, 0), interpretable=True)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert not needed.is_met()
    assert str(needed) == "a CUDA device of compute capability 99.0 or Triton's interpreter"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert needed.is_met()
    assert not HardwareRequirement("cuda", (99, 0)).is_met()


def test_a_factory_that_cannot_import_is_refused_with_what_there_is(registry):
    def factory():
        import absent_here

        return absent_here

    registry.register(spec("broken", factory=factory))
    text = refused(registry.resolve, "rms_norm", "broken")
    assert "kernel 'broken' for rms_norm/standard cannot be imported: No module named 'absent_here'" in text
    assert "There are: eager, broken, fast, npu (needs an NPU)." in text
    assert HERE in text


def test_a_factory_that_makes_no_kernel_is_refused(registry):
    registry.register(spec("broken", factory=lambda: 3))
    text = refused(registry.resolve, "rms_norm", "broken")
    assert "the factory of kernel 'broken' for rms_norm/standard returned 3, which cannot be called" in text


def test_a_defect_of_a_factory_is_not_dressed_up(registry):
    registry.register(spec("broken", factory=lambda: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        registry.resolve("rms_norm", "broken")


def test_a_kernel_is_made_once_and_not_before_it_is_asked_for():
    made = []
    registry = KernelRegistry()
    registry.register(spec(factory=lambda: made.append(1) or (lambda: None)))
    registry.specs()
    assert made == []
    found = []
    threads = [threading.Thread(target=lambda: found.append(registry.resolve("rms_norm", "fast"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert len({id(kernel) for kernel in found}) == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": ""}, "name must be a name, not ''"),
        ({"op": None}, "op_name must be a name, not None"),
        ({"variant": 3}, "variant must be a name, not 3"),
        ({"factory": "print"}, "factory must be a callable that makes the kernel, not 'print'"),
        ({"packages": "torch"}, "packages must be a tuple of names, not 'torch'"),
        ({"hardware": "cuda"}, "hardware must be a HardwareRequirement or None, not 'cuda'"),
    ],
)
def test_a_bad_spec_is_refused(fields, said):
    assert said in refused(spec, **fields)


def test_only_specs_are_registered():
    assert "a KernelSpec is registered, not <built-in function print>" in refused(KernelRegistry().register, print)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gpu",), "there is no device type 'gpu'\n  There are: cpu, cuda, npu, xpu, mps."),
        (("npu", (9, 0)), "min_compute_capability is for CUDA devices, not for 'npu'"),
        (("cuda", 9.0), "min_compute_capability is a pair such as (9, 0), not 9.0"),
        (("cuda", (9,)), "min_compute_capability is a pair such as (9, 0), not (9,)"),
        (("cuda", ("9", "0")), "min_compute_capability is a pair such as (9, 0), not ('9', '0')"),
    ],
)
def test_bad_hardware_is_refused(arguments, said):
    assert said in refused(HardwareRequirement, *arguments)


def test_a_registry_that_cannot_be_filled_says_so_each_time():
    attempts = []

    def fill(registry):
        registry.register(spec())
        attempts.append(1)
        if len(attempts) < 3:
            raise OSError("disk")

    registry = KernelRegistry(fill)
    for _ in range(2):
        with pytest.raises(OSError, match="disk"):
            registry.specs()
    assert [one.name for one in registry.specs()] == ["fast"]


def run_python(code: str, *folders: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (*folders, ROOT)))
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=ROOT)


def install(site: Path, package: str, entry_points: str, **modules: str) -> None:
    """What an installed package leaves behind."""
    info = site / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[patchgen.kernels]\n{entry_points}\n")
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text)


FUNCTION_FORM = """
from patchgen_core.ops import KernelSpec
def add(registry):
    registry.register(KernelSpec("acme", "rms_norm", "standard", lambda: max))
"""
MODULE_FORM = """
from patchgen_core.ops import KERNEL_REGISTRY, KernelSpec
KERNEL_REGISTRY.register(KernelSpec("acme", "acme_op", "standard", lambda: min))
"""


def test_other_packages_bring_kernels_by_entry_points(tmp_path):
    install(tmp_path, "acme-one", "one = acme_one:add", acme_one=FUNCTION_FORM)
    install(tmp_path, "acme-two", "two = acme_two", acme_two=MODULE_FORM)
    code = """
import sys
from patchgen_core.ops import KERNEL_REGISTRY, OpSlot
assert "acme_one" not in sys.modules
assert KERNEL_REGISTRY.resolve("rms_norm", "acme") is max
slot = OpSlot("acme_op")
slot.bind("acme")
assert slot.bound_kernel is min
print([s.label for s in KERNEL_REGISTRY.specs() if s.name == "acme"])
"""
    done = run_python(code, tmp_path)
    assert done.stderr == ""
    assert done.stdout.strip() == "['acme_op-standard-acme', 'rms_norm-standard-acme']"


@pytest.mark.parametrize(
    ("target", "text", "said"),
    [
        ("acme_bad:add", "def add(registry):\n    raise KeyError('oops')\n", "KeyError: 'oops'"),
        ("acme_bad:add", FUNCTION_FORM.replace("acme", "other") + "    raise KeyError('oops')\n", "KeyError: 'oops'"),
        ("acme_bad", FUNCTION_FORM + "\nimport absent_here\n", "ModuleNotFoundError: No module named 'absent_here'"),
        ("acme_bad:nothing", FUNCTION_FORM, "AttributeError"),
        ("acme_bad:add", FUNCTION_FORM.replace("acme", "eager"), "PatchgenError"),
        ("acme_bad:name", "name = 'eager'", "TypeError"),
    ],
    ids=["raises", "raises late", "import", "missing", "duplicate", "not callable"],
)
@pytest.mark.mostly_slow(2)
def test_kernels_that_cannot_be_registered_name_their_package_each_time(tmp_path, target, text, said):
    install(tmp_path, "acme-fine", "a = acme_one:add", acme_one=FUNCTION_FORM)
    install(tmp_path, "acme-bad", f"b = {target}", acme_bad=text)
    code = """
from patchgen_core.ops import KERNEL_REGISTRY, OpSlot
for ask in (KERNEL_REGISTRY.specs, KERNEL_REGISTRY.specs, lambda: OpSlot("rms_norm").bind("acme")):
    try:
        ask()
    except Exception as error:
        print(type(error).__name__, str(error).replace(chr(10), " "))
"""
    done = run_python(code, tmp_path)
    rows = done.stdout.splitlines()
    assert len(rows) == 3, done.stderr
    for row in rows:
        assert row.startswith(f"PatchgenError the kernels of acme-bad cannot be registered: {said}")
        assert f"Its entry point 'b' of the group 'patchgen.kernels' is {target}." in row


def test_an_entry_point_may_ask_what_there_is(tmp_path):
    text = "def add(registry):\n    print(len(registry.specs()) > 3)\n"
    install(tmp_path, "acme-one", "a = acme_one:add", acme_one=text)
    done = run_python("from patchgen_core.ops import KERNEL_REGISTRY as r; r.specs(); r.specs()", tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("True", "")


def test_importing_and_listing_import_no_torch_and_no_kernel():
    code = """
import sys
import patchgen_core.ops
from patchgen_core.ops import KERNEL_REGISTRY, HardwareRequirement, KernelRegistry, OpsConfig, OpSlot, bind_ops
light = {name.partition(".")[0] for name in sys.modules}
assert not light & {"torch", "liger_kernel", "triton", "transformers", "libcst", "pytest"}, light
labels = [spec.label for spec in KERNEL_REGISTRY.specs()]
assert "rms_norm-standard-liger_kernel" in labels
assert {"rms_norm", "rotary_pos_emb", "swiglu_mlp", "cross_entropy_loss", "moe_experts"} <= {
    spec.op_name for spec in KERNEL_REGISTRY.specs()
}
OpSlot("rms_norm"), OpsConfig(), HardwareRequirement("cuda", (9, 0))
assert "torch" not in sys.modules
assert "liger_kernel" not in sys.modules
"""
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    import patchgen_core.ops

    with pytest.raises(AttributeError, match=r"'patchgen_core\.ops' has no attribute 'OpSlots'"):
        patchgen_core.ops.OpSlots  # noqa: B018
