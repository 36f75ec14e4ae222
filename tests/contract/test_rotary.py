"""Rotary kernels for whole heads where upstream rotates otherwise (PG217)."""

from __future__ import annotations

import pytest

from tests.conftest import UPSTREAM, Workspace
from tests.contract.support import examine, found

HALF = """
import torch
from .configuration_toy import ToyConfig


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)
"""
PLAIN = """

def apply_rotary_pos_emb(q, k, cos, sin):
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
"""
PARTIAL = """

def apply_rotary_pos_emb(q, k, cos, sin):
    rotary_dim = cos.shape[-1]
    q_rot, q_pass = q[..., :rotary_dim], q[..., rotary_dim:]
    k_rot, k_pass = k[..., :rotary_dim], k[..., rotary_dim:]
    q_embed = q_rot * cos + rotate_half(q_rot) * sin
    k_embed = k_rot * cos + rotate_half(k_rot) * sin
    return torch.cat([q_embed, q_pass], dim=-1), torch.cat([k_embed, k_pass], dim=-1)
"""
PAIRS = """
import torch


def rotate_half(x):
    return torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
"""
VIEWED = """
import torch


def rotate_half(x):
    x1, x2 = x.view(*x.shape[:-1], -1, 2).unbind(dim=-1)
    return torch.stack((-x2, x1), dim=-1).flatten(-2)
"""
SECTIONS = """

def apply_rotary_pos_emb(q, k, cos, sin, mrope_section):
    cos = torch.cat([m[i % 3] for i, m in enumerate(cos.split(mrope_section, dim=-1))], dim=-1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
"""
ATTENTION = """

class Attention:
    def forward(self, q, k, cos, sin):
        return apply_rotary_pos_emb(q, k, cos, sin)
"""
CUT_BY_CALLER = """

class Attention:
    def forward(self, q, k, cos, sin):
        q_rot, q_pass = q[..., : self.rotary_ndims], q[..., self.rotary_ndims :]
        q_rot, k = apply_rotary_pos_emb(q_rot, k, cos, sin)
        return torch.cat((q_rot, q_pass), dim=-1), k
"""
KERNEL = "config.add_import('kernels_of_ours', names=['liger_rotary_pos_emb'])\n"
PATCH = f"""{KERNEL}
import torch


@config.replace_function("apply_rotary_pos_emb")
def apply_rotary_pos_emb(q, k, cos, sin):
"""
ALL = f"{PATCH}    return liger_rotary_pos_emb(q, k, cos, sin)\n"
PART = "but upstream's rotates only a part of each head"


def external(module: str = "kernels_of_ours", name: str = "liger_rotary_pos_emb") -> str:
    """A config that imports a kernel under upstream's name."""
    return f"config.patches.append(create_patch_from_external('apply_rotary_pos_emb', '{module}', '{name}'))\n"


def messages(work: Workspace, upstream: str, config: str) -> list[str]:
    """What the rule says."""
    work.upstream(upstream)
    work.config(config)
    return [message.partition(" ")[2] for message in found(work, "PG217")]


@pytest.mark.parametrize(
    ("upstream", "how"),
    [
        pytest.param(HALF + PARTIAL, "rotates only a part of each head", id="partial"),
        pytest.param(PAIRS + PLAIN, "rotates neighbouring pairs", id="pairs"),
        pytest.param(VIEWED + PLAIN, "rotates neighbouring pairs", id="viewed as pairs"),
        pytest.param(
            HALF + SECTIONS, "takes each section of a head from a different axis of the positions", id="mrope"
        ),
    ],
)
def test_external_kernel_where_upstream_rotates_otherwise(work: Workspace, upstream: str, how: str) -> None:
    message = f"'apply_rotary_pos_emb' is 'liger_rotary_pos_emb' here, but upstream's {how}"
    assert messages(work, upstream, external()) == [message]
    (problem,) = examine(work, select=["PG217"]).warnings
    assert str(problem.location).endswith("toy_gpu_patch_gen_config.py:5")


@pytest.mark.parametrize("config", [external(), ALL], ids=["external", "copied"])
def test_plain_rotation_may_use_the_kernel(work: Workspace, config: str) -> None:
    assert messages(work, HALF + PLAIN + ATTENTION, config) == []


def test_configuration_class_is_named(work: Workspace) -> None:
    work.upstream(
        "class ToyConfig:\n    def __init__(self, **kw):\n        kw.setdefault('partial_rotary_factor', 0.25)\n",
        UPSTREAM.replace("modeling", "configuration"),
    )
    message = f"'apply_rotary_pos_emb' passes whole heads to 'liger_rotary_pos_emb', {PART}"
    assert messages(work, HALF + PARTIAL, ALL) == [f"{message} ('ToyConfig' has partial_rotary_factor)"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("    return liger_rotary_pos_emb(q, k, cos, sin)\n", id="all"),
        pytest.param(
            "    if q.is_cuda:\n        return liger_rotary_pos_emb(q, k, cos, sin)\n"
            "    rotary_dim = cos.shape[-1]\n    q_rot, q_pass = q[..., :rotary_dim], q[..., rotary_dim:]\n"
            "    return q_rot * cos + rotate_half(q_rot) * sin, k\n",
            id="guarded by the device",
        ),
        pytest.param("    q = q.float()\n    return liger_rotary_pos_emb(q=q, k=k, cos=cos, sin=sin)\n", id="names"),
        pytest.param(
            "    from liger import LigerRopeFunction\n    return LigerRopeFunction.apply(q, k, cos, sin)\n", id="local"
        ),
        pytest.param("    import torch_npu\n    return torch_npu.npu_rotary_mul(q, cos, sin), k\n", id="attribute"),
        pytest.param(
            "    import torch_npu\n    return torch_npu.npu_rotary_mul(q, cos[..., :8], sin), k\n", id="cosines cut"
        ),
        pytest.param(
            "    if q.is_cuda:\n        return liger_rotary_pos_emb(q, k, cos, sin)\n"
            "    q, q_pass = q[..., :8], q[..., 8:]\n    return q * cos, k\n",
            id="cut below",
        ),
    ],
)
def test_whole_heads_handed_to_a_kernel(work: Workspace, body: str) -> None:
    (message,) = messages(work, HALF + PARTIAL, PATCH + body)
    assert "'apply_rotary_pos_emb' passes whole heads to" in message
    assert message.endswith(PART)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "    n = cos.shape[-1]\n    q_rot, q_pass = q[..., :n], q[..., n:]\n"
            "    q_rot = q_rot.contiguous()\n"
            "    q_rot, k_rot = liger_rotary_pos_emb(q_rot, k[..., :n], cos, sin)\n    return q_rot, k_rot\n",
            id="cut",
        ),
        pytest.param(
            "    q_rot, q_pass = q.split([cos.shape[-1], 8], dim=-1)\n"
            "    return liger_rotary_pos_emb(q_rot, k, cos, sin)\n",
            id="split",
        ),
        pytest.param(
            "    if cos.shape[-1] == q.shape[-1]:\n        return liger_rotary_pos_emb(q, k, cos, sin)\n"
            "    return q, k\n",
            id="guarded",
        ),
        pytest.param("    return liger_rotary_pos_emb(q, k, cos, sin, rotary_dim=cos.shape[-1])\n", id="told"),
        pytest.param("    return q, k\n", id="no kernel"),
    ],
)
def test_heads_that_are_cut_first(work: Workspace, body: str) -> None:
    assert messages(work, HALF + PARTIAL, PATCH + body) == []


def test_kernel_that_is_told_of_pairs(work: Workspace) -> None:
    told = "    import torch_npu\n    return torch_npu.npu_rotary_mul(q, cos, sin, rotary_mode='interleave'), k\n"
    assert messages(work, PAIRS + PLAIN, PATCH + told) == []


def test_pairs_that_are_put_into_halves_first(work: Workspace) -> None:
    regrouped = "    q = q.view(*q.shape[:-1], -1, 2).transpose(-1, -2).reshape(q.shape)\n"
    call = "    return liger_rotary_pos_emb(q, k, cos, sin)\n"
    assert messages(work, PAIRS + PLAIN, PATCH + regrouped + call) == []


def test_kernel_that_cuts_by_itself(work: Workspace) -> None:
    work.write("proj/rope.py", "def liger_rotary_pos_emb(q, k, cos, sin, rotary_dim=None):\n    return q, k\n")
    assert messages(work, HALF + PARTIAL, external("proj.rope")) == []
    assert messages(work, PAIRS + PLAIN, external("proj.rope")) != []


def test_function_of_the_project_around_a_kernel(work: Workspace) -> None:
    work.write(
        "proj/rope.py",
        "import torch_npu\n\n\ndef fast_rope(q, k, cos, sin):\n    return torch_npu.npu_rotary_mul(q, cos, sin), k\n"
        "\n\ndef cut_rope(q, k, cos, sin):\n    return torch_npu.npu_rotary_mul(q[..., :8], cos, sin), k\n",
    )
    message = f"'apply_rotary_pos_emb' is 'fast_rope' here, {PART}"
    assert messages(work, HALF + PARTIAL, external("proj.rope", "fast_rope")) == [message]
    assert messages(work, HALF + PARTIAL, external("proj.rope", "cut_rope")) == []


SLOT = "config.add_import('proj.ops', names=['OpSlot'])\nconfig.add_post_import_block(\"rope = OpSlot('{}', '{}')\")\n"
SLOTTED = "    if rope.has_kernel:\n        return rope(q, k, cos, sin)\n    return q, k\n"


@pytest.mark.parametrize(
    ("op", "variant", "is_found"),
    [("rotary_pos_emb", "full", True), ("apply_rotary_pos_emb", "full", True), ("rotary_pos_emb", "partial", False)],
)
def test_slot_for_whole_heads(work: Workspace, op: str, variant: str, is_found: bool) -> None:
    config = SLOT.format(op, variant) + PATCH.replace(KERNEL, "") + SLOTTED
    expected = [f"'apply_rotary_pos_emb' passes whole heads to 'rope', {PART}"] if is_found else []
    assert messages(work, HALF + PARTIAL, config) == expected


def test_helper_around_a_kernel(work: Workspace) -> None:
    helper = (
        "@config.add_helper\ndef rotate(q, k, cos, sin):\n    return liger_rotary_pos_emb(q.float(), k, cos, sin)\n"
    )
    config = f"{helper}{PATCH}    return rotate(q, k, cos, sin)\n"
    assert messages(work, HALF + PARTIAL, config) == [f"'apply_rotary_pos_emb' passes whole heads to 'rotate', {PART}"]


METHOD = f"{KERNEL}@config.override_method('Attention.forward')\ndef forward(self, q, k, cos, sin):\n"


def test_method_that_calls_the_kernel_instead_of_upstreams_function(work: Workspace) -> None:
    config = f"{METHOD}    return liger_rotary_pos_emb(q, k, cos, sin)\n"
    message = "'Attention.forward' passes whole heads to 'liger_rotary_pos_emb'"
    assert messages(work, HALF + PARTIAL + ATTENTION, config) == [f"{message}, {PART}"]
    assert messages(work, HALF + PLAIN + CUT_BY_CALLER, config) == [f"{message}, {PART}"]
    assert messages(work, HALF + PLAIN + ATTENTION, config) == []


def test_patched_function_is_judged_once(work: Workspace) -> None:
    config = f"{ALL}@config.override_method('Attention.forward')\ndef forward(self, q, k, cos, sin):\n"
    config += "    return apply_rotary_pos_emb(q, k, cos, sin)\n"
    (message,) = messages(work, HALF + PARTIAL + ATTENTION, config)
    assert message.startswith("'apply_rotary_pos_emb' passes")


def test_caller_that_cuts_the_heads_allows_the_kernel(work: Workspace) -> None:
    assert messages(work, HALF + PLAIN + CUT_BY_CALLER, external()) == []
    cut = "    q_rot = q[..., : self.rotary_ndims]\n    return liger_rotary_pos_emb(q_rot, k, cos, sin)\n"
    assert messages(work, HALF + PLAIN + CUT_BY_CALLER, METHOD + cut) == []


def test_name_bound_to_a_kernel_after_an_exclusion(work: Workspace) -> None:
    config = (
        f"{KERNEL}config.exclude_from_output('apply_rotary_pos_emb')\n"
        "config.add_post_import_block('apply_rotary_pos_emb = liger_rotary_pos_emb')\n"
    )
    message = f"'apply_rotary_pos_emb' is 'liger_rotary_pos_emb' here, {PART}"
    assert messages(work, HALF + PARTIAL + ATTENTION, config) == [message]
