"""Names for functions that take the place of upstream's."""

from __future__ import annotations

import re

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def function_name(target: str) -> str:
    """The name of a replacement: ``llama_rms_norm_forward`` for ``LlamaRMSNorm.forward``."""
    words = (_WORDS.sub("_", part).lower().strip("_") for part in target.split("."))
    return "_".join(words).replace("__", "_")
