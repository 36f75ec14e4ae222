"""Where a forward cuts to the positions that ``logits_to_keep`` asks for (PG218)."""

from __future__ import annotations

import textwrap

import pytest

from tests.conftest import Workspace
from tests.contract.support import examine, found

UPSTREAM = """
class ForCausalLM:
    def forward(self, x, labels=None, logits_to_keep=0, **kwargs):
        hidden = self.model(x)
        hidden = slice_logits_to_keep(hidden, logits_to_keep)
        logits = self.lm_head(hidden)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels)
        return loss, logits
"""
WHERE_LOSS = "cuts to those positions elsewhere, but not where it computes the loss"
TOO_LATE = "cuts to those positions only after it has computed the loss"
WITH_LABELS = "cuts to those positions only where there are labels"
NEVER = "never cuts to those positions, as upstream's version does"


def patched(work: Workspace, body: str, upstream: str = UPSTREAM) -> list[str]:
    """The findings over a forward with a body, which starts from ``hidden`` and ``cut``."""
    work.upstream(f"import torch\n\n\ndef slice_logits_to_keep(x, keep):\n    return x\n\n{upstream}")
    start = "hidden = self.model(x)\ncut = slice(-logits_to_keep, None)\nloss = logits = None\n"
    lines = textwrap.indent(start + textwrap.dedent(body), "    ")
    work.config(
        f'@config.override_method("ForCausalLM.forward")\n'
        f"def forward(self, x, labels=None, logits_to_keep=0, **kwargs):\n{lines}\n    return loss, logits\n"
    )
    start = "PG218 'ForCausalLM.forward' takes 'logits_to_keep' and "
    return [message.removeprefix(start) for message in found(work, "PG218")]


WRONG = {
    """
    if labels is not None:
        loss, logits = self.loss_function(hidden, labels, weights=self.lm_head.weight)
    else:
        logits = self.lm_head(hidden[:, cut, :])
    """: WHERE_LOSS,
    """
    if labels is None:
        return None, self.lm_head(hidden[:, -logits_to_keep:, :])
    loss = self.loss_function(hidden, labels)
    """: WHERE_LOSS,
    """
    has_labels = labels is not None
    kept = hidden if has_labels else hidden[:, cut, :]
    logits = self.lm_head(kept)
    if has_labels:
        loss = self.loss_function(logits, labels)
    """: WHERE_LOSS,
    """
    if self.training and labels is not None:
        loss = self.fused_cross_entropy(hidden, labels)
    else:
        hidden = hidden[:, cut, :]
        logits = self.lm_head(hidden)
        if labels is not None:
            loss = self.loss_function(logits, labels)
    """: WHERE_LOSS,
    """
    if labels is None and logits_to_keep:
        hidden = hidden[:, cut, :]
    logits = self.lm_head(hidden)
    if labels is not None:
        shift_labels = labels[..., 1:]
        loss = self.loss_function(logits, shift_labels)
    """: WHERE_LOSS,
    """
    if labels is not None:
        logits = self.trained_head(hidden, labels)
    else:
        logits = self.lm_head(hidden[:, cut, :])
    """: WHERE_LOSS,
    """
    if labels is not None:
        loss = self.loss_function(hidden, labels[:, cut])
    else:
        logits = self.lm_head(hidden[:, cut, :])
    """: WHERE_LOSS,
    """
    if labels is not None:
        return self.loss_function(hidden, labels), None
    logits = self.lm_head(hidden[:, cut, :])
    """: WHERE_LOSS,
    """
    if labels is not None:
        value = self.fused_cross_entropy(hidden, labels)
    logits = self.lm_head(hidden[:, cut, :])
    """: TOO_LATE,
    """
    if not labels is None:
        kept = hidden[:, cut, :]
        loss = self.loss_function(kept, labels)
    else:
        logits = self.lm_head(hidden)
    """: WITH_LABELS,
    """
    if not (labels is None):
        loss = self.criterion(hidden, labels)
    logits = self.lm_head(slice_logits_to_keep(hidden, logits_to_keep))
    """: TOO_LATE,
    """
    if labels is not None:
        kept = hidden[:, cut, :]
        loss = self.loss_function(kept, labels)
    else:
        logits = self.lm_head(hidden)
    """: WITH_LABELS,
    """
    logits = self.lm_head(hidden)
    if labels is not None:
        loss = self.loss_function(logits, labels)
    """: NEVER,
}
RIGHT = [
    """
    hidden = hidden[:, cut, :]
    if labels is not None:
        loss, logits = self.loss_function(hidden, labels, weights=self.lm_head.weight)
    else:
        logits = self.lm_head(hidden)
    """,
    """
    if labels is not None:
        loss, logits = self.loss_function(hidden[:, cut, :], labels)
    else:
        logits = self.lm_head(hidden[:, -logits_to_keep:, :])
    """,
    """
    if labels is None:
        return None, self.lm_head(slice_logits_to_keep(hidden, logits_to_keep))
    loss = self.loss_function(slice_logits_to_keep(hidden, logits_to_keep), labels)
    """,
    """
    logits = self.lm_head(hidden[:, cut, :])
    if self.training and labels is not None:
        loss = self.fused_cross_entropy(logits, labels)
    """,
    """
    if logits_to_keep:
        hidden = hidden[:, cut, :]
    logits = self.lm_head(hidden)
    if labels is not None:
        loss = self.loss_function(logits, labels)
    """,
    """
    indices = torch.arange(logits_to_keep)
    if isinstance(logits_to_keep, int):
        indices = cut
    hidden = hidden.index_select(1, indices)
    if labels is not None:
        loss = self.loss_function(hidden, labels)
    """,
    """
    if labels is not None and logits_to_keep == 0:
        loss = self.fused_cross_entropy(hidden, labels)
    else:
        hidden = hidden[:, cut, :]
        logits = self.lm_head(hidden)
        if labels is not None:
            loss = self.loss_function(logits, labels)
    """,
    """
    if labels is not None:
        if logits_to_keep:
            raise ValueError("not with labels")
        loss = self.loss_function(hidden, labels)
    else:
        logits = self.lm_head(hidden[:, cut, :])
    """,
    """
    if hidden.shape[1] == x.shape[1]:
        hidden = slice_logits_to_keep(hidden, logits_to_keep)
    logits = self.lm_head(hidden)
    if labels is not None:
        loss = self.loss_function(logits, labels)
    """,
    """
    assert not logits_to_keep or labels is None
    if labels is not None:
        loss = self.loss_function(hidden, labels)
    else:
        logits = self.lm_head(hidden[:, cut, :])
    """,
    """
    outputs = super().forward(x, labels=labels, logits_to_keep=logits_to_keep)
    loss, logits = outputs
    """,
    """
    aux_loss = self.load_balancing_loss(hidden)
    hidden = hidden[:, cut, :]
    logits = self.lm_head(hidden)
    if labels is not None:
        loss = self.loss_function(logits, labels) + aux_loss
    """,
    """
    try:
        hidden = hidden[:, cut, :]
    finally:
        self.log()
    for _ in range(2):
        logits = self.lm_head(hidden)
    with torch.no_grad():
        loss = None if labels is None else self.loss_function(logits, labels)
    """,
]


@pytest.mark.parametrize("body", WRONG)
def test_loss_or_logits_are_of_other_positions(work: Workspace, body: str) -> None:
    assert patched(work, body) == [WRONG[body]]


@pytest.mark.parametrize("body", RIGHT)
def test_cut_before_or_on_both_ways(work: Workspace, body: str) -> None:
    assert patched(work, body) == []


BLOCKS = ["with torch.no_grad():", "for _ in range(1):", "while self.training:", "try:", "match x:\n    case _:"]


@pytest.mark.parametrize("block", BLOCKS)
def test_branches_are_found_in_every_kind_of_block(work: Workspace, block: str) -> None:
    depth = 2 if "case" in block else 1
    lines = textwrap.indent(textwrap.dedent(next(iter(WRONG))), "    " * depth)
    after = "finally:\n    self.log()\n" if block == "try:" else ""
    assert patched(work, f"{block}\n{lines}\n{after}") == [WHERE_LOSS]


NO_CUT = "logits = self.lm_head(hidden)\n"


def test_forward_whose_upstream_does_not_cut_either(work: Workspace) -> None:
    upstream = UPSTREAM.replace("slice_logits_to_keep(hidden, logits_to_keep)", "hidden")
    assert patched(work, NO_CUT, upstream) == []


def test_model_that_gets_the_parameter_as_upstreams_does_is_no_cut(work: Workspace) -> None:
    handed = "hidden = self.model(x, logits_to_keep=logits_to_keep)\n"
    upstream = UPSTREAM.replace("hidden = self.model(x)\n", handed)
    assert patched(work, handed + NO_CUT, upstream) == [NEVER]
    assert patched(work, handed + NO_CUT, UPSTREAM) == []


def test_model_that_upstream_leaves_the_cut_to_is_one(work: Workspace) -> None:
    upstream = UPSTREAM.replace("self.model(x)\n", "self.model(x, logits_to_keep=logits_to_keep)\n").replace(
        "slice_logits_to_keep(hidden, logits_to_keep)", "hidden"
    )
    body = """
    if labels is not None:
        loss = self.loss_function(self.model(x, logits_to_keep=logits_to_keep), labels)
    else:
        logits = self.lm_head(hidden[:, cut, :])
    """
    assert patched(work, body, upstream) == []


def test_function_without_labels_is_none_of_this(work: Workspace) -> None:
    work.upstream(UPSTREAM.replace("labels=None, ", "").replace("labels is not None", "self.labels"))
    work.config("""
        @config.override_method("ForCausalLM.forward")
        def forward(self, x, logits_to_keep=0, **kwargs):
            return self.lm_head(self.model(x))
        """)
    assert found(work, "PG218") == []


def test_finding_shows_the_loss(work: Workspace) -> None:
    patched(work, next(body for body in WRONG if "self.criterion(hidden, labels)" in body))
    [problem] = examine(work, select=["PG218"]).warnings
    assert problem.generated is not None
    line = next(line for line in problem.generated.text.splitlines() if line.lstrip().startswith(">"))
    assert "loss = self.criterion(hidden, labels)" in line
