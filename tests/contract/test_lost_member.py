from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import found

UPSTREAM = """
from acme.nn import Module, Linear


class Attention(Module):
    scale = 2

    def __init__(self, config):
        self.q_proj = Linear()
        self.heads = config.heads

    def reset(self):
        return self.heads

    def forward(self, x):
        return self.q_proj(x) * self.scale


class Layer(Module):
    def __init__(self, config):
        self.attention = Attention(config)

    def weight(self):
        return self.attention.q_proj

    def forward(self, x):
        self.attention.reset()
        return self.attention(x) * self.attention.scale
"""
INIT = "@config.override_method('Attention.__init__')\ndef init(self, config):\n    {}\n"
CLASS = "@config.replace_class('Attention')\nclass A(Module):\n    {}\n    def forward(self, x):\n        return x\n"


def lost(owner: str, name: str) -> str:
    return f"PG222 '{owner}' uses '{name}' of 'Attention', which its patch removes"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            INIT.format("self.heads = 1"),
            [lost("Attention.forward", "q_proj"), lost("Layer.weight", "q_proj")],
        ),
        (
            CLASS.format("heads = 1"),
            [lost("Layer.forward", "reset"), lost("Layer.forward", "scale"), lost("Layer.weight", "q_proj")],
        ),
        (INIT.format("self.q_proj = self.heads = 1"), []),
        (INIT.format("self.heads = 1\n    self.register_buffer('q_proj', None)"), []),
        (INIT.format("self.heads = 1\n    setattr(self, 'q_proj', None)"), []),
        (INIT.format("for name in config:\n        setattr(self, name, None)"), []),
        (CLASS.format("q_proj = scale = 1\n    def reset(self): ..."), []),
        (CLASS.replace("A(Module)", "A(Fused)").format("heads = 1"), []),
    ],
    ids=[
        *("overridden __init__", "replaced class", "assigned in another way", "buffer", "setattr", "any setattr"),
        *("class attributes", "base of another module"),
    ],
)
def test_member_that_other_code_reads(work: Workspace, config: str, said: list[str]) -> None:
    work.upstream(UPSTREAM)
    work.config(
        f"from acme.nn import Module\nfrom acme.fused import Fused\n"
        f"config.add_import('acme.fused', names=['Fused'])\n{config}"
    )
    assert sorted(found(work, "PG222")) == said


def test_reader_that_asks_first_is_fine(work: Workspace) -> None:
    text = UPSTREAM.replace("return self.attention.q_proj", "return hasattr(self, 'q_proj') and self.attention.q_proj")
    work.upstream(text)
    work.config("from acme.nn import Module\n" + CLASS.format("scale = 1\n    def reset(self): ..."))
    assert found(work, "PG222") == []


def test_external_class_is_looked_into(work: Workspace) -> None:
    work.upstream("class Fused:\n    def __init__(self, config):\n        self.qkv = 1\n", "fused.attention")
    work.upstream(UPSTREAM)
    work.config("config.patches.append(create_patch_from_external('Attention', 'fused.attention', 'Fused'))\n")
    assert sorted(found(work, "PG222")) == [
        lost("Layer.forward", "reset"),
        lost("Layer.forward", "scale"),
        lost("Layer.weight", "q_proj"),
    ]


SPEAKING = """
class Model:
    def __init__(self, config):
        self.speaks = config.speaks
        if self.speaks:
            self.talker = config.talker()

    def _say(self, x):
        return self.talker(x)

    def generate(self, x, aloud=None):
        {guard}
        return self._say(x), self.talker.wave(x)

    def other(self, x):
        {other}
"""
MUTE = '@config.override_method("Model.__init__")\ndef init(self, config):\n    self.speaks = {}\n'
LEAVES = "wanted = aloud and self.speaks\n        if not wanted:\n            return x"


@pytest.mark.parametrize(
    ("guard", "flag", "other", "count"),
    [
        pytest.param("pass", "False", "return x", 2, id="not guarded"),
        pytest.param(LEAVES, "False", "return x", 0, id="left before"),
        pytest.param(LEAVES, "config.speaks", "return x", 2, id="set by the configuration"),
        pytest.param(LEAVES, "False", "self.speaks = True", 2, id="set elsewhere"),
        pytest.param(LEAVES, "False", "return self._say(x)", 1, id="private method called elsewhere"),
        pytest.param("if not self.speaks:\n            raise ValueError", "False", "return x", 0, id="raises before"),
        pytest.param("if self.speaks:\n            return x", "True", "return x", 0, id="always true"),
        pytest.param(LEAVES + "\n        wanted = True", "False", "return x", 2, id="name given anew"),
        pytest.param("if self.speaks:\n            return self._say(x)", "False", "return x", 2, id="goes on behind"),
    ],
)
def test_code_behind_a_flag_that_init_sets_for_good_never_runs(
    work: Workspace, guard: str, flag: str, other: str, count: int
) -> None:
    work.upstream(SPEAKING.format(guard=guard, other=other))
    work.config(MUTE.format(flag))
    assert len(found(work, "PG222")) == count


def test_an_init_that_hands_the_instance_to_another_function_may_set_anything(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    more = 'config.add_import("acme.original", names=["original_init"])\n'
    work.config(more + INIT.format("original_init(self, config)"))
    assert found(work, "PG222") == []
    work.config(more + INIT.format("original_init(config)"))
    assert len(found(work, "PG222")) == 3
