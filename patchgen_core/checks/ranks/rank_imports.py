"""Imports what every rank needs, for the server that ranks are forked from: it can only be told modules to import.

No cycles are looked for meanwhile, nor later among what was imported: that is a quarter of the time.
"""

from __future__ import annotations

import gc

from patchgen_core.workers.collector import without_collector

with without_collector():
    import torch.distributed.tensor  # noqa: F401
    import transformers.modeling_utils  # noqa: F401
gc.freeze()
