"""What upstream and a replacement both changed: what is undecided, and what one of them decides."""

from __future__ import annotations

import ast
import textwrap

import pytest

from patchgen_core.upgrade.merging.merge import mark_conflicts, merge_definition
from tests.upgrade.merging import FORWARD, assert_clean, changed, merge, reasons, text


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "reason"),
    [
        ("x = a(x)", "x = b(x)", "x = a(x, 1)", "both sides changed this statement"),
        ("x = a(x)", "", "x = a(x, 1)", "upstream changed what you deleted or replaced: `x = a(x)`"),
        ("x = a(x)", "x = a(x, 1)", "", "upstream deleted or replaced what you changed: `x = a(x)`"),
        ("", "x = ours(x)", "x = theirs(x)", "both sides changed the same place"),
        ("", "if x:\n    return 1", "y = 2", "both sides changed the same place"),
        ("x = a(x)\nx = b(x)", "x = own(x)\nx = a(x)\nx = b(x)", "x = b(x)\nz = new(x)", "'x' has another value here"),
        ("y = a(x)\nz = 1", "y = a(x)\nz = 1\nuse(y)", "z = 1", "'y' is used here, but nothing binds it"),
        ("if x:\n    pass", "if x and a:\n    pass", "if x or b:\n    pass", "first line of this statement"),
        ("x = f(a=1)", "x = f(a=1, b=kwargs.get('b'))", "x = f(a=1, **kwargs)", "both sides changed this statement"),
        ("a = f(x)", "a = g(x)", "a, b = f(x)", "both sides changed this statement"),
        ("a = f(x)[0]", "a = g(x)[0]", "a = f(x)[1]", "both sides changed this statement"),
        ("a = f(x, 1)", "a = f(x, 1, 2)", "a = f(0, x, 1)", "both sides changed this statement"),
        ("a = f(x)", "a = fused(x)", "a = f(x, size=1)", "both sides changed this statement"),
        ("a = f(x, 1)", "a = f(x, **own)", "a = f(x, 1, size=1)", "both sides changed this statement"),
        (
            "a = f(b)\nc = 2",
            "a = f(b) * 2\nc = 2",
            "c = 2\na = f(b)",
            "upstream moved what you changed: `a = f(b) * 2`",
        ),
    ],
)
def test_conflicts(base: str, ours: str, theirs: str, reason: str) -> None:
    def whole(body: str) -> str:
        return "def f(self, x, **kwargs):\n    before(self)\n" + textwrap.indent(body, "    ") + "\n    return x, 0"

    merged = merge_definition(whole(base), whole(ours), whole(theirs))
    assert reason in reasons(merged)
    assert ast.dump(ast.parse(merged.text))


def test_what_ours_changes_before_upstreams_new_code_reads_it() -> None:
    base = (
        "def f(self, x, n):\n    n = count(n)\n    chunks = x.T.split(n)\n    out = self.conv(chunks)\n    return out"
    )
    ours = base.replace("    n = count", "    x = x.permute(1, 0)\n    n = count")
    theirs = "def f(self, x, n):\n    chunks = split_and_pad(x, n)\n    out = self.conv(chunks)\n    return out"
    merged = merge(base, ours, theirs)
    assert not merged.is_clean


def test_a_parameter_that_ours_fills_in_and_upstream_removed() -> None:
    base = "def f(self, x, position=None):\n    x = self.g(x)\n    return self.h(x, position)"
    ours = base.replace(
        "    x = self.g", "    position = position if position is not None else own(x)\n    x = self.g"
    )
    theirs = "def f(self, x):\n    x = self.g(x)\n    return self.h(x)"
    assert "'position' has another value here than in either text" in reasons(merge(base, ours, theirs))


def test_entries_that_ours_takes_out_are_not_passed_on() -> None:
    base = "def f(self, x, **kwargs):\n    y = self.up(x)\n    return self.down(y)"
    ours = base.replace("    y", "    mask = kwargs.pop('mask', None)\n    y").replace("down(y)", "down(y, mask)")
    theirs = base.replace("self.up(x)", "self.up(x, **kwargs)")
    assert_clean(merge(base, ours, theirs), ours.replace("self.up(x)", "self.up(x, **kwargs)"))
    whole = base.replace("self.up(x)", "self.up(x, kwargs)")
    assert "'kwargs' has another value" in reasons(merge(base, ours, whole))
    added = ours.replace("kwargs.pop('mask', None)", "own(kwargs)").replace("    y", "    kwargs.update(more)\n    y")
    assert "'kwargs' has another value here than in either text: `kwargs.update(more)`" in reasons(
        merge(base, added, theirs)
    )


PASSED = """
def forward(self, x, **kwargs):
    lengths = kwargs.get("lengths")
    assert lengths is not None, "rows of one length"
    x = self.mix(
        x,
        lengths=lengths,  # of the rows
        mask=None,
    )
    return x
"""


def test_a_keyword_that_is_in_what_upstream_passes_on_now() -> None:
    """Our keyword would be passed twice; both calls have the same value."""
    base = "def forward(self, x, **kwargs):\n    x = self.mix(x, mask=None)\n    return x"
    theirs = base.replace("mask=None", "mask=None, **kwargs")
    merged = merge(base, PASSED, theirs)
    assert merged.conflicts == ()
    ours = changed(
        PASSED, ("        lengths=lengths,  # of the rows\n", ""), ("mask=None,", "mask=None,\n        **kwargs,")
    )
    assert ast.dump(ast.parse(merged.text)) == ast.dump(ast.parse(ours))
    assert merged.notes == ("`**kwargs`, which upstream passes now, has `lengths`",)
    there = changed(PASSED, ('kwargs.get("lengths")', 'kwargs["lengths"]'), (', "rows of one length"', ""))
    assert merge(base, changed(there, ("    assert lengths is not None\n", "")), theirs).is_clean


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('    assert lengths is not None, "rows of one length"\n', ""),
        ("assert lengths is not None", "assert lengths is None"),
        ('kwargs.get("lengths")', 'kwargs.get("lengths", 1)'),
        ('kwargs.get("lengths")', 'self.own(kwargs.get("lengths"))'),
        ("lengths=lengths", "lengths=lengths + 1"),
        ("    x = self.mix", "    lengths = lengths + 1\n    x = self.mix"),
        ("    x = self.mix", "    import sizes as lengths\n    x = self.mix"),
        (
            "    x = self.mix",
            "    try:\n        own(x)\n    except ValueError as lengths:\n        pass\n    x = self.mix",
        ),
        ("    x = self.mix", "    kwargs.update(more)\n    x = self.mix"),
        ("    x = self.mix", "    own(kwargs)\n    x = self.mix"),
        ("    x = self.mix", '    kwargs["lengths"] = 1\n    x = self.mix'),
        ("**kwargs", "lengths=None, **kwargs"),
    ],
)
def test_a_keyword_that_may_be_another_value_than_the_one_passed_on(old: str, new: str) -> None:
    base = "def forward(self, x, **kwargs):\n    x = self.mix(x, mask=None)\n    return x"
    merged = merge(base, changed(PASSED, (old, new)), base.replace("mask=None", "mask=None, **kwargs"))
    assert "has `lengths`" not in "".join(merged.notes)
    assert not merged.is_clean


def test_a_keyword_that_upstream_may_take_out_of_what_it_passes_on() -> None:
    base = "def forward(self, x, **kwargs):\n    y = self.up(x)\n    x = self.mix(x, y)\n    return x"
    entry = '    lengths = kwargs["lengths"]\n'
    ours = changed(base, ("    y =", f"{entry}    y ="), ("mix(x, y)", "mix(x, y, lengths=lengths)"))
    theirs = changed(base, ("mix(x, y)", "mix(x, y, **kwargs)"))
    assert_clean(merge(base, ours, theirs), changed(ours, ("lengths=lengths", "**kwargs")))
    assert not merge(base, ours, changed(theirs, ("up(x)", "up(x, kwargs=kwargs)"))).is_clean


def test_a_value_that_ours_changed_and_upstream_uses_in_another_way() -> None:
    base = "def f(self, x):\n    n = count(x)\n    x = self.split(x, n)\n    return x"
    ours = base.replace("count(x)", "count(x.T)")
    assert_clean(merge(base, ours, base.replace("split(x, n)", "split(x, n, 1)")), ours.replace("x, n)", "x, n, 1)"))
    merged = merge(base, ours, base.replace("split(x, n)", "split(x, pad(n))"))
    assert "'n' has another value here than in either text: `n = count(x.T)`" in reasons(merged)


def test_a_conflict_leaves_the_rest_merged() -> None:
    ours = changed(FORWARD, ("x = self.norm(x)", "x = fused_norm(x)"))
    above = ("    residual = x\n", "    check(\n        self\n    )\n    residual = x\n")
    theirs = changed(FORWARD, above, ("self.norm(x)", "self.norm(x, 1)"), ("return x, weights", "return x"))
    merged = merge(FORWARD, ours, theirs)
    assert merged.text == text(changed(ours, above, ("return x, weights", "return x")))
    assert mark_conflicts(text(ours), merged) == text(
        changed(
            merged.text,
            (
                "    x = fused_norm(x)\n",
                "<<<<<<< ours\n    x = fused_norm(x)\n||||||| base\n    x = self.norm(x)\n=======\n"
                "    x = self.norm(x, 1)\n>>>>>>> theirs\n",
            ),
        )
    )


@pytest.mark.parametrize("mine", ["            raise ValueError(x)\n", ""])
def test_sides_of_a_conflict_stand_where_its_block_does(mine: str) -> None:
    old, new = "            y = h(x)[:, :n]\n", "            y = h(x)[:, : n.size]\n"
    base = f"def f(x, n):\n    if n:\n        while n:\n            n = g(n)\n{old}    return x"
    ours = changed(base, (old, mine))
    marked = mark_conflicts(text(ours), merge(base, ours, changed(base, (old, new))))
    assert f"<<<<<<< ours\n{mine}||||||| base\n{old}=======\n{new}>>>>>>> theirs\n" in marked


def test_merging_again_changes_nothing() -> None:
    ours = changed(FORWARD, ("position_ids=position_ids,", "position_ids=position_ids, scale=2.0,"))
    theirs = changed(FORWARD, (", cache_position=cache_position", ""), ("return x, weights", "return x"))
    merged = merge(FORWARD, ours, theirs)
    assert merge_definition(text(theirs), merged.text, text(theirs)).text == merged.text
    assert merge(FORWARD, ours, theirs) == merged


def test_layout_decides_nothing() -> None:
    """A comment in a list that no edit may swallow: what cannot be written in place is no clean merge."""
    ours = changed(FORWARD, ("position_ids=position_ids,", "position_ids=position_ids,  # ours\n        scale=2.0,"))
    theirs = changed(FORWARD, (", cache_position=cache_position", ""), ("hidden_states=x", "hidden_states=x, n=1"))
    merged = merge(FORWARD, ours, theirs)
    plain = [ast.unparse(ast.parse(source)) for source in (FORWARD, ours, theirs)]
    assert merged.is_clean
    assert ast.unparse(ast.parse(merged.text)) == ast.unparse(ast.parse(merge_definition(*plain).text))
    assert "# ours" in merged.text


def test_code_that_returns_first_is_pointed_out() -> None:
    base = "def f(x):\n    x = a(x)\n    return x"
    ours = "def f(x):\n    if kernel:\n        return kernel(x)\n    x = a(x)\n    return x"
    merged = merge(base, ours, base.replace("a(x)", "a(x, 1)"))
    assert_clean(merged, ours.replace("a(x)", "a(x, 1)"))
    assert merged.notes == ("your `if kernel:` returns before upstream's change, so that path stays as it was",)


def test_a_value_of_upstreams_that_no_longer_gets_to_what_uses_it() -> None:
    first = "    a = compute_something(x, scale=1)\n    a = compute_something_else(a, scale=1)\n"
    second = "    b = compute_other(n, scale=2, offset=None)\n"
    base = f"def f(x, n):\n{first}{second}    return a, b"
    ours = f"def f(x, n):\n{second}{first}    return a, b"
    merged = merge(base, ours, base.replace(first, f"{first}    n = n + 1\n"))
    assert "'n' has another value here than in upstream's text: `n = n + 1`" in reasons(merged)


def test_a_kernel_of_the_hub_that_ours_removed_stays_removed_under_another_name() -> None:
    ours = "def f(x):\n    return own(x)"
    base, theirs = (
        f'@{name}("rotary")\ndef f(x):\n    return x' for name in ("use_kernel_func", "use_kernel_forward")
    )
    merged = merge(base, ours, theirs)
    assert_clean(merged, ours)
    assert merged.notes == (
        "you removed the decorator use_kernel_func('rotary'), and so upstream's use_kernel_forward('rotary') "
        "is left out",
    )
    other = theirs.replace("rotary", "other")
    assert "decorator that you removed" in reasons(merge(base, ours, other))


def test_an_object_of_another_class_takes_the_same_values() -> None:
    base = "def f(self, x):\n    loss = None\n    return Output(loss=loss, x=x)"
    ours = base.replace("loss = None", "loss = own(x)")
    theirs = base.replace("Output(loss=loss, x=x)", "RouterOutput(loss=loss, x=x, router=x.router)")
    assert_clean(merge(base, ours, theirs), theirs.replace("loss = None", "loss = own(x)"))


def test_a_statement_that_upstream_replaced_uses_the_same_value() -> None:
    base = "def f(self, x, image):\n    if image:\n        y = cat(self.g(image), dim=0).to(x.device)\n    return y, x"
    ours = base.replace("    if", "    if own(image):\n        x = fake(x)\n    if")
    theirs = base.replace(
        "y = cat(self.g(image), dim=0)", "found = self.g(image).pooled\n        y = cat(found, dim=0)"
    )
    assert_clean(
        merge(base, ours, theirs), theirs.replace("    if", "    if own(image):\n        x = fake(x)\n    if")
    )


def test_an_empty_line_behind_what_upstream_added_stays() -> None:
    base = "def f(x):\n    x = a(x)\n    return b(x)"
    theirs = base.replace("    x = a", "    if x is None:\n        raise ValueError(x)\n\n    x = a")
    ours = base.replace("b(x)", "b(\n        x, 1)")
    assert_clean(merge(base, ours, theirs), theirs.replace("b(x)", "b(\n        x, 1)"))
    moved = base.replace("    x = a(x)", "    x = a(\n        x, own=1)")
    assert_clean(merge(base, moved, theirs), theirs.replace("a(x)", "a(\n        x, own=1)"))


ROUTER = """
def forward(self, hidden_states):
    router_logits = F.linear(hidden_states, self.weight)
    router_logits = F.softmax(router_logits, dtype=torch.float, dim=-1)
    top_value, indices = torch.topk(router_logits, self.top_k, dim=-1)
    top_value = top_value.to(router_logits.dtype)
    return router_logits, top_value, indices
"""
OUR_ROUTER = changed(
    ROUTER,
    ("router_logits = F.softmax", "routing_weights = F.softmax"),
    ("topk(router_logits", "topk(routing_weights"),
    ("router_logits.dtype", "routing_weights.dtype"),
)


def test_a_name_that_means_another_value_upstream_now_is_not_taken_for_the_old_one() -> None:
    theirs = changed(
        ROUTER, ("router_logits = F.softmax", "router_probs = F.softmax"), ("topk(router_logits", "topk(router_probs")
    )
    expected = changed(OUR_ROUTER, ("routing_weights.dtype", "router_logits.dtype"))
    assert_clean(merge(ROUTER, OUR_ROUTER, theirs), expected)
    spelled = ("F.linear", "torch.nn.functional.linear")
    assert_clean(merge(ROUTER, changed(OUR_ROUTER, spelled), theirs), changed(expected, spelled))
    ours = changed(OUR_ROUTER, ("to(routing_weights.dtype)", "to(routing_weights.dtype, copy=True)"))
    reason = "upstream's 'router_logits' is another value here now; yours is what `routing_weights = F.softmax("
    assert reason in reasons(merge(ROUTER, ours, theirs))


def test_a_name_that_means_the_same_value_is_no_conflict() -> None:
    theirs = changed(
        ROUTER,
        ("router_logits = F.softmax", "router_probs = F.softmax"),
        ("topk(router_logits", "topk(router_probs"),
        ("router_logits.dtype", "router_probs.dtype"),
    )
    merged = merge(ROUTER, OUR_ROUTER, theirs)
    assert (merged.conflicts, merged.how) == ((), "same")


def test_what_python_refuses_after_parsing_is_a_conflict() -> None:
    base = "def f(self, x):\n    self.first(x)\n    self.second(x)\n    self.third(x)\n    return x"
    ours = changed(base, ("    self.third", "    global COUNT\n    COUNT = x\n    self.third"))
    theirs = changed(base, ("    self.first", "    COUNT = self.count\n    self.first"))
    merged = merge(base, ours, theirs)
    assert "name 'COUNT' is assigned to before global declaration (line 5)" in reasons(merged)
    assert merged.text == ours
