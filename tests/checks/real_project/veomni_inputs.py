"""What VeOmni's other models need beside that: a process group, and what its collator adds to a batch."""

import veomni_setup


def setup(models):
    veomni_setup.setup(models)
    import torch

    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    models.add_inputs(collate)


def collate(model, inputs):
    import torch

    if "input_ids" not in inputs:
        return {}
    ids, config, more = inputs["input_ids"], model.config, {}
    for kind in ("image", "video", "audio"):
        for name in (f"{kind}_token_id", f"{kind}_token_index"):
            if hasattr(config, name):
                more[f"{kind}_mask"] = ids == getattr(config, name)
    if "omni" in config.model_type and "video_grid_thw" in inputs and "audio_feature_lengths" not in inputs:
        more["audio_feature_lengths"] = torch.zeros(len(inputs["video_grid_thw"]), dtype=torch.long)  # silent
    if config.model_type.startswith("qwen3_5"):
        ends = torch.tensor([*starts_of(inputs, ids.shape[1]), ids.shape[1]], dtype=torch.int32)
        more |= {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends, "linear_attn_cu_seq_lens_q": ends}
    return more


def starts_of(inputs, length):
    """Where the sequences begin that are packed into a row."""
    positions = inputs.get("position_ids")
    row = list(range(length)) if positions is None else positions.reshape(-1, length)[0].tolist()
    return [place for place, position in enumerate(row) if position == 0]
