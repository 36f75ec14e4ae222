"""A router whose experts all but tie: what rounding decides is no difference, and what it does not decide is one."""

from __future__ import annotations

import torch

from patchgen_core.models.routing import Choices, Following, Recording

EPS = torch.finfo(torch.bfloat16).eps


def test_what_topk_chose_is_noted_in_its_order():
    with Recording() as recording:
        torch.topk(torch.tensor([1.0, 3.0, 2.0]), 2)
        torch.tensor([[5.0, 4.0]]).topk(1, dim=-1)
        torch.ones(3).sort()
    assert [made.tolist() for made in recording.indices] == [[1, 2], [[0]]]


def test_a_tie_is_decided_as_by_the_run_that_is_followed():
    values = torch.tensor([[0.5, 0.301, 0.3, 0.1], [0.5, 0.35, 0.2, 0.1]], requires_grad=True)
    with Following(Choices(EPS, (torch.tensor([[0, 2], [0, 2]]),))):
        chosen = values.topk(2, dim=-1)
    assert chosen.indices.tolist() == [[0, 2], [0, 1]]  # the second row is no tie
    assert torch.equal(chosen.values, values.gather(-1, chosen.indices))
    (gradient,) = torch.autograd.grad(chosen.values.sum(), values)
    assert gradient.tolist() == [[1, 0, 1, 0], [1, 1, 0, 0]]


def test_what_is_a_tie_in_bfloat16_is_none_in_float32():
    values, theirs = torch.tensor([0.301, 0.3]), torch.tensor([1])
    for eps, expected in ((EPS, 1), (torch.finfo(torch.float32).eps, 0)):
        with Following(Choices(eps, (theirs,))):
            assert torch.topk(values, 1).indices.item() == expected


def test_what_is_masked_out_is_never_chosen_and_makes_no_scale():
    values = torch.tensor([0.2, 0.1, float("-inf")])
    for theirs in (2, 1):
        with Following(Choices(EPS, (torch.tensor([theirs]),))):
            assert torch.topk(values, 1).indices.item() == 0


def test_other_calls_and_more_of_them_keep_what_they_chose():
    values = torch.tensor([0.301, 0.3, 0.299])
    with Following(Choices(EPS, (torch.tensor([1, 2]),))):
        assert [torch.topk(values, 1).indices.tolist() for _ in range(2)] == [[0], [0]]


def test_another_dimension_and_order_are_no_difference():
    values = torch.tensor([[0.3, 1.0], [0.301, 2.0], [0.1, 3.0]])
    with Following(Choices(EPS, (torch.tensor([[0, 1], [1, 2]]),))):
        chosen = values.topk(2, dim=0)
    assert chosen.indices.T.tolist() == [[1, 0], [2, 1]]
