"""Qwen2.5-Omni's configuration, whose heads are never tied to the embeddings."""

from typing import Any

from transformers.models.qwen2_5_omni import configuration_qwen2_5_omni as upstream


class Qwen2_5OmniConfig(upstream.Qwen2_5OmniConfig):
    """Upstream's, with ``tie_word_embeddings`` false whatever a ``config.json`` says.

    transformers 4 had true as the default of every configuration. Checkpoints hold a head of its own beside the
    embeddings, and a model that ties the two cannot take both.
    """

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        self.tie_word_embeddings = False
        self.thinker_config.tie_word_embeddings = False
