"""What is to be compared. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchgen_core.checks.parity.request import PatchedCode
from patchgen_core.errors import Location
from patchgen_core.project.meshes import Mesh
from patchgen_core.project.sharded_settings import ShardedSettings


@dataclass(frozen=True)
class ShardedRequest:
    """One comparison that is to be made.

    Attributes:
        module, upstream: dotted names.
        text: what to run instead of what stands in the module's file; None for that.
        declared: where the config is.
        patches: where the code of its patches stands in the generated module.
        plan: the dotted name of ``parallel_plan.py`` beside the config; empty where there is none.
        toy_config: its toy configuration, as a mapping or an absolute path; None when it has none of its own.
        toy_root: the project's folder of toy configurations; empty for none.
        batches: references of the project's builders of toy batches.
        settings: what the project says of models that ranks share.
        left_out: what parity does not compare and why: patterns of heads.
    """

    module: str
    path: str
    upstream: str
    text: str | None
    mesh: Mesh
    declared: Location
    patches: tuple[PatchedCode, ...] = ()
    plan: str = ""
    toy_config: Mapping[str, Any] | str | None = None
    toy_root: str = ""
    batches: tuple[str, ...] = ()
    settings: ShardedSettings = field(default_factory=ShardedSettings)
    left_out: tuple[tuple[str, str], ...] = ()
