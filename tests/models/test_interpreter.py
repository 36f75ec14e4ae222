"""Triton's interpreter: what switching it on does, each time in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

ADAPTED = """
    import json
    from patchgen_core.models.interpreter import switch_on

    notes = [switch_on(), switch_on()]

    import torch, triton, triton.language as tl
    from triton.language.extra.libdevice import rsqrt, tanh

    @triton.jit
    def kernel(x_ptr, y_ptr, out_ptr, count, scale, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        inside = at < count
        x = tl.load(x_ptr + at, mask=inside, other=1)
        y = tl.load(y_ptr + at, mask=inside, other=1)
        product = x * y + x
        bent = tanh(product.to(tl.float32)) * rsqrt(1 + x.to(tl.float32) * x.to(tl.float32)) * scale.to(tl.float32)
        tl.store(out_ptr + at, tl.where(product > y, bent, -bent), mask=inside)

    errors = {}
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        torch.manual_seed(0)
        x, y = torch.randn(1000).to(dtype), torch.randn(1000).to(dtype)
        out = torch.empty_like(x)
        kernel[(1,)](x, y, out, 1000, 0.3, BLOCK=1024)
        product = x * y + x
        bent = torch.tanh(product.float()) * torch.rsqrt(1 + x.float() ** 2) * 0.3
        right = torch.where(product > y, bent, -bent).to(dtype)
        errors[str(dtype)] = (out.double() - right.double()).abs().max().item()
    print(json.dumps({"notes": notes, "errors": errors}))
"""
REFUSED = """
    import json
    from patchgen_core.models.interpreter import switch_on

    switch_on()
    import torch, triton, triton.language as tl

    @triton.jit
    def kernel(x_ptr, KIND: tl.constexpr):
        eight = tl.load(x_ptr + tl.arange(0, 8))
        four = tl.load(x_ptr + tl.arange(0, 4))
        if KIND == "sizes":
            eight = eight + four
        if KIND == "no power of two":
            eight = tl.zeros((6,), tl.float32)
        if KIND == "no integer":
            eight = tl.zeros((8.0,), tl.float32)
        if KIND == "store":
            tl.store(x_ptr + tl.arange(0, 4), eight)
        tl.store(x_ptr + tl.arange(0, 8), eight + 1)

    def said(kind):
        x = torch.zeros(8)
        try:
            kernel[(1,)](x, KIND=kind)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return x.tolist()

    kinds = ("nothing", "sizes", "no power of two", "no integer", "store")
    print(json.dumps({kind: said(kind) for kind in kinds}))
"""
LATE = """
    import triton
    {then}
    from patchgen_core.models.interpreter import switch_on
    switch_on()
"""
IMPORTED = """
    import json
    import liger_kernel.ops.geglu as geglu
    from patchgen_core.models.interpreter import switch_on

    before = geglu.tanh
    notes = switch_on()
    print(json.dumps({"replaced": geglu.tanh is not before, "notes": notes}))
"""


def child(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python without a GPU."""
    settings = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    settings |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", **environment}
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, env=settings, cwd=root, check=False)


def answer(code: str, **environment: str) -> Any:
    done = child(code, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def adapted() -> Any:
    return answer(ADAPTED)


@pytest.mark.parametrize("dtype", ["torch.float16", "torch.bfloat16"])
@pytest.mark.slow
def test_interpreted_kernels_round_as_torch_does(adapted: Any, dtype: str) -> None:
    assert adapted["errors"][dtype] == 0


@pytest.mark.slow
def test_interpreted_kernels_compute_what_torch_does(adapted: Any) -> None:
    assert adapted["errors"]["torch.float32"] < 1e-7


@pytest.mark.slow
def test_switching_on_says_what_it_adapted_and_adapts_once(adapted: Any) -> None:
    first, second = adapted["notes"]
    assert [note for note in first if note.startswith("adapter: ")] == first[1:]
    assert any("tanh" in note for note in first)
    assert second == first[:1]


@pytest.mark.slow
def test_kernels_that_do_not_compile_are_refused_by_the_adapted_interpreter() -> None:
    said = answer(REFUSED)
    assert said.pop("nothing") == [1.0] * 8
    assert [kind for kind, text in said.items() if "Error" not in text] == []
    assert "incompatible dimensions" in said["sizes"]
    assert "power of 2" in said["no power of two"]


@pytest.mark.parametrize("then", ["", "import os; os.environ['TRITON_INTERPRET'] = '1'"])
@pytest.mark.slow
def test_too_late_is_refused(then: str) -> None:
    done = child(LATE.format(then=then))
    assert done.returncode != 0
    assert "triton has been imported without it" in done.stderr


@pytest.mark.slow
def test_kernels_that_were_imported_before_get_the_adapters(adapted: Any) -> None:
    found = answer(IMPORTED, TRITON_INTERPRET="1")
    assert found["replaced"]
    assert found["notes"] == adapted["notes"][0]
