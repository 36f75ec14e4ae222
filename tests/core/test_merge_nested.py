"""Upstream's change of statements that ours has in a block of its own."""

from __future__ import annotations

import textwrap

from patchgen_core.upgrade.merging import merge_definition
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


def test_what_ours_has_in_two_blocks_is_a_conflict() -> None:
    twice = OURS.replace("weight, labels)\n", f"weight, labels)\n{nested(SLICED)}")
    merged = merge(BASE, twice, BASE.replace(SLICED, CHANGED))
    assert [conflict.reason for conflict in merged.conflicts] == [
        "upstream changed what you deleted or replaced: `logits = self.lm_head(hidden_states[:, chosen, :])`"
    ]


def test_what_ours_changed_in_the_block_and_upstream_too_is_a_conflict() -> None:
    ours = OURS.replace(
        "logits = self.lm_head(hidden_states[:, chosen, :])", "logits = own_head(hidden_states, chosen)"
    )
    merged = merge(BASE, ours, BASE.replace(SLICED, CHANGED))
    assert not merged.is_clean
