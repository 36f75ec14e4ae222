"""The check ``sharded``: one item for each mesh that a config offers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from patchgen_core.build.results import Artifact
from patchgen_core.checks.model_process.check import ModelCheck
from patchgen_core.checks.model_process.process import ModelProcess
from patchgen_core.checks.model_process.texts import read_generated_texts
from patchgen_core.checks.parity.patched import patched_code
from patchgen_core.checks.result import CheckResult
from patchgen_core.checks.sharded.request import ShardedRequest
from patchgen_core.errors import PatchgenError
from patchgen_core.files import read_text
from patchgen_core.project.meshes import EP, MESHES, SP, Mesh, find_mesh

_ROOM = "patchgen_core.checks.sharded"
_RUN_TIME = "patchgen_core.runtime.parallel"
_PLAN = "parallel_plan.py"
_HEAD = re.compile(r"^class \w+For(CausalLM|ConditionalGeneration)\b", re.MULTILINE)
_SPLITS_SEQUENCES = re.compile(r"\b(sequence_parallel_attention|gather_seq_scatter_heads)\b")
_SPLITS_EXPERTS = re.compile(r"""["']ep["']""")


class ShardedCheck(ModelCheck):
    """The generated model that ranks share computes what one process computes, and learns the same."""

    name = "sharded"
    runs_in_workers = True
    follows_configs = False

    def inputs(self, path: Path) -> Iterable[Path]:
        """Nothing more."""
        return ()

    def items(self, path: Path) -> Iterator[str]:
        """One item for each mesh."""
        yield from (f"{self.name}[{mesh.name}]" for mesh in self._meshes(path))

    def processors(self, item: str) -> int:
        """One for each rank."""
        return self._mesh(item).ranks

    def compare(self, process: ModelProcess, artifact: Artifact, path: Path, item: str, fresh: bool) -> CheckResult:
        """Train the model on the ranks of one mesh, and on one process."""
        project, config = process.project, artifact.plan.config
        text = artifact.text if fresh else read_text(artifact.path) or ""
        plan = path.parent / _PLAN
        request = ShardedRequest(
            module=project.module_name(artifact.path),
            path=str(artifact.path),
            upstream=artifact.plan.upstream.module,
            text=artifact.text if fresh else None,
            mesh=self._mesh(item),
            declared=config.location,
            patches=patched_code(artifact, text),
            plan=project.module_name(plan) if plan.is_file() else "",
            toy_config=config.toy_config,
            toy_root=str(project.parity.toy_root or ""),
            batches=(*project.parity.batches, *self.session.settings.toy_batches),
            settings=project.sharded,
            left_out=project.parity.leave_out,
        )
        return process.run(f"{_ROOM}.comparison:check_request", artifact.path.name, request)

    def _mesh(self, item: str) -> Mesh:
        return find_mesh(item.removeprefix(f"{self.name}[").removesuffix("]"))

    def _meshes(self, path: Path) -> list[Mesh]:
        """The meshes for a config's models: those that it offers, and of these the project's where it names some."""
        text = "\n".join(text for _, text in read_generated_texts(self.session, path))
        if not _HEAD.search(text):
            return []
        try:
            names = self.session.project(path).sharded.meshes
        except PatchgenError:  # the drift check says so
            return []
        if names is None and _RUN_TIME not in text:
            return []
        offered = {SP} if _SPLITS_SEQUENCES.search(text) else set()
        offered |= {EP} if _SPLITS_EXPERTS.search(read_text(path.parent / _PLAN) or "") else set()
        return [mesh for mesh in MESHES if mesh.needs <= offered and (names is None or mesh.name in names)]
