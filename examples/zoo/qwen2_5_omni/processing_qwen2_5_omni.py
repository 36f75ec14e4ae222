"""Qwen2.5-Omni's processor for what a data pipeline hands over: a list of each kind, empty where there is none."""

from typing import Any

from transformers.models.qwen2_5_omni import processing_qwen2_5_omni as upstream


class Qwen2_5OmniProcessor(upstream.Qwen2_5OmniProcessor):
    """Upstream's, which takes empty lists and the name ``audios``: it fails at the first, and refuses the second."""

    def __call__(
        self, text: Any = None, images: Any = None, videos: Any = None, audio: Any = None, audios: Any = None, **kwargs
    ):
        """What upstream's makes of the inputs that are not empty; ``audios`` is ``audio``."""
        audio = audios if audio is None else audio
        return super().__call__(
            text=text, images=drop_empty(images), videos=drop_empty(videos), audio=drop_empty(audio), **kwargs
        )


def drop_empty(inputs: Any) -> Any:
    """None for an empty list, tuple or array."""
    return None if hasattr(inputs, "__len__") and len(inputs) == 0 else inputs
