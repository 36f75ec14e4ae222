"""What upstream changed in a definition, carried over into what replaces it."""

from __future__ import annotations

import ast

from patchgen_core.upgrade.results import Merged
from tests.upgrade.merging import FORWARD, assert_clean, changed, merge, reasons, text


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
    assert merged.notes == ("upstream renamed 'x' to 'hidden', and the merge does too",)


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
    assert_clean(merge(base, ours, probs), changed(probs, ("router_probs", "weights")))


def test_a_parameter_in_anothers_place_is_no_rename() -> None:
    base = "def f(self, x, old=None):\n    return self.g(x, old=old)"
    theirs = "def f(self, x, new=None):\n    return self.g(x, new=new)"
    ours = "def f(self, x, old=None):\n    if old is not None:\n        check(old)\n    return self.g(x, old=old)"
    merged = merge(base, ours, theirs)
    assert "'old' is used here, but nothing binds it now" in reasons(merged)
    unused = [source.replace("old=old", "").replace("new=new", "") for source in (base, ours, theirs)]
    assert "'old' is used here, but nothing binds it now" in reasons(merge(*unused))


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
    assert merged.notes == ("upstream and you both changed the docstring of f: yours stays",)


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
