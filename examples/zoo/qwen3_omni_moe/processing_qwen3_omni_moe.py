"""Qwen3-Omni-MoE's processor for what a data pipeline hands over: a list of each kind, empty where there is none."""

from typing import Any

from transformers.models.qwen3_omni_moe import processing_qwen3_omni_moe as upstream

from zoo.qwen2_5_omni.processing_qwen2_5_omni import drop_empty


class Qwen3OmniMoeProcessor(upstream.Qwen3OmniMoeProcessor):
    """Upstream's, which takes empty lists and the name ``audios``: it fails at the first, and refuses the second."""

    def __call__(
        self, text: Any = None, images: Any = None, videos: Any = None, audio: Any = None, audios: Any = None, **kwargs
    ):
        """What upstream's makes of the inputs that are not empty; ``audios`` is ``audio``."""
        audio = audios if audio is None else audio
        return super().__call__(
            text=text, images=drop_empty(images), videos=drop_empty(videos), audio=drop_empty(audio), **kwargs
        )
