"""What upstream changed in a definition, carried over into what replaces it."""

from __future__ import annotations

import ast
import textwrap

import pytest

from patchgen_core.upgrade.merging.merge import mark_conflicts, merge_definition
from patchgen_core.upgrade.results import Merged

FORWARD = """
def forward(self, x, position_ids=None, cache_position=None, **kwargs):
    residual = x
    x = self.norm(x)
    x, weights = self.attention(
        hidden_states=x, position_ids=position_ids, cache_position=cache_position, **kwargs
    )
    x = residual + x
    return x, weights
"""


def text(source: str) -> str:
    return textwrap.dedent(source).strip("\n")


def merge(base: str, ours: str, theirs: str) -> Merged:
    return merge_definition(text(base), text(ours), text(theirs))


def changed(source: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in source
        source = source.replace(old, new)
    return source


def assert_clean(merged: Merged, expected: str) -> None:
    assert merged.conflicts == ()
    assert merged.text == text(expected)


def reasons(merged: Merged) -> str:
    return "\n".join(conflict.reason for conflict in merged.conflicts)


def test_nothing_to_do() -> None:
    ours = changed(FORWARD, ("self.norm(x)", "fused_norm(x)"))
    reformatted = ast.unparse(ast.parse(FORWARD))
    assert merge(FORWARD, ours, reformatted) == Merged(text(ours), "same")
    assert merge(FORWARD, ours, ast.unparse(ast.parse(ours))) == Merged(text(ours), "same")


def test_lines_that_do_not_meet_keep_all_comments_of_both() -> None:
    ours = changed(FORWARD, ("    x = self.norm(x)\n", "    # Ours: fused.\n    x = fused_norm(x)  # one kernel\n"))
    theirs = changed(FORWARD, ("    return x,", "    # Weights are for debugging.\n    return x * 2,"))
    merged = merge(FORWARD, ours, theirs)
    assert merged.how == "lines"
    assert_clean(merged, changed(ours, ("    return x,", "    # Weights are for debugging.\n    return x * 2,")))


def test_a_parameter_and_its_argument_go_whatever_the_layout() -> None:
    ours = """
        def fused_forward(
            self,
            x,
            position_ids=None,  # (batch, seq)
            cache_position=None,
            **kwargs,
        ):
            residual = x
            x = self.norm(x)
            x, weights = fused(self).attention(
                hidden_states=x,
                position_ids=position_ids,
                # what generate() passes
                cache_position=cache_position,
                scale=2.0,  # ours
                **kwargs,
            )
            x = residual + x
            return x, weights
    """
    base = changed(FORWARD, ("self.attention(", "fused(self).attention("))
    theirs = changed(base, (", cache_position=cache_position", ""), (", cache_position=None", ""))
    expected = changed(
        ours,
        ("            cache_position=None,\n", ""),
        ("                # what generate() passes\n                cache_position=cache_position,\n", ""),
    )
    merged = merge(base, ours, theirs)
    assert merged.how == "syntax"
    assert_clean(merged, expected)


def test_an_argument_beside_an_argument() -> None:
    ours = changed(FORWARD, ("position_ids=position_ids,", "position_ids=position_ids, scale=2.0,"))
    theirs = changed(
        FORWARD, ("hidden_states=x,", "hidden_states=x.float(),"), (", cache_position=cache_position", "")
    )
    both = changed(ours, ("hidden_states=x,", "hidden_states=x.float(),"), (", cache_position=cache_position", ""))
    assert_clean(merge(FORWARD, ours, theirs), both)


def test_the_arguments_of_a_method_and_what_the_method_is_called_on() -> None:
    base = "def f(self, x, shape):\n    return self.q_proj(x).view(1, -1, 64).transpose(1, 2)"
    ours, theirs = changed(base, ("(x)", "(self.norm(x))")), changed(base, ("1, -1, 64", "shape"))
    assert_clean(merge(base, ours, theirs), changed(ours, ("1, -1, 64", "shape")))


def test_a_comment_behind_an_argument_swallows_none() -> None:
    base = "def f(x):\n    return g(a=x, b=1, c=2)"
    ours = "def f(x):\n    return g(a=x,  # ours\n        b=1, z=3, c=2)"
    theirs = "def f(x):\n    return g(a=x, n=0, b=1, c=2)"
    assert_clean(
        merge(base, ours, theirs),
        "def f(x):\n    return g(a=x,  # ours\n    n=0,\n        b=1, z=3, c=2)",
    )
    ours = "def f(x):\n    return g(\n        a=x,\n        b=1,  # ours\n        c=2)"
    merged = merge(base, ours.replace("x,", "x, z=3,"), "def f(x):\n    return g(a=x, b=1)")
    assert_clean(merged, "def f(x):\n    return g(\n        a=x, z=3,\n        b=1  # ours\n        )")


def test_signatures() -> None:
    base = "def f(self, a, b: int = 1, *, c=None, **kwargs) -> tuple:\n    return a, b, c"
    ours = "def g(self, a, b: int | None = 1, *, mine=0, c=None, **kwargs) -> tuple:\n    return a, b, c"
    theirs = "def f(self, a, b: int = 2, d=None, *, c=None, e=5, **rest: object) -> list:\n    return a, b, c"
    expected = "def g(self, a, b: int | None = 2, d=None, *, mine=0, c=None, e=5, **rest: object) -> list:"
    assert_clean(merge(base, ours, theirs), expected + "\n    return a, b, c")


def test_what_takes_all_other_arguments_stays_last() -> None:
    base, ours, theirs = (f"def f({parameters}):\n    return a" for parameters in ("a", "a, mine=0", "a, **kwargs"))
    assert_clean(merge(base, ours, theirs), "def f(a, mine=0, **kwargs):\n    return a")


def test_a_default_that_both_changed() -> None:
    base = "def f(a=1):\n    return a"
    merged = merge(base, base.replace("1", "2"), base.replace("1", "3"))
    assert "signature" in reasons(merged)
    assert merged.text == "def f(a=2):\n    return a"


def test_an_argument_that_upstream_renamed_is_renamed_in_ours() -> None:
    base = "def f(self, x):\n    y = self.up(x)\n    return self.down(y) + x"
    ours = "def f(self, x):\n    y = self.up(x)\n    log(x)  # x as it came\n    return self.down(y) + x"
    theirs = base.replace("x", "hidden")
    merged = merge(base, ours, theirs)
    assert_clean(merged, "def f(self, hidden):\n    y = self.up(hidden)\n    log(hidden)  # x as it came\n"
                         "    return self.down(y) + hidden")  # fmt: skip
    assert merged.notes == ("upstream renamed 'x' to 'hidden', and so it is here",)


def test_what_we_renamed_keeps_our_name_in_upstreams_code() -> None:
    base = "def f(self, x):\n    out = self.up(x)\n    out = self.down(out)\n    return out"
    ours = "def f(self, x):\n    mine = self.up(x)\n    mine = self.down(mine)\n    return mine"
    theirs = base.replace("    return", "    out = self.drop(out)\n    return")
    assert_clean(merge(base, ours, theirs), ours.replace("    return", "    mine = self.drop(mine)\n    return"))


def test_a_variable_that_both_sides_split_off_under_two_names() -> None:
    """Qwen3-MoE's router between 5.2.0 and 5.9.0, and a replacement of VeoMni's."""
    base = """
        def forward(self, hidden_states):
            router_logits = F.linear(hidden_states, self.weight)
            router_logits = torch.nn.functional.softmax(router_logits, dtype=torch.float, dim=-1)
            router_top_value, router_indices = torch.topk(router_logits, self.top_k, dim=-1)
            router_top_value = router_top_value.to(router_logits.dtype)
            return router_logits, router_top_value, router_indices
    """
    probs = changed(
        base, ("router_logits = torch.nn", "router_probs = torch.nn"), ("topk(router_logits", "topk(router_probs")
    )
    ours = changed(probs, ("router_probs", "weights"), ("to(router_logits.dtype)", "to(weights.dtype)"))
    assert_clean(merge(base, ours, probs), ours)


def test_a_parameter_in_anothers_place_is_no_rename() -> None:
    base = "def f(self, x, old=None):\n    return self.g(x, old=old)"
    theirs = "def f(self, x, new=None):\n    return self.g(x, new=new)"
    ours = "def f(self, x, old=None):\n    if old is not None:\n        check(old)\n    return self.g(x, old=old)"
    merged = merge(base, ours, theirs)
    assert "'old' is used here, and nothing binds it any more" in reasons(merged)
    unused = [source.replace("old=old", "").replace("new=new", "") for source in (base, ours, theirs)]
    assert "'old' is used here, and nothing binds it any more" in reasons(merge(*unused))


def test_upstreams_else_and_ours_stay_apart() -> None:
    base = """
        def f(self, pixels, x):
            if pixels is not None:
                features = self.features(pixels)
                x = x + features
            return x
    """
    ours = changed(
        base, ("x + features\n", "x + features\n            elif parallel():\n                x = x + fake(x)\n")
    )
    theirs = changed(base, ("self.features(pixels)", "self.features(pixels, size=2)"))
    expected = changed(ours, ("self.features(pixels)", "self.features(pixels, size=2)"))
    assert_clean(merge(base, ours, theirs), expected)
    gained = changed(base, ("x + features\n", "x + features\n            else:\n                x = x * 2\n"))
    own = changed(base, ("self.features(pixels)", "own(pixels)"))
    assert_clean(merge(base, own, gained), changed(gained, ("self.features(pixels)", "own(pixels)")))
    assert "else" in reasons(merge(base, ours, gained))
    elif_ = changed(base, ("x + features\n", "x + features\n            elif x:\n                x = x * 2\n"))
    longer = changed(elif_, ("x = x * 2\n", "x = x * 2\n            elif not x:\n                x = x * 3\n"))
    another = changed(elif_, ("elif x:", "elif other(x):\n                x = 5\n            elif x:"))
    for theirs in (longer, another, gained):
        mine, expected = (changed(source, ("self.features(pixels)", "own(pixels)")) for source in (elif_, theirs))
        assert_clean(merge(elif_, mine, theirs), expected)


def test_a_multi_line_string_keeps_its_value() -> None:
    base = "def f(x):\n    if x:\n        return g(x)\n    return 0"
    ours = "def f(x):\n  if x:\n      return fast(x)\n  return 0"
    theirs = 'def f(x):\n    log(\n        """a\n b"""\n    )\n    if x:\n        return g(x)\n    return 0'
    merged = merge(base, ours, theirs)
    assert_clean(merged, 'def f(x):\n  log(\n      """a\n b"""\n  )\n  if x:\n      return fast(x)\n  return 0')


def test_docstrings_are_no_conflict() -> None:
    base = 'def f(x):\n    """Old."""\n    return g(x)'
    theirs = 'def f(x):\n    """New."""\n    return g(x, 1)'
    assert_clean(merge(base, "def f(x):\n    return 2 * g(x)", theirs), "def f(x):\n    return 2 * g(x, 1)")
    same = 'def f(x):\n    """Old."""\n    return 2 * g(x)'
    assert_clean(merge(base, same, theirs), 'def f(x):\n    """New."""\n    return 2 * g(x, 1)')
    ours = 'def f(x):\n    """Ours."""\n    return 2 * g(x)'
    merged = merge(base, ours, theirs)
    assert_clean(merged, ours.replace("g(x)", "g(x, 1)"))
    assert merged.notes == ("upstream changed the docstring of f, and so did you: yours stays",)


def test_a_class_takes_new_methods_and_changed_ones() -> None:
    base = """
        class Norm(nn.Module):
            eps = 1e-6

            def __init__(self, size):
                super().__init__()
                self.size = size

            def forward(self, x):
                return x * self.eps
    """
    ours = changed(base, ("return x * self.eps", "return fused(x, self.eps)"), ("class Norm", "class Own"))
    theirs = changed(
        base,
        ("def __init__(self, size):", "def __init__(self, size, eps=None):"),
        (
            "            def forward",
            "            def extra(self):\n                return 1\n\n            def forward",
        ),
    )
    expected = changed(theirs, ("return x * self.eps", "return fused(x, self.eps)"), ("class Norm", "class Own"))
    assert_clean(merge(base, ours, theirs), expected)
    merged = merge(base, ours, changed(base, ("x * self.eps", "x / self.eps")))
    assert [c.ours for c in merged.conflicts] == ["return fused(x, self.eps)"]


def test_decorators() -> None:
    base = "@merge_defaults\n@capture\ndef f(x):\n    return x"
    ours = "@ours\n@merge_defaults\n@capture\ndef f(x):\n    return 2 * x"
    theirs = "@merge_defaults\n@can_return_tuple\ndef f(x):\n    return x"
    assert_clean(merge(base, ours, theirs), "@ours\n@merge_defaults\n@can_return_tuple\ndef f(x):\n    return 2 * x")
    kernel = base.replace("@capture", '@capture\n@use_kernel_forward_from_hub("f")')
    assert "another kernel" in reasons(merge(base, ours, kernel))
    without = "def f(x):\n    return 2 * x"
    assert "decorator that you removed" in reasons(merge(base, without, theirs))


def test_a_moved_statement_is_moved() -> None:
    base = (
        "def f(a, b):\n    first = compute_something(a, 1)\n    second = compute_other(b, 2)\n    return first, second"
    )
    theirs = (
        "def f(a, b):\n    second = compute_other(b, 2)\n    first = compute_something(a, 1)\n    return first, second"
    )
    ours = base.replace("return first, second", "return (first, second, 3)")
    assert_clean(merge(base, ours, theirs), theirs.replace("return first, second", "return (first, second, 3)"))


def test_deleted_statements_leave_one_empty_line() -> None:
    base = "def f(x):\n    x = a(x)\n\n    # Long since useless.\n    y = x\n    del y\n\n    return b(x)"
    ours = base.replace("b(x)", "own(x)")
    theirs = "def f(x):\n    x = a(x, 1)\n    return b(x)"
    assert_clean(merge(base, ours, theirs), "def f(x):\n    x = a(x, 1)\n\n    return own(x)")


def test_both_added_the_same() -> None:
    base = "def f(x):\n    x = a(x)\n    return x"
    theirs = "def f(x):\n    x = a(x)\n    x = scale(x)\n    check(x)\n    return x"
    ours = "def f(x):\n    x = a(x)\n    x = scale(x)  # backported\n    return x"
    assert_clean(merge(base, ours, theirs), ours.replace("    return", "    check(x)\n    return"))


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "reason"),
    [
        ("x = a(x)", "x = b(x)", "x = a(x, 1)", "both sides changed this statement"),
        ("x = a(x)", "", "x = a(x, 1)", "upstream changed what you deleted or replaced: `x = a(x)`"),
        ("x = a(x)", "x = a(x, 1)", "", "upstream deleted or replaced what you changed: `x = a(x)`"),
        ("", "x = ours(x)", "x = theirs(x)", "both sides changed the same place"),
        ("", "if x:\n    return 1", "y = 2", "both sides changed the same place"),
        ("x = a(x)\nx = b(x)", "x = own(x)\nx = a(x)\nx = b(x)", "x = b(x)\nz = new(x)", "'x' has another value here"),
        ("y = a(x)\nz = 1", "y = a(x)\nz = 1\nuse(y)", "z = 1", "'y' is used here, and nothing binds it"),
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
    assert merged.notes == ("your `if kernel:` returns before what upstream changed, so that path is as it was",)


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
