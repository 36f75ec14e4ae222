"""Upstream's change of statements that ours has in a block of its own."""

from __future__ import annotations

import textwrap

from patchgen_core.upgrade.merging.merge import merge_definition
from patchgen_core.upgrade.results import Merged

BASE = """
def forward(self, hidden_states, keep, labels=None):
    outputs = self.model(hidden_states)
    hidden_states = outputs.last_hidden_state
    # Only the logits that are asked for
    chosen = slice(-keep, None) if isinstance(keep, int) else keep
    logits = self.lm_head(hidden_states[:, chosen, :])

    loss = None
    if labels is not None:
        loss = self.loss_function(logits, labels)
    return Output(loss, logits, outputs.attentions)
"""
OURS = """
def forward(self, hidden_states, keep, labels=None):
    outputs = self.model(hidden_states)
    hidden_states = outputs.last_hidden_state
    loss = None
    logits = None
    # --- Patch.1 ---
    if labels is not None and slot.has_kernel:
        loss = slot(hidden_states, self.lm_head.weight, labels)
    else:
        # --- Patch.1 ---
        # Only the logits that are asked for
        chosen = slice(-keep, None) if isinstance(keep, int) else keep
        logits = self.lm_head(hidden_states[:, chosen, :])
        if labels is not None:
            loss = self.loss_function(logits, labels)
    return Output(loss, logits, outputs.attentions)
"""
CHANGED = """\
    hidden_states = slice_logits_to_keep(hidden_states, keep)
    logits = self.lm_head(hidden_states)
"""
SLICED = BASE[BASE.index("    # Only") : BASE.index("\n    loss")]


def merge(base: str, ours: str, theirs: str) -> Merged:
    return merge_definition(base.strip(), ours.strip(), theirs.strip())


def nested(text: str) -> str:
    return textwrap.indent(text, "    ")


def test_a_change_goes_to_the_block_that_has_the_statements_and_comments_of_ours_stay() -> None:
    merged = merge(BASE, OURS, BASE.replace(SLICED, CHANGED))
    assert merged.conflicts == ()
    assert merged.text == OURS.replace(nested(SLICED), nested(CHANGED)).strip()


def test_a_change_beside_goes_where_it_was() -> None:
    theirs = BASE.replace(SLICED, CHANGED).replace(
        "outputs = self.model(hidden", "outputs = self.model(input_ids=hidden"
    )
    merged = merge(BASE, OURS, theirs)
    ours = OURS.replace("outputs = self.model(hidden", "outputs = self.model(input_ids=hidden")
    assert merged.conflicts == ()
    assert merged.text == ours.replace(nested(SLICED), nested(CHANGED)).strip()


def test_new_code_between_statements_that_stay_is_no_business_of_the_block() -> None:
    change = ("    hidden_states = outputs", "    report(outputs)\n    hidden_states = outputs")
    merged = merge(BASE, OURS, BASE.replace(SLICED, CHANGED).replace(*change))
    assert merged.conflicts == ()
    assert merged.text == OURS.replace(nested(SLICED), nested(CHANGED)).replace(*change).strip()


def test_blocks_that_do_not_have_the_same_statements_are_a_conflict() -> None:
    twice = OURS.replace("weight, labels)\n", f"weight, labels)\n{nested(SLICED)}")
    merged = merge(BASE, twice, BASE.replace(SLICED, CHANGED))
    assert [conflict.reason for conflict in merged.conflicts] == [
        "upstream deleted or replaced what you have elsewhere: "
        "`chosen = slice(-keep, None) if isinstance(keep, int) else keep`"
    ]


def test_what_ours_changed_in_the_block_and_upstream_too_is_a_conflict() -> None:
    ours = OURS.replace(
        "logits = self.lm_head(hidden_states[:, chosen, :])", "logits = own_head(hidden_states, chosen)"
    )
    merged = merge(BASE, ours, BASE.replace(SLICED, CHANGED))
    assert not merged.is_clean


KERNEL, FALLBACK = OURS.split("    else:\n")[0] + "    elif labels is not None:\n", "    else:\n"
BRANCHES = (
    f"{KERNEL}{nested(SLICED)}        loss = self.loss_function(logits, labels)\n{FALLBACK}{nested(SLICED)}"
    "    return Output(loss, logits, outputs.attentions)"
)


def test_several_branches_that_have_the_statements_are_a_conflict() -> None:
    merged = merge(BASE, BRANCHES, BASE.replace(SLICED, CHANGED))
    assert [conflict.reason.partition(":")[0] for conflict in merged.conflicts] == [
        "upstream deleted or replaced what you have elsewhere"
    ]


def test_statements_that_are_run_twice_are_a_conflict() -> None:
    again = "".join(f"    if {test}:\n{nested(SLICED)}" for test in ("check", "labels is None"))
    ours = OURS[: OURS.index("    # ---")] + again + "    return Output(loss, logits, outputs.attentions)"
    merged = merge(BASE, ours, BASE.replace(SLICED, CHANGED))
    assert all(conflict.reason.startswith("upstream ") for conflict in merged.conflicts)
    assert not merged.is_clean


def test_an_edited_statement_beside_the_same_ones_is_merged_there() -> None:
    edited = OURS.replace("chosen, :])", "chosen, :]).float()")
    merged = merge(BASE, edited, BASE.replace(SLICED, CHANGED))
    expected = OURS.replace(nested(SLICED), nested(CHANGED.replace("(hidden_states)\n", "(hidden_states).float()\n")))
    assert merged.conflicts == ()
    assert merged.text == expected.strip()


def test_what_upstream_adds_behind_and_only_the_block_has_the_value_of_is_a_conflict() -> None:
    scaled = BASE.replace("    return", "    logits = logits.float()\n    return")
    assert not merge(BASE, OURS, scaled).is_clean


def test_what_upstream_deleted_and_ours_has_twice_is_not_forgotten() -> None:
    again = BRANCHES.replace(nested(SLICED), nested(SLICED) * 2)
    gone = BASE.replace(SLICED, "    logits = None\n")
    reasons = [conflict.reason for conflict in merge(BASE, again, gone).conflicts]
    assert any(reason.startswith("upstream deleted or replaced what you have elsewhere") for reason in reasons)


def test_a_block_of_which_upstream_leaves_nothing_is_a_conflict() -> None:
    ours = OURS.replace("        if labels is not None:\n            loss = self.loss_function(logits, labels)\n", "")
    gone = BASE.replace(SLICED, "").replace("logits, ", "outputs, ")
    reasons = [conflict.reason for conflict in merge(BASE, ours, gone).conflicts]
    assert "upstream deleted all that is in a block of yours" in reasons


CALL = "{} = compute_{}({}, scale={}, bias=None)".format


def chain(*lines: str) -> str:
    return "def f(p, q, flag):\n" + "".join(f"    {line}\n" for line in lines) + "    return p, q, x, z\n"


def fallback(kernel: str, *lines: str) -> list[str]:
    """Statements below the ``else`` of a kernel."""
    return ["if flag:", f"    {kernel}", "else:", *(f"    {line}" for line in lines)]


def test_new_code_among_the_statements_that_is_not_for_the_block() -> None:
    first, second = CALL("z", 0, "p, p", 35), CALL("x", 1, "q, q", 37)
    rest = [CALL("z", 0, "p, z", 73), CALL("x", 1, "p, q", 50)]
    ours = chain("x = None", *fallback("x = z = own(p)", first, second), *rest)
    theirs = chain(CALL("z", 3, "q, q", 13), "a = compute_4(p, 0)", f"{first} + a", second, *rest)
    assert not merge(chain(first, second, *rest), ours, theirs).is_clean


def test_new_code_that_the_statements_need() -> None:
    above = [CALL("y", 2, "q, p", 34), CALL("x", 0, "y, p", 81)]
    moved = [CALL("p", 2, "y, x", 17), CALL("z", 3, "q, q", 7), CALL("w", 2, "p, y", 42)]
    gone, rest = CALL("x", 2, "z, w", 50), [CALL("z", 1, "y, w", 49), CALL("x", 1, "z, x", 80)]
    changed = [*moved[:2], moved[2].replace("= ", "= compute_4(1) + ")]
    theirs = chain(*above, CALL("y", 3, "y, x", 6), *changed, *rest)
    ours = chain(*above, *fallback("p = w = z = None", *moved), gone, *rest)
    assert not merge(chain(*above, *moved, gone, *rest), ours, theirs).is_clean
