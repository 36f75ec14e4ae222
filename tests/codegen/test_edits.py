"""Edits change a place inside their target and leave the rest upstream's."""

from __future__ import annotations

import ast

import pytest

from tests.codegen.editing import edited
from tests.conftest import Workspace, execute

# What is declared, and what of the text of ``Layer.forward`` becomes what.
TABLE: dict[str, tuple[str, dict[str, str]]] = {
    "another branch": (
        """
        @config.edit_method("Layer.forward", at="if mask is None:")
        def zero(self, x):
            if ...:
                ...
            elif self.training:
                x = x * 0
            else:  # as it was
                x = x + 0
        """,
        {
            "            x = x * self.scale(text)\n": "            x = x * self.scale(text)\n"
            "        elif self.training:\n            x = x * 0\n        else:  # as it was\n            x = x + 0\n"
        },
    ),
    "another branch, and the first one changed": (
        """
        @config.edit_method("Layer.forward", at="x = x * self.scale(...)")
        def twice(self, x):
            ...
            x = x * 2


        @config.edit_method("Layer.forward", at="if mask is None:")
        def zero(self, x):
            if self.training:
                if ...:
                    ...
                else:
                    x = x + 0
        """,
        {
            "        if mask is None:\n            text": "        if self.training:\n"
            "            if mask is None:\n                text",
            "            x = x * self.scale(text)\n": "                x = x * self.scale(text)\n"
            "                x = x * 2\n            else:\n                x = x + 0\n",
        },
    ),
    "guard on top": (
        """
        @config.edit_method("Layer.forward")
        def fast(self, x):
            # as fast as it gets
            if self.fused:
                return self.fused(x)
            ...
        """,
        {
            "        # kept above\n": "        # as fast as it gets\n        if self.fused:\n"
            "            return self.fused(x)\n        # kept above\n"
        },
    ),
    "before, above the comment": (
        """
        @config.edit_method("Layer.forward", at="x, weights = self.attn(...)")
        def shift(x):
            x = x + 1
            ...
        """,
        {"        # of attention\n": "        x = x + 1\n        # of attention\n"},
    ),
    "after": (
        """
        @config.edit_method("Layer.forward", at="x, weights = self.attn(...)")
        def shift(x):
            ...
            x = x + 1  # once more
        """,
        {"        )\n\n": "        )\n        x = x + 1  # once more\n\n"},
    ),
    "around, strings as they are": (
        """
        @config.edit_method("Layer.forward", at="if mask is None:")
        def guard(self, x):
            if self.training:
                ...
            else:
                x = x * 2
        """,
        {
            "        if mask is None:\n            text": "        if self.training:\n"
            "            if mask is None:\n                text",
            "            x = x * self.scale(text)\n": "                x = x * self.scale(text)\n"
            "        else:\n            x = x * 2\n",
        },
    ),
    "around, below the line of a colon": (
        """
        @config.edit_method("Layer.forward", at="residual = x")
        def guard(self):
            if self.training: pass
            else: ...
        """,
        {
            "        # kept above\n        residual = x\n": "        if self.training: pass\n        else:\n"
            "            # kept above\n            residual = x\n"
        },
    ),
    "instead, below the comment": (
        """
        @config.edit_method("Layer.forward", at="residual = x")
        def copy(x, residual):
            residual = x.clone()
        """,
        {"residual = x\n": "residual = x.clone()\n"},
    ),
    "taken out, with the comment above": (
        'config.delete_code("Layer.forward", "x, weights = self.attn(...)")',
        {
            "        # of attention\n        x, weights = self.attn(\n            x,  # what is attended to\n"
            "            mask=mask,\n            cache=None,\n            **kwargs,\n        )\n": ""
        },
    ),
    "several places": (
        """
        @config.edit_method("Layer.forward", at="x = $ANY", count=3)
        def trace(x):
            ...
            check(x)
        """,
        {
            "x = self.norm(x)\n": "x = self.norm(x)\n        check(x)\n",
            "x = residual + x\n": "x = residual + x\n        check(x)\n",
            "x = x * self.scale(text)\n": "x = x * self.scale(text)\n            check(x)\n",
        },
    ),
    "a name of another model": (
        """
        @config.edit_method("Layer.forward", at="QwenX = residual + x", name_map={"QwenX": "x", "Qwen": "Llama"})
        def trace(x):
            QwenTrace.of(x)
            ...
        """,
        {"        x = residual + x\n": "        LlamaTrace.of(x)\n        x = residual + x\n"},
    ),
    "argument added": (
        'config.replace_code("Layer.forward", "self.attn(...)", "self.attn(..., causal=True)")',
        {"**kwargs,\n": "causal=True, **kwargs,\n"},
    ),
    "argument by position added": (
        'config.replace_code("Layer.forward", "self.attn(x, ...)", "self.attn(x, residual, ...)")',
        {"x,  # what is": "x, residual,  # what is"},
    ),
    "argument by position added in front": (
        'config.replace_code("Layer.forward", "self.attn(...)", "self.attn(residual, ...)")',
        {"x,  # what is": "residual, x,  # what is"},
    ),
    "argument taken out": (
        'config.replace_code("Layer.forward", "self.attn(..., cache=$ANY)", "self.attn(...)")',
        {"            cache=None,\n": ""},
    ),
    "function and argument changed": (
        'config.replace_code("Layer.forward", "self.attn(..., mask=$M)", "self.flash(..., mask=whole($M))")',
        {"self.attn(": "self.flash(", "mask=mask": "mask=whole(mask)"},
    ),
    "call wrapped": (
        'config.replace_code("Layer.forward", "self.scale(...)", "clip(self.scale(...), 1)")',
        {"self.scale(text)": "clip(self.scale(text), 1)"},
    ),
    "expression": (
        'config.replace_code("Layer.forward", "$A * $B", "$B + $A")',
        {"x * self.scale(text)": "self.scale(text) + x"},
    ),
    "brackets where they are needed": (
        'config.replace_code("Layer.forward", "self.scale($T)", "$T + 1")',
        {"x * self.scale(text)": "x * (text + 1)"},
    ),
    "statement by several": (
        'config.replace_code("Layer.forward", "residual = $X", "residual = $X.clone()\\nresidual += 1")',
        {"residual = x\n": "residual = x.clone()\n        residual += 1\n"},
    ),
    "statement taken out": (
        'config.delete_code("Layer.forward", "x = residual + x")',
        {"        x = residual + x\n": ""},
    ),
    "all statements of a block taken out": (
        'config.delete_code("Layer.forward", "text = ...\\nx = x * self.scale(text)")',
        {'            text = """\n  as it is\n"""\n            x = x * self.scale(text)\n': "            pass\n"},
    ),
    "parameter at the end": (
        'config.add_parameter("Layer.forward", "causal: bool = True")',
        {"mask=None, ": "mask=None, causal: bool = True, "},
    ),
    "parameter after another": (
        'config.add_parameter("Layer.forward", "y", after="x")',
        {"self, x, ": "self, x, y, "},
    ),
    "parameter before another": (
        'config.add_parameter("Layer.forward", "y", before="x")',
        {"self, x, ": "self, y, x, "},
    ),
    "parameter with documentation": (
        """
        config.add_parameter(
            "Layer.forward", "causal=True", documentation="causal (`bool`):\\n    Whether it is."
        )

        @config.edit_method("Layer.forward")
        def guarded():
            guard()
            ...
        """,
        {
            "mask=None, ": "mask=None, causal=True, ",
            "        In several lines.\n": "        In several lines.\n\n"
            "        causal (`bool`):\n            Whether it is.\n",
            "        # kept above\n": "        guard()\n        # kept above\n",
        },
    ),
    "parameter taken out": ('config.remove_parameter("Layer.forward", "mask")', {"x, mask=None, **": "x, **"}),
}


@pytest.mark.parametrize(("config", "replaced"), TABLE.values(), ids=TABLE)
def test_an_edit_changes_its_place_and_nothing_else(work: Workspace, config: str, replaced: dict[str, str]) -> None:
    expected = edited(work, "")
    for old, new in replaced.items():
        assert expected.count(old) == 1
        expected = expected.replace(old, new)
    assert edited(work, config) == expected


def test_items_of_dicts_are_changed_and_taken_out(work: Workspace) -> None:
    work.upstream(
        "def f(x, mask):\n    return mix(x, {\n        'x': x,  # all\n        'mask': mask,\n        **x.more,\n"
        "    }, {'mask': None, 'x': 1})\n"
    )
    work.config(
        """
        config.replace_code("f", '"x": x', '"x": gather(x), "rank": rank(x)')
        config.delete_code("f", "'mask': $VALUE", count=2)
        """
    )
    assert "return mix(x, {'x': gather(x), 'rank': rank(x), **x.more}, {'x': 1})" in ast.unparse(ast.parse(work.raw()))
    assert "  # all" in work.raw()


def test_an_edit_in_place_of_several_statements(work: Workspace) -> None:
    config = '''
        @config.edit_method(
            "Layer.forward",
            at="""
            residual = x
            ...
            x = residual + x
            """,
        )
        def skip(x):
            x = self.skip(x)
        '''
    lines = edited(work, config).splitlines()
    assert lines[5:8] == ["        # kept above", "        x = self.skip(x)", "        if mask is None:"]


def test_later_edits_of_a_place_are_around_earlier_ones(work: Workspace) -> None:
    """As those of a config for other hardware are, which extends its patches from another config's."""
    config = """
        @config.edit_method("Layer.forward")
        def gpu(self, x):
            gpu_guard(x)
            ...


        @config.edit_method("Layer.forward", at="x = self.norm(x)")
        def gpu_norm(x):
            gpu_before(x)
            ...
            gpu_after(x)


        @config.edit_method("Layer.forward", at="x = self.norm(...)")
        def npu_norm(x):
            if npu():
                ...
            npu_after(x)


        @config.edit_method("Layer.forward")
        def npu(self, x):
            npu_guard(x)
            ...


        config.replace_code("Layer.forward", "self.norm(x)", "self.norm(x, eps)")
        config.add_parameter("Layer.forward", "eps=1e-6")
        """
    text = edited(work, config)
    assert "def forward(self, x, mask=None, eps=1e-6, **kwargs):\n" in text
    assert (
        "        npu_guard(x)\n        gpu_guard(x)\n        # kept above\n        residual = x\n"
        "        if npu():\n            gpu_before(x)\n            x = self.norm(x, eps)\n            gpu_after(x)\n"
        "        npu_after(x)\n" in text
    )


def test_an_edit_brings_its_comments_and_decorators(work: Workspace) -> None:
    text = """
        from lib import own


        # why
        @config.edit_method("Layer.forward", description="Faster")
        @own(1)
        def fast(self):
            ...
        """
    assert "    # why\n    @torch.no_grad()\n    @own(1)\n    def forward(" in edited(work, text, "Layer")


def test_the_header_and_the_markers_tell_of_edits(work: Workspace) -> None:
    edited(
        work,
        """
        @config.edit_method("Layer.forward", description="Faster")
        def fast(self):
            ...


        config.delete_code("Layer.forward", "x = residual + x", description="Not needed")


        @config.edit_function("rotate", description="Turned")
        def turned(q):
            q = q + 1
            ...
        """,
    )
    text = work.text()
    assert (
        "#    - method_edit: Layer.forward\n#        Faster\n#    - code_deletion: Layer.forward\n"
        "#        Not needed\n"
        "#    - function_edit: rotate\n#        Turned\n" in text
    )
    assert "# [MODIFIED CLASS] Layer\n# Methods patched: forward\n# Reason (forward): Faster\n" in text
    assert "# [PATCHED FUNCTION] rotate\n# Reason: Turned\n" in text


def test_a_function_that_is_edited_keeps_what_is_upstreams(work: Workspace) -> None:
    text = edited(
        work,
        """
        @config.edit_function("rotate", at="return ...")
        def scaled(q):
            q = q * 2
            ...
        """,
        "rotate",
    )
    assert text == (
        "def rotate(q, k):\n    from acme.models.toy.parts import turn\n\n    q = q * 2\n    return turn(q), turn(k)\n"
    )


def test_a_wrapped_method_calls_upstreams(work: Workspace) -> None:
    work.upstream(
        "class A:\n    def f(self, x):\n        return x + 1\n\n\nclass B(A):\n    def g(self, x):\n        return x\n"
    )
    work.config(
        """
        @config.wrap_method("A.f")
        def twice(original, self, x):
            return original(self, original(self, x))


        @config.wrap_method("B.f")
        def squared(original, self, x):
            return original(self, x) ** 2
        """
    )
    namespace = execute(work.text())
    assert namespace["A"]().f(1) == 3
    assert namespace["B"]().f(1) == 9
