"""What the contract rules find in upstream's own modeling files, and which of it is right."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.checks.contract.run import Contracts
from patchgen_core.codegen.generate import generate
from patchgen_core.codegen.plan import make_plan
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache
from patchgen_core.upstream.module import find_upstream

CRASH = "crash"


@dataclass(frozen=True)
class UpstreamDefect:
    """A defect that transformers itself has.

    Attributes:
        module: the last part of the modeling module's name.
        code: the rule that finds it.
        part: a part of the finding's message.
        why: why it is one.
    """

    module: str
    code: str
    part: str
    why: str


UPSTREAM_DEFECTS = (
    UpstreamDefect(
        "modeling_deberta",
        "PG202",
        "calls 'build_relative_position' and passes 3 arguments by position where 2 fit",
        "raises when relative_pos is None, which callers of the class may leave it",
    ),
    UpstreamDefect(
        "modeling_llava_onevision",
        "PG202",
        "calls 'LlavaOnevisionModel.pack_image_features' and passes 'vision_feature_select_strategy'",
        "the method of the inner model has no such parameter",
    ),
    UpstreamDefect(
        "modeling_dots3_note",
        "PG226",
        "'Dots3NoteAudioAttention.forward' uses 'self.layer_idx'",
        "raises where a cache is passed, which no caller in the module does",
    ),
    UpstreamDefect(
        "modeling_grounding_dino",
        "PG226",
        "'GroundingDinoModel.forward' uses 'self.d_model'",
        "raises where the configuration asks for two stages with learned queries",
    ),
    UpstreamDefect(
        "modeling_mm_grounding_dino",
        "PG226",
        "'MMGroundingDinoModel.forward' uses 'self.d_model'",
        "raises where the configuration asks for two stages with learned queries",
    ),
    UpstreamDefect(
        "modeling_mlcd",
        "PG226",
        "'MLCDVisionEmbeddings.interpolate_pos_encoding' uses 'self.position_embedding'",
        "the method is CLIP's, and the class has no position embedding",
    ),
    UpstreamDefect(
        "modeling_phi4_multimodal",
        "PG226",
        "'Phi4MultimodalVisionEmbeddings.interpolate_pos_encoding' uses 'self.position_ids'",
        "the method is Siglip's, and the class registers no position ids",
    ),
    UpstreamDefect(
        "modeling_timesfm2_5",
        "PG226",
        "'TimesFm2_5ModelForPrediction._postprocess_output' uses 'self.horizon_ff_layer'",
        "the method is that of TimesFM's first model, and nothing here calls it",
    ),
    UpstreamDefect(
        "modeling_longt5",
        "PG226",
        "'LongT5TransientGlobalAttention.forward' uses 'self.gradient_checkpointing'",
        "raises where the layer has no relative position bias and is given none",
    ),
    UpstreamDefect(
        "modeling_deimv2",
        "PG226",
        "freeze_backbone' uses 'self.backbone'",
        "the model's backbone is in its conv_encoder",
    ),
    UpstreamDefect(
        "modeling_luke",
        "PG226",
        "'LukeEmbeddings.forward' uses 'self.position_ids'",
        "raises where no token types are given, which the model fills in before",
    ),
    UpstreamDefect(
        "modeling_lxmert",
        "PG226",
        "'LxmertEmbeddings.forward' uses 'self.position_ids'",
        "raises where no token types are given, which the model fills in before",
    ),
    UpstreamDefect(
        "modeling_rf_detr",
        "PG226",
        "'RfDetrDinov2Embeddings.forward' uses 'self.use_mask_token'",
        "raises where patches are masked, which the model does nowhere",
    ),
    UpstreamDefect(
        "modeling_vits",
        "PG226",
        "'VitsWaveNet.remove_weight_norm' uses 'self.speaker_embedding_size'",
        "the size is the configuration's, and the class does not keep it",
    ),
)
LITERAL = {
    "PG212": "a method with its own text under a decorator that routes around it",
    "PG214": "a method with its own text has no effect, as it says",
    "PG220": "a method with its own text where upstream binds the name twice",
    "PG221": "a method with its own text in a class that AutoModel builds, or that only such a class uses",
}
"""Warnings that are true of every patch, whatever its text, and so of a patch with upstream's own."""


@dataclass(frozen=True)
class SweepFinding:
    """What a rule found in one module.

    Attributes:
        mode: ``none`` without a patch, ``own`` with every method's own text.
        code: the rule, or that it raised an exception.
        module: the modeling module.
        line: the line of the generated module.
        message: what it says.
    """

    mode: str
    code: str
    module: str
    line: int
    message: str

    @property
    def upstream_defect(self) -> UpstreamDefect | None:
        """The defect of transformers that it is about."""
        name = self.module.rpartition(".")[2]
        defects = [d for d in UPSTREAM_DEFECTS if (d.module, d.code) == (name, self.code)]
        return next((defect for defect in defects if defect.part in self.message), None)

    @property
    def is_literal(self) -> bool:
        """Whether it is a warning that is true of any patch."""
        return self.mode == "own" and self.code in LITERAL

    def __str__(self) -> str:
        return f"{self.module.rpartition('.')[2]}:{self.line} ({self.mode}) {self.message}"


def examine(mode: str, project: Project, loaded: LoadedConfig, sources: SourceCache) -> list[SweepFinding]:
    """What all rules say of a config's raw result."""
    module = loaded.config.source_module
    try:
        plan = make_plan(loaded.config, find_upstream(module), sources, loaded.modules, loaded.label)
        path = project.output_folder(loaded.path) / loaded.config.target_file
        artifact = Artifact(plan, path, generate(plan).text, lambda: plan.source.text)
        verdict = Contracts(project, sources).examine(artifact, Path(loaded.path))
    except Exception:  # one file's failure must not end the sweep
        return [SweepFinding(mode, CRASH, module, 0, traceback.format_exc(limit=-3).strip().replace("\n", "\n    "))]
    problems = (*verdict.errors, *verdict.warnings)
    return [
        SweepFinding(mode, p.code, module, p.generated.location.line if p.generated else 0, p.message)
        for p in problems
    ]


def unexpected(findings: Iterable[SweepFinding]) -> list[SweepFinding]:
    """What is neither a known defect of transformers nor true of any patch."""
    return [entry for entry in findings if entry.upstream_defect is None and not entry.is_literal]


def report(findings: Sequence[SweepFinding], files: int) -> str:
    """Every finding by rule: those to look into first, then the known ones, then counts of what any patch gets."""
    wrong = unexpected(findings)
    rows = [
        f"(c) contracts: {len(wrong):,} findings to look into in {files:,} files, without a patch and with own text"
    ]
    for code in sorted({entry.code for entry in wrong}):
        rows += [f"    {code}", *(f"        {entry}" for entry in wrong if entry.code == code)]
    for defect in UPSTREAM_DEFECTS:
        places = [
            f"{entry.module.rpartition('.')[2]}:{entry.line} ({entry.mode})"
            for entry in findings
            if entry.upstream_defect == defect
        ]
        if places:
            rows.append(f"    {defect.code} defect of transformers: {', '.join(places)}: {defect.part}: {defect.why}")
    literal = Counter(entry.code for entry in findings if entry.is_literal and entry.upstream_defect is None)
    rows += [f"    {code} {count:,} times: {LITERAL[code]}" for code, count in sorted(literal.items())]
    return "\n".join(rows)
