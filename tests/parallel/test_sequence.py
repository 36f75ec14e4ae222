from __future__ import annotations

import pytest
import torch
from rank_sums import sum_over_ranks
from torch import Tensor
from torch.nn import functional as F

from patchgen_core.errors import PatchgenError
from patchgen_core.runtime.parallel import (
    check_position_ids,
    check_whole_sequence,
    gather_heads_scatter_seq,
    gather_outputs,
    gather_router_logits,
    gather_seq_scatter_heads,
    get_parallel_state,
    init_parallel_state,
    pad_cu_seqlens,
    reduce_loss,
    select_features,
    sequence_parallel_attention,
    sequence_parallel_load_balancing,
    slice_batch,
    slice_input_tensor,
    slice_position_embeddings,
    sp_pad_and_slice,
    sp_padding,
    unpad_tensor,
    whole_sequence_like,
)

# --- exchanges --------------------------------------------------------------------------------------


def heads_and_back() -> None:
    state = init_parallel_state(sp_size=torch.distributed.get_world_size())
    size, rank = state.sp_size, state.sp_rank
    whole = torch.randn(2, 3 * size, 2 * size, 5, requires_grad=True)  # [B, S, heads, D]
    mine = slice_input_tensor(whole, 1)
    assert torch.equal(mine, whole[:, 3 * rank : 3 * rank + 3])
    heads = gather_seq_scatter_heads(mine, seq_dim=1, head_dim=2)
    assert torch.equal(heads, whole[:, :, 2 * rank : 2 * rank + 2])
    back = gather_heads_scatter_seq(heads**2, head_dim=2, seq_dim=1)
    assert torch.equal(back, mine**2)
    weights = torch.randn(whole.shape)
    (back * slice_input_tensor(weights, 1)).sum().backward()
    torch.testing.assert_close(sum_over_ranks(whole.grad), 2 * whole.detach() * weights)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.mostly_slow(1)
def test_heads_are_exchanged_for_the_sequence_and_back(ranks, count):
    ranks(count, heads_and_back)


def gathered() -> None:
    state = init_parallel_state(sp_size=torch.distributed.get_world_size())
    whole = torch.randn(2, 7, 3, requires_grad=True)
    mine = slice_input_tensor(whole, 1, padding_value=9)
    assert mine.shape == (2, 3, 3)
    assert state.sp_rank < 2 or bool((mine[:, 1:] == 9).all())
    again = gather_outputs(mine * (state.sp_rank + 1), 1, padding_dim=1, unpad_dim_size=7)
    factor = torch.tensor([1, 1, 1, 2, 2, 2, 3])[None, :, None]
    assert torch.equal(again, whole * factor)
    weights = torch.randn(whole.shape)
    (again * weights).sum().backward()  # each rank computes the same of the whole
    torch.testing.assert_close(sum_over_ranks(whole.grad), 3 * weights * factor)


def test_a_gathered_sequence_has_the_values_and_the_gradients_of_all_ranks(ranks):
    ranks(3, gathered)


def padded() -> None:
    init_parallel_state(sp_size=2)
    rank = get_parallel_state().sp_rank
    patches = torch.arange(12.0)[:, None]
    mine = sp_pad_and_slice(patches, dim=0, pad_value=-1, pad_scale=4)
    assert sp_padding(12, 4) == 4
    assert mine.flatten().tolist() == [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, -1, -1, -1, -1]][rank]
    whole = gather_seq_scatter_heads(mine.expand(-1, 2), 0, 1, unpadded_dim_size=12)
    assert torch.equal(whole, patches)
    assert torch.equal(gather_heads_scatter_seq(patches[:7], 1, 0), slice_input_tensor(patches[:7], 0).repeat(1, 2))
    assert torch.equal(unpad_tensor(gather_outputs(mine, 0), 0, 4), patches)
    assert pad_cu_seqlens(torch.tensor([0, 4, 12]), 4).tolist() == [0, 4, 12, 16]


def test_patches_are_padded_so_that_those_of_a_token_stay_together(ranks):
    ranks(2, padded)


def refused() -> None:
    init_parallel_state(sp_size=2)
    with pytest.raises(PatchgenError, match=r"3 heads in dimension 2 .* 2 ranks"):
        gather_seq_scatter_heads(torch.zeros(1, 4, 3), 1, 2)
    with pytest.raises(PatchgenError, match="7 entries"):
        slice_input_tensor(torch.zeros(7), 0, padding=False)


def test_what_does_not_divide_is_refused(ranks):
    ranks(2, refused)


def test_on_one_process_nothing_changes():
    x = torch.randn(2, 5, 3)
    assert gather_seq_scatter_heads(x, 1, 2) is x
    assert gather_heads_scatter_seq(x, 2, 1) is x
    assert slice_input_tensor(x, 1) is x
    assert gather_outputs(x, 1) is x
    assert sp_pad_and_slice(x, 1, pad_scale=4) is x
    assert unpad_tensor(x, 1, 0) is x
    assert pad_cu_seqlens(x[0, :, 0], 0).shape == (5,)
    assert whole_sequence_like(x) is x
    assert slice_position_embeddings((x, x))[1] is x
    assert sequence_parallel_attention(F.relu) is F.relu
    assert select_features(x, x > 0) is x
    check_position_ids(None, x)
    assert gather_router_logits([x], 2) == (x,)
    assert sequence_parallel_load_balancing(torch.add) is torch.add
    loss = x.sum()
    assert reduce_loss(loss, x) is loss
    assert slice_batch({"input_ids": x, "labels": x}) == {"input_ids": x, "labels": x}


# --- attention --------------------------------------------------------------------------------------


class Heads(torch.nn.Module):
    """Attention over [B, heads, S, D] by transformers' own function, with sinks where there are some."""

    def __init__(self, queries: int, keys: int, sinks: bool) -> None:
        super().__init__()
        self.num_key_value_groups = queries // keys
        self.sinks = torch.nn.Parameter(torch.randn(queries)) if sinks else None
        self.training = False

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        from transformers.models.gpt_oss import modeling_gpt_oss
        from transformers.models.llama import modeling_llama

        eager = (modeling_llama if self.sinks is None else modeling_gpt_oss).eager_attention_forward
        output, _ = sequence_parallel_attention(eager)(self, q, k, v, mask, scaling=q.shape[-1] ** -0.5)
        return output


def attention(queries: int, keys: int, sinks: bool) -> None:
    size = torch.distributed.get_world_size()
    heads = Heads(queries, keys, sinks)
    shapes = ((queries, 6), (keys, 6), (keys, 5))  # values may have a width of their own
    whole = [torch.randn(2, n, 4 * size, width, requires_grad=True) for n, width in shapes]
    mask = torch.full((4 * size, 4 * size), float("-inf")).triu(1)[None, None]
    weights = torch.randn(2, 4 * size, queries, 5)
    parameters = [*whole, *heads.parameters()]
    expected = heads(*whole, mask)
    gradients = torch.autograd.grad((expected * weights).sum(), parameters)

    init_parallel_state(sp_size=size)
    output = heads(*(slice_input_tensor(x, 2) for x in whole), mask)
    torch.testing.assert_close(output, slice_input_tensor(expected, 1))
    own = torch.autograd.grad((output * slice_input_tensor(weights, 1)).sum(), parameters)
    for gradient, mine in zip(gradients, own):
        torch.testing.assert_close(sum_over_ranks(mine), gradient)


@pytest.mark.parametrize(
    ("count", "queries", "keys"),
    [(2, 4, 4), (2, 4, 2), (2, 4, 1), (4, 8, 2), (4, 12, 6), (3, 4, 2), (4, 6, 3), (3, 2, 1)],
)
def test_attention_over_slices_is_that_over_whole_sequences(ranks, count, queries, keys):
    ranks(count, attention, queries, keys, False)


@pytest.mark.parametrize("queries", [4, 6])
def test_every_rank_has_the_sinks_of_its_heads(ranks, queries):
    ranks(4 if queries == 4 else 2, attention, queries, 2, True)


def attention_refused() -> None:
    init_parallel_state(sp_size=2)
    q = torch.randn(1, 2, 4, 6)
    with pytest.raises(RuntimeError, match="mask of shape"):
        Heads(2, 2, False)(q, q, q, torch.zeros(1, 1, 4, 4))
    with pytest.raises(RuntimeError, match="mask of shape"):
        Heads(2, 2, False)(q, q, q, torch.zeros(1, 1, 4, 8))
    with pytest.raises(RuntimeError, match="use_cache=False"):
        Heads(2, 2, False)(q[:, :, :1], q, q, torch.zeros(1, 1, 8, 8))


def test_masks_of_slices_and_caches_are_refused(ranks):
    ranks(2, attention_refused)


# --- positions, batches, losses, features ------------------------------------------------------------


def positions() -> None:
    init_parallel_state(sp_size=2)
    embeds = torch.zeros(1, 3, 8)
    with pytest.raises(RuntimeError, match="position_ids are missing"):
        check_position_ids(None, embeds)
    with pytest.raises(RuntimeError, match="length 6"):
        check_position_ids(torch.arange(3)[None], embeds)
    check_position_ids(torch.arange(6)[None], embeds)
    with pytest.raises(RuntimeError, match=r"token_type_ids of shape \(1, 3\) .* length 6"):
        check_whole_sequence("token_type_ids", torch.zeros(1, 3), embeds)
    check_whole_sequence("token_type_ids", torch.zeros(1, 6), embeds)
    check_whole_sequence("token_type_ids", None, embeds)
    assert whole_sequence_like(embeds).shape == (1, 6, 8)
    cos, sin = slice_position_embeddings((torch.arange(6.0).view(1, 6, 1), torch.arange(6.0, 12).view(1, 6, 1)))
    start = 3 * get_parallel_state().sp_rank
    assert cos.flatten().tolist() == [start, start + 1, start + 2]
    assert sin[0, 0, 0] == start + 6


def test_position_ids_are_those_of_the_whole_sequence(ranks):
    ranks(2, positions)


def batches() -> None:
    init_parallel_state(sp_size=2)
    ids = torch.arange(10, 15)[None]
    batch = {
        "input_ids": ids,
        "labels": ids,
        "attention_mask": torch.ones(1, 5, dtype=torch.long),
        "token_type_ids": torch.ones(1, 5, dtype=torch.long),
        "position_ids": torch.tensor([[0, 1, 2, 0, 1]]),
        "cu_seq_lens_q": torch.tensor([0, 3, 5]),
        "max_length_q": 3,
        "use_cache": False,
    }
    mine = slice_batch(batch, pad_token_id=7)
    rank = get_parallel_state().sp_rank
    assert mine["input_ids"].tolist() == [[[10, 11, 12]], [[13, 14, 7]]][rank]
    assert mine["shift_labels"].tolist() == [[[11, 12, 13]], [[14, -100, -100]]][rank]
    assert mine["position_ids"].tolist() == [[0, 1, 2, 0, 1, 2]]
    assert mine["attention_mask"].tolist() == mine["token_type_ids"].tolist() == [[1, 1, 1, 1, 1, 0]]
    assert mine["cu_seq_lens_q"].tolist() == [0, 3, 5, 6]
    assert (mine["max_length_q"], mine["use_cache"]) == (3, False)
    assert "token_mask" not in mine
    del batch["attention_mask"]
    assert slice_batch(batch)["token_mask"].tolist() == [[[1, 1, 1]], [[1, 1, 0]]][rank]
    assert slice_batch({"input_ids": ids})["position_ids"].tolist() == [[0, 1, 2, 3, 4, 5]]
    with pytest.raises(RuntimeError, match="the batch has image_grid_thw and no position_ids"):
        slice_batch({"input_ids": ids, "image_grid_thw": torch.tensor([[1, 2, 2]]), "video_grid_thw": None})


def test_a_batch_is_sliced_after_its_labels_are_shifted(ranks):
    ranks(2, batches)


def losses(labels: list[int], counted: bool) -> None:
    init_parallel_state(sp_size=2)
    every = torch.tensor(labels)
    logits = torch.randn(6, 5, requires_grad=True)
    count = int((every != -100).sum())
    expected = F.cross_entropy(logits, every, reduction="sum") / max(count, 1)
    (gradient,) = torch.autograd.grad(expected, logits)

    mine = slice_input_tensor(every, 0)
    reduction = "sum" if counted else "mean"
    loss = F.cross_entropy(slice_input_tensor(logits, 0), mine, reduction=reduction)
    loss = reduce_loss(loss / count, mine, num_items_in_batch=count) if counted else reduce_loss(loss, mine)
    torch.testing.assert_close(loss, expected)
    (own,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(sum_over_ranks(own) / 2, gradient)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("labels", [[1, 2, 3, 0, 4, 1], [1, -100, -100, 0, 4, 1], [-100, -100, -100, 0, -100, 1]])
def test_a_loss_is_over_the_labels_of_all_slices(ranks, labels, counted):
    ranks(2, losses, labels, counted)


def test_a_loss_of_no_label_is_none(ranks):
    ranks(2, losses, [-100] * 6, False)


def features() -> None:
    mask = torch.tensor([[0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 0, 0]]).bool()
    every = torch.randn(5, 3, requires_grad=True)
    embeds = torch.randn(2, 6, 3)
    expected = embeds.masked_scatter(mask[..., None], every)
    weights = torch.randn(expected.shape)
    (gradient,) = torch.autograd.grad((expected * weights).sum(), every)

    init_parallel_state(sp_size=2)
    mine = slice_input_tensor(mask, 1)
    selected = select_features(every, mine)
    filled = slice_input_tensor(embeds, 1).masked_scatter(mine[..., None], selected)
    assert torch.equal(filled, slice_input_tensor(expected, 1))
    (own,) = torch.autograd.grad((filled * slice_input_tensor(weights, 1)).sum(), every)
    torch.testing.assert_close(sum_over_ranks(own), gradient)
    with pytest.raises(RuntimeError, match="3 rows of features for 5 placeholders"):
        select_features(every[:3], mine)


def test_features_of_pictures_are_filled_into_slices(ranks):
    ranks(2, features)


def balance() -> None:
    from transformers.models.qwen3_moe.modeling_qwen3_moe import load_balancing_loss_func

    whole = torch.randn(2, 6, 4, requires_grad=True)
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    expected = load_balancing_loss_func((whole.flatten(0, 1), 2 * whole.flatten(0, 1)), 4, 2, mask)
    (gradient,) = torch.autograd.grad(expected, whole)

    init_parallel_state(sp_size=2)
    mine = slice_input_tensor(whole, 1).flatten(0, 1)
    summed = sequence_parallel_load_balancing(load_balancing_loss_func)
    for loss in (
        load_balancing_loss_func(gather_router_logits((mine, 2 * mine), 2), 4, 2, mask),
        summed((mine, 2 * mine), 4, 2, mask),
        summed((mine, 2 * mine), 4, 2, slice_input_tensor(mask, 1)),
    ):
        torch.testing.assert_close(loss, expected)
        (own,) = torch.autograd.grad(loss, whole, retain_graph=True)
        torch.testing.assert_close(sum_over_ranks(own) / 2, gradient)  # FSDP takes the mean


def test_a_load_balancing_loss_is_that_of_whole_sequences(ranks):
    ranks(2, balance)


def wrong_sizes() -> None:
    with pytest.raises(PatchgenError, match="dp_size 2 times sp_size 2 is 4, and there are 2 ranks"):
        init_parallel_state(dp_size=2, sp_size=2)
    with pytest.raises(PatchgenError, match="ep_size 4"):
        init_parallel_state(ep_size=4)
    state = init_parallel_state(ep_size=2)
    assert (state.dp_size, state.sp_size, state.ep_size) == (2, 1, 2)
    assert state.dp_rank == state.ep_rank == torch.distributed.get_rank()


def test_sizes_that_do_not_go_with_the_ranks_are_refused(ranks):
    ranks(2, wrong_sizes)
