"""What VeOmni's other models need beside that: a process group, and what its collator makes of a batch."""

import veomni_setup


def setup(models):
    veomni_setup.setup(models)
    import torch

    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    models.add_inputs(collate)


def collate(model, inputs):
    more = {}
    for kind in ("image", "video", "audio"):
        for name in (f"{kind}_token_id", f"{kind}_token_index"):
            if "input_ids" in inputs and hasattr(model.config, name):
                more[f"{kind}_mask"] = inputs["input_ids"] == getattr(model.config, name)
    if "feature_attention_mask" in inputs:
        is_sound = inputs["feature_attention_mask"].bool()
        more["input_features"] = inputs["input_features"].permute(0, 2, 1)[is_sound]
        more["audio_feature_lengths"] = is_sound.sum(1)
    elif "omni" in model.config.model_type and "video_grid_thw" in inputs:
        more["audio_feature_lengths"] = inputs["video_grid_thw"].new_zeros(len(inputs["video_grid_thw"]))  # silent
    return more
